"""The paper in plain Python: its invariants, its lemmas and bounds, and each branch of its algorithms."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree.reference import (
    AdagradLinear,
    Distance,
    Memory,
    Perceptron,
    ReferenceTree,
    RiverLearner,
    SeededRandom,
    Side,
    SklearnLearner,
    median_cut,
    same_key,
    tie_hash,
)


def sgd():
    from sklearn.linear_model import SGDClassifier

    return SklearnLearner(SGDClassifier(random_state=0))


def naive_bayes():
    from sklearn.naive_bayes import BernoulliNB

    return SklearnLearner(BernoulliNB(fit_prior=False))


def river_logistic():
    from river.linear_model import LogisticRegression

    return RiverLearner(LogisticRegression())


class Spy:
    """A router that sends the first feature's positive values right and writes down what it is taught."""

    def __init__(self):
        self.taught = []

    def predict(self, x):
        return float(x[0])

    def update(self, x, y, weight=1.0):
        self.taught.append(y * weight)


class Constant:
    """A router that learns nothing and tells nothing apart."""

    def predict(self, x):
        return 0.0

    def update(self, x, y, weight=1.0):
        pass


class Leftist(Spy):
    """A router that knows the keys apart but sends them all left, until a threshold is set."""

    def predict(self, x):
        return float(x[0]) - 1000.0


