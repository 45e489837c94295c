"""The same seed and the same writes give the same tree, also across a file or a pickle."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.checks import check_tree
from tests.trees import KINDS, grown, key_of, keys_of, matrix, state


def write(tree, kind, seed):
    """A bit of every kind of write."""
    X = matrix(60, seed=seed)
    ids = tree.insert_many(keys_of(kind, X), range(60))
    for i, x in enumerate(X[:20]):
        hits = tree.query(key_of(kind, x), 2, explore=0.8, draw=i)
        tree.update(hits, [1.0, None][: len(hits)])
    batch = tree.query_many(keys_of(kind, X), 2, explore=0.5, draw=3)
    tree.update_many(batch, [[0.5, 0.0]] * 60)
    for id in ids[::4]:
        if id in tree:
            tree.remove(int(id))
    tree.insert(key_of(kind, X[5]), "again", id=int(ids[7]))
    tree.reroute(10)
    tree.sweep()
    tree.insert(key_of(kind, X[9]), "last")


@pytest.mark.parametrize("capacity", [None, 90])
@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_the_same_seed_and_writes_give_the_same_tree(kind, routing, capacity):
    first, second = (grown(kind, routing, 80, seed=6, capacity=capacity) for _ in range(2))
    for tree in (first, second):
        write(tree, kind, 1)
        check_tree(tree)
    assert state(first) == state(second)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_another_seed_gives_another_tree_where_routers_learn(kind):
    shapes = set()
    for seed in range(3):
        tree = grown(kind, "paper", 400, seed=seed)
        found = tree.query_many(keys_of(kind, matrix(100, seed=1)), 5)
        shapes.add(found.ids.tobytes())
    assert len(shapes) == 3


@pytest.mark.parametrize("scorer", ["distance", "cosine"])
@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_a_saved_or_pickled_tree_goes_on_as_if_it_had_never_stopped(kind, routing, scorer, tmp_path):
    tree = grown(kind, routing, 80, capacity=120, scorer=scorer)
    write(tree, kind, 1)
    tree.save(tmp_path / "tree")
    others = [MemoryTree.load(tmp_path / "tree"), pickle.loads(pickle.dumps(tree))]
    for other in others:
        assert state(other) == state(tree)
    for each in (tree, *others):
        write(each, kind, 2)
        check_tree(each)
    Q = keys_of(kind, matrix(30, seed=3))
    for other in others:
        assert state(other) == state(tree)
        assert list(other) == list(tree)
        assert (
            other.query_many(Q, 3, explore=0.5, draw=1).ids.tolist()
            == tree.query_many(Q, 3, explore=0.5, draw=1).ids.tolist()
        )


@pytest.mark.parametrize("routing", ["principal", "paper"])
@given(stops=st.sets(st.integers(0, 79)), seed=st.integers(0, 5))
@settings(max_examples=10)
def test_stopping_after_any_write_makes_no_difference(routing, stops, seed):
    stopped, straight = (MemoryTree(routing=routing, seed=seed, capacity=40) for _ in range(2))
    for i, x in enumerate(matrix(80, 3, seed)):
        stopped.insert(x, i)
        straight.insert(x, i)
        if i in stops:
            stopped = pickle.loads(pickle.dumps(stopped))
    assert state(stopped) == state(straight)


def test_an_empty_tree_can_be_saved_and_filled_later(tmp_path):
    tree = MemoryTree(routing="paper", seed=3)
    tree.save(tmp_path / "tree")
    loaded = MemoryTree.load(tmp_path / "tree")
    for each in (tree, loaded):
        each.insert_many(matrix(100), range(100))
    assert state(loaded) == state(tree)
