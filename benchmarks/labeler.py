"""All that the benchmarks ask of `MemoryTreeMultilabelClassifier` and its peers; each function is run in a child."""

import time
from contextlib import nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp

from benchmarks import peer_vw
from benchmarks.child import load
from benchmarks.learner import shuffled_rewards
from memorytree import MemoryTree
from memorytree.estimators import MemoryTreeMultilabelClassifier
from memorytree.estimators.metrics import hamming_loss, micro_f1, precision_at
from memorytree.lab.measuring import cpu_seconds, peak_bytes

WARMING = 400
VW_SETTINGS = {"balance": 0.9, "leaf_factor": 4, "reroutes": 5}


def read(spec: dict):
    return [load(spec["folder"], name) for name in ("train", "labels", "test", "truth")]


def judged(truth, predicted, ranked) -> dict:
    found = {f"p{k}": 100 * precision_at(k, truth, ranked) for k in (1, 3, 5)}
    return {"hl": hamming_loss(truth, predicted), "f1": micro_f1(truth, predicted), **found}


def controlled(spec: dict):
    if spec.get("silent"):
        return mock.patch.object(MemoryTree, "update_many", return_value=None)
    return shuffled_rewards(spec["seed"]) if spec.get("shuffled") else nullcontext()


def measure(spec: dict) -> dict:
    """Compile on a few rows, then fit and predict."""
    train, labels, test, truth = read(spec)
    few = MemoryTreeMultilabelClassifier(random_state=0).fit(train[:WARMING], labels[:WARMING])
    few.predict_topk(train[:WARMING], 5)
    with controlled(spec):
        fit_s, model = cpu_seconds(lambda: MemoryTreeMultilabelClassifier(random_state=spec["seed"]).fit(train, labels))
    query_s, predicted = cpu_seconds(lambda: model.predict(test), spec["repeats"])
    times = {"query_us": query_s / test.shape[0] * 1e6, "fit_s": fit_s, "peak_gb": peak_bytes() / 2**30}
    return {**times, **judged(truth, predicted, model.predict_topk(test, 5)[0])}


def neighbours(spec: dict) -> dict:
    """A vote of the exact neighbours, weighed by similarity to the 4th power; labels above half of the votes are taken."""
    train, labels, test, truth = read(spec)

    def vote(rows):
        near = sp.csr_matrix(rows @ train.T)
        for first, last in zip(near.indptr[:-1], near.indptr[1:], strict=True):
            here = near.data[first:last]
            if len(here) > spec["k"]:
                here[np.argpartition(here, -spec["k"])[: -spec["k"]]] = 0
        near.data **= 4
        totals = np.asarray(near.sum(axis=1)).ravel()
        return sp.csr_matrix(sp.diags(1 / np.maximum(totals, 1e-12)) @ near @ labels)

    query_s, votes = cpu_seconds(
        lambda: sp.vstack([vote(test[at : at + 500]) for at in range(0, test.shape[0], 500)]).tocsr()
    )
    return {"query_us": query_s / test.shape[0] * 1e6, **judged(truth, above_half(votes), best_of(votes, 5))}


def above_half(chances):
    kept = sp.csr_matrix(chances > 0.5).astype(np.int64)
    kept.eliminate_zeros()
    return kept


def best_of(chances, k: int) -> np.ndarray:
    """The columns of the k largest entries of each row, largest first; -1 where there are no more."""
    ranked = np.full((chances.shape[0], k), -1)
    for row, (first, last) in enumerate(zip(chances.indptr[:-1], chances.indptr[1:], strict=True)):
        order = np.argsort(-chances.data[first:last], kind="stable")[:k]
        ranked[row, : len(order)] = chances.indices[first:last][order]
    return ranked


def one_against_all(spec: dict) -> dict:
    """A linear support vector machine for each label."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.svm import LinearSVC

    train, labels, test, truth = read(spec)
    fit_s, model = cpu_seconds(lambda: OneVsRestClassifier(LinearSVC(C=0.5)).fit(train, labels))
    query_s, margins = cpu_seconds(lambda: model.decision_function(test), 3)
    times = {"query_us": query_s / test.shape[0] * 1e6, "fit_s": fit_s}
    return {**times, **judged(truth, sp.csr_matrix(margins > 0).astype(np.int64), np.argsort(-margins, axis=1)[:, :5])}


def vowpal_wabbit(spec: dict) -> dict:
    """One pass of `--memory_tree --oas`; its predictions can only be judged by the loss that it notes for an example."""
    from vowpalwabbit import Workspace

    train, labels, test, truth = read(spec)
    folder = Path(spec["folder"])
    for name, rows, sets in (("train", train, labels), ("test", test, truth)):
        write_examples(folder / f"{name}.vw", rows, sets)
    options = [*peer_vw.options(train.shape[0], **VW_SETTINGS, rate=spec["rate"]), "--oas"]
    common = ["-b", str(peer_vw.WEIGHT_BITS), "--quiet", "--random_seed", str(spec["seed"])]
    driver = ["-d", str(folder / "train.vw"), "--holdout_off", *common]
    reading_s, reader = cpu_seconds(lambda: Workspace(arg_list=["--noop", *driver]))
    reader.finish()
    fit_s, learner = cpu_seconds(lambda: Workspace(arg_list=[*options, *driver]))
    examples = [learner.example(line) for line in (folder / "test.vw").read_text().splitlines()]
    losses = []

    def predict():
        for example in examples:
            learner.predict(example)
            losses.append(example.get_loss())

    query_s, _ = cpu_seconds(predict, 1, time.thread_time)
    return {"hl": float(np.mean(losses)), "query_us": query_s / len(examples) * 1e6, "fit_s": fit_s - reading_s}


def write_examples(path: Path, keys, sets) -> None:
    """Write rows with label sets in VW's text format for `--oas`."""
    with path.open("w", encoding="ascii") as file:
        for row in range(keys.shape[0]):
            here, own = slice(*keys.indptr[row : row + 2]), slice(*sets.indptr[row : row + 2])
            pairs = zip(keys.indices[here].tolist(), keys.data[here].tolist(), strict=True)
            labels = ",".join(map(str, sorted((sets.indices[own] + 1).tolist())))
            file.write(f"{labels} |f {' '.join(f'{place}:{weight:.6g}' for place, weight in pairs)}\n")