class Script:
    """Draws that are written down in advance."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def random(self):
        return self.draws.pop(0)

    def below(self, n):
        draw = self.draws.pop(0)
        assert 0 <= draw < n
        return draw


class TableScorer:
    """Scores by a table and writes down what it is taught."""

    def __init__(self):
        self.table, self.taught = {}, []

    def score(self, x, memory):
        return self.table.get(memory.id, 0.0)

    def update(self, x, memory, reward):
        self.taught.append((memory.id, reward))


LEARNERS = {"adagrad": AdagradLinear, "perceptron": Perceptron, "sgd": sgd, "river": river_logistic}
DENSE_LEARNERS = {**LEARNERS, "naive bayes": naive_bayes}
SPARSE_LEARNERS = {name: LEARNERS[name] for name in ("adagrad", "perceptron", "river")}

numbers = st.integers(-8, 8).map(lambda i: i / 4)
dense_keys = st.lists(numbers, min_size=3, max_size=3).map(np.array)
sparse_keys = st.dictionaries(st.sampled_from("abcdef"), numbers.filter(bool), min_size=1, max_size=4)
KEYS = {"dense": dense_keys, "sparse": sparse_keys}
PAIRS = [("dense", name) for name in DENSE_LEARNERS] + [("sparse", name) for name in SPARSE_LEARNERS]
BOUND_LEARNERS = {"adagrad": AdagradLinear, "perceptron": Perceptron, "sgd": sgd, "unteachable": Spy}
SIZE = {"adagrad": 400, "perceptron": 400, "sgd": 100, "unteachable": 400}


def internal_nodes(tree):
    return [v for v, _ in tree.nodes() if not v.is_leaf]


def grid(n, seed=0):
    """Give `n` different keys of two features in random order."""
    rng = np.random.default_rng(seed)
    side = math.ceil(math.sqrt(n))
    keys = np.array([(i, j) for i in range(side) for j in range(side)], dtype=float)
    return list(rng.permutation(keys)[:n] / side)


def spy_tree(values=range(-6, 6), **settings):
    """Give a tree of one router and two leaves: negative keys left, the others right."""
    tree = ReferenceTree(Spy, reroutes=0, **settings)
    for value in values:
        tree.insert(np.array([value + 0.5]), value)
    assert tree.depth() == 1
    return tree


# Invariants


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
def test_storage_grows_with_the_memories_alone(learner):
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
def test_a_memory_is_found_immediately_after_its_insertion(kind, learner, data):
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
def test_partitions_are_as_balanced_as_theorem_1_says(learner, balance):
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


def test_depth_is_logarithmic_with_a_router_that_does_as_it_is_told():
    class Obedient(Spy):
        def __init__(self):
            self.last = {}

        def predict(self, x):
            return self.last.get(float(x[0]), 0.0)

        def update(self, x, y, weight=1.0):
            self.last[float(x[0])] = float(y)

    tree = ReferenceTree(Obedient, reroutes=0)
    for i in range(1000):
        tree.insert(np.array([float(i)]), i)
    assert sum(v.mistakes for v in internal_nodes(tree)) == 0
    e = math.exp((1 - 0.9) / 0.9)
    k = max((1 + e) / (1 - (1 + e) / v.updates) for v in internal_nodes(tree))
    assert tree.depth() <= k * math.log(len(tree))


@given(left=st.floats(0, 1), right=st.floats(0, 1), balance=st.sampled_from([0.0, 0.25, 0.9]))
def test_the_estimate_of_the_reward_difference_is_unbiased(left, right, balance):
    """Mean over the two equally likely actions, recovered from what the router was taught."""
    tree = spy_tree(balance=balance)
    v, x, estimates = tree.root, np.array([2.0]), []
    assert v.n == 12
    for action in (0, 1):
        triple, [z] = tree.query(x, explore=1.0, random=Script(0.0, 0, action))
        assert triple == (v, Side(action), 0.5)
        assert (z.x[0] > 0) == (action == 1)
        v.learner.taught.clear()
        tree.update(x, [(z, right if action == 1 else left)], triple)
        [y] = v.learner.taught
        estimates.append((y - balance * v.imbalance()) / (1 - balance))
    assert sum(estimates) / 2 == pytest.approx(right - left, abs=1e-9)


def test_exploration_picks_nodes_and_sides_evenly():
    tree = spy_tree()
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
    tree = spy_tree()
    triple, memories = tree.query(np.array([2.0]), k=2, explore=0.5, random=Script(0.5))
    assert triple is None
    assert {z.value for z in memories} == {1, 2}


def test_query_explores_a_side_of_a_router():
    tree = spy_tree()
    triple, memories = tree.query(np.array([2.0]), k=2, explore=0.5, random=Script(0.4, 0, 0))
    assert triple == (tree.root, Side.LEFT, 0.5)
    assert [z.value for z in memories] == [-1, -2]


def test_query_explores_the_memories_of_the_leaf():
    tree = spy_tree()
    held = [z.value for z in tree.root.right.memories]
    triple, memories = tree.query(np.array([2.0]), k=3, explore=0.5, random=Script(0.4, 1, 5, 0, 3))
    assert triple == (tree.root.right, None, None)
    assert [z.value for z in memories] == [held[5], held[1], held[0]]  # Fisher-Yates: 0<->5, 1<->1, 2<->5
    assert [z.value for z in tree.root.right.memories] == held


def test_query_never_returns_more_than_the_leaf_holds():
    tree = spy_tree()
    assert len(tree.query(np.array([2.0]), k=50)[1]) == 6
    assert len(tree.query(np.array([2.0]), k=50, explore=1.0, random=Script(0.0, 1, *[0] * 6))[1]) == 6


def test_reads_do_not_change_what_writes_do():
    quiet, asked = ReferenceTree(seed=3), ReferenceTree(seed=3)
    for x in grid(80):
        quiet.insert(x, None)
        asked.insert(x, None)
        asked.query(x, k=3, explore=0.9)
    assert [z.id for z in quiet.memories] == [z.id for z in asked.memories]
    assert [[z.id for z in leaf.memories] for leaf in quiet.leaves()] == [
        [z.id for z in leaf.memories] for leaf in asked.leaves()
    ]


def test_ties_go_to_the_larger_tie_value():
    scorer = TableScorer()
    tree = ReferenceTree(scorer=scorer, tie=lambda x, memory: -memory.id)
    for i in range(5):
        tree.insert([i], i)
    scorer.table = {3: 1.0}
    assert [z.id for z in tree.query([0], k=4)[1]] == [3, 0, 1, 2]


def test_the_default_tie_is_the_same_in_every_process_and_differs_by_seed_key_and_id():
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


def test_a_leaf_triple_teaches_the_scorer_and_no_router():
    scorer = TableScorer()
    tree = spy_tree(scorer=scorer)
    triple, memories = tree.query(np.array([2.0]), k=2, explore=1.0, random=Script(0.0, 1, 0, 0))
    tree.root.learner.taught.clear()
    assert tree.update(np.array([2.0]), [(z, 0.5) for z in memories], triple) == 0
    assert scorer.taught == [(z.id, 0.5) for z in memories]
    assert tree.root.learner.taught == []


def test_the_scorer_still_learns_when_the_leaf_has_gone():
    scorer = TableScorer()
    tree = spy_tree(scorer=scorer)
    triple, [z] = tree.query(np.array([2.0]), explore=1.0, random=Script(0.0, 1, 0))
    for memory in list(tree.root.right.memories):
        tree.remove(memory.id)
    assert not triple[0].alive
    assert tree.update(np.array([2.0]), [(z, 1.0)], triple) == 0
    assert scorer.taught == [(z.id, 1.0)]


def test_a_router_that_has_gone_is_skipped_and_counted():
    tree = spy_tree()
    router = tree.root
    triple, memories = tree.query(np.array([2.0]), k=2, explore=1.0, random=Script(0.0, 0, 0))
    for memory in list(router.right.memories):
        tree.remove(memory.id)
    assert not router.alive
    router.learner.taught.clear()
    assert tree.update(np.array([2.0]), [(z, 1.0) for z in memories], triple) == 2
    assert router.learner.taught == []


def test_nothing_is_learned_without_exploration_but_memories_are_rerouted():
    tree = spy_tree()
    triple, memories = tree.query(np.array([2.0]))
    tree.root.learner.taught.clear()
    tree.update(np.array([2.0]), [(z, 1.0) for z in memories], triple)
    assert tree.root.learner.taught == []
    tree.reroutes, tree.random = 2, Script(0, 0)
    first, second = tree.memories[0], tree.memories[-1]
    tree.update(np.array([2.0]), [], None)
    assert tree.random.draws == []
    assert (tree.memories[0], tree.memories[-1]) == (first, second)  # they have changed places twice


def test_update_mixes_reward_and_balance():
    tree = spy_tree(values=range(-4, 8), balance=0.9)
    v = tree.root
    v.learner.taught.clear()
    tree.update(np.array([1.0]), [(tree.memories[0], 0.8)], (v, Side.LEFT, 0.5))
    assert v.learner.taught == [pytest.approx(0.1 * -1.6 + 0.9 * (math.log(5) - math.log(9)))]


# Insert, split, remove


def test_ids_count_up_and_an_existing_one_is_replaced():
    tree = ReferenceTree()
    assert [tree.insert([0.0], "a"), tree.insert([1.0], "b"), tree.insert([2.0], "c", id=9)] == [0, 1, 9]
    assert tree.insert([3.0], "d", id=1) == 1
    assert tree.insert([4.0], "e") == 10
    assert sorted(z.value for z in tree.memories) == ["a", "c", "d", "e"]
    tree.remove(10)
    assert tree.insert([5.0], "f") == 11


def test_a_margin_beyond_one_counts_as_one():
    tree = spy_tree(balance=0.5)
    for _ in range(3):  # three more on the right: imbalance log 7 - log 10 = -0.36 outweighs no clipped margin of 1 ...
        tree.insert(np.array([100.0]), None)
    tree.root.learner.taught.clear()
    tree.insert(np.array([100.0]), None)
    assert tree.root.learner.taught == [1.0]
    for _ in range(12):  # ... but log 7 - log 22 = -1.15 does, and would not outweigh 100
        tree.insert(np.array([100.0]), None)
    tree.root.learner.taught.clear()
    tree.insert(np.array([100.0]), None)
    assert tree.root.learner.taught == [-1.0]
    assert tree.root.mistakes > 0


def test_the_first_member_of_a_split_is_taught_left():
    tree = spy_tree(values=[-0.5, *range(-5, 0), *range(1, 7)])  # the first key is 0, and nobody is on either side yet
    assert tree.root.learner.taught[0] == -1
    assert tree.leaf_of[0] is tree.root.left


def test_removal_moves_the_last_memory_into_the_gap():
    tree = spy_tree()
    right = tree.root.right
    tree.remove(7)
    assert [z.id for z in tree.memories] == [0, 1, 2, 3, 4, 5, 6, 11, 8, 9, 10]
    assert sorted(z.id for z in right.memories) == [6, 8, 9, 10, 11]
    tree.check()


def test_an_empty_leaf_goes_and_its_sibling_moves_up_with_its_own_count():
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


def test_removing_an_unknown_id_is_an_error_that_names_it():
    tree = ReferenceTree()
    tree.insert([0.0], "a")
    with pytest.raises(KeyError, match="7"):
        tree.remove(7)
    tree.check()


@pytest.mark.parametrize(
    ("key", "other"),
    [(np.array([1.0, 2.0]), np.array([5.0, 0.0])), ({"a": 1.0}, {"b": 1.0}), ([1.0, 2.0], [5.0, 0.0])],
)
def test_a_leaf_of_equal_keys_grows_past_the_limit_until_another_key_comes(key, other):
    tree = ReferenceTree(reroutes=1)
    for i in range(50):
        tree.insert(key, i)
        tree.check()
    assert tree.root.is_leaf
    tree.insert(other, "other")
    tree.check()
    assert not tree.root.is_leaf


def test_a_one_sided_split_falls_back_to_the_median():
    tree = ReferenceTree(Leftist, reroutes=0, leaf_factor=1)
    for i in range(9):
        tree.insert(np.array([float(i)]), i)
    assert tree.root.threshold == 3.5 - 1000
    assert [[z.value for z in leaf.memories] for leaf in tree.leaves()] == [[0, 1, 2, 3], [4, 5, 6, 7, 8]]
    assert (tree.root.updates, tree.root.n) == (9, 9)
    tree.check()


def test_keys_that_the_router_cannot_tell_apart_stay_in_one_leaf_in_order():
    tree = ReferenceTree(Constant, reroutes=0)
    root = tree.root
    for i in range(20):
        tree.insert(np.array([float(i)]), i)
        tree.check()
    assert tree.root is root
    assert root.is_leaf
    assert [z.value for z in root.memories] == list(range(20))
    assert (root.updates, root.mistakes, root.threshold) == (0, 0, 0.0)


def test_a_child_that_is_still_too_large_is_split_in_turn():
    tree = ReferenceTree(Constant, reroutes=0, leaf_factor=1)
    for i in range(-19, 0):
        tree.insert(np.array([float(i)]), i)
    assert tree.root.is_leaf
    tree.learner = Spy  # from now on a router can tell: the negative ones go left, and there to the median
    tree.insert(np.array([1.0]), 1)
    tree.check()
    assert [leaf.n for leaf in tree.leaves()] == [4, 5, 5, 5, 1]
    assert [z.value for leaf in tree.leaves() for z in leaf.memories] == [*range(-19, 0), 1]


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=12))
def test_the_median_cut_leaves_margins_on_both_sides(margins):
    cut = median_cut(margins)
    if cut is None:
        assert len(set(margins)) == 1
    else:
        left = sum(margin - cut <= 0 for margin in margins)
        assert 0 < left < len(margins)


def test_the_median_cut_prefers_the_more_even_and_then_the_lower_cut():
    assert median_cut([1.0, 1.0, 1.0, 2.0, 9.0]) == 1.5
    assert median_cut([1.0, 2.0, 3.0]) == 1.5
    low = 1.0
    assert median_cut([low, math.nextafter(low, 2.0)]) == low


def test_reroutes_bring_back_memories_that_routers_lost():
    """Theorem 2 in small: with a converged router, rerouting makes the tree self-consistent."""
    tree = ReferenceTree(Perceptron, reroutes=0)
    keys = grid(150)
    for x in keys:
        tree.insert(x, None)
    tree.leaf_factor = 1000  # no new routers, and those there are learn no more
    for v in internal_nodes(tree):
        v.learner.update = lambda x, y, weight=1.0: None
    for _ in range(3000):
        tree.reroute()
    tree.check()
    assert all(tree.query(z.x)[1][0] is z for z in tree.memories)


def test_check_notices_a_wrong_count():
    tree = spy_tree()
    tree.root.left.n += 1
    with pytest.raises(AssertionError, match="counts"):
        tree.check()


def test_the_same_seed_and_writes_give_the_same_tree():
    def leaves(seed):
        tree = ReferenceTree(seed=seed)
        for x in grid(60):
            tree.insert(x, None)
        return [[z.id for z in leaf.memories] for leaf in tree.leaves()]

    assert leaves(1) == leaves(1)
    assert leaves(1) != leaves(2)


@pytest.mark.parametrize("balance", [-0.1, 1.1])
def test_balance_outside_the_unit_interval_is_an_error(balance):
    with pytest.raises(ValueError, match="balance"):
        ReferenceTree(balance=balance)


# Learners and scorers


@pytest.mark.parametrize("learner", DENSE_LEARNERS)
def test_learners_start_undecided_and_learn_a_line(learner):
    g = DENSE_LEARNERS[learner]()
    rng = np.random.default_rng(0)
    assert g.predict(np.zeros(2)) == 0
    for x in rng.normal(size=(200, 2)):
        g.update(x, 1 if x[0] > 0 else -1, 0.5)
    before = g.predict(np.ones(2))
    g.update(np.ones(2), -1, 0.0)
    assert g.predict(np.ones(2)) == before  # no weight, no lesson
    assert np.mean([(g.predict(x) > 0) == (x[0] > 0) for x in rng.normal(size=(100, 2))]) > 0.85


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_model_that_has_seen_one_class_and_says_nan_is_undecided():
    from sklearn.naive_bayes import GaussianNB

    g = SklearnLearner(GaussianNB())
    g.update(np.ones(2), 1)
    assert g.predict(np.zeros(2)) == 0


def test_a_model_that_takes_no_weights_learns_without():
    class Model:
        def __init__(self):
            self.rows = []

        def partial_fit(self, rows, y, classes):
            self.rows.append((rows.tolist(), y, classes))

    g = SklearnLearner(Model())
    g.update([1, 2], -1, 0.5)
    assert g.model.rows == [([[1.0, 2.0]], [-1], [-1, 1])]


@pytest.mark.parametrize("learner", [AdagradLinear, Perceptron])
def test_arrays_and_mappings_are_learned_alike(learner):
    dense, sparse = learner(), learner()
    for x, y in zip(grid(20), [1, -1] * 10, strict=True):
        dense.update(x, y, 0.7)
        sparse.update({i: value for i, value in enumerate(x) if value}, y, 0.7)
    assert dense.weights == sparse.weights


def test_adagrad_follows_its_formula():
    g = AdagradLinear(rate=0.5)
    g.update([2.0], 1)  # gradient -1: slopes -2 and -1, each step is the rate
    assert g.predict([2.0]) == 1.5
    g.update([2.0], 1)  # a margin of 1 is enough
    assert g.predict([2.0]) == 1.5
    g.update([2.0], -1, weight=2.0)  # gradient 2: slopes 4 and 2 over sqrt(4 + 16) and sqrt(1 + 4)
    assert g.predict([2.0]) == pytest.approx(1.5 - 0.5 * (2 * 4 / math.sqrt(20) + 2 / math.sqrt(5)))


@pytest.mark.parametrize(("weight", "moved"), [(0.1, 0.0), (0.125, 0.25), (1.0, 1.0), (9.0, 4.0)])
def test_the_perceptron_rounds_importance_to_quarters(weight, moved):
    g = Perceptron(step=0.5)
    g.update([0.0], 1, weight)
    assert g.predict([0.0]) == 0.5 * moved


def test_the_perceptron_rests_when_it_is_right():
    g = Perceptron()
    g.update([1.0], 1)
    g.update([1.0], 1)
    assert g.predict([1.0]) == 1.0


@given(dense_keys, dense_keys)
def test_distance_is_the_same_for_arrays_and_mappings(a, b):
    memory, sparse = Memory(0, b, None), Memory(0, dict(enumerate(b)), None)
    score = Distance().score(a, memory)
    assert score == pytest.approx(-np.linalg.norm(a - b))
    assert Distance().score(dict(enumerate(a)), sparse) == score
