"""What classifiers that remember their rows have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from memorytree.engine.arrays import NONE
from memorytree.hits import HitMatrix, Hits
from memorytree.keys import kind_for

ROWS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float32, np.float64]}
"""What scikit-learn is to make of the rows it checks."""

PLAIN = (np.ndarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array)
NO_LABELS = "no_validation"  # scikit-learn's word
DISCRETE = "biuU"  # kinds of labels of which nothing need be asked but how many there are

# Sparse rows with more than this part of all features, and more than this many, are taken as dense: they hold pixels or
# measurements, of which all are to be compared, not words, of which few are shared.
THICK, MANY = 1 / 10, 8

Method = TypeVar("Method", bound=Callable[..., Any])


def all_or_nothing(method: Method) -> Method:
    """A method after whose errors the estimator is what it was. What was there before is not to be written to until nothing
    can be wrong any more; what the method makes anew is let go."""

    @wraps(method)
    def guarded(self: Any, *args: Any, **options: Any) -> Any:
        before = vars(self).copy()
        try:
            return method(self, *args, **options)
        except Exception:
            vars(self).clear()
            vars(self).update(before)
            raise

    return guarded  # type: ignore[return-value]


class Remembering(ClassifierMixin, BaseEstimator, ABC):
    """A classifier whose training rows are memories, with a model of its own for what it scores by them.

    For dense rows the model lives in the learned space of the memory, and follows it when that changes.
    """

    memory_: Any
    _model: Any
    _dense: bool
    _thick: bool  # whether sparse rows are taken as dense
    _settled: int  # how many memories had come when the space was found in which the model's weights are
    _planted: int  # memories when the trees were last planted

    @abstractmethod
    def _ask(self, X: Any) -> HitMatrix:
        """The memories that fit each row."""

    @abstractmethod
    def _notes(self) -> np.ndarray:
        """What is noted of the labels of each memory, by its id; NONE where the estimator did not store it."""

    def _is_own(self, ids: np.ndarray) -> np.ndarray:
        """Whether the estimator stored these memories; it knows nothing of the labels of those that others put in."""
        notes = self._notes()
        return (ids != NONE) & (ids < len(notes)) & (notes[np.minimum(ids, len(notes) - 1)] != NONE)

    def _own_ids(self) -> np.ndarray:
        """The memories that are there and that the estimator stored."""
        ids = np.array(list(self.memory_), np.int64)
        return ids[self._is_own(ids)]

    def _own_hits(self, hits: HitMatrix) -> HitMatrix:
        """Hits without those that others put in: they have no say."""
        strange = (hits.ids != NONE) & ~self._is_own(hits.ids)
        if strange.any():
            hits.ids[strange], hits.scores[strange] = NONE, -np.inf
            order = np.argsort(strange, axis=1, kind="stable")
            hits.ids, hits.scores = (np.take_along_axis(one, order, axis=1) for one in (hits.ids, hits.scores))
        return hits

    def _rows(self, X: Any, y: Any = NO_LABELS, *, reset: bool) -> Any:
        """Rows that are to be learned from, checked by scikit-learn and as keys; with labels if they are given."""
        if reset or not self._is_plain(X, y):
            checked = validate_data(self, X, y, reset=reset, **ROWS)
            X, *labels = checked if isinstance(checked, tuple) else (checked,)
        else:
            labels = [] if y is NO_LABELS else [y]
        if reset:
            self._thick = scipy.sparse.issparse(X) and X.nnz > X.shape[0] * max(THICK * X.shape[1], MANY)
        X = self._as_kept(X)
        (kind_for(X) if reset else self.memory_._keys).many(X)
        return (X, *labels) if labels else X

    def _is_plain(self, X: Any, y: Any = NO_LABELS) -> bool:
        """Whether scikit-learn would take these rows, and labels, as they are: its own checks, which also know data frames,
        lists and much else, take longer than learning from a row does."""
        if type(X) not in PLAIN or X.ndim != 2 or X.dtype not in ROWS["dtype"]:
            return False
        if X.shape[0] == 0 or X.shape[1] != self.n_features_in_ or hasattr(self, "feature_names_in_"):
            return False
        if y is not NO_LABELS and not (type(y) is np.ndarray and y.shape == X.shape[:1] and y.dtype.kind in DISCRETE):
            return False
        with np.errstate(over="ignore"):
            return bool(np.isfinite((X if type(X) is np.ndarray else X.data).sum()))

    def _as_kept(self, X: Any) -> Any:
        """Rows as the memory has them: thick ones dense, others in order, so that nobody has to put them in order again."""
        if not scipy.sparse.issparse(X):
            return X
        if self._thick:
            return X.toarray()
        if not X.has_canonical_format or not X.data.all():
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        return X

    def _asked(self, X: Any) -> Any:
        """Rows that are asked for, checked."""
        check_is_fitted(self, "memory_")
        X = self._as_kept(X if self._is_plain(X) else validate_data(self, X, reset=False, **ROWS))
        if not len(self.memory_):
            raise NotFittedError("all memories have been removed: there is nothing to predict from")
        return X

    def recall(self, X: Any) -> list[Hits]:
        """The memories behind each prediction, best first: `Hit(id, label or labels, score)`; the id is the row's number."""
        return list(self._ask(self._asked(X)))

    def _follow(self) -> bool:
        """Follow the memory into a new space (then True), or plant its trees anew if it has doubled since."""
        if not self._dense:
            return False
        core = self.memory_._core
        space = core.space
        if core.settled_at != self._settled:
            self._settled = core.settled_at
            self._model = self._model.in_space(space.width)
            return True
        if space.lessons and len(self.memory_) > 2 * self._planted:
            self._planted = len(self.memory_)
            self.memory_.learn()
        return False
