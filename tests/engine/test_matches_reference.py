"""The engine matches the paper in plain Python: equal operations and random numbers give equal trees.

The learner is a perceptron with dyadic steps on small dyadic keys, so that float32 and Python's floats both compute
without rounding, and every path, leaf, weight and answer must be equal to the bit.
"""

import numpy as np
import pytest
from hypothesis import assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from memorytree import MemoryTree
from memorytree.config import PaperRouting
from memorytree.engine.arrays import COUNT, LEFT, MISTAKES, RIGHT, ROOT, START, UPDATES
from memorytree.engine.sparse import BIAS, FEATURE, THRESHOLD, WEIGHT
from memorytree.reference import CONSTANT, Perceptron, ReferenceTree, Side
from tests.engine.reference_rng import Splitmix, tie

DIMENSION = 3
STEP = 0.5
weights = st.integers(-4, 4).map(lambda n: n / 2)
dense_keys = st.lists(weights, min_size=DIMENSION, max_size=DIMENSION).map(lambda x: np.array(x, np.float32))
sparse_keys = st.dictionaries(st.sampled_from("abcdef"), weights.filter(bool), max_size=4)
rewards = st.none() | st.sampled_from([0.0, 0.25, 1.0])


class Comparison(RuleBasedStateMachine):
    """One tree in the engine, one in the reference, and a dictionary of what should be stored.

    Subclasses give `keys`, the strategy for keys.
    """

    keys = st.nothing()

    @initialize(
        seed=st.integers(0, 2**40),
        balance=st.sampled_from([0.1, 0.5, 0.9, 1.0]),
        leaf_factor=st.sampled_from([0.5, 1, 4]),
        reroutes=st.sampled_from([0, 1, 5]),
    )
    def make_trees(self, seed, balance, leaf_factor, reroutes):
        self.number_of = {}
        options = {"leaf_factor": leaf_factor, "reroutes": reroutes, "seed": seed}
        self.tree = MemoryTree(routing=PaperRouting(balance=balance, rate=STEP, exact=True), **options)
        self.reference = ReferenceTree(
            lambda: Perceptron(step=STEP),
            balance=balance,
            leaf_factor=leaf_factor,
            reroutes=reroutes,
            random=Splitmix(seed),
            tie=tie(seed, self.number_of),
        )
        self.seed = seed
        self.stored = {}
        self.queries = []

    def number(self, x):
        """Number the features of a mapping as the engine does: key by key, in order of their names."""
        if isinstance(x, dict):
            for name in sorted(x):
                self.number_of.setdefault(name, len(self.number_of))

    @rule(data=st.data())
    def insert(self, data):
        self.insert_key(data.draw(self.keys))

    def insert_key(self, x):
        self.number(x)
        id = self.tree.insert(x, len(self.stored))
        assert id == self.reference.insert(x, len(self.stored))
        self.stored[id] = x

    @rule(data=st.data())
    def insert_many(self, data):
        xs = data.draw(st.lists(self.keys, min_size=2, max_size=30))
        for x in xs:
            self.number(x)
        ids = self.tree.insert_many(xs, range(len(xs)))
        assert ids.tolist() == [self.reference.insert(x, i) for i, x in enumerate(xs)]
        self.stored.update(zip(ids.tolist(), xs, strict=True))

    @rule(data=st.data(), copies=st.integers(2, 12))
    def insert_equal_keys(self, data, copies):
        x = data.draw(self.keys)
        for _ in range(copies):
            self.insert_key(x)

    @rule(data=st.data(), which=st.integers(0, 10**6))
    def replace(self, data, which):
        assume(self.stored)
        x = data.draw(self.keys)
        id = sorted(self.stored)[which % len(self.stored)]
        self.number(x)
        assert self.tree.insert(x, "new", id=id) == self.reference.insert(x, "new", id=id) == id
        self.stored[id] = x

    @rule(which=st.integers(0, 10**6))
    def remove(self, which):
        assume(self.stored)
        id = sorted(self.stored)[which % len(self.stored)]
        self.tree.remove(id)
        self.reference.remove(id)
        del self.stored[id]

    @rule(times=st.integers(0, 20))
    def reroute(self, times):
        self.tree.reroute(times)
        for _ in range(times):
            self.reference.reroute()

    @rule(data=st.data(), k=st.integers(1, 12), explore=st.sampled_from([0.0, 0.5, 1.0]), draw=st.integers(0, 10**6))
    def query(self, data, k, explore, draw):
        assume(self.stored)
        x = data.draw(self.keys)
        if isinstance(x, dict) and not set(x) <= set(self.number_of):
            return  # the engine chooses the numbers of names that were never stored
        hits = self.tree.query(x, k, explore=explore, exploration_seed=draw)
        triple, memories = self.reference.query(x, k, explore=explore, random=Splitmix(self.seed, draw))
        assert hits.ids.tolist() == [memory.id for memory in memories]
        scores = [self.reference.scorer.score(x, memory) for memory in memories]
        assert hits.scores.tolist() == pytest.approx(scores, rel=1e-6)
        receipt = hits.receipt
        assert receipt.branch == ("exploit" if triple is None else "leaf" if triple[1] is None else "node")
        if receipt.branch == "node":
            assert receipt.decision.action == (triple[1] is Side.RIGHT)
        assert len(self.tree.explain(x).steps) == len(self.reference.path(x).steps)
        self.queries.append((x, hits, triple, memories))

    @rule(which=st.integers(0, 10**6), given=st.lists(rewards, min_size=12, max_size=12))
    def reward(self, which, given):
        assume(self.queries)
        x, hits, triple, memories = self.queries.pop(which % len(self.queries))
        rewarded = [(m, r) for m, r in zip(memories, given, strict=False) if r is not None]
        skipped = self.reference.update(x, rewarded, triple)
        assert self.tree.reward(hits, given[: len(hits)]).skipped == skipped

    @invariant()
    def trees_are_equal(self):
        self.tree.check()
        self.reference.check()
        assert sorted(self.tree) == sorted(self.stored)
        if self.tree.index is None:
            return
        arrays = self.tree.index.arrays()
        assert arrays["row_ids"][: len(self.tree)].tolist() == [memory.id for memory in self.reference.memories]
        self.compare(arrays, int(self.tree.index.counters[ROOT]), self.reference.root)

    def compare(self, arrays, node, expected):
        row = arrays["nodes"][node]
        assert row[COUNT] == expected.n
        assert (row[LEFT] < 0) == expected.is_leaf
        if expected.is_leaf:
            rows = arrays["slots"][row[START] : row[START] + row[COUNT]]
            assert arrays["row_ids"][rows].tolist() == [memory.id for memory in expected.memories]
            return
        assert (row[UPDATES], row[MISTAKES]) == (expected.updates, expected.mistakes)
        self.compare_routers(arrays, node, expected)
        self.compare(arrays, row[LEFT], expected.left)
        self.compare(arrays, row[RIGHT], expected.right)

    def compare_routers(self, arrays, node, expected):
        learned = {name: weight for name, weight in expected.learner.weights.items() if weight and name != CONSTANT}
        bias = expected.learner.weights.get(CONSTANT, 0.0)
        if "routers" in arrays:
            *router, engine_bias, threshold, _ = arrays["routers"][node].tolist()
            weights = {j: weight for j, weight in enumerate(router) if weight}
        else:
            engine_bias, threshold = arrays["offsets"][node, [BIAS, THRESHOLD]].tolist()
            first, size, _ = arrays["tables"][node]
            names = {number: name for name, number in self.number_of.items()}
            table = arrays["table_words"][first : first + size]
            entries = zip(table[:, FEATURE].tolist(), table.view(np.float32)[:, WEIGHT].tolist(), strict=True)
            weights = {names[f]: w for f, w in entries if f >= 0 and w}
        assert (weights, engine_bias, threshold) == (learned, bias, expected.threshold)

    def teardown(self):
        if getattr(self, "stored", None):
            for id, x in self.stored.items():
                key = self.tree.key(id)
                assert key == x if isinstance(x, dict) else np.array_equal(key, x)


class DenseComparison(Comparison):
    """With dense keys."""

    keys = dense_keys


class SparseComparison(Comparison):
    """With sparse keys."""

    keys = sparse_keys


def case_for(machine):
    case = machine.TestCase
    case.settings = settings(max_examples=25, stateful_step_count=30)
    return pytest.mark.boundscheck(case)


TestDenseKeys = case_for(DenseComparison)
TestSparseKeys = case_for(SparseComparison)
