"""Scores of classes for sparse rows, against a few lines of NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp

from memorytree.estimators.class_scorers import SparseClassScorer
from memorytree.estimators.kernels.classes import N_FEATURES
from memorytree.estimators.kernels.records import ClassHits
from memorytree.estimators.kernels.sparse_classes import CENTROID, EVIDENCE, RESOLUTION
from memorytree.keys import keys_for


@pytest.fixture
def rows(rng):
    X = sp.random(60, 30, density=0.3, random_state=0, data_rvs=lambda n: rng.normal(size=n)).tocsr().astype(np.float32)
    return X, rng.integers(4, size=60)


def batch(X):
    return keys_for(X).batch(X)[0]


def scorer_of(X, classes):
    scorer = SparseClassScorer()
    scorer.reserve(classes.max() + 1)
    scorer.join(classes, np.arange(len(classes)), batch(X))
    return scorer


def hits_of(ids, classes):
    return ClassHits(ids, np.zeros(ids.shape, np.float32), classes)


def differences(scorer, feature, X, classes):
    """A feature of each class less that of the first class, from the probabilities of the scorer."""
    scorer.weights.mixture[:] = np.eye(N_FEATURES)[feature]
    ids = np.array([[np.flatnonzero(classes == label)[0] for label in range(4)]] * X.shape[0])
    scores = scorer.score(hits_of(ids, classes), batch(X))
    assert np.array_equal(scores.classes, [[0, 1, 2, 3]] * X.shape[0])
    return np.log(scores.probabilities / scores.probabilities[:, :1])


def unit(X):
    X = X.toarray().astype(float)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_evidence_is_the_logarithm_of_mean_columns(rows):
    X, classes = rows
    scorer = scorer_of(X[:50], classes[:50])
    queries, means = unit(X[50:]), np.stack([unit(X[:50])[classes[:50] == label].mean(axis=0) for label in range(4)])
    agree = queries[:, None] * means[None] > 0
    logarithms = np.log(1 + RESOLUTION * np.abs(means)[None]) / np.log(1 + RESOLUTION)
    evidence = np.sum(np.where(agree, np.abs(queries)[:, None] * logarithms, 0.0), axis=2)
    found = differences(scorer, EVIDENCE, X[50:], classes[:50])
    np.testing.assert_allclose(found, evidence - evidence[:, :1], atol=1e-5)


def test_centroid_feature_is_the_cosine(rows):
    X, classes = rows
    scorer = scorer_of(X[:50], classes[:50])
    sums = np.stack([unit(X[:50])[classes[:50] == label].sum(axis=0) for label in range(4)])
    cosines = unit(X[50:]) @ (sums / np.linalg.norm(sums, axis=1, keepdims=True)).T
    found = differences(scorer, CENTROID, X[50:], classes[:50])
    np.testing.assert_allclose(found, cosines - cosines[:, :1], atol=1e-5)


def test_stored_row_is_no_evidence_for_its_own_class():
    """Rows have no columns in common: once a stored row is subtracted, nothing of its class is left to learn from."""
    X, classes = sp.csr_matrix(np.eye(4, dtype=np.float32)), np.array([0, 0, 1, 1])
    scorer = scorer_of(X, classes)
    mixture = scorer.weights.mixture
    before = mixture.copy()
    hits = hits_of(np.array([[1, 2], [0, 2], [3, 0], [2, 0]]), classes)
    scorer.learn(hits, classes, np.arange(4), batch(X), True)
    assert mixture[EVIDENCE] == before[EVIDENCE]
    assert mixture[CENTROID] == before[CENTROID]
    # A row that is not stored is not subtracted.
    scorer.learn(hits, classes, None, batch(X), True)
    assert mixture[EVIDENCE] > before[EVIDENCE]
