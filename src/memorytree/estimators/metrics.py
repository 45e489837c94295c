"""Metrics of multi-label classification and retrieval.

Labels are columns of an indicator matrix, dense or sparse. Ranked labels are rows of column numbers, best first, with -1
behind the last, as `MemoryTreeMultilabelClassifier.predict_topk` returns them when it was fitted on an indicator matrix.
(scikit-learn's F1 and Hamming loss take a matrix of one column for classes, and its Hamming loss is a share of all labels.)
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from memorytree.errors import InvalidOption
from memorytree.estimators.arrays import Matrix

__all__ = [
    "centered_reward",
    "hamming_loss",
    "macro_f1",
    "mean_reward",
    "micro_f1",
    "precision_at_k",
    "propensities",
    "propensity_scored_precision_at_k",
]


def hamming_loss(y_true: Matrix, y_pred: Matrix) -> float:
    """The mean number of wrong labels in a row, extra and missing ones together.

    Parameters
    ----------
    y_true, y_pred : {array, sparse matrix} of shape (n_samples, n_labels)
        True and predicted labels.

    Returns
    -------
    float
        0 is best.

    Examples
    --------
    >>> hamming_loss(np.array([[1, 1, 0], [0, 0, 1]]), np.array([[1, 0, 1], [0, 0, 1]]))
    1.0
    """
    _, missed, extra = _counts(y_true, y_pred)
    return float((missed + extra).sum() / y_true.shape[0])


def micro_f1(y_true: Matrix, y_pred: Matrix) -> float:
    """The F1 score of all decisions together; frequent labels count for more.

    Parameters
    ----------
    y_true, y_pred : {array, sparse matrix} of shape (n_samples, n_labels)
        True and predicted labels.

    Returns
    -------
    float
        1 is best.

    Examples
    --------
    >>> round(micro_f1(np.array([[1, 1, 0], [0, 0, 1]]), np.array([[1, 0, 1], [0, 0, 1]])), 3)
    0.667
    """
    right, missed, extra = (count.sum() for count in _counts(y_true, y_pred))
    return float(2 * right / max(2 * right + missed + extra, 1))


def macro_f1(y_true: Matrix, y_pred: Matrix) -> float:
    """The mean F1 score of labels, which all count the same; a label that is neither true nor predicted anywhere has 0.

    Parameters
    ----------
    y_true, y_pred : {array, sparse matrix} of shape (n_samples, n_labels)
        True and predicted labels.

    Returns
    -------
    float
        1 is best.

    Examples
    --------
    >>> macro_f1(np.array([[1, 0], [1, 0], [0, 1]]), np.array([[1, 0], [1, 0], [0, 0]]))
    0.5
    """
    right, missed, extra = _counts(y_true, y_pred)
    return float((2 * right / np.maximum(2 * right + missed + extra, 1)).sum() / max(len(right), 1))


def precision_at_k(y_true: Matrix, ranked: np.ndarray, k: int) -> float:
    """The share of right labels among the first k, over all rows.

    Parameters
    ----------
    y_true : {array, sparse matrix} of shape (n_samples, n_labels)
        True labels.
    ranked : ndarray of shape (n_samples, >= k)
        Ranked labels.
    k : int
        How many labels of each row count.

    Returns
    -------
    float
        1 is best.

    Examples
    --------
    >>> precision_at_k(np.array([[1, 1, 0], [0, 0, 1]]), np.array([[0, 2], [2, -1]]), k=2)
    0.5
    """
    return float(_right(y_true, ranked, k).mean())


def propensities(counts: np.ndarray, rows: int, a: float = 0.55, b: float = 1.5) -> np.ndarray:
    """The estimated probability that a true label was recorded, by the label's frequency among training rows.

    Large collections lack labels, rare ones most; precision weighted by inverse propensities makes up for it. The estimate
    of Jain, Prabhu and Varma (2016): 1 / (1 + C (count + b)^-a) with C = (log rows - 1) (b + 1)^a.

    Parameters
    ----------
    counts : ndarray of shape (n_labels,)
        Training rows with each label.
    rows : int
        Training rows.
    a, b : float
        Parameters of the estimate.

    Returns
    -------
    ndarray of shape (n_labels,)
        From 0 to 1.

    Examples
    --------
    >>> propensities(np.array([1, 100]), rows=1000).round(2).tolist()
    [0.14, 0.56]
    """
    scale = max(np.log(rows) - 1, 0.0) * (b + 1) ** a  # not negative for very few rows
    return np.asarray(1 / (1 + scale * (np.asarray(counts) + b) ** -a))


def propensity_scored_precision_at_k(y_true: Matrix, ranked: np.ndarray, k: int, propensity: np.ndarray) -> float:
    """Precision at k in which a right label counts 1 / propensity, as a share of the highest possible value.

    Parameters
    ----------
    y_true : {array, sparse matrix} of shape (n_samples, n_labels)
        True labels.
    ranked : ndarray of shape (n_samples, >= k)
        Ranked labels.
    k : int
        How many labels of each row count.
    propensity : ndarray of shape (n_labels,)
        As `propensities` returns it.

    Returns
    -------
    float
        1 is best.

    Examples
    --------
    >>> propensity_scored_precision_at_k(np.array([[1, 1]]), np.array([[0, 1]]), 1, np.array([0.5, 0.25]))
    0.5
    """
    right, gains = _right(y_true, ranked, k), 1 / np.asarray(propensity)
    if gains.shape != (y_true.shape[1],):
        raise InvalidOption(f"{y_true.shape[1]} labels need as many propensities, not an array of shape {gains.shape}")
    earned = float((right * np.where(ranked[:, :k] < 0, 0, gains[ranked[:, :k]])).sum())
    rows = scipy.sparse.csr_matrix(y_true)
    possible = 0.0
    for first, last in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        present = gains[rows.indices[first:last][rows.data[first:last] != 0]]
        possible += float(np.sort(present)[-k:].sum())
    return earned / possible if possible else 0.0


def mean_reward(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    """The mean cosine between the features of the right value and of the returned value, over all rows.

    Parameters
    ----------
    y_true, y_pred : ndarray of shape (n_samples, n_features)
        Features of right and returned values.

    Returns
    -------
    float
        1 is best.

    Examples
    --------
    >>> mean_reward(np.array([[1.0, 0.0]]), np.array([[2.0, 0.0]]))
    1.0
    """
    _check_shapes("matrices", y_true, y_pred)
    return float(np.mean(np.sum(_unit(y_true) * _unit(y_pred), axis=1)))


def centered_reward(y_true: np.ndarray, y_pred: np.ndarray, center: np.ndarray) -> float:
    """`mean_reward` after `center` was subtracted: a value that is somewhat similar to all others earns nothing by that.

    Parameters
    ----------
    y_true, y_pred : ndarray of shape (n_samples, n_features)
        Features of right and returned values.
    center : ndarray of shape (n_features,)
        The mean features of all memories.

    Returns
    -------
    float
        1 is best.

    Examples
    --------
    >>> center = np.array([0.7, 0.3])
    >>> round(centered_reward(np.array([[0.0, 1.0]]), np.array([[0.0, 2.0]]), center), 6)
    1.0
    """
    _check_shapes("matrices", y_true, y_pred)
    return mean_reward(_unit(y_true) - center, _unit(y_pred) - center)


def _shape(one: object) -> tuple[int, ...] | str:
    """The shape of an array, or the type of another object."""
    shape: tuple[int, ...] | str = getattr(one, "shape", type(one).__name__)
    return shape


def _check_shapes(what: str, first: object, second: object) -> None:
    """Raise unless both are matrices of one shape with at least one row."""
    shape = _shape(first)
    if isinstance(shape, str) or shape != _shape(second) or len(shape) != 2 or not shape[0]:
        raise InvalidOption(f"two {what} of one shape, with a row or more, are needed, not {shape} and {_shape(second)}")


def _counts(y_true: Matrix, y_pred: Matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How often each label was predicted correctly, missed, and predicted wrongly."""
    _check_shapes("indicator matrices", y_true, y_pred)
    true, predicted = (scipy.sparse.csr_matrix(one).astype(bool).astype(np.int64) for one in (y_true, y_pred))
    right, n_true, n_predicted = (np.asarray(one.sum(axis=0)).ravel() for one in (true.multiply(predicted), true, predicted))
    return right, n_true - right, n_predicted - right


def _right(y_true: Matrix, ranked: np.ndarray, k: int) -> np.ndarray:
    """Whether each of the first k ranked labels of each row is true."""
    shapes = _shape(y_true), _shape(ranked)
    if any(isinstance(shape, str) or len(shape) != 2 or not shape[0] for shape in shapes):
        raise InvalidOption(f"an indicator matrix and an array of ranked labels are needed, not {shapes[0]} and {shapes[1]}")
    if k < 1 or ranked.shape[1] < k or ranked.shape[0] != y_true.shape[0]:
        raise InvalidOption(f"{y_true.shape[0]} rows of at least {k} ranked labels are needed, not {ranked.shape}")
    first = ranked[:, :k]
    if first.max(initial=-1) >= y_true.shape[1]:
        raise InvalidOption(f"label {first.max()} is ranked, but there are only {y_true.shape[1]}")
    rows = np.repeat(np.arange(len(first)), k)
    found = scipy.sparse.csr_matrix(y_true)[rows, np.maximum(first, 0).ravel()]
    return (np.asarray(found).reshape(first.shape) != 0) & (first >= 0)


def _unit(rows: np.ndarray) -> np.ndarray:
    """Rows at unit length."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(lengths, 1e-30), np.float64)
