"""The engine's Adagrad against the reference's, step by step."""

import numpy as np
import pytest
from numba import njit

from memorytree import MemoryTree
from memorytree.engine.arrays import ROOT
from memorytree.engine.dispatch import learn, linear, row_of
from memorytree.reference import AdagradLinear

DIMENSION = 20


@njit
def teach(tree, node, X, y, weight):
    """One update of a node's router; its prediction before and after."""
    x = row_of(tree, X, 0)
    raw = linear(tree, node, x)
    learn(tree, node, x, raw, y, weight)
    return raw, linear(tree, node, x)


@pytest.mark.parametrize("kind", ["dense", "mapping"])
def test_adagrad_follows_the_reference_step_by_step(kind):
    rng = np.random.default_rng(0)

    def key():
        x = rng.normal(size=DIMENSION).astype(np.float32)
        return x if kind == "dense" else {f"f{j}": float(x[j]) for j in rng.choice(DIMENSION, 6, replace=False)}

    tree = MemoryTree(routing="paper", reroutes=0, seed=0)
    for i in range(11):
        tree.insert(key(), i)
    root = int(tree._core.counters[ROOT])
    twin = AdagradLinear(rate=tree._core.routing.rate)
    # The root's router has learned already: bring the twin to the same state.
    arrays = tree._core.arrays()
    if kind == "dense":
        arrays["routers"][root] = arrays["squares"][root] = 0
    else:
        arrays["tables"][root] = arrays["offsets"][root] = 0
    for _ in range(300):
        x, y, weight = key(), int(rng.choice([-1, 1])), float(rng.uniform(0, 2))
        before, after = teach(tree._core.tree, root, tree._keys.one(x, growing=True), float(y), weight)
        assert before == pytest.approx(twin.predict(x), abs=1e-5)
        twin.update(x, y, weight)
        assert after == pytest.approx(twin.predict(x), abs=1e-5)


def test_centring_is_the_same_as_learning_on_keys_less_their_mean():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, DIMENSION)).astype(np.float32) + 5
    tree = MemoryTree(routing="paper", center=True, reroutes=0, seed=0)
    for i, x in enumerate(X):
        tree.insert(x, i)
    arrays = tree._core.arrays()
    root = int(tree._core.counters[ROOT])
    mean = arrays["means"][arrays["nodes"][root, 11]]
    assert np.abs(mean - 5).max() < 2
    *weights, bias, _, _ = arrays["routers"][root]
    # Folded into the bias, the mean itself gets the margin that a plain bias would give it: one of moderate size.
    assert abs(np.dot(weights, mean) + bias) < 0.5 < abs(bias)
