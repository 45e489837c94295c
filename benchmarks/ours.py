"""All that the benchmarks ask of memorytree, in one place."""

import time

import numpy as np
import scipy.sparse as sp

from memorytree import MemoryTree
from memorytree.engine import kernels
from memorytree.lab.measuring import cpu_seconds, resident_bytes
from memorytree.lab.process import read as load


def insert_all(keys, values, **options):
    """Return a new tree that holds the rows, and their ids."""
    tree = MemoryTree(**options)
    return tree, np.asarray(tree.insert_many(keys, values))


def numbered(keys, **options):
    """Return a new tree in which the id of every row is its number."""
    tree, ids = insert_all(keys, list(range(len(keys))), **options)
    if not np.array_equal(ids, np.arange(len(keys))):
        raise AssertionError("ids of a new tree are expected to count from 0")
    return tree


def ask_all(tree, keys, k: int = 1, beam: int = 1):
    """Return the ids of the k best memories for every row, from one thread."""
    return np.asarray(tree.query_many(keys, k=k, beam=beam, threads=1).ids)


def anatomy(tree) -> dict:
    """Return depth, leaves and bytes of a tree as plain numbers; `rest` is every byte that is no part of a key."""
    stats = tree.stats()
    shape = {name: getattr(stats, name) for name in ("depth", "average_depth", "leaves", "leaf_limit")}
    return {**shape, "bytes": stats.key_bytes + stats.other_bytes, "rest": stats.other_bytes}


def warm_up(keys, **options) -> None:
    """Compile every kernel that a benchmark is about to time, on a few of its rows."""
    keys = keys[:400]
    tree, _ = insert_all(keys, list(range(keys.shape[0])), **options)
    row = keys[0]
    tree.insert(row, 0)
    tree.query(row)
    for beam in (1, 4):
        ask_all(tree, keys, beam=beam)
    tree.sweep()
    kernels.close_gaps(tree._core.tree)  # runs by itself only in larger trees


def key_bytes(keys) -> int:
    """Return what a key takes at the least: its numbers, and for sparse rows their places."""
    return keys.data.nbytes + keys.indices.nbytes if sp.issparse(keys) else keys.nbytes


def inconsistency(tree, ids, keys) -> float:
    """Return the share of stored keys whose own query does not find an equal key."""
    rows = dict(zip(ids.tolist(), range(len(ids)), strict=True))
    found = np.array([rows.get(hit, -1) for hit in ask_all(tree, keys)[:, 0].tolist()])
    wrong = 0
    for row in np.flatnonzero(found != np.arange(len(ids))):
        difference = keys[row] - keys[found[row]]
        wrong += found[row] < 0 or bool((difference.nnz if sp.issparse(difference) else difference.any()) > 0)
    return float(wrong / len(ids))


def measure(spec: dict) -> dict:
    """Insert, ask, and weigh one tree in this process: see `duel.py`."""
    order = load(spec["folder"], "order")
    keys, labels = load(spec["folder"], "train")[order], load(spec["folder"], "labels")[order]
    test, answers = load(spec["folder"], "test"), load(spec["folder"], "answers")
    values = labels.tolist()
    warm_up(keys, **spec["options"])

    before = resident_bytes()
    insert_s, (tree, ids) = cpu_seconds(lambda: insert_all(keys, values, **spec["options"]))
    resident = resident_bytes() - before
    for _ in range(spec["repeats"] - 1):
        again_s, (tree, ids) = cpu_seconds(lambda: insert_all(keys, values, **spec["options"]))
        insert_s = min(insert_s, again_s)
    query_s, found = cpu_seconds(lambda: ask_all(tree, test), spec["repeats"])
    single = [test[row] for row in range(min(1000, test.shape[0]))]
    call_s, _ = cpu_seconds(lambda: [tree.query(key) for key in single], spec["repeats"], time.thread_time)

    label_of = dict(zip(ids.tolist(), values, strict=True))
    result = {
        "error": float(
            np.mean([label_of.get(hit) != answer for hit, answer in zip(found[:, 0].tolist(), answers, strict=True)])
        ),
        "insert_s": insert_s,
        "query_us": query_s / test.shape[0] * 1e6,
        "call_us": call_s / len(single) * 1e6,
        "beyond_key": anatomy(tree)["rest"] / len(ids),
        "resident_beyond_key": (resident - key_bytes(keys)) / len(ids),
        **{name: anatomy(tree)[name] for name in ("depth", "average_depth")},
    }
    if spec.get("consistency"):
        result["inconsistent"] = inconsistency(tree, ids, keys)
        result["sweep_s"], _ = cpu_seconds(tree.sweep)
        result["inconsistent_after_sweep"] = inconsistency(tree, ids, keys)
    return result
