"""The paper in plain Python: its invariants, lemmas and bounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree.reference import (
    Perceptron,
    ReferenceTree,
    Side,
    same_key,
)
from tests.reference.stubs import (
    BOUND_LEARNERS,
    DENSE_LEARNERS,
    KEYS,
    LEARNERS,
    PAIRS,
    SIZE,
    RecordingRouter,
    ScriptedRandom,
    dense_keys,
    grid,
    internal_nodes,
    two_leaf_tree,
)


@pytest.mark.parametrize(("kind", "learner"), PAIRS)
@settings(max_examples=5)
@given(data=st.data())
def test_every_operation_leaves_the_tree_consistent(kind, learner, data):
    keys, make = KEYS[kind], DENSE_LEARNERS[learner]
    tree = ReferenceTree(make, reroutes=data.draw(st.integers(0, 2)), seed=data.draw(st.integers(0, 9)))
    stored = {}
    for x in data.draw(st.lists(keys, min_size=12, max_size=20)):
        stored[tree.insert(x, len(stored))] = x
        tree.check()
    verbs = st.sampled_from(["insert", "replace", "remove", "reroute", "learn"])
    for verb, x in data.draw(st.lists(st.tuples(verbs, keys), max_size=25)):
        if verb == "insert":
            stored[tree.insert(x, "new")] = x
        elif verb == "replace" and stored:
            id = data.draw(st.sampled_from(sorted(stored)))
            assert tree.insert(x, "replaced", id=id) == id
            stored[id] = x
        elif verb == "remove" and stored:
            id = data.draw(st.sampled_from(sorted(stored)))
            tree.remove(id)
            del stored[id]
        elif verb == "reroute":
            tree.reroute()
        elif verb == "learn":
            triple, memories = tree.query(x, k=3, explore=1.0)
            assert tree.update(x, [(z, 1.0 / (1 + i)) for i, z in enumerate(memories)], triple) == 0
        tree.check()
        assert {z.id: z.x for z in tree.memories}.keys() == stored.keys()
        assert all(same_key(z.x, stored[z.id]) for z in tree.memories)


@given(st.lists(dense_keys, max_size=40), st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_removing_everything_leaves_an_empty_leaf(keys, order):
    tree = ReferenceTree(reroutes=1)
    ids = [tree.insert(x, None) for x in keys]
    order.shuffle(ids)
    for id in ids:
        tree.remove(id)
        tree.check()
        assert all(z.id != id for leaf in tree.leaves() for z in leaf.memories)
    assert len(tree) == 0
    assert tree.root.is_leaf
    assert tree.depth() == 0
    assert tree.query(np.zeros(3), k=5) == (None, [])
    tree.reroute()
    tree.insert(np.zeros(3), "again")
    tree.check()


@pytest.mark.parametrize("learner", LEARNERS)
def test_storage_is_linear_in_the_number_of_memories(learner):
    tree = ReferenceTree(LEARNERS[learner], reroutes=1)
    for x in grid(120):
        tree.insert(x, None)
    nodes, leaves = len(list(tree.nodes())), len(list(tree.leaves()))
    assert nodes == 2 * leaves - 1
    assert leaves <= len(tree)


def test_leaves_stay_within_the_limit_on_insertion():
    tree = ReferenceTree(Perceptron, reroutes=0)
    for n, x in enumerate(grid(400), 1):
        tree.insert(x, None)
        assert tree.leaf_limit() == max(8, math.ceil(4 * math.log(n)))
        newest = tree.leaf_of[n - 1]
        assert newest.n <= tree.leaf_limit()


# The lemmas and theorems of the paper


@pytest.mark.parametrize(("kind", "learner"), PAIRS)
@settings(max_examples=5)
@given(data=st.data())
def test_memory_is_found_right_after_insertion(kind, learner, data):
    keys = data.draw(
        st.lists(
            KEYS[kind],
            min_size=20,
            max_size=40,
            unique_by=lambda x: repr(sorted(x.items()) if isinstance(x, dict) else x),
        )
    )
    tree = ReferenceTree(DENSE_LEARNERS[learner], reroutes=0)
    for x in keys:
        id = tree.insert(x, None)
        assert tree.query(x)[1][0].id == id


@pytest.mark.parametrize("balance", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("learner", BOUND_LEARNERS)
def test_partitions_keep_the_bound_of_theorem_1(learner, balance):
    """Inserts only, so that a router's memories are its T updates.

    log(n + 1) stands for the default example that the proof puts on each side: its L and R are left.n + 1 and
    right.n + 1, its N is T + 2, and its mistakes p N are those counted. Taking the two defaults away again leaves
    min(left.n, right.n) / T >= (1 - p)(1 - kappa) - kappa / T with p = mistakes / T, so the theorem holds as printed.
    """
    tree = ReferenceTree(BOUND_LEARNERS[learner], balance=balance, reroutes=0)
    keys = grid(SIZE[learner])
    e = math.exp((1 - balance) / balance)
    kappa = 1 - 1 / (1 + e)
    for count, x in enumerate(keys, 1):
        tree.insert(x, None)
        if count % 7 and count < len(keys):
            continue
        assert count < len(keys) or internal_nodes(tree)
        for v in internal_nodes(tree):
            t, p = v.updates, v.mistakes / v.updates
            assert v.n == t
            # the induction of the proof
            assert max(v.left.n, v.right.n) + 1 <= kappa * (t + 2 - v.mistakes) + (1 - kappa) + v.mistakes + 1e-9
            # Theorem 1: at least 1/K of the memories on each side
            one_over_k = (1 - p) / (1 + e) - 1 / t
            assert min(v.left.n, v.right.n) / t >= one_over_k - 1e-12


@pytest.mark.parametrize("learner", BOUND_LEARNERS)
@pytest.mark.parametrize("in_order", [False, True])
def test_depth_is_at_most_k_log_t(learner, in_order):
    tree = ReferenceTree(BOUND_LEARNERS[learner], reroutes=0)
    keys = grid(SIZE[learner])
    for x in sorted(keys, key=tuple) if in_order else keys:
        tree.insert(x, None)
    k = max(v.n / min(v.left.n, v.right.n) for v in internal_nodes(tree))
    assert tree.depth() <= k * math.log(len(keys))


def test_depth_is_logarithmic_with_exact_routers():
    class ExactRouter(RecordingRouter):
        def __init__(self):
            self.last = {}

        def predict(self, x):
            return self.last.get(float(x[0]), 0.0)

        def update(self, x, y, weight=1.0):
            self.last[float(x[0])] = float(y)

    tree = ReferenceTree(ExactRouter, reroutes=0)
    for i in range(1000):
        tree.insert(np.array([float(i)]), i)
    assert sum(v.mistakes for v in internal_nodes(tree)) == 0
    e = math.exp((1 - 0.9) / 0.9)
    k = max((1 + e) / (1 - (1 + e) / v.updates) for v in internal_nodes(tree))
    assert tree.depth() <= k * math.log(len(tree))


@given(left=st.floats(0, 1), right=st.floats(0, 1), balance=st.sampled_from([0.0, 0.25, 0.9]))
def test_reward_estimate_is_unbiased(left, right, balance):
    """The mean over the two equally likely actions, recovered from the updates of the router."""
    tree = two_leaf_tree(balance=balance)
    v, x, estimates = tree.root, np.array([2.0]), []
    assert v.n == 12
    for action in (0, 1):
        triple, [z] = tree.query(x, explore=1.0, random=ScriptedRandom(0.0, 0, action))
        assert triple == (v, Side(action), 0.5)
        assert (z.x[0] > 0) == (action == 1)
        v.learner.updates.clear()
        tree.update(x, [(z, right if action == 1 else left)], triple)
        [y] = v.learner.updates
        estimates.append((y - balance * v.imbalance()) / (1 - balance))
    assert sum(estimates) / 2 == pytest.approx(right - left, abs=1e-9)
