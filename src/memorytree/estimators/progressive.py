"""Progressive validation: every row is predicted before it is learned from, so that none is wasted or seen twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.exceptions import NotFittedError

from memorytree.progress import track


@dataclass
class Progress:
    """What came of a stream.

    Attributes:
        rows: how many rows there were.
        mistakes: how many were predicted wrongly (a model that cannot answer yet is wrong).
        error: their share.
        constant_error: the error of the best constant answer, the most frequent label.
        entropy_reduction: log2 of the accuracy over the accuracy of that constant answer: the bits the model is worth.
        curve: (rows, error so far), taken at 1, 2, 4, 8 ... rows and at the end.
    """

    rows: int = 0
    mistakes: int = 0
    curve: list[tuple[int, float]] = field(default_factory=list)
    _labels: Counter = field(default_factory=Counter, repr=False)

    @property
    def error(self) -> float:
        """The share of mistakes."""
        return self.mistakes / self.rows if self.rows else 0.0

    @property
    def constant_error(self) -> float:
        """The error of the best constant answer."""
        return 1 - self._labels.most_common(1)[0][1] / self.rows if self.rows else 0.0

    @property
    def entropy_reduction(self) -> float:
        """Bits: log2 of the model's accuracy, less that of the best constant answer."""
        if not self.rows:
            return 0.0
        with np.errstate(divide="ignore"):
            return float(np.log2(1 - self.error) - np.log2(1 - self.constant_error))

    def note(self, right: bool, label: Any) -> None:
        """Count one row."""
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


def progressive(model: Any, stream: Iterable[tuple[Any, Any]], *, classes: Any = None, show: bool = False) -> Progress:
    """Predict each row of a stream, then learn from it.

    Args:
        model: has `predict_one(x)` and `learn_one(x, y)` as in river, or `predict(X)` and `partial_fit(X, y)` as in
            scikit-learn.
        stream: pairs (row, label).
        classes: all labels there will be, for models of scikit-learn that want to know them with the first row.
        show: show a progress bar.

    >>> from sklearn.datasets import load_iris
    >>> from memorytree.estimators import MemoryTreeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> order = np.random.default_rng(0).permutation(len(X))
    >>> progress = progressive(MemoryTreeClassifier(random_state=0), zip(X[order], y[order]))
    >>> progress.rows, progress.error < 0.2, progress.entropy_reduction > 1
    (150, True, True)
    """
    progress = Progress()
    by_one = hasattr(model, "predict_one")
    rows: Iterable[tuple[Any, Any]] = track(list(stream), "one row after the other", True) if show else stream
    for x, y in rows:
        if by_one:
            guess = model.predict_one(x)
            model.learn_one(x, y)
        else:
            row, guess = _matrix(x), None
            with suppress(NotFittedError):
                guess = model.predict(row)[0]
            model.partial_fit(row, [y], **({} if classes is None or progress.rows else {"classes": classes}))
        progress.note(guess is not None and guess == y, y)
    if not progress.curve or progress.curve[-1][0] != progress.rows:
        progress.curve.append((progress.rows, progress.error))
    return progress


def _matrix(x: Any) -> Any:
    """A row as a matrix of one row."""
    if getattr(x, "ndim", 1) == 2:
        return x
    return scipy.sparse.csr_matrix(x.reshape(1, -1)) if scipy.sparse.issparse(x) else np.asarray(x)[None]
