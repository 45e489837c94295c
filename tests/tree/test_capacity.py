"""A full tree removes the memory whose insertion or last reward is longest ago, after any writes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree, StaleReceipt
from tests.trees import matrix


class Model:
    """The same in plain Python: ids in order of use, and their values."""

    def __init__(self, capacity):
        self.capacity, self.order, self.values = capacity, [], {}

    def insert(self, id, value):
        self.discard(id)
        self.order.append(id)
        self.values[id] = value
        if len(self.order) > self.capacity:
            self.discard(self.order[0])

    def discard(self, id):
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
    st.tuples(st.just("reward"), st.lists(st.sampled_from([None, 0.0, 0.25, 1.0]), min_size=3, max_size=3)),
    st.tuples(st.just("late"), st.lists(st.sampled_from([None, 0.0, 1.0]), min_size=3, max_size=3)),
    st.tuples(st.just("remove"), st.integers(0, 30)),
)


@pytest.mark.parametrize("routing", ["principal", "paper"])
@given(capacity=st.integers(1, 20), operations=st.lists(operation, max_size=60), explore=st.sampled_from([0.0, 1.0]))
@settings(max_examples=25)
def test_evictions_follow_the_order_of_use(routing, capacity, operations, explore):
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
            model.discard(id)
        elif what in ("reward", "late") and len(tree):
            hits = tree.query(X[time % 31], 3, explore=explore, exploration_seed=time)
            if what == "late" and waiting is not None:
                hits, waiting = waiting, hits  # the reward for an earlier query, whose memories may have been removed
            elif what == "late":
                waiting = hits
                continue
            rewards = detail[: len(hits)]
            try:
                tree.reward(hits, rewards)
            except StaleReceipt:  # nothing was rewarded
                assert what == "late"
                continue
            for id, reward in zip(hits.ids.tolist(), rewards, strict=True):
                if reward:
                    model.used(id)
        same(tree, model)
    tree.check()
    # New memories evict all others, in order.
    for time in range(capacity):
        model.insert(tree.insert(X[time], -time), -time)
        same(tree, model)
