"""Learners, scorers and trees for the tests of the reference."""

import math

import numpy as np
from hypothesis import strategies as st

from memorytree.reference import (
    AdagradLinear,
    Perceptron,
    ReferenceTree,
    RiverLearner,
    SklearnLearner,
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


class RecordingRouter:
    """A router that sends positive values of the first feature right, and records its updates."""

    def __init__(self):
        self.updates = []

    def predict(self, x):
        return float(x[0])

    def update(self, x, y, weight=1.0):
        self.updates.append(y * weight)


class ConstantRouter:
    """A router that does not learn and separates nothing."""

    def predict(self, x):
        return 0.0

    def update(self, x, y, weight=1.0):
        pass


class LeftRouter(RecordingRouter):
    """A router that orders the keys but sends them all left, until a threshold is set."""

    def predict(self, x):
        return float(x[0]) - 1000.0


class ScriptedRandom:
    """Random numbers from a list."""

    def __init__(self, *draws):
        self.draws = list(draws)

    def random(self):
        return self.draws.pop(0)

    def below(self, n):
        draw = self.draws.pop(0)
        assert 0 <= draw < n
        return draw


class TableScorer:
    """Scores by a table, and records its updates."""

    def __init__(self):
        self.table, self.updates = {}, []

    def score(self, x, memory):
        return self.table.get(memory.id, 0.0)

    def update(self, x, memory, reward):
        self.updates.append((memory.id, reward))


LEARNERS = {"adagrad": AdagradLinear, "perceptron": Perceptron, "sgd": sgd, "river": river_logistic}
DENSE_LEARNERS = {**LEARNERS, "naive bayes": naive_bayes}
SPARSE_LEARNERS = {name: LEARNERS[name] for name in ("adagrad", "perceptron", "river")}

numbers = st.integers(-8, 8).map(lambda i: i / 4)
dense_keys = st.lists(numbers, min_size=3, max_size=3).map(np.array)
sparse_keys = st.dictionaries(st.sampled_from("abcdef"), numbers.filter(bool), min_size=1, max_size=4)
KEYS = {"dense": dense_keys, "sparse": sparse_keys}
PAIRS = [("dense", name) for name in DENSE_LEARNERS] + [("sparse", name) for name in SPARSE_LEARNERS]
BOUND_LEARNERS = {"adagrad": AdagradLinear, "perceptron": Perceptron, "sgd": sgd, "unteachable": RecordingRouter}
SIZE = {"adagrad": 400, "perceptron": 400, "sgd": 100, "unteachable": 400}


def internal_nodes(tree):
    return [v for v, _ in tree.nodes() if not v.is_leaf]


def grid(n, seed=0):
    """n different keys of two features in random order."""
    rng = np.random.default_rng(seed)
    side = math.ceil(math.sqrt(n))
    keys = np.array([(i, j) for i in range(side) for j in range(side)], dtype=float)
    return list(rng.permutation(keys)[:n] / side)


def two_leaf_tree(values=range(-6, 6), **settings):
    """A tree of one router and two leaves: negative keys left, the others right."""
    tree = ReferenceTree(RecordingRouter, reroutes=0, **settings)
    for value in values:
        tree.insert(np.array([value + 0.5]), value)
    assert tree.depth() == 1
    return tree
