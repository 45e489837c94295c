"""What has been removed is gone; an emptied tree can be filled again; an upsert replaces key and value."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.checks import check_tree
from memorytree.errors import UnknownId
from tests.trees import KINDS, ROUTINGS, grown, key_of, keys_of, matrix


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_a_removed_memory_is_never_returned(kind, routing):
    tree, X = grown(kind, routing, 150), matrix(150)
    gone = set()
    for id in np.random.default_rng(0).permutation(150)[:140].tolist():
        tree.remove(id)
        gone.add(id)
        x = key_of(kind, X[id])
        hits = tree.query(x, 5, beam=3).ids + tree.query(x, 5, explore=1.0, draw=id).ids
        assert gone.isdisjoint(hits)
        assert id not in tree
        assert tree.get(id) is None
    check_tree(tree)
    assert gone.isdisjoint(tree.query_many(keys_of(kind, X), 10, beam=150).ids.ravel().tolist())
    assert sorted(tree.query(key_of(kind, X[0]), 10, beam=150).ids) == sorted(tree)


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_an_emptied_tree_can_be_filled_again(kind, routing):
    tree, X = grown(kind, routing, 100), matrix(100, seed=1)
    for _ in range(2):
        for id in list(tree):
            tree.remove(id)
        check_tree(tree)
        assert len(tree) == 0
        assert list(tree) == []
        assert len(tree.query(key_of(kind, X[0]), 3)) == 0
        assert tree.query_many(keys_of(kind, X[:2]), 2).ids.tolist() == [[-1, -1]] * 2
        assert tree.stats().memories == 0
        ids = tree.insert_many(keys_of(kind, X), [f"v{i}" for i in range(100)])
        assert len(set(ids.tolist())) == 100
        check_tree(tree)
        hits = tree.query_many(keys_of(kind, X), beam=100)
        assert hits.ids[:, 0].tolist() == ids.tolist()
        assert hits.values == [[f"v{i}"] for i in range(100)]


def test_the_ids_of_removed_memories_are_not_given_again():
    tree = grown(n=20)
    for id in range(10, 20):
        tree.remove(id)
    assert tree.insert(matrix(1)[0], "new") == 20


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_an_upsert_replaces_key_and_value_and_keeps_the_id(kind, routing):
    tree, X = grown(kind, routing, 120), matrix(120, seed=2)
    for id in range(0, 120, 3):
        assert tree.insert(key_of(kind, X[id]), f"new {id}", id=id) == id
    check_tree(tree)
    assert len(tree) == 120
    old = matrix(120)
    for id in range(120):
        new = id % 3 == 0
        hit = tree.query(key_of(kind, X[id] if new else old[id]), beam=120)[0]
        assert (hit.id, hit.value) == (id, f"new {id}" if new else id)
        assert hit.score == pytest.approx(0.0, abs=1e-5)
        if new:
            assert tree.query(key_of(kind, old[id]), beam=120)[0].score < -1e-3


@pytest.mark.parametrize("id", [-1, 100, 10**30, True, "0", None, 1.0])
def test_removing_what_is_not_there_is_an_error_and_changes_nothing(id):
    tree = grown(n=10)
    with pytest.raises(UnknownId):
        tree.remove(id)
    assert len(tree) == 10


@pytest.mark.parametrize("routing", ROUTINGS)
@given(operations=st.lists(st.tuples(st.booleans(), st.integers(0, 15), st.integers(-2, 2)), max_size=80))
@settings(max_examples=20)
def test_any_mix_of_upserts_and_removals_leaves_what_a_dictionary_would_hold(routing, operations):
    tree, there = MemoryTree(routing=routing, seed=0), {}
    for time, (insert, id, place) in enumerate(operations):
        if insert:
            tree.insert([float(place), float(time % 3)], time, id=id)
            there[id] = ([float(place), float(time % 3)], time)
        elif id in there:
            tree.remove(id)
            del there[id]
    check_tree(tree)
    assert {id: (tree.key(id).tolist(), tree[id]) for id in tree} == there
    if there:
        assert {hit.id: hit.value for hit in tree.query([0.0, 0.0], 99, beam=99)} == {id: v for id, (_, v) in there.items()}


@pytest.mark.parametrize(("keys", "routing"), KINDS)
def test_a_tree_that_was_emptied_can_learn_and_go_on(keys, routing):
    tree = grown(keys, routing, n=1)
    tree.remove(0)
    tree.learn()
    tree.sweep()
    check_tree(tree)
    id = tree.insert(key_of(keys, matrix(1)[0]), "again")
    assert tree.query(key_of(keys, matrix(1)[0])).ids == [id]
    check_tree(tree)
