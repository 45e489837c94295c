"""A flat index becomes a graph or term lists at a fixed size, with everything that it has stored and learned."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import GraphRouting, MemoryTree, TermLists
from memorytree.checks import state_of
from memorytree.index.flat import FlatIndex
from tests.index.sparse_keys import documents
from tests.trees import KEYS, keys_of, matrix

LIMIT = 30
WIDE = 1000  # a beam that reads everything
LISTS = {"rate": 0.5, "expansion": 0.3}


def options_of(kind, flat):
    """Options of a tree for this kind of keys."""
    routing = GraphRouting(flat=flat) if kind == "dense" else TermLists(**LISTS, flat=flat)
    return {"routing": routing, "scorer": "cosine", "seed": 4}


def is_flat(tree):
    return isinstance(tree.index.inner, FlatIndex)


def filled(kind, n, flat=LIMIT, **options):
    tree = MemoryTree(**options_of(kind, flat), **options)
    tree.insert_many(keys_of(kind, matrix(n)), range(n), labels=["a", None] * (n // 2) + ["b"] * (n % 2))
    return tree


def use(tree, kind, seed):
    """Reward, replace and remove some memories; the same in every index that finds the same memories."""
    rng, Q = np.random.default_rng(seed), keys_of(kind, matrix(12, seed=seed))
    for i in range(12):
        known = list(tree)
        ids = rng.choice(known, 4, replace=False)
        tree.reward_queries(Q[i : i + 1], ids[None], rng.choice([0.0, 1.0, np.nan], (1, 4)), np.array([[0, -1, -1, -1]]))
        if i % 3 == 0:
            tree.remove(int(ids[0]))
        if i % 4 == 0:
            tree.insert(Q[i], "replaced", id=int(ids[1]))


def contents(tree, kind):
    """All that a tree holds, as far as it does not depend on the kind of its index."""
    keys = {id: tree.key(id) for id in tree}
    if kind == "sparse":
        keys = {id: key.toarray() for id, key in keys.items()}
    if kind != "named":
        keys = {id: key.tolist() for id, key in keys.items()}
    return keys, {id: tree[id] for id in tree}, {id: tree.label(id) for id in tree}


@pytest.mark.parametrize("kind", KEYS)
def test_everything_carries_over(kind):
    capacity = 2 * LIMIT
    grown, compiled = (filled(kind, LIMIT, flat, capacity=capacity) for flat in (LIMIT, 0))
    for tree in (grown, compiled):
        use(tree, kind, 1)
    assert is_flat(grown)
    X = keys_of(kind, matrix(3 * LIMIT, seed=2))
    left = []
    for tree in (grown, compiled):
        tree.insert_many(X[: LIMIT // 2], range(LIMIT // 2))
    assert not is_flat(grown)
    for tree in (grown, compiled):
        tree.check()
        removed = []
        tree.on_remove = lambda id, value, removed=removed: removed.append(id)
        tree.insert_many(X[LIMIT // 2 :], range(LIMIT // 2, 3 * LIMIT))  # more than the capacity
        left.append(removed)
    assert left[0] == left[1]
    assert contents(grown, kind) == contents(compiled, kind)
    ids, Q = np.array(sorted(grown)), keys_of(kind, matrix(10, seed=3))
    for i in range(10):
        asked = Q[i]
        np.testing.assert_allclose(grown.score(asked, ids), compiled.score(asked, ids), rtol=1e-3, atol=1e-4)
    if kind == "sparse":
        features = np.arange(4)
        np.testing.assert_allclose(grown.index.weights(features), compiled.index.weights(features), rtol=1e-3)
        assert np.any(grown.index.weights(features) != 1)


@pytest.mark.parametrize("scorer", ["distance", "cosine", "tfidf"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=10)
def test_scores_are_the_same_after_growing(scorer, seed):
    rng, X = np.random.default_rng(seed), documents(80, 60, 0.08, seed=seed % 5)
    tree = MemoryTree(routing=TermLists(**LISTS, flat=40), scorer=scorer, seed=1)
    tree.insert_many(X[:40], range(40))
    for i in range(10):
        found = tree.query(X[40 + i], 5)
        tree.reward(found, rng.choice([0.0, 1.0], 5))
    for id in rng.choice(40, 6, replace=False).tolist():
        tree.remove(id)
    ids, before = np.array(sorted(tree)), None
    tree.insert_many(X[60:66], range(6))
    assert is_flat(tree)
    before = [tree.score(X[i], ids) for i in range(20)]
    weights, ids_before = tree.index.weights(np.arange(60)), list(tree)
    tree.insert(X[67], "one more")
    assert not is_flat(tree)
    tree.remove(list(tree)[-1])
    tree.check()
    assert list(tree) == ids_before
    np.testing.assert_array_equal(tree.index.weights(np.arange(60)), weights)
    for i in range(20):
        np.testing.assert_allclose(tree.score(X[i], ids), before[i], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KEYS)
def test_insertion_that_exceeds_the_limit_makes_the_change(kind):
    tree, X = filled(kind, LIMIT), keys_of(kind, matrix(4, seed=5))
    assert is_flat(tree)
    tree.insert(X[0], "replaces", id=3)
    assert is_flat(tree)
    assert tree.stats().leaf_limit == LIMIT
    tree.insert(X[1], "exceeds")
    assert not is_flat(tree)
    for id in list(tree)[2:]:
        tree.remove(id)
    assert not is_flat(tree)
    assert tree.query(X[2], 5).ids.shape == (2,)


@pytest.mark.parametrize("kind", KEYS)
def test_id_of_a_removed_memory_is_not_given_again_after_growing(kind):
    tree = filled(kind, LIMIT)
    tree.remove(LIMIT - 1)
    X = keys_of(kind, matrix(2, seed=6))
    assert tree.insert(X[0], "next") == LIMIT
    tree.remove(LIMIT)
    tree.insert(X[1], "at the limit")
    assert tree.insert(X[0], "beyond") == LIMIT + 2
    assert not is_flat(tree)


@pytest.mark.parametrize("kind", KEYS)
def test_reloaded_trees_grow_alike(kind, tmp_path):
    tree = filled(kind, LIMIT)
    use(tree, kind, 7)
    tree.save(tmp_path / "tree")
    twin = MemoryTree.load(tmp_path / "tree")
    X = keys_of(kind, matrix(2 * LIMIT, seed=8))
    tree.insert_many(X, range(2 * LIMIT))
    for i in range(2 * LIMIT):
        twin.insert(X[i], i)
    assert state_of(tree) == state_of(twin)
    again = MemoryTree.from_state_dict(tree.state_dict())
    assert not is_flat(again)
    assert state_of(again) == state_of(tree)


@pytest.mark.parametrize("kind", KEYS)
def test_whole_batch_above_the_limit_is_built_without_a_flat_beginning(kind):
    X = keys_of(kind, matrix(LIMIT + 1))
    built = MemoryTree.build(X, range(LIMIT + 1), **options_of(kind, LIMIT))
    plain = MemoryTree.build(X, range(LIMIT + 1), **options_of(kind, 0))
    assert not is_flat(built)
    assert built.query_many(X, 4).ids.tolist() == plain.query_many(X, 4).ids.tolist()
    assert is_flat(MemoryTree.build(X[:LIMIT], range(LIMIT), **options_of(kind, LIMIT)))


def test_capacity_below_the_limit_stays_flat():
    tree = filled("dense", 3 * LIMIT, capacity=LIMIT)
    assert is_flat(tree)
    assert list(tree) == list(range(2 * LIMIT, 3 * LIMIT))


def test_receipts_from_before_the_change_are_accepted():
    tree = filled("sparse", LIMIT)
    token = str(tree.query(keys_of("sparse", matrix(1, seed=9))[0], 3).receipt)
    tree.insert_many(keys_of("sparse", matrix(5, seed=10)), range(5))
    assert not is_flat(tree)
    assert tree.reward(token, [1.0, 0.0, 0.0]).learned == 1


def test_readers_are_answered_during_the_change():
    tree, answers = filled("dense", LIMIT), []
    index = tree.index
    result = index.insert(matrix(1, seed=11), np.array([-1]), 0, 1)
    assert (result.done, result.rebuild_due) == (0, True)
    copy = index.copy_for_rebuild()
    copy.rebuild()
    answers.append(tree.query(matrix(1)[0]).ids.item(0))
    assert (is_flat(tree), isinstance(copy.inner, FlatIndex), answers) == (True, False, [0])
    assert len(copy) == LIMIT


@pytest.mark.parametrize("value", [np.array([2]), np.array([], bool), np.array([True, False])])
def test_state_that_does_not_say_which_index_it_is_of_is_refused(value):
    state = filled("dense", 10).state_dict()
    state["index"]["grown"] = value
    with pytest.raises(ValueError, match="grown"):
        MemoryTree.from_state_dict(state)


def test_state_of_more_memories_than_the_limit_is_refused():
    state = filled("dense", 20).state_dict()
    state["config"]["routing"]["flat"] = 10
    with pytest.raises(ValueError, match="limit"):
        MemoryTree.from_state_dict(state)


@pytest.mark.parametrize("flat", [-1, 1.5, None])
def test_invalid_limits_are_refused(flat):
    for routing in (GraphRouting, TermLists):
        with pytest.raises(ValueError, match="flat"):
            routing(flat=flat)
