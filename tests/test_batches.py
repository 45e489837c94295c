"""A batch is a loop: the same ids, the same scores, and the same tree afterwards."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.checks import check_tree
from memorytree.engine.arrays import ROOMS, SLOTS
from tests.trees import KINDS, grown, key_of, keys_of, matrix, state


def rewarded(rows: int, k: int) -> np.ndarray:
    rewards = np.random.default_rng(7).random((rows, k)).round(2)
    rewards[rewards < 0.3] = 0.0
    rewards[rewards > 0.8] = np.nan
    return rewards


@pytest.mark.parametrize("settings", [{}, {"capacity": 60}, {"scorer": "cosine", "reroutes": 2}], ids=str)
@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_inserting_a_batch_equals_the_loop(kind, routing, settings):
    X = matrix(250)
    ids = np.random.default_rng(1).integers(0, 150, 250)
    whole, loop = (MemoryTree(routing=routing, seed=3, **settings) for _ in range(2))
    assert whole.insert_many(keys_of(kind, X[:100]), range(100)).tolist() == [
        loop.insert(key_of(kind, x), i) for i, x in enumerate(X[:100])
    ]
    assert whole.insert_many(keys_of(kind, X), range(250), ids=ids).tolist() == [
        loop.insert(key_of(kind, x), i, id=int(id)) for i, (x, id) in enumerate(zip(X, ids, strict=True))
    ]
    assert list(whole) == list(loop)
    assert state(whole) == state(loop)
    check_tree(whole)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_batch_closes_gaps_between_leaves_where_the_loop_would(kind):
    X = matrix(2_040)
    whole, loop = (MemoryTree(routing="principal", seed=3) for _ in range(2))
    for tree in (whole, loop):
        tree.insert_many(keys_of(kind, X[:2_000]), range(2_000))
        tree.learn()  # leaves moved, and their old places are gaps that the next insertion finds
        assert 4 * tree._core.counters[SLOTS] > 5 * tree._core.counters[ROOMS] + 4096
    whole.insert_many(keys_of(kind, X[2_000:]), range(40))
    for i, x in enumerate(X[2_000:]):
        loop.insert(key_of(kind, x), i)
    assert 4 * whole._core.counters[SLOTS] <= 5 * whole._core.counters[ROOMS] + 4096
    assert state(whole) == state(loop)
    check_tree(whole)


@given(
    ids=st.lists(st.integers(0, 40), min_size=1, max_size=120),
    capacity=st.none() | st.integers(1, 50),
    seed=st.integers(0, 9),
)
@settings(max_examples=20)
def test_inserting_a_batch_equals_the_loop_whatever_the_ids(ids, capacity, seed):
    X = matrix(len(ids), 2, seed).round(0)
    whole, loop = (MemoryTree(routing="paper", seed=seed, capacity=capacity) for _ in range(2))
    whole.insert_many(X, range(len(ids)), ids=ids)
    for i, id in enumerate(ids):
        loop.insert(X[i], i, id=id)
    assert state(whole) == state(loop)


@pytest.mark.parametrize("how", [{}, {"beam": 4}, {"explore": 0.8}], ids=str)
@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_a_batch_of_queries_equals_the_loop_in_any_number_of_threads(kind, routing, how):
    tree = grown(kind, routing, 200)
    Q = matrix(50, seed=1)
    exclude = [list(range(i, i + 5)) for i in range(50)]
    start = {"draw": 11} if "explore" in how else {}
    batch = tree.query_many(keys_of(kind, Q), 4, exclude=exclude, **how, **start)
    for i, q in enumerate(Q):
        here = {"draw": 11 + i} if "explore" in how else {}
        one = tree.query(key_of(kind, q), 4, exclude=exclude[i], **how, **here)
        assert list(batch[i]) == list(one)
        assert batch.ids[i].tolist() == one.ids + [-1] * (4 - len(one))
        if "explore" in how:
            assert batch[i].receipt == one.receipt
    for threads in (2, 0, 60):
        shared = tree.query_many(keys_of(kind, Q), 4, exclude=exclude, threads=threads, **how, **start)
        np.testing.assert_array_equal(shared.ids, batch.ids)
        np.testing.assert_array_equal(shared.scores, batch.scores)
        assert shared.values == batch.values


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_a_batch_of_rewards_equals_the_loop(kind, routing):
    Q = matrix(60, seed=2)
    whole, loop = (grown(kind, routing, 200, capacity=220) for _ in range(2))
    batch = whole.query_many(keys_of(kind, Q), 3, explore=0.9, draw=5)
    single = [loop.query(key_of(kind, q), 3, explore=0.9, draw=5 + i) for i, q in enumerate(Q)]
    rewards = rewarded(60, 3)
    learned = whole.update_many(batch, rewards)
    each = [
        loop.update(hits, [None if np.isnan(r) else r for r in row[: len(hits)]])
        for hits, row in zip(single, rewards, strict=True)
    ]
    assert learned.learned == sum(result.learned for result in each)
    assert learned.skipped == sum(result.skipped for result in each)
    assert routing != "paper" or learned.learned > 0
    assert state(whole) == state(loop)
    # What the rewards have kept from being forgotten is the same too.
    whole.insert_many(keys_of(kind, matrix(100, seed=3)), range(100))
    for i, x in enumerate(matrix(100, seed=3)):
        loop.insert(key_of(kind, x), i)
    assert state(whole) == state(loop)
    check_tree(whole)


@pytest.mark.parametrize("scorer", ["distance", "cosine"])
@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_building_answers_like_inserting(kind, routing, scorer):
    X, Q = matrix(300), matrix(40, seed=4)
    built = MemoryTree.build(keys_of(kind, X), range(300), routing=routing, scorer=scorer, seed=0)
    inserted = grown(kind, routing, 300, scorer=scorer)
    check_tree(built)
    assert list(built) == list(inserted)
    first, second = (tree.query_many(keys_of(kind, Q), 7, beam=300) for tree in (built, inserted))
    np.testing.assert_array_equal(first.ids, second.ids)
    np.testing.assert_array_equal(first.scores, second.scores)
    assert first.values == second.values
    built.insert_many(keys_of(kind, Q), range(40))
    inserted.insert_many(keys_of(kind, Q), range(40))
    check_tree(built)
    assert (
        built.query_many(keys_of(kind, Q), 7, beam=340).ids.tolist()
        == inserted.query_many(keys_of(kind, Q), 7, beam=340).ids.tolist()
    )


def test_building_breaks_ties_like_inserting():
    X = np.repeat(matrix(20, 2), 10, axis=0)
    built = MemoryTree.build(X, range(200), seed=5)
    inserted = MemoryTree(seed=5)
    inserted.insert_many(X, range(200))
    assert built.query_many(X, 3, beam=200).ids.tolist() == inserted.query_many(X, 3, beam=200).ids.tolist()
