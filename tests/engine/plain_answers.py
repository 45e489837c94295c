"""Print the answers of small trees as JSON; tests run it with and without the environment variable MEMORYTREE_PLAIN_NUMBA."""

import json

import numpy as np
import scipy.sparse

from memorytree import MemoryTree

CASES = {"graph": False, "terms": True}  # routing: whether keys are sparse; these use every private interface


def answers():
    """For each routing the ids and scores of some queries."""
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(300, 16)).astype(np.float32)
    sparse = scipy.sparse.csr_matrix(np.abs(dense) * (rng.random(dense.shape) < 0.4))
    found = {}
    for routing, is_sparse in CASES.items():
        X = sparse if is_sparse else dense
        tree = MemoryTree(seed=1, routing=routing)
        tree.insert_many(X, range(300))
        for id in range(0, 60, 2):
            tree.remove(id)
        hits = tree.query_many(X[:50], 5, beam=4)
        found[routing] = [hits.ids.tolist(), hits.scores.astype(float).tolist()]
    return found


if __name__ == "__main__":
    print(json.dumps(answers()))
