"""Vowpal Wabbit's `--memory_tree`, the paper authors' own implementation, and its other learners, run on arrays.

- Its alpha is one minus the paper's.
- The number of nodes must be given in advance; the authors' scripts take 2 n / (c log2 n) for each pass.
- Training goes through VW's own driver over a text file, as in those scripts; the CPU time of the same run with
  `--noop`, which only reads the file, is taken off. Test examples are parsed before `predict` is timed.
- It adds a constant feature and breaks ties by its own random numbers; both are left as they come.
"""

import math
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.child import load
from memorytree.lab.measuring import cpu_seconds, resident_bytes

WEIGHT_BITS = 24  # fewer, and the weights of different nodes collide
FEATURE_BYTES = 12  # VW keeps a float and a 64-bit place for each non-zero feature


def options(rows: int, *, balance: float, leaf_factor: int, reroutes: int, rate: float, passes: int = 1) -> list[str]:
    nodes = int(2 * passes * rows / (leaf_factor * math.log2(rows)))
    line = (
        f"--memory_tree {nodes} --leaf_example_multiplier {leaf_factor} --dream_repeats {reroutes} "
        f"--alpha {1 - balance:.3g} --max_number_of_labels 1000 --dream_at_update 0 --learn_at_leaf "
        f"--loss_function squared -l {rate}"
    )
    return line.split()


def write_examples(path: Path, keys, labels=None) -> None:
    """Write rows in VW's text format; its labels start from 1."""
    keys = sp.csr_matrix(keys)
    keys.sort_indices()
    with path.open("w", encoding="ascii") as file:
        for row in range(keys.shape[0]):
            here = slice(keys.indptr[row], keys.indptr[row + 1])
            pairs = zip(keys.indices[here].tolist(), keys.data[here].tolist(), strict=True)
            label = "" if labels is None else labels[row] + 1
            file.write(f"{label} |f {' '.join(f'{place}:{weight:.6g}' for place, weight in pairs)}\n")


def measure(spec: dict) -> dict:
    """Train, predict, and weigh one VW memory tree in this process: see `duel.py`."""
    from vowpalwabbit import Workspace

    folder = Path(spec["folder"])
    lines = (folder / "test.vw").read_text().splitlines()
    answers = load(spec["folder"], "answers")[: len(lines)]
    driver = ["-d", str(folder / "train.vw"), "-b", str(WEIGHT_BITS), "--holdout_off", "--quiet"]
    driver += ["--random_seed", str(spec["seed"])]
    if spec.get("passes", 1) > 1:
        driver += ["-c", "-k", "--cache_file", str(folder / "train.cache"), "--passes", str(spec["passes"])]
    parse_s, reader = cpu_seconds(lambda: Workspace(arg_list=["--noop", *driver]))
    reader.finish()
    before = resident_bytes()
    train_s, learner = cpu_seconds(lambda: Workspace(arg_list=spec["options"] + driver))
    resident = resident_bytes() - before

    examples = [learner.example(line) for line in lines]
    query_s, found = cpu_seconds(
        lambda: [learner.predict(example) for example in examples], spec["repeats"], time.thread_time
    )
    own = spec["features"] * FEATURE_BYTES
    return {
        "error": float(np.mean(np.array(found) - 1 != answers)),
        "insert_s": train_s - parse_s,
        "parse_s": parse_s,
        "query_us": query_s / len(answers) * 1e6,
        "call_us": query_s / len(answers) * 1e6,  # its Python binding has single calls only
        "resident_beyond_key": (resident - own) / spec["rows"],
    }


def progress(spec: dict) -> dict:
    """Predict each row of a file, then learn from it, in this process; stop when `limit` CPU seconds (if any) are spent."""
    from vowpalwabbit import Workspace

    learner = Workspace(arg_list=[*spec["options"], "-b", str(WEIGHT_BITS), "--quiet", "--random_seed", str(spec["seed"])])
    start, found, spent = time.process_time(), [], 0.0
    for line in (Path(spec["folder"]) / "train.vw").read_text().splitlines():
        example = learner.example(line)
        found.append(learner.predict(example) - 1)
        learner.learn(example)
        learner.finish_example(example)
        spent = time.process_time() - start
        if spec["limit"] and spent > spec["limit"]:
            break
    return {"found": found, "cpu_s": spent}
