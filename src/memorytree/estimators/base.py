"""Base classes of the estimators: options, tags, checks of rows, and the memory behind the predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from memorytree.arguments import check_int
from memorytree.errors import InvalidOption
from memorytree.estimators import projection
from memorytree.estimators.arrays import Matrix
from memorytree.estimators.label_sets import ClassCodec, LabelCodec
from memorytree.keys import keys_for
from memorytree.results import NO_ID, HitMatrix, Hits
from memorytree.tree import MemoryTree

RandomState: TypeAlias = int | np.random.RandomState | None

ROW_CHECKS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float32, np.float64]}
"""Options of scikit-learn's check of rows."""

PLAIN_TYPES = (np.ndarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array)
NO_LABELS = "no_validation"  # scikit-learn's marker
DISCRETE = "biuU"  # kinds of label arrays that need no check of their values

# Sparse rows with more than this share of all columns, and more than this many entries, hold measurements, all of which are
# to be compared, rather than words, of which few are shared: they are taken as dense.
DENSE_SHARE, DENSE_ENTRIES = 1 / 10, 8

E = TypeVar("E", bound=BaseEstimator)
P = ParamSpec("P")
R = TypeVar("R")


def restore_on_error(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """Make a method leave the estimator as it was when it raises an exception.

    Attributes are restored, their contents are not: the method checks its arguments before it changes any object that was
    there before the call.
    """

    @wraps(method)
    def guarded(self: E, /, *args: P.args, **options: P.kwargs) -> R:
        before = vars(self).copy()
        try:
            return method(self, *args, **options)
        except Exception:
            vars(self).clear()
            vars(self).update(before)
            raise

    return guarded


class BaseMemoryEstimator(BaseEstimator):
    """An estimator that keeps its training rows in a `MemoryTree`.

    Parameters
    ----------
    beam : int or None
        How many leaves a query searches.
    capacity : int or None
        The most rows to keep.
    verbose : int
        1 shows a progress bar.
    random_state : int, RandomState or None
        Seed of everything random.
    """

    memory_: MemoryTree
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {}
    _minimums: ClassVar[dict[str, int]] = {"beam": 1, "capacity": 1}
    _may_be_none: ClassVar[tuple[str, ...]] = ("beam", "capacity")

    def __init__(self, *, beam: int | None, capacity: int | None, verbose: int, random_state: RandomState):
        self.beam = beam
        self.capacity = capacity
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_options(self) -> None:
        """Raise `InvalidOption` unless options are as `_choices` and `_minimums` have it."""
        for name, choices in self._choices.items():
            if getattr(self, name) not in choices:
                raise InvalidOption(f"{name} must be one of {', '.join(choices)}, not {getattr(self, name)!r}")
        for name, least in self._minimums.items():
            value = getattr(self, name)
            if value is not None or name not in self._may_be_none:
                check_int(name, value, least)

    def _tree_options(self, chance: np.random.RandomState, **options: object) -> dict[str, Any]:
        """Options of the memory; draws its seed."""
        own = {"reroutes": 1, "seed": int(chance.randint(2**31)), "capacity": self.capacity}
        return {**options, **own, "experiences": 0}  # what a training row teaches is in the scorer


class BaseMemoryClassifier(ClassifierMixin, BaseMemoryEstimator, ABC):
    """A classifier whose training rows are memories, with a scorer that turns memories found into predictions.

    For dense rows the scorer works on projected rows, and is replaced when the memory finds a new projection.
    """

    _settings: dict[str, Any]
    _chance: np.random.RandomState
    _codec: ClassCodec | LabelCodec  # labels and their numbers
    scorer_: Any  # learned by the subclass
    _dense: bool
    _dense_from_sparse: bool  # whether sparse rows are taken as dense
    _projection_version: int  # of the projection that the scorer was learned with
    _n_rebuilt: int  # memories when the trees were last rebuilt

    @abstractmethod
    def _query(self, X: Matrix, exclude: np.ndarray | None = None) -> HitMatrix:
        """The memories found for each row."""

    def _query_memory(self, X: Matrix, k: int, beam: int, exclude: np.ndarray | None) -> HitMatrix:
        """The k memories found for each row, without those that other code inserted."""
        beam = beam if self.beam is None else self.beam
        excluded: Any = exclude
        return self._own_hits(self.memory_.query_many(X, min(k, max(len(self.memory_), 1)), beam=beam, exclude=excluded))

    @abstractmethod
    def _known_ids(self) -> np.ndarray:
        """By memory id: NO_ID where the estimator did not store the memory itself, any other number where it did."""

    @property
    def classes_(self) -> np.ndarray:
        """The labels seen so far, sorted if they can be compared; or the columns of an indicator matrix."""
        if not hasattr(self, "_codec"):
            raise AttributeError("classes_ exists once the classifier is fitted")
        return self._codec.classes()

    def _start_memory(self, chance: np.random.RandomState, dense: bool, **options: object) -> None:
        """Replace the memory by an empty one."""
        self._chance, self._dense = chance, dense
        self._settings = self._tree_options(chance, **options)
        self.memory_ = MemoryTree(**self._settings)
        self._projection_version = self._n_rebuilt = 0

    def _insert(
        self, X: Matrix, values: Sequence[object], ids: np.ndarray | None, labels: list[int] | None = None
    ) -> np.ndarray:
        """Store rows and return their ids. A whole batch with given ids replaces the memory and is built top-down."""
        if ids is not None and (self.capacity is None or len(ids) <= self.capacity):
            self.memory_ = MemoryTree.build(X, values, ids=ids, labels=labels, **self._settings)
            return ids
        stored: np.ndarray = self.memory_.insert_many(X, values, ids=ids, labels=labels)
        return stored

    def _is_own(self, ids: np.ndarray) -> np.ndarray:
        """Whether the estimator stored these memories itself; it has no labels for memories inserted by other code."""
        known = self._known_ids()
        return (ids != NO_ID) & (ids < len(known)) & (known[np.minimum(ids, len(known) - 1)] != NO_ID)

    def _own_ids(self) -> np.ndarray:
        """The present memories that the estimator stored itself."""
        ids = np.array(list(self.memory_), np.int64)
        return ids[self._is_own(ids)]

    def _own_hits(self, hits: HitMatrix) -> HitMatrix:
        """Hits without memories that other code inserted."""
        foreign = (hits.ids != NO_ID) & ~self._is_own(hits.ids)
        if foreign.any():
            hits.ids[foreign], hits.scores[foreign] = NO_ID, -np.inf
            order = np.argsort(foreign, axis=1, kind="stable")
            hits.ids = np.take_along_axis(hits.ids, order, axis=1)
            hits.scores = np.take_along_axis(hits.scores, order, axis=1)
        return hits

    def _check_rows(self, X: object, *, reset: bool) -> Matrix:
        """Rows to learn from, checked by scikit-learn and as keys, after all options."""
        self._check_options()
        if reset or not self._is_plain(X):
            X = validate_data(self, X, reset=reset, **ROW_CHECKS)
        return self._check_keys(X, reset)

    def _check_rows_and_labels(self, X: object, y: object, *, reset: bool) -> tuple[Matrix, np.ndarray]:
        """Rows to learn from and their labels, checked by scikit-learn and as keys, after all options."""
        self._check_options()
        if reset or not (self._is_plain(X) and _are_plain_labels(y, X)):
            X, y = validate_data(self, X, y, reset=reset, **ROW_CHECKS)
        return self._check_keys(X, reset), np.asarray(y)

    def _check_keys(self, X: Matrix, reset: bool) -> Matrix:
        """Rows in the form in which the memory stores them, checked as keys."""
        if reset:
            least = max(DENSE_SHARE * X.shape[1], DENSE_ENTRIES)
            self._dense_from_sparse = not isinstance(X, np.ndarray) and X.nnz > X.shape[0] * least
        X = self._as_stored(X)
        if reset:
            keys_for(X).batch(X)
        else:
            projection.check_keys(self.memory_, X)
        return X

    def _check_queries(self, X: object) -> Matrix:
        """Rows to predict for, checked."""
        check_is_fitted(self, "memory_")
        X = self._as_stored(X if self._is_plain(X) else validate_data(self, X, reset=False, **ROW_CHECKS))
        if not len(self.memory_):
            raise NotFittedError("all memories have been removed: there is nothing to predict from")
        return X

    def _is_plain(self, X: object) -> bool:
        """Whether scikit-learn would return these rows unchanged.

        Its checks, which also accept data frames and lists, take longer than learning from a single row does.
        """
        if type(X) not in PLAIN_TYPES or not isinstance(X, PLAIN_TYPES) or X.ndim != 2 or X.dtype not in ROW_CHECKS["dtype"]:
            return False
        if X.shape[0] == 0 or X.shape[1] != self.n_features_in_ or hasattr(self, "feature_names_in_"):
            return False
        values: np.ndarray = X if isinstance(X, np.ndarray) else X.data
        with np.errstate(over="ignore"):
            return bool(np.isfinite(values.sum()))

    def _as_stored(self, X: Matrix) -> Matrix:
        """Rows in the form in which the memory stores them: dense, or in canonical CSR form."""
        if isinstance(X, np.ndarray):
            return X
        if self._dense_from_sparse:
            return X.toarray()
        if not X.has_canonical_format or not X.data.all():
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        return X

    def kneighbors(self, X: object) -> list[Hits]:
        """The memories behind each prediction.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to predict for.

        Returns
        -------
        list of Hits
            For each row its memories, best first, as ``Hit(id, value, score)``. The id is the number of the training row,
            the value its label or labels.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted, or all memories have been removed.
        """
        return list(self._query(self._check_queries(X)))

    def _sync_projection(self) -> bool:
        """Replace the scorer for a new projection, and return True; or rebuild the trees if they have doubled."""
        if not self._dense:
            return False
        version = projection.projection_version(self.memory_)
        if version != self._projection_version:
            self._projection_version = version
            self.scorer_ = self.scorer_.for_projection(projection.projection_width(self.memory_))
            return True
        if projection.is_refined(self.memory_) and len(self.memory_) > 2 * self._n_rebuilt:
            self._n_rebuilt = len(self.memory_)
            self.memory_.refit()
        return False


def _are_plain_labels(y: object, X: Matrix) -> bool:
    """Whether scikit-learn would accept these labels, one for each row, without a look at their values."""
    return type(y) is np.ndarray and y.shape == X.shape[:1] and y.dtype.kind in DISCRETE
