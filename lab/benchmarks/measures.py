"""What the benchmarks measure in child processes: a memory tree, VW's memory tree, and the two classifiers."""

import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp

from lab.baselines.vowpal import MemoryTreeOnce, reading_seconds
from lab.datasets import TEST_ROWS
from lab.measuring import cpu_seconds, peak_bytes, resident_bytes
from lab.process import read_arrays
from lab.tree_driver import WARM_UP_ROWS, class_error, filled_tree, nearest_ids, own_key_error_of, warm_up
from memorytree import MemoryTree
from memorytree.estimators import MemoryTreeClassifier, MemoryTreeMultilabelClassifier
from memorytree.estimators.metrics import hamming_loss, micro_f1, precision_at_k

SINGLE_CALLS = 1000
VW_FEATURE_BYTES = 12  # VW keeps a float and a 64-bit index for each non-zero feature


def key_bytes(keys) -> int:
    """Return the bytes of the numbers of all keys, and for sparse keys of their columns."""
    return keys.data.nbytes + keys.indices.nbytes if sp.issparse(keys) else keys.nbytes


def measure_tree(spec: dict) -> dict:
    """Fill and query one memory tree: see `vw_comparison.py`."""
    train, labels, test, answers, order = read_arrays(spec["folder"], "train", "labels", "test", "answers", "order")
    keys, labels = train[order], labels[order]
    del train
    values, options = labels.tolist(), spec["options"]
    warm_up(keys, **options)

    before = resident_bytes()
    insert_s, tree = cpu_seconds(lambda: filled_tree(keys, values, **options))
    resident = resident_bytes() - before
    for _ in range(spec["repeats"] - 1):
        again_s, tree = cpu_seconds(lambda: filled_tree(keys, values, **options))
        insert_s = min(insert_s, again_s)
    query_s, found = cpu_seconds(lambda: nearest_ids(tree, test), spec["repeats"])
    single = [test[row] for row in range(min(SINGLE_CALLS, test.shape[0]))]
    call_s, _ = cpu_seconds(lambda: [tree.query(key) for key in single], spec["repeats"], time.thread_time)

    stats, rows = tree.stats(), len(values)
    result = {
        "error": class_error(found[:, 0], labels, answers),
        "insert_s": insert_s,
        "query_us": query_s / test.shape[0] * 1e6,
        "call_us": call_s / len(single) * 1e6,
        "beyond_key": stats.other_bytes / rows,
        "resident_beyond_key": (resident - key_bytes(keys)) / rows,
        "depth": stats.depth,
        "average_depth": stats.average_depth,
    }
    if spec.get("consistency"):
        result["inconsistent"] = own_key_error_of(tree, keys)
        result["sweep_s"], _ = cpu_seconds(tree.sweep)
        result["inconsistent_after_sweep"] = own_key_error_of(tree, keys)
    return result


def measure_vw(spec: dict) -> dict:
    """Train and query one VW memory tree on the file train.vw of the folder: see `vw_comparison.py`."""
    file = Path(spec["folder"]) / "train.vw"
    test, answers = read_arrays(spec["folder"], "test", "answers")
    test, answers = test[: spec["tests"]], answers[: spec["tests"]]
    vw = MemoryTreeOnce(spec["seed"], **spec["options"])
    vw.rows, vw.answers = spec["rows"], 0
    reading_s = reading_seconds(vw.driver(file))
    before = resident_bytes()
    train_s, _ = cpu_seconds(lambda: vw.train(file))
    resident = resident_bytes() - before

    examples = vw.encode(test)
    query_s, found = cpu_seconds(lambda: vw.predict(examples), spec["repeats"], time.thread_time)
    query_us = query_s / len(answers) * 1e6
    return {
        "error": float(np.mean(found != answers)),
        "insert_s": train_s - reading_s,
        "parse_s": reading_s,
        "query_us": query_us,
        "call_us": query_us,  # VW's Python binding has single calls only
        "resident_beyond_key": (resident - spec["features"] * VW_FEATURE_BYTES) / spec["rows"],
    }


# ---- classifiers


def shuffled_rewards(seed: int) -> AbstractContextManager:
    """Within this context, every reward call permutes the rewards of a query among its memories."""
    chance = np.random.default_rng(seed)
    learn = MemoryTree.reward_many

    def reward_many(tree, hits, rewards):
        rewards = np.array(rewards)
        for row in rewards:
            observed = np.flatnonzero(~np.isnan(row))
            row[observed] = row[chance.permutation(observed)]
        return learn(tree, hits, rewards)

    return mock.patch.object(MemoryTree, "reward_many", reward_many)


def reward_control(spec: dict) -> AbstractContextManager:
    """Return the context of a control: no rewards, shuffled rewards, or unchanged rewards."""
    if spec.get("silent"):
        return mock.patch.object(MemoryTree, "reward_many", return_value=None)
    return shuffled_rewards(spec["seed"]) if spec.get("shuffled") else nullcontext()


def fit_classifier(spec: dict, train, labels) -> tuple[float, MemoryTreeClassifier]:
    """Fit a classifier with default settings, after a fit of a few rows that compiles; return CPU seconds and model."""

    def unfitted() -> MemoryTreeClassifier:
        return MemoryTreeClassifier(supervision=spec.get("supervision", "labels"), random_state=spec["seed"])

    unfitted().fit(train[:WARM_UP_ROWS], labels[:WARM_UP_ROWS]).predict(train[:WARM_UP_ROWS])
    with reward_control(spec):
        return cpu_seconds(lambda: unfitted().fit(train, labels))


def measure_classifier(spec: dict) -> dict:
    """Fit and predict: error and times on the first test rows, and which of all test rows are wrong."""
    train, labels, test, answers = read_arrays(spec["folder"], "train", "labels", "test", "answers")
    fit_s, model = fit_classifier(spec, train, labels)
    first = test[:TEST_ROWS]
    query_s, _ = cpu_seconds(lambda: model.predict(first), spec["repeats"])
    wrong = model.predict(test) != answers
    return {
        "error": float(wrong[:TEST_ROWS].mean()),
        "query_us": query_s / first.shape[0] * 1e6,
        "fit_s": fit_s,
        "wrong": wrong.astype(int).tolist(),
    }


def measure_multilabel(spec: dict) -> dict:
    """Compile on a few rows, then fit and predict label sets."""
    train, labels, test, truth = read_arrays(spec["folder"], "train", "labels", "test", "truth")
    learn = "partial_fit" if spec.get("once") else "fit"
    few = getattr(MemoryTreeMultilabelClassifier(random_state=0), learn)(train[:WARM_UP_ROWS], labels[:WARM_UP_ROWS])
    few.predict_topk(train[:WARM_UP_ROWS], 5)
    model = MemoryTreeMultilabelClassifier(random_state=spec["seed"])
    with reward_control(spec):
        fit_s, _ = cpu_seconds(lambda: getattr(model, learn)(train, labels))
    query_s, predicted = cpu_seconds(lambda: model.predict(test), spec["repeats"])
    ranked = model.predict_topk(test, 5)[0]
    return {
        "query_us": query_s / test.shape[0] * 1e6,
        "fit_s": fit_s,
        "peak_gb": peak_bytes() / 2**30,
        "hl": hamming_loss(truth, predicted),
        "f1": micro_f1(truth, predicted),
        **{f"p{k}": 100 * precision_at_k(truth, ranked, k) for k in (1, 3, 5)},
    }
