"""Progressive validation: each row is predicted before it is learned from, so that every row is test data once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import NotFittedError

from memorytree.estimators.arrays import Matrix
from memorytree.progress import track

Step = Callable[[object, Hashable], object]
"""Predicts a row, learns from the row and its label, and returns the prediction."""


@dataclass
class ProgressiveResult:
    """The result of progressive validation.

    Attributes
    ----------
    rows : int
        How many rows there were.
    mistakes : int
        How many of them were predicted wrongly. A model that cannot predict yet is wrong.
    error : float
        Mistakes as a share of the rows.
    constant_error : float
        The error of the best constant prediction, the most frequent label.
    entropy_reduction : float
        log2 of the accuracy over the accuracy of the best constant prediction, in bits.
    curve : list of (int, float)
        (rows, error so far) after 1, 2, 4, 8 ... rows and at the end.

    Examples
    --------
    >>> result = ProgressiveResult()
    >>> for right in [False, True, True, True]:
    ...     result.add(right, "label")
    >>> result.error, result.curve
    (0.25, [(1, 1.0), (2, 0.5), (4, 0.25)])
    """

    rows: int = 0
    mistakes: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list)
    _labels: Counter[Hashable] = field(default_factory=Counter, repr=False)

    @property
    def error(self) -> float:
        """Mistakes as a share of the rows."""
        return self.mistakes / self.rows if self.rows else 0.0

    @property
    def constant_error(self) -> float:
        """The error of the best constant prediction."""
        return 1 - self._labels.most_common(1)[0][1] / self.rows if self.rows else 0.0

    @property
    def entropy_reduction(self) -> float:
        """log2 of the model's accuracy, less that of the best constant prediction, in bits."""
        if not self.rows:
            return 0.0
        with np.errstate(divide="ignore"):
            return float(np.log2(1 - self.error) - np.log2(1 - self.constant_error))

    def add(self, right: bool, label: Hashable) -> None:
        """Count one row.

        Parameters
        ----------
        right : bool
            Whether it was predicted correctly.
        label : hashable
            Its label.
        """
        self.rows += 1
        self.mistakes += not right
        self._labels[label] += 1
        if self.rows & (self.rows - 1) == 0:
            self.curve.append((self.rows, self.error))

    def __str__(self) -> str:
        return (
            f"{self.rows:,} rows: error {self.error:.4f} (constant {self.constant_error:.4f}), "
            f"entropy reduction {self.entropy_reduction:.2f} bits"
        )


def progressive_val_score(
    model: object, stream: Iterable[tuple[object, Hashable]], *, classes: object = None, verbose: bool = False
) -> ProgressiveResult:
    """Predict each row of a stream, then learn from it.

    Parameters
    ----------
    model : estimator
        Has ``predict_one(x)`` and ``learn_one(x, y)`` as in river, or ``predict(X)`` and ``partial_fit(X, y)`` as in
        scikit-learn.
    stream : iterable of (row, label)
        The rows.
    classes : array-like, default=None
        All labels, for models of scikit-learn that need them with the first row.
    verbose : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    ProgressiveResult
        Mistakes, error, and how the error developed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from memorytree.estimators import MemoryTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> order = np.random.default_rng(0).permutation(len(X))[:60]
    >>> result = progressive_val_score(MemoryTreeClassifier(random_state=0), zip(X[order], y[order]))
    >>> result.rows, result.error < 0.3
    (60, True)
    """
    result = ProgressiveResult()
    predict = _one_at_a_time(model) if hasattr(model, "predict_one") else _as_batches(model, classes)
    rows = track(list(stream), "one row after the other", True) if verbose else stream
    for x, y in rows:
        predicted = predict(x, y)
        result.add(predicted is not None and predicted == y, y)
    if not result.curve or result.curve[-1][0] != result.rows:
        result.curve.append((result.rows, result.error))
    return result


def _one_at_a_time(model: Any) -> Step:
    """The step of a model of river."""

    def step(x: object, y: Hashable) -> object:
        predicted: object = model.predict_one(x)
        model.learn_one(x, y)
        return predicted

    return step


def _as_batches(model: Any, classes: object) -> Step:
    """The step of a model of scikit-learn."""
    options = {} if classes is None else {"classes": classes}

    def step(x: object, y: Hashable) -> object:
        row, predicted = _matrix(x), None
        with suppress(NotFittedError):
            predicted = model.predict(row)[0]
        model.partial_fit(row, [y], **options)
        options.clear()  # classes are given once
        return predicted

    return step


def _matrix(x: Any) -> Matrix:
    """A row as a matrix of one row."""
    if getattr(x, "ndim", 1) == 2:
        return x
    return scipy.sparse.csr_matrix(x.reshape(1, -1)) if scipy.sparse.issparse(x) else np.asarray(x)[None]
