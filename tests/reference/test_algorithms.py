"""The paper in plain Python: each branch of its algorithms, and the corrected slips."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree.reference import (
    Perceptron,
    ReferenceTree,
    SeededRandom,
    Side,
    median_cut,
    tie_hash,
)
from tests.reference.stubs import (
    ConstantRouter,
    LeftRouter,
    RecordingRouter,
    ScriptedRandom,
    TableScorer,
    grid,
    internal_nodes,
    two_leaf_tree,
)


def test_exploration_is_uniform_over_nodes_and_sides():
    tree = two_leaf_tree()
    draws = SeededRandom(1)
    seen = Counter()
    for _ in range(4000):
        triple, _ = tree.query(np.array([2.0]), explore=0.75, random=draws)
        seen["exploit" if triple is None else triple[1]] += 1
    assert seen["exploit"] / 4000 == pytest.approx(1 / 4, abs=0.03)
    assert seen[None] / 4000 == pytest.approx(3 / 8, abs=0.03)
    assert seen[Side.LEFT] / 4000 == pytest.approx(3 / 16, abs=0.03)
    assert seen[Side.RIGHT] / 4000 == pytest.approx(3 / 16, abs=0.03)


# Query


def test_query_exploits_when_the_draw_reaches_epsilon():
    tree = two_leaf_tree()
    triple, memories = tree.query(np.array([2.0]), k=2, explore=0.5, random=ScriptedRandom(0.5))
    assert triple is None
    assert {z.value for z in memories} == {1, 2}


def test_query_explores_a_side_of_a_router():
    tree = two_leaf_tree()
    triple, memories = tree.query(np.array([2.0]), k=2, explore=0.5, random=ScriptedRandom(0.4, 0, 0))
    assert triple == (tree.root, Side.LEFT, 0.5)
    assert [z.value for z in memories] == [-1, -2]


def test_query_explores_the_memories_of_the_leaf():
    tree = two_leaf_tree()
    held = [z.value for z in tree.root.right.memories]
    triple, memories = tree.query(np.array([2.0]), k=3, explore=0.5, random=ScriptedRandom(0.4, 1, 5, 0, 3))
    assert triple == (tree.root.right, None, None)
    assert [z.value for z in memories] == [held[5], held[1], held[0]]  # Fisher-Yates: 0<->5, 1<->1, 2<->5
    assert [z.value for z in tree.root.right.memories] == held


def test_query_returns_at_most_the_memories_of_the_leaf():
    tree = two_leaf_tree()
    assert len(tree.query(np.array([2.0]), k=50)[1]) == 6
    assert len(tree.query(np.array([2.0]), k=50, explore=1.0, random=ScriptedRandom(0.0, 1, *[0] * 6))[1]) == 6


def test_queries_do_not_change_later_writes():
    written, queried = ReferenceTree(seed=3), ReferenceTree(seed=3)
    for x in grid(80):
        written.insert(x, None)
        queried.insert(x, None)
        queried.query(x, k=3, explore=0.9)
    assert [z.id for z in written.memories] == [z.id for z in queried.memories]
    assert [[z.id for z in leaf.memories] for leaf in written.leaves()] == [
        [z.id for z in leaf.memories] for leaf in queried.leaves()
    ]


def test_ties_go_to_the_larger_tie_value():
    scorer = TableScorer()
    tree = ReferenceTree(scorer=scorer, tie=lambda x, memory: -memory.id)
    for i in range(5):
        tree.insert([i], i)
    scorer.table = {3: 1.0}
    assert [z.id for z in tree.query([0], k=4)[1]] == [3, 0, 1, 2]


def test_default_tie_depends_on_seed_key_and_id_only():
    assert tie_hash(0, np.array([1.0, 2.0]), 7) == 13283753131709057865
    assert tie_hash(0, {"b": 1, "a": 2}, 7) == tie_hash(0, {"a": 2, "b": 1}, 7)
    long = np.zeros(5000)
    other = long.copy()
    other[2500] = 1
    ties = [
        tie_hash(0, long, 1),
        tie_hash(1, long, 1),
        tie_hash(0, long, 2),
        tie_hash(0, other, 1),
        tie_hash(0, "x", 1),
    ]
    assert len(set(ties)) == len(ties)


# Update


def test_leaf_triple_updates_the_scorer_only():
    scorer = TableScorer()
    tree = two_leaf_tree(scorer=scorer)
    triple, memories = tree.query(np.array([2.0]), k=2, explore=1.0, random=ScriptedRandom(0.0, 1, 0, 0))
    tree.root.learner.updates.clear()
    assert tree.update(np.array([2.0]), [(z, 0.5) for z in memories], triple) == 0
    assert scorer.updates == [(z.id, 0.5) for z in memories]
    assert tree.root.learner.updates == []


def test_scorer_learns_after_the_leaf_was_removed():
    scorer = TableScorer()
    tree = two_leaf_tree(scorer=scorer)
    triple, [z] = tree.query(np.array([2.0]), explore=1.0, random=ScriptedRandom(0.0, 1, 0))
    for memory in list(tree.root.right.memories):
        tree.remove(memory.id)
    assert not triple[0].alive
    assert tree.update(np.array([2.0]), [(z, 1.0)], triple) == 0
    assert scorer.updates == [(z.id, 1.0)]


def test_rewards_for_a_removed_router_are_counted_as_skipped():
    tree = two_leaf_tree()
    router = tree.root
    triple, memories = tree.query(np.array([2.0]), k=2, explore=1.0, random=ScriptedRandom(0.0, 0, 0))
    for memory in list(router.right.memories):
        tree.remove(memory.id)
    assert not router.alive
    router.learner.updates.clear()
    assert tree.update(np.array([2.0]), [(z, 1.0) for z in memories], triple) == 2
    assert router.learner.updates == []


def test_update_without_exploration_reroutes_but_does_not_learn():
    tree = two_leaf_tree()
    triple, memories = tree.query(np.array([2.0]))
    tree.root.learner.updates.clear()
    tree.update(np.array([2.0]), [(z, 1.0) for z in memories], triple)
    assert tree.root.learner.updates == []
    tree.reroutes, tree.random = 2, ScriptedRandom(0, 0)
    first, second = tree.memories[0], tree.memories[-1]
    tree.update(np.array([2.0]), [], None)
    assert tree.random.draws == []
    assert (tree.memories[0], tree.memories[-1]) == (first, second)  # swapped twice


def test_update_mixes_reward_and_balance():
    tree = two_leaf_tree(values=range(-4, 8), balance=0.9)
    v = tree.root
    v.learner.updates.clear()
    tree.update(np.array([1.0]), [(tree.memories[0], 0.8)], (v, Side.LEFT, 0.5))
    assert v.learner.updates == [pytest.approx(0.1 * -1.6 + 0.9 * (math.log(5) - math.log(9)))]


# Insert, split, remove


def test_ids_increase_and_an_existing_id_is_replaced():
    tree = ReferenceTree()
    assert [tree.insert([0.0], "a"), tree.insert([1.0], "b"), tree.insert([2.0], "c", id=9)] == [0, 1, 9]
    assert tree.insert([3.0], "d", id=1) == 1
    assert tree.insert([4.0], "e") == 10
    assert sorted(z.value for z in tree.memories) == ["a", "c", "d", "e"]
    tree.remove(10)
    assert tree.insert([5.0], "f") == 11


def test_margins_are_clipped_to_one():
    tree = two_leaf_tree(balance=0.5)
    for _ in range(3):  # three more on the right: imbalance log 7 - log 10 = -0.36 outweighs no clipped margin of 1 ...
        tree.insert(np.array([100.0]), None)
    tree.root.learner.updates.clear()
    tree.insert(np.array([100.0]), None)
    assert tree.root.learner.updates == [1.0]
    for _ in range(12):  # ... but log 7 - log 22 = -1.15 does, and would not outweigh 100
        tree.insert(np.array([100.0]), None)
    tree.root.learner.updates.clear()
    tree.insert(np.array([100.0]), None)
    assert tree.root.learner.updates == [-1.0]
    assert tree.root.mistakes > 0


def test_first_member_of_a_split_trains_the_left_side():
    tree = two_leaf_tree(values=[-0.5, *range(-5, 0), *range(1, 7)])  # the first key is 0, and both sides are empty
    assert tree.root.learner.updates[0] == -1
    assert tree.leaf_of[0] is tree.root.left


def test_removal_moves_the_last_memory_into_the_gap():
    tree = two_leaf_tree()
    right = tree.root.right
    tree.remove(7)
    assert [z.id for z in tree.memories] == [0, 1, 2, 3, 4, 5, 6, 11, 8, 9, 10]
    assert sorted(z.id for z in right.memories) == [6, 8, 9, 10, 11]
    tree.check()


def test_sibling_of_an_emptied_leaf_replaces_the_parent():
    tree = ReferenceTree(Perceptron, reroutes=0)
    for x in grid(60):
        tree.insert(x, None)
    leaf = next(leaf for leaf in tree.leaves() if leaf.parent.parent is not None)
    parent, grandparent = leaf.parent, leaf.parent.parent
    side = Side.LEFT if grandparent.left is parent else Side.RIGHT
    sibling = parent.right if parent.left is leaf else parent.left
    size = sibling.n
    for z in list(leaf.memories):
        tree.remove(z.id)
    assert grandparent.child(side) is sibling
    assert (sibling.n, sibling.parent) == (size, grandparent)
    assert (leaf.alive, parent.alive, sibling.alive) == (False, False, True)
    tree.check()


def test_removing_an_unknown_id_raises():
    tree = ReferenceTree()
    tree.insert([0.0], "a")
    with pytest.raises(KeyError, match="7"):
        tree.remove(7)
    tree.check()


@pytest.mark.parametrize(
    ("key", "other"),
    [(np.array([1.0, 2.0]), np.array([5.0, 0.0])), ({"a": 1.0}, {"b": 1.0}), ([1.0, 2.0], [5.0, 0.0])],
)
def test_leaf_of_equal_keys_splits_only_for_another_key(key, other):
    tree = ReferenceTree(reroutes=1)
    for i in range(50):
        tree.insert(key, i)
        tree.check()
    assert tree.root.is_leaf
    tree.insert(other, "other")
    tree.check()
    assert not tree.root.is_leaf


def test_one_sided_split_uses_the_median():
    tree = ReferenceTree(LeftRouter, reroutes=0, leaf_factor=1)
    for i in range(9):
        tree.insert(np.array([float(i)]), i)
    assert tree.root.threshold == 3.5 - 1000
    assert [[z.value for z in leaf.memories] for leaf in tree.leaves()] == [[0, 1, 2, 3], [4, 5, 6, 7, 8]]
    assert (tree.root.updates, tree.root.n) == (9, 9)
    tree.check()


def test_indistinguishable_keys_stay_in_one_leaf_in_order():
    tree = ReferenceTree(ConstantRouter, reroutes=0)
    root = tree.root
    for i in range(20):
        tree.insert(np.array([float(i)]), i)
        tree.check()
    assert tree.root is root
    assert root.is_leaf
    assert [z.value for z in root.memories] == list(range(20))
    assert (root.updates, root.mistakes, root.threshold) == (0, 0, 0.0)


def test_child_that_is_too_large_is_split_in_turn():
    tree = ReferenceTree(ConstantRouter, reroutes=0, leaf_factor=1)
    for i in range(-19, 0):
        tree.insert(np.array([float(i)]), i)
    assert tree.root.is_leaf
    tree.learner = RecordingRouter  # separates keys: negative ones go left, and are split there at the median
    tree.insert(np.array([1.0]), 1)
    tree.check()
    assert [leaf.n for leaf in tree.leaves()] == [4, 5, 5, 5, 1]
    assert [z.value for leaf in tree.leaves() for z in leaf.memories] == [*range(-19, 0), 1]


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=12))
def test_median_cut_leaves_margins_on_both_sides(margins):
    cut = median_cut(margins)
    if cut is None:
        assert len(set(margins)) == 1
    else:
        left = sum(margin - cut <= 0 for margin in margins)
        assert 0 < left < len(margins)


def test_median_cut_prefers_the_evener_then_the_lower_cut():
    assert median_cut([1.0, 1.0, 1.0, 2.0, 9.0]) == 1.5
    assert median_cut([1.0, 2.0, 3.0]) == 1.5
    low = 1.0
    assert median_cut([low, math.nextafter(low, 2.0)]) == low


def test_reroutes_make_the_tree_self_consistent():
    """Theorem 2: with converged routers every memory is found by its own key after enough reroutes."""
    tree = ReferenceTree(Perceptron, reroutes=0)
    keys = grid(150)
    for x in keys:
        tree.insert(x, None)
    tree.leaf_factor = 1000  # no new routers; the present ones stop learning
    for v in internal_nodes(tree):
        v.learner.update = lambda x, y, weight=1.0: None
    for _ in range(3000):
        tree.reroute()
    tree.check()
    assert all(tree.query(z.x)[1][0] is z for z in tree.memories)


def test_check_notices_a_wrong_count():
    tree = two_leaf_tree()
    tree.root.left.n += 1
    with pytest.raises(AssertionError, match="counts"):
        tree.check()


def test_same_seed_and_writes_give_the_same_tree():
    def leaves(seed):
        tree = ReferenceTree(seed=seed)
        for x in grid(60):
            tree.insert(x, None)
        return [[z.id for z in leaf.memories] for leaf in tree.leaves()]

    assert leaves(1) == leaves(1)
    assert leaves(1) != leaves(2)


@pytest.mark.parametrize("balance", [-0.1, 1.1])
def test_balance_outside_the_unit_interval_raises(balance):
    with pytest.raises(ValueError, match="balance"):
        ReferenceTree(balance=balance)
