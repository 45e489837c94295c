"""Scores of classes for sparse rows, against a few lines of NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from memorytree.engine.arrays import NONE
from memorytree.estimators.sparse_classes import CENTROID, EVIDENCE, FIGURES, FINE, SparseClassModel
from memorytree.keys import kind_for


@pytest.fixture
def rows(rng):
    X = sp.random(60, 30, density=0.3, random_state=0, data_rvs=lambda n: rng.normal(size=n)).tocsr().astype(np.float32)
    return X, rng.integers(4, size=60)


def batch(X):
    return kind_for(X).many(X)[0]


def remembered(X, codes):
    model = SparseClassModel()
    model.make_room(4)
    model.join(codes, np.arange(len(codes)), batch(X))
    return model


def differences(model, figure, X, codes):
    """How much more this figure speaks for each label than for the first, as the model has it."""
    model.mixture[:] = np.eye(FIGURES)[figure]
    ids = np.array([[np.flatnonzero(codes == label)[0] for label in range(4)]] * X.shape[0])
    found, chances = model.score(ids, np.zeros(ids.shape, np.float32), codes, batch(X))
    assert np.array_equal(found, [[0, 1, 2, 3]] * X.shape[0])
    return np.log(chances / chances[:, :1])


def unit(X):
    X = X.toarray().astype(float)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_evidence_is_the_logarithm_of_what_rows_have_on_average(rows):
    X, codes = rows
    model = remembered(X[:50], codes[:50])
    asked, means = unit(X[50:]), np.stack([unit(X[:50])[codes[:50] == label].mean(axis=0) for label in range(4)])
    agree = asked[:, None] * means[None] > 0
    told = np.sum(np.where(agree, np.abs(asked)[:, None] * np.log(1 + FINE * np.abs(means)[None]), 0.0), axis=2)
    told /= np.log(1 + FINE)
    np.testing.assert_allclose(differences(model, EVIDENCE, X[50:], codes[:50]), told - told[:, :1], atol=1e-5)


def test_a_centroid_is_met_at_its_angle(rows):
    X, codes = rows
    model = remembered(X[:50], codes[:50])
    sums = np.stack([unit(X[:50])[codes[:50] == label].sum(axis=0) for label in range(4)])
    cosines = unit(X[50:]) @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T
    np.testing.assert_allclose(differences(model, CENTROID, X[50:], codes[:50]), cosines - cosines[:, :1], atol=1e-5)


def test_a_row_is_no_evidence_for_its_own_label():
    """Two labels that share nothing: what a stored row has in common with its own label is itself, and teaches nothing."""
    X = sp.csr_matrix(np.eye(4, dtype=np.float32))
    codes = np.array([0, 0, 1, 1])
    model = SparseClassModel()
    model.make_room(2)
    model.join(codes, np.arange(4), batch(X))
    before = model.mixture.copy()
    ids = np.array([[1, 2], [0, 2], [3, 0], [2, 0]])
    model.learn(ids, np.zeros(ids.shape, np.float32), codes, codes, batch(X), np.arange(4), True)
    assert model.mixture[EVIDENCE] == before[EVIDENCE]
    assert model.mixture[CENTROID] == before[CENTROID]
    # A row that is not stored is told by what it shares.
    model.learn(ids, np.zeros(ids.shape, np.float32), codes, codes, batch(X), np.full(4, NONE), True)
    assert model.mixture[EVIDENCE] > before[EVIDENCE]


def test_what_earlier_versions_pickled_is_read(rows):
    X, codes = rows
    model = remembered(X, codes)
    state = {**vars(model), "mixture": model.mixture[:EVIDENCE], "mixture_squares": model.mixture_squares[:EVIDENCE]}
    again = SparseClassModel.__new__(SparseClassModel)
    again.__setstate__(state)
    assert len(again.mixture) == len(again.mixture_squares) == FIGURES
    assert again.mixture[EVIDENCE] == 0
