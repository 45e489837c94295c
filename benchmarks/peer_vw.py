"""All that the benchmarks ask of Vowpal Wabbit; how it is run is said in `memorytree.lab.peers.vowpal`."""

import time
from pathlib import Path

import numpy as np

from memorytree.lab.datasets.formats import vw_lines
from memorytree.lab.measuring import cpu_seconds, resident_bytes
from memorytree.lab.peers.vowpal import driver_options, reading_seconds
from memorytree.lab.process import read as load

FEATURE_BYTES = 12  # VW keeps a float and a 64-bit place for each non-zero feature


def write_examples(path: Path, keys, labels=None) -> None:
    """Write rows in VW's text format; its labels start from 1."""
    written = [""] * keys.shape[0] if labels is None else [str(label + 1) for label in labels.tolist()]
    path.write_text("".join(vw_lines(keys, written)), encoding="ascii")


def measure(spec: dict) -> dict:
    """Train, predict, and weigh one VW memory tree in this process: see `duel.py`."""
    from vowpalwabbit import Workspace

    folder = Path(spec["folder"])
    lines = (folder / "test.vw").read_text().splitlines()
    answers = load(spec["folder"], "answers")[: len(lines)]
    driver = driver_options(folder / "train.vw", spec["seed"], spec.get("passes", 1))
    parse_s = reading_seconds(driver)
    before = resident_bytes()
    train_s, learner = cpu_seconds(lambda: Workspace(arg_list=[*spec["options"], *driver]))
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
