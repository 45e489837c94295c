"""The learners of the reference, and the adapters to scikit-learn and river."""

import math

import numpy as np
import pytest
from hypothesis import given

from memorytree.reference import (
    AdagradLinear,
    Distance,
    Memory,
    Perceptron,
    SklearnLearner,
)
from tests.reference.stubs import (
    DENSE_LEARNERS,
    dense_keys,
    grid,
)


@pytest.mark.parametrize("learner", DENSE_LEARNERS)
def test_learners_start_at_zero_and_learn_a_line(learner):
    g = DENSE_LEARNERS[learner]()
    rng = np.random.default_rng(0)
    assert g.predict(np.zeros(2)) == 0
    for x in rng.normal(size=(200, 2)):
        g.update(x, 1 if x[0] > 0 else -1, 0.5)
    before = g.predict(np.ones(2))
    g.update(np.ones(2), -1, 0.0)
    assert g.predict(np.ones(2)) == before  # a weight of 0 changes nothing
    assert np.mean([(g.predict(x) > 0) == (x[0] > 0) for x in rng.normal(size=(100, 2))]) > 0.85


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_nan_prediction_counts_as_zero():
    from sklearn.naive_bayes import GaussianNB

    g = SklearnLearner(GaussianNB())
    g.update(np.ones(2), 1)
    assert g.predict(np.zeros(2)) == 0


def test_model_without_sample_weights_learns():
    class Model:
        def __init__(self):
            self.rows = []

        def partial_fit(self, rows, y, classes):
            self.rows.append((rows.tolist(), y, classes))

    g = SklearnLearner(Model())
    g.update([1, 2], -1, 0.5)
    assert g.model.rows == [([[1.0, 2.0]], [-1], [-1, 1])]


@pytest.mark.parametrize("learner", [AdagradLinear, Perceptron])
def test_arrays_and_mappings_give_equal_weights(learner):
    dense, sparse = learner(), learner()
    for x, y in zip(grid(20), [1, -1] * 10, strict=True):
        dense.update(x, y, 0.7)
        sparse.update({i: value for i, value in enumerate(x) if value}, y, 0.7)
    assert dense.weights == sparse.weights


def test_adagrad_matches_its_formula():
    g = AdagradLinear(rate=0.5)
    g.update([2.0], 1)  # gradient -1: slopes -2 and -1, each step is the rate
    assert g.predict([2.0]) == 1.5
    g.update([2.0], 1)  # a margin of 1 is enough
    assert g.predict([2.0]) == 1.5
    g.update([2.0], -1, weight=2.0)  # gradient 2: slopes 4 and 2 over sqrt(4 + 16) and sqrt(1 + 4)
    assert g.predict([2.0]) == pytest.approx(1.5 - 0.5 * (2 * 4 / math.sqrt(20) + 2 / math.sqrt(5)))


@pytest.mark.parametrize(("weight", "moved"), [(0.1, 0.0), (0.125, 0.25), (1.0, 1.0), (9.0, 4.0)])
def test_perceptron_rounds_importance_to_quarters(weight, moved):
    g = Perceptron(step=0.5)
    g.update([0.0], 1, weight)
    assert g.predict([0.0]) == 0.5 * moved


def test_perceptron_does_not_learn_from_correct_predictions():
    g = Perceptron()
    g.update([1.0], 1)
    g.update([1.0], 1)
    assert g.predict([1.0]) == 1.0


@given(dense_keys, dense_keys)
def test_distance_is_equal_for_arrays_and_mappings(a, b):
    memory, sparse = Memory(0, b, None), Memory(0, dict(enumerate(b)), None)
    score = Distance().score(a, memory)
    assert score == pytest.approx(-np.linalg.norm(a - b))
    assert Distance().score(dict(enumerate(a)), sparse) == score
