"""The Adagrad of the engine's routers matches that of the reference, step by step."""

import numpy as np
import pytest
from numba import njit

from memorytree import MemoryTree
from memorytree.engine.arrays import MEAN, ROOT
from memorytree.engine.dispatch import learn, linear, row_of
from memorytree.reference import AdagradLinear

DIMENSION = 20


@njit
def update_router(tree, node, X, y, weight):
    """Update the router of a node; returns its prediction before and after."""
    x = row_of(tree, X, 0)
    raw = linear(tree, node, x)
    learn(tree, node, x, raw, y, weight)
    return raw, linear(tree, node, x)


@pytest.mark.parametrize("kind", ["dense", "mapping"])
def test_adagrad_matches_the_reference(kind, rng):
    def key():
        x = rng.normal(size=DIMENSION).astype(np.float32)
        return x if kind == "dense" else {f"f{j}": float(x[j]) for j in rng.choice(DIMENSION, 6, replace=False)}

    tree = MemoryTree(routing="paper", reroutes=0, seed=0)
    for i in range(11):
        tree.insert(key(), i)
    root = int(tree.index.counters[ROOT])
    reference = AdagradLinear(rate=tree.index.routing.rate)
    # The router of the root has learned already: reset it to the state of the reference.
    arrays = tree.index.arrays()
    if kind == "dense":
        arrays["routers"][root] = arrays["squares"][root] = 0
    else:
        arrays["tables"][root] = arrays["offsets"][root] = 0
    for _ in range(300):
        x, y, weight = key(), int(rng.choice([-1, 1])), float(rng.uniform(0, 2))
        before, after = update_router(tree.index.tree, root, tree.keys.one(x, adding=True), float(y), weight)
        assert before == pytest.approx(reference.predict(x), abs=1e-5)
        reference.update(x, y, weight)
        assert after == pytest.approx(reference.predict(x), abs=1e-5)


def test_center_subtracts_the_mean_from_keys(rng):
    X = rng.normal(size=(200, DIMENSION)).astype(np.float32) + 5
    tree = MemoryTree(routing="paper", center=True, reroutes=0, seed=0)
    for i, x in enumerate(X):
        tree.insert(x, i)
    arrays = tree.index.arrays()
    root = int(tree.index.counters[ROOT])
    mean = arrays["means"][arrays["nodes"][root, MEAN]]
    assert np.abs(mean - 5).max() < 2
    *weights, bias, _, _ = arrays["routers"][root]
    # The bias contains minus the margin of the mean, so the margin of the mean itself is that of a plain bias: moderate.
    assert abs(np.dot(weights, mean) + bias) < 0.5 < abs(bias)
