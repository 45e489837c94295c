"""Batches, beyond the contract of every index: any ids and capacity, deep trees, arrays that change later."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from tests.trees import grown, matrix, state


@given(
    ids=st.lists(st.integers(0, 40), min_size=1, max_size=120),
    capacity=st.none() | st.integers(1, 50),
    seed=st.integers(0, 9),
)
@settings(max_examples=20)
def test_batch_equals_loop_for_any_ids(ids, capacity, seed):
    X = matrix(len(ids), 2, seed).round(0)
    whole, loop = (MemoryTree(routing="paper", seed=seed, capacity=capacity) for _ in range(2))
    whole.insert_many(X, range(len(ids)), ids=ids)
    for i, id in enumerate(ids):
        loop.insert(X[i], i, id=id)
    assert state(whole) == state(loop)


def test_receipts_of_a_batch_in_a_deep_tree():
    X = np.cumsum(np.random.default_rng(0).exponential(size=(3000, 1)), axis=0)
    tree = MemoryTree(routing="paper", seed=0, balance=1e-6, reroutes=0)
    tree.insert_many(X, range(3000))
    assert tree.stats().depth > 64
    some = X[::100]
    batch = tree.query_many(some, k=2, explore=1.0, exploration_seed=3)
    for i, x in enumerate(some):
        assert batch[i].receipt == tree.query(x, k=2, explore=1.0, exploration_seed=3 + i).receipt


def test_hits_do_not_depend_on_later_changes_of_the_array():
    X = matrix(20, seed=1)
    one, other = grown(), grown()
    found = one.query_many(X, explore=1.0, exploration_seed=1)
    same = other.query_many(X.copy(), explore=1.0, exploration_seed=1)
    X[:] = 0
    assert [row.receipt for row in found] == [row.receipt for row in same]
    rewards = np.ones((20, 1))
    assert one.reward_many(found, rewards) == other.reward_many(same, rewards)
    assert state(one) == state(other)


def test_an_empty_batch_is_no_error():
    tree = grown(n=40)
    nothing = np.empty((0, 4))
    assert tree.reward_many(tree.query_many(nothing, k=2), np.empty((0, 2))) == (0, 0, 0)
    assert len(tree.insert_many(nothing, [])) == 0
    assert len(MemoryTree(seed=0).insert_many([], [])) == 0
    assert len(MemoryTree.build([], [])) == 0
