"""Growth: depth, bytes, and the time of a query and of an insertion of one tree with n memories."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from lab.datasets import Source
from lab.datasets.synthetic import ROWS_A_CLUSTER, Clusters
from lab.measuring import cpu_per_call, cpu_seconds, peak_bytes, resident_bytes
from lab.tree_driver import nearest_ids, warm_up
from memorytree import MemoryTree

CHUNK, REPEATS = 50_000, 5


def grow(kind: Any, source: Source, options: dict[str, Any]) -> dict[str, Any]:
    """Insert `n` rows of Gaussian clusters in chunks, then query `asked` fresh rows; option `routing`."""
    n, settings = options["n"], {"routing": options["routing"], "seed": source.seed}
    clusters = Clusters(max(10, n // ROWS_A_CLUSTER), seed=source.seed)
    queries, _ = clusters.draw(options["asked"])
    warm_up(queries, **settings)
    before = resident_bytes()
    tree, left, insert_s, last_us = MemoryTree(**settings), n, 0.0, 0.0
    while left:
        keys, labels = clusters.draw(min(left, CHUNK))
        values = labels.tolist()
        spent, _ = cpu_seconds(partial(tree.insert_many, keys, values), clock=time.thread_time)
        insert_s, left, last_us = insert_s + spent, left - len(keys), spent / len(keys) * 1e6
    query_s, _ = cpu_per_call(lambda: nearest_ids(tree, queries), source.repeats(REPEATS), 10)
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
