"""Growth: one tree of n memories, in this process: depth, the time of a query and of an insertion, memory."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from memorytree import MemoryTree
from memorytree.engine import kernels
from memorytree.lab.datasets import Source
from memorytree.lab.datasets.made import ROWS_A_CLUSTER, Clusters
from memorytree.lab.measuring import cpu_of_one, cpu_seconds, peak_bytes, resident_bytes

CHUNK, WARMING, REPEATS = 50_000, 400, 5


def grow(kind: Any, source: Source, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Insert `n` rows of Gaussian clusters one chunk after the other, then ask: options `n`, `routing`, `asked`."""
    n, settings = options["n"], {"routing": options["routing"], "seed": seed}
    clusters = Clusters(max(10, n // ROWS_A_CLUSTER), seed=seed)
    queries, _ = clusters.draw(options["asked"])
    _compile(queries[:WARMING], settings)
    before = resident_bytes()
    tree, left, insert_s, last_us = MemoryTree(**settings), n, 0.0, 0.0
    while left:
        keys, labels = clusters.draw(min(left, CHUNK))
        values = labels.tolist()
        spent, _ = cpu_seconds(partial(tree.insert_many, keys, values), clock=time.thread_time)
        insert_s, left, last_us = insert_s + spent, left - len(keys), spent / len(keys) * 1e6
    query_s, _ = cpu_of_one(lambda: tree.query_many(queries, k=1, threads=1), source.repeats(REPEATS), 10)
    stats = tree.stats()
    shape = {name: getattr(stats, name) for name in ("depth", "average_depth", "leaves", "leaf_limit", "router_error")}
    heavier = [level.heavier_side for level in stats.levels]
    return {
        **shape,
        "rows": n,
        "query_us": query_s / len(queries) * 1e6,
        "insert_us": insert_s / n * 1e6,
        "last_insert_us": last_us,
        "heavier_side": float(np.mean(heavier)) if heavier else None,
        "bytes": stats.bytes / n,
        "beyond_key": stats.other_bytes / n,
        "resident_before": before,
        "peak_bytes": peak_bytes(),
    }


def _compile(keys: np.ndarray, settings: dict[str, Any]) -> None:
    """Run everything that is about to be timed, on a few rows."""
    tree = MemoryTree(**settings)
    tree.insert_many(keys, list(range(len(keys))))
    tree.query_many(keys, k=1, threads=1)
    kernels.close_gaps(tree._core.tree)  # runs by itself only in larger trees
