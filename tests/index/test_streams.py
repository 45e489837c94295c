"""Depth stays logarithmic on sorted, drifting, duplicate and delete-heavy streams."""

import math

import numpy as np
import pytest

from tests.trees import PlainTree as MemoryTree

N = 20_000


def require_sound(tree, X, ids=None):
    """Require a consistent state, short paths, and that every memory is found under its own key."""
    ids = list(tree) if ids is None else ids
    n = len(tree)
    assert n == len(ids)
    tree.check()
    assert tree.stats().depth <= 2.5 * math.log2(n) + 4
    hits = tree.query_many(X)
    np.testing.assert_array_equal(hits.ids[:, 0], ids)
    assert np.all(hits.scores == 0)


def stream(name: str, n: int, d: int) -> np.ndarray:
    """n different keys in an order that is hard for a tree."""
    rng = np.random.default_rng(0)
    time = np.arange(n, dtype=np.float32)
    X = rng.normal(size=(n, d)).astype(np.float32)
    if name == "upwards":
        X[:, 0] = time
    elif name == "downwards":
        X[:, 0] = -time
    elif name == "inwards":  # from both ends to the middle
        X[:, 0] = np.where(time % 2, time, 2 * n - time)
    elif name == "drifting":
        X += (time / 500)[:, None]
    elif name == "growing":
        X *= np.exp2(time / n * 40)[:, None].astype(np.float32)
    return X


NAMES = ["upwards", "downwards", "inwards", "drifting", "growing"]


@pytest.mark.parametrize("routing", ["principal", "graph"])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_depth_stays_logarithmic_for_every_order_of_keys(name, d, routing):
    X = stream(name, N, d)
    X = X[np.sort(np.unique(X, axis=0, return_index=True)[1])]  # small numbers may repeat in one dimension
    tree = MemoryTree(routing=routing, seed=0)
    tree.insert_many(X, range(len(X)))
    require_sound(tree, X)


@pytest.mark.parametrize("name", ["upwards", "drifting"])
def test_depth_stays_logarithmic_in_a_moving_window(name):
    X = stream(name, N, 2)
    tree = MemoryTree(routing="principal", seed=0, capacity=1000)
    for first in range(0, N, 2000):
        tree.insert_many(X[first : first + 2000], range(2000))
        require_sound(tree, X[first + 1000 : first + 2000])


@pytest.mark.parametrize("order", ["front", "back", "random"])
@pytest.mark.parametrize("name", ["upwards", "random"])
def test_depth_stays_logarithmic_when_most_memories_are_removed(name, order):
    X = stream(name, N, 2)
    tree = MemoryTree(routing="principal", seed=0)
    tree.insert_many(X, range(N))
    removals = {
        "front": np.arange(N),
        "back": np.arange(N)[::-1],
        "random": np.random.default_rng(1).permutation(N),
    }[order]
    gone, kept = removals[: N * 99 // 100], np.sort(removals[N * 99 // 100 :])
    for id in gone.tolist():
        tree.remove(id)
    require_sound(tree, X[kept], kept)


@pytest.mark.parametrize("routing", ["principal", "paper"])
def test_thousands_of_equal_keys_are_stored_beside_others(routing):
    X = np.zeros((4000, 3), np.float32)
    X[::4] = np.random.default_rng(0).normal(size=(1000, 3)) + 5
    tree = MemoryTree(routing=routing, seed=0)
    tree.insert_many(X, range(4000))
    tree.sweep()
    tree.check()
    hits = tree.query_many(X)
    assert np.all(hits.scores == 0)
    assert hits.ids[::4, 0].tolist() == list(range(0, 4000, 4))
    same = tree.query(np.zeros(3), 3000)
    assert len(set(same.ids.tolist())) == 3000
    assert set(same.scores.tolist()) == {0.0}
    assert all(id % 4 for id in same.ids.tolist())
    if routing == "principal":
        assert tree.stats().depth <= 2.5 * math.log2(4000) + 4
    for id in same.ids.tolist():
        tree.remove(id)
    tree.check()
    assert tree.query_many(X[::4], beam=1000).ids[:, 0].tolist() == list(range(0, 4000, 4))


@pytest.mark.parametrize("routing", ["principal", "paper"])
def test_a_tree_of_equal_keys_only_holds_all(routing):
    tree = MemoryTree(routing=routing, seed=0)
    tree.insert_many(np.ones((2000, 2)), range(2000))
    tree.sweep()
    tree.check()
    assert sorted(tree.query([1.0, 1.0], 2000, beam=2000).ids.tolist()) == list(range(2000))


@pytest.mark.boundscheck
@pytest.mark.parametrize("name", ["upwards", "inwards"])
def test_a_small_sorted_stream_with_removals_stays_sound(name):
    X = stream(name, 600, 1)
    tree = MemoryTree(routing="principal", seed=0)
    tree.insert_many(X, range(600))
    for id in range(500):
        tree.remove(id)
    require_sound(tree, X[500:], list(range(500, 600)))


@pytest.mark.boundscheck
def test_a_small_moving_window_with_repeated_keys_stays_sound():
    tree = MemoryTree(routing="principal", seed=0, capacity=100)
    for i in range(600):
        tree.insert([float(i // 3), float(i % 2)], i)
    tree.check()
    assert list(tree) == list(range(500, 600))
    for id in tree:
        assert tree.query(tree.key(id))[0].score == 0
