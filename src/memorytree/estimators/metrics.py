"""Figures by which multi-label classification and retrieval are judged, in one place.

Labels are columns of an indicator matrix, dense or sparse; ranked labels are rows of column numbers, best first, -1 where
there are no more (`MemoryTreeMultilabelClassifier.predict_topk` gives them so when it was fitted on an indicator matrix).
(scikit-learn's own F1 and Hamming loss take a matrix of one column for classes, and the latter is a share of all labels.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from memorytree.errors import InvalidOption

__all__ = [
    "centered_reward",
    "hamming_loss",
    "macro_f1",
    "mean_reward",
    "micro_f1",
    "precision_at",
    "propensities",
    "propensity_scored_precision_at",
]


def hamming_loss(truth: Any, predicted: Any) -> float:
    """The mean number of labels that are wrong in a row, too many and missing ones together.

    Example:
        >>> hamming_loss(np.array([[1, 1, 0], [0, 0, 1]]), np.array([[1, 0, 1], [0, 0, 1]]))
        1.0
    """
    _, missed, extra = _counts(truth, predicted)
    return float((missed + extra).sum() / truth.shape[0])


def micro_f1(truth: Any, predicted: Any) -> float:
    """The F1 score of all decisions together: frequent labels count for more."""
    right, missed, extra = (count.sum() for count in _counts(truth, predicted))
    return float(2 * right / max(2 * right + missed + extra, 1))


def macro_f1(truth: Any, predicted: Any) -> float:
    """The mean F1 score of labels: every label counts the same; one that neither occurs nor is predicted has 0."""
    right, missed, extra = _counts(truth, predicted)
    return float((2 * right / np.maximum(2 * right + missed + extra, 1)).sum() / max(len(right), 1))


def precision_at(k: int, truth: Any, ranked: np.ndarray) -> float:
    """The share of the first k labels that are right, over all rows.

    Example:
        >>> precision_at(2, np.array([[1, 1, 0], [0, 0, 1]]), np.array([[0, 2], [2, -1]]))
        0.5
    """
    return float(_right(k, truth, ranked).mean())


def propensities(counts: np.ndarray, rows: int, a: float = 0.55, b: float = 1.5) -> np.ndarray:
    """How likely a label that is true is to have been noted, by how often it occurs among training rows.

    The estimate of Jain, Prabhu and Varma (2016): 1 / (1 + C (count + b)^-a) with C = (log rows - 1) (b + 1)^a. Labels are
    missing from large collections, the rare ones most; dividing by this makes up for it.
    """
    scale = max(np.log(rows) - 1, 0.0) * (b + 1) ** a  # so few rows that it would be negative tell nothing is missing
    return np.asarray(1 / (1 + scale * (np.asarray(counts) + b) ** -a))


def propensity_scored_precision_at(k: int, truth: Any, ranked: np.ndarray, propensity: np.ndarray) -> float:
    """Precision at k with each right label counted 1 / propensity, as a share of the most that could be had."""
    right, gains = _right(k, truth, ranked), 1 / np.asarray(propensity)
    if gains.shape != (truth.shape[1],):
        raise InvalidOption(f"{truth.shape[1]} labels need as many propensities, not an array of shape {gains.shape}")
    earned = float((right * np.where(ranked[:, :k] < 0, 0, gains[ranked[:, :k]])).sum())
    rows = scipy.sparse.csr_matrix(truth)
    possible = 0.0
    for first, last in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        there = gains[rows.indices[first:last][rows.data[first:last] != 0]]
        possible += float(np.sort(there)[-k:].sum())
    return earned / possible if possible else 0.0


def mean_reward(truth: np.ndarray, returned: np.ndarray) -> float:
    """The mean cosine between the features of what was right and of what was returned, row by row."""
    _check_shapes("matrices", truth, returned)
    return float(np.mean(np.sum(_unit(truth) * _unit(returned), axis=1)))


def centered_reward(truth: np.ndarray, returned: np.ndarray, center: np.ndarray) -> float:
    """The same after `center`, the mean of all memories' features, was taken away: an answer that is a little like
    everything earns nothing by that."""
    _check_shapes("matrices", truth, returned)
    return mean_reward(_unit(truth) - center, _unit(returned) - center)


def _shape(one: Any) -> tuple[int, ...] | str:
    """The shape of an array, or what there is instead."""
    return getattr(one, "shape", type(one).__name__)


def _check_shapes(what: str, first: Any, second: Any) -> None:
    """Raise unless there are two matrices of one shape with something in them."""
    shape = _shape(first)
    if isinstance(shape, str) or shape != _shape(second) or len(shape) != 2 or not shape[0]:
        raise InvalidOption(f"two {what} of one shape, with a row or more, are needed, not {shape} and {_shape(second)}")


def _counts(truth: Any, predicted: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each label how often it was rightly predicted, missed, and wrongly predicted."""
    _check_shapes("indicator matrices", truth, predicted)
    true, told = (scipy.sparse.csr_matrix(one).astype(bool).astype(np.int64) for one in (truth, predicted))
    right, all_true, all_told = (np.asarray(one.sum(axis=0)).ravel() for one in (true.multiply(told), true, told))
    return right, all_true - right, all_told - right


def _right(k: int, truth: Any, ranked: np.ndarray) -> np.ndarray:
    """Whether each of the first k ranked labels of each row is true."""
    shapes = _shape(truth), _shape(ranked)
    if any(isinstance(shape, str) or len(shape) != 2 or not shape[0] for shape in shapes):
        raise InvalidOption(f"an indicator matrix and an array of ranked labels are needed, not {shapes[0]} and {shapes[1]}")
    if k < 1 or ranked.shape[1] < k or ranked.shape[0] != truth.shape[0]:
        raise InvalidOption(f"{truth.shape[0]} rows of at least {k} ranked labels are needed, not {ranked.shape}")
    first = ranked[:, :k]
    if first.max(initial=-1) >= truth.shape[1]:
        raise InvalidOption(f"label {first.max()} is ranked, but there are only {truth.shape[1]}")
    rows = np.repeat(np.arange(len(first)), k)
    found = scipy.sparse.csr_matrix(truth)[rows, np.maximum(first, 0).ravel()]
    return (np.asarray(found).reshape(first.shape) != 0) & (first >= 0)


def _unit(rows: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-30), np.float64)
