"""A full tree forgets the memory whose insertion or last useful return lies furthest back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.checks import check_tree
from tests.trees import KINDS, grown, key_of, keys_of, matrix


class Model:
    """The same in plain Python: ids from the longest unused to the latest, and their values."""

    def __init__(self, capacity):
        self.capacity, self.order, self.values = capacity, [], {}

    def insert(self, id, value):
        self.forget(id)
        self.order.append(id)
        self.values[id] = value
        if len(self.order) > self.capacity:
            self.forget(self.order[0])

    def forget(self, id):
        if id in self.values:
            self.order.remove(id)
            del self.values[id]

    def used(self, id):
        if id in self.values:
            self.order.remove(id)
            self.order.append(id)


def same(tree, model):
    assert len(tree) == len(model.order)
    assert {id: tree[id] for id in tree} == model.values


operation = st.one_of(
    st.tuples(st.just("insert"), st.integers(0, 30)),
    st.tuples(st.just("upsert"), st.integers(0, 25)),
    st.tuples(st.just("update"), st.lists(st.sampled_from([None, 0.0, 0.25, 1.0]), min_size=3, max_size=3)),
    st.tuples(st.just("late"), st.lists(st.sampled_from([None, 0.0, 1.0]), min_size=3, max_size=3)),
    st.tuples(st.just("remove"), st.integers(0, 30)),
)


@pytest.mark.parametrize("routing", ["principal", "paper"])
@given(capacity=st.integers(1, 20), operations=st.lists(operation, max_size=60), explore=st.sampled_from([0.0, 1.0]))
@settings(max_examples=25)
def test_what_is_forgotten_follows_the_order_of_use(routing, capacity, operations, explore):
    tree, model, X = MemoryTree(routing=routing, capacity=capacity, seed=0), Model(capacity), matrix(31, 2)
    waiting = None
    for time, (what, detail) in enumerate(operations):
        if what == "insert":
            model.insert(tree.insert(X[detail], time), time)
        elif what == "upsert":
            assert tree.insert(X[-detail], time, id=detail) == detail
            model.insert(detail, time)
        elif what == "remove" and model.order:
            id = model.order[detail % len(model.order)]
            tree.remove(id)
            model.forget(id)
        elif what in ("update", "late") and len(tree):
            hits = tree.query(X[time % 31], 3, explore=explore, draw=time)
            if what == "late" and waiting is not None:
                hits, waiting = waiting, hits  # the reward for an earlier query; its memories may have gone
            elif what == "late":
                waiting = hits
                continue
            rewards = detail[: len(hits)]
            tree.update(hits, rewards)
            for id, reward in zip(hits.ids, rewards, strict=True):
                if reward:
                    model.used(id)
        same(tree, model)
    check_tree(tree)
    # Newcomers push everyone out, in order.
    for time in range(capacity):
        model.insert(tree.insert(X[time], -time), -time)
        same(tree, model)


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_without_rewards_the_oldest_goes_first(kind, routing):
    tree = grown(kind, routing, 300, capacity=50)
    assert list(tree) == list(range(250, 300))
    assert all(id not in tree for id in range(250))
    tree.query_many(keys_of(kind, matrix(300)), 5)  # being returned is not enough
    tree.insert_many(keys_of(kind, matrix(10, seed=1)), range(10))
    assert set(tree) == set(range(260, 310))
    check_tree(tree)


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_a_rewarded_memory_stays(kind, routing):
    tree = grown(kind, routing, 50, capacity=50)
    x = key_of(kind, matrix(50)[0])
    for i, newcomer in enumerate(matrix(120, seed=2)):
        hits = tree.query(x, beam=50)
        assert hits.ids == [0]
        tree.update(hits, [0.1])
        tree.insert(key_of(kind, newcomer), i)
    assert 0 in tree
    assert len(tree) == 50
    tree.insert_many(keys_of(kind, matrix(50, seed=3)), range(50))
    assert 0 not in tree
    check_tree(tree)


def test_forgotten_memories_are_never_returned():
    tree = grown("dense", "principal", 500, capacity=40)
    hits = tree.query_many(matrix(500), 40, beam=500)
    assert np.all(np.isin(hits.ids, list(tree)))
