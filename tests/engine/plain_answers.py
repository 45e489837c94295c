"""Print the answers of a small tree as JSON; run with and without the environment variable MEMORYTREE_PLAIN_NUMBA."""

import json

import numpy as np

from memorytree import GraphRouting, MemoryTree


def answers():
    """The ids and scores of some queries. A graph uses every private interface: helpers, `blank`, `copy_run`, `prefetch`."""
    X = np.random.default_rng(0).normal(size=(300, 16)).astype(np.float32)
    tree = MemoryTree(seed=1, routing=GraphRouting(flat=0))
    tree.insert_many(X, range(300))
    for id in range(0, 60, 2):
        tree.remove(id)
    hits = tree.query_many(X[:50], 5, beam=4)
    return [hits.ids.tolist(), hits.scores.astype(float).tolist()]


if __name__ == "__main__":
    print(json.dumps(answers()))
