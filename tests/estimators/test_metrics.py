"""Metrics against plain Python and values computed by hand."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from memorytree.errors import InvalidOption
from memorytree.estimators import metrics


@st.composite
def judged(draw):
    rows, labels = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    ranked = np.array([rng.permutation(labels) for _ in range(rows)])
    ranked[rng.random(ranked.shape) < 0.2] = -1
    return rng.integers(0, 2, (rows, labels)), rng.integers(0, 2, (rows, labels)), ranked


@given(judged())
def test_hamming_loss_is_the_mean_symmetric_difference(case):
    truth, predicted, _ = case
    sizes = [len({*np.flatnonzero(t)} ^ {*np.flatnonzero(p)}) for t, p in zip(truth, predicted, strict=True)]
    assert metrics.hamming_loss(truth, predicted) == pytest.approx(np.mean(sizes))
    sparse = scipy.sparse.csr_matrix(truth), scipy.sparse.csr_matrix(predicted)
    assert metrics.hamming_loss(*sparse) == pytest.approx(np.mean(sizes))


@given(judged())
def test_precision_counts_right_labels_among_the_first_k(case):
    truth, _, ranked = case
    for k in range(1, ranked.shape[1] + 1):
        right = sum(truth[i, label] for i, row in enumerate(ranked) for label in row[:k] if label >= 0)
        for form in (truth, scipy.sparse.csr_matrix(truth)):
            assert metrics.precision_at_k(form, ranked, k) == pytest.approx(right / (k * len(truth)))


@given(judged())
def test_equal_propensities_give_the_share_of_possible_hits(case):
    truth, _, ranked = case
    for k in range(1, ranked.shape[1] + 1):
        possible = np.minimum(truth.sum(axis=1), k).sum()
        expected = metrics.precision_at_k(truth, ranked, k) * k * len(truth) / possible if possible else 0.0
        found = metrics.propensity_scored_precision_at_k(truth, ranked, k, np.full(truth.shape[1], 0.3))
        assert found == pytest.approx(expected)


def test_perfect_ranking_has_propensity_scored_precision_one():
    truth = np.array([[1, 0, 1], [0, 1, 0]])
    propensity = metrics.propensities(np.array([100, 1, 10]), 1000)
    assert np.all(np.diff(propensity[[1, 2, 0]]) > 0)  # frequent labels are recorded more often
    assert metrics.propensities(np.array([1]), 2).max() <= 1
    assert metrics.propensity_scored_precision_at_k(truth, np.array([[2], [1]]), 1, propensity) == pytest.approx(1)
    assert metrics.propensity_scored_precision_at_k(truth, np.array([[0], [1]]), 1, propensity) < 1


def test_micro_and_macro_f1_of_a_small_case():
    truth, predicted = np.array([[1, 0], [1, 0], [0, 1]]), np.array([[1, 0], [1, 0], [0, 0]])
    assert metrics.micro_f1(truth, predicted) == pytest.approx(0.8)
    assert metrics.macro_f1(truth, predicted) == pytest.approx(0.5)


def test_average_answer_has_no_centered_reward():
    rng = np.random.default_rng(0)
    images = np.abs(rng.standard_normal((200, 8)))
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    center = images.mean(axis=0)
    usual = np.tile(images[np.argmax(images @ center)], (200, 1))
    assert metrics.mean_reward(images, usual) > 0.6
    assert abs(metrics.centered_reward(images, usual, center)) < 0.1
    assert metrics.centered_reward(images, images, center) == pytest.approx(1)


def test_single_column_is_a_label_and_not_a_class():
    truth, predicted = np.array([[1], [0]]), np.array([[0], [0]])
    assert metrics.micro_f1(truth, predicted) == metrics.macro_f1(truth, predicted) == 0
    assert metrics.hamming_loss(truth, predicted) == 0.5


def test_different_shapes_raise():
    with pytest.raises(InvalidOption, match="one shape"):
        metrics.hamming_loss(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(InvalidOption, match="one shape"):
        metrics.micro_f1([[1, 0]], [[1, 0]])
    with pytest.raises(InvalidOption, match="one shape"):
        metrics.mean_reward(np.ones((1, 2)), np.ones((3, 2)))
    with pytest.raises(InvalidOption, match="only 2"):
        metrics.precision_at_k(np.ones((1, 2)), np.array([[5]]), 1)


def test_lists_and_empty_matrices_raise():
    ones, none = np.ones((2, 3)), np.ones((0, 3))
    for call in (metrics.mean_reward, metrics.hamming_loss, metrics.micro_f1, metrics.macro_f1):
        for wrong in (ones.tolist(), none):
            with pytest.raises(InvalidOption, match="one shape"):
                call(wrong, wrong)
    with pytest.raises(InvalidOption, match="one shape"):
        metrics.centered_reward(ones.tolist(), ones, np.ones(3))
    for truth, ranked in ((ones, [[0], [1]]), (ones.tolist(), np.zeros((2, 1), int)), (none, np.zeros((0, 1), int))):
        with pytest.raises(InvalidOption, match="ranked labels are needed"):
            metrics.precision_at_k(truth, ranked, 1)
    with pytest.raises(InvalidOption, match="3 labels need as many propensities"):
        metrics.propensity_scored_precision_at_k(ones, np.zeros((2, 1), int), 1, np.ones(2))


def test_too_few_ranked_labels_raise():
    with pytest.raises(InvalidOption, match="at least 3"):
        metrics.precision_at_k(np.ones((2, 4)), np.zeros((2, 2), int), 3)
