"""MemoryTreeRetriever: store keys with values, find the values for a query, and learn from rewards which fit best."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from memorytree.arguments import check_list, check_rewards
from memorytree.errors import InvalidOption, InvalidReward
from memorytree.estimators.arrays import Matrix
from memorytree.estimators.base import ROW_CHECKS, BaseMemoryEstimator, RandomState, restore_on_error
from memorytree.progress import track
from memorytree.results import NO_ID, HitMatrix, Hits
from memorytree.tree import MemoryTree

BATCH = 64  # rows that are queried together before any of them is learned from
REWARDED = 8  # this times log2 n memories of each row are rewarded
ROUNDING = 1e-6  # tolerance of rewards outside [0, 1]

RewardFunction = Callable[[int, Hits], Iterable[float | None]]


class MemoryTreeRetriever(BaseMemoryEstimator):
    """Find values by keys, and learn from rewards which values fit a query.

    `fit` stores rows with their values and, if there are any, features that describe the values, such as an embedding of an
    image, an article or a product. `retrieve` returns the values that fit a query. `fit_rewards` takes queries and a reward
    from 0 to 1 for each memory found. With features, a model then predicts from a query where its best values lie among the
    features, and memories are also ranked by that. Without features, rewards change how keys are compared. A memory learns
    once it has 32 rows with features, 64 without (512 if they are sparse), since the projection of fewer rows is about to
    change.

    Parameters
    ----------
    max_iter : int, default=2
        Passes of `fit_rewards` over its queries.
    beam : int, default=1
        A factor for the number of leaves, or term lists, that a query searches.
    capacity : int, default=None
        The most rows to keep. Rows that have not been useful for longest are removed first.
    verbose : int, default=0
        1 shows a progress bar during `fit` and `fit_rewards`.
    random_state : int, RandomState instance or None, default=None
        Seed of everything random.

    Attributes
    ----------
    memory_ : MemoryTree
        The rows; ids are their numbers in the order in which they were given.
    n_features_in_ : int
        Columns of the rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> values = rng.standard_normal((150, 4))
    >>> keys = values @ rng.standard_normal((4, 6))
    >>> retriever = MemoryTreeRetriever(random_state=0).fit(keys[:100], features=values[:100])
    >>> rewards = 1 / (1 + ((values[100:, None] - values[None, :100]) ** 2).sum(axis=2))
    >>> hits = retriever.fit_rewards(keys[100:], rewards).retrieve(keys[100:], k=3)
    >>> hits.ids.shape, len(hits[0])
    ((50, 3), 3)
    """

    beam: int
    _minimums: ClassVar = {"max_iter": 0, "beam": 1, "capacity": 1}
    _may_be_none: ClassVar = ("capacity",)

    def __init__(
        self,
        *,
        max_iter: int = 2,
        beam: int = 1,
        capacity: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        super().__init__(beam=beam, capacity=capacity, verbose=verbose, random_state=random_state)
        self.max_iter = max_iter

    # ---- storing

    @restore_on_error
    def fit(self, X: object, y: object = None, *, values: Iterable[object] | None = None, features: object = None) -> Self:
        """Replace all stored rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            A key in each row.
        y : iterable, default=None
            The values, where scikit-learn's tools pass them.
        values : iterable, default=None
            A value for each row; by default the number of the row.
        features : array-like of shape (n_samples, n_value_features), default=None
            A description of each value.

        Returns
        -------
        self
            The fitted retriever.
        """
        rows = self._check(X, reset=True)
        n, chance = rows.shape[0], check_random_state(self.random_state)
        options = self._tree_options(chance, scorer="values" if features is not None else "metric")
        self.memory_ = MemoryTree(**options)
        if features is not None or scipy.sparse.issparse(rows):
            self._store(0, rows, _values(n, 0, y, values), features)
        else:
            # The projection is found from all rows, whatever order they came in.
            listing = _values(n, 0, y, values)
            first = 0 if self.capacity is None else max(0, n - self.capacity)
            order = first + chance.permutation(n - first)
            self.memory_ = MemoryTree.build(rows[order], [listing[i] for i in order.tolist()], ids=order, **options)
        self._chance, self._has_features, self._n_seen = chance, features is not None, n
        return self

    @restore_on_error
    def partial_fit(
        self, X: object, y: object = None, *, values: Iterable[object] | None = None, features: object = None
    ) -> Self:
        """Store more rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            A key in each row.
        y : iterable, default=None
            The values, where scikit-learn's tools pass them.
        values : iterable, default=None
            A value for each row; by default the number of the row.
        features : array-like of shape (n_samples, n_value_features), default=None
            A description of each value; needed if and only if the first rows had one.

        Returns
        -------
        self
            The fitted retriever.
        """
        if not hasattr(self, "memory_"):
            return self.fit(X, y, values=values, features=features)
        rows = self._check(X, reset=False)
        if (features is not None) != self._has_features:
            raise InvalidOption(f"these rows have {'' if self._has_features else 'no '}features: give all of them or none")
        self._store(self._n_seen, rows, _values(rows.shape[0], self._n_seen, y, values), features)
        self._n_seen += rows.shape[0]
        return self

    def _store(self, first: int, X: Matrix, values: list[object], features: object) -> None:
        """Store rows with the ids `first` and following."""
        ids = np.arange(first, first + X.shape[0])
        self.memory_.insert_many(X, values, ids=ids, features=features, progress=bool(self.verbose))

    def _check(self, X: object, reset: bool) -> Matrix:
        """Rows as a matrix, after all checks of rows and options."""
        self._check_options()
        rows: Matrix = validate_data(self, X, reset=reset, **ROW_CHECKS)
        return rows

    # ---- querying

    def retrieve(self, X: object, k: int = 1, *, exclude: Sequence[Iterable[int]] | None = None) -> HitMatrix:
        """The k memories that fit each row best.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            A key in each row.
        k : int, default=1
            How many memories to return for each row.
        exclude : sequence of sequences of int, default=None
            For each row, ids of memories to leave out.

        Returns
        -------
        HitMatrix
            Row i holds what `MemoryTree.query` returns for key i.

        Raises
        ------
        NotFittedError
            If the retriever is not fitted.
        """
        check_is_fitted(self, "memory_")
        return self.memory_.query_many(self._check(X, reset=False), k, beam=self.beam, exclude=exclude)

    # ---- learning

    def fit_rewards(
        self,
        X: object,
        reward: RewardFunction | np.ndarray | scipy.sparse.spmatrix,
        *,
        exclude: Sequence[Iterable[int]] | None = None,
    ) -> Self:
        """Query for rows and learn from how useful the memories found are, in `max_iter` passes in random order.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            A key in each row.
        reward : callable, or {array, sparse matrix} of shape (n_samples, n_stored)
            Either a function ``(row number, hits) -> rewards``, with one reward from 0 to 1 for each hit, None or NaN where
            none was observed; or a matrix with a column for each memory, by its id.
        exclude : sequence of sequences of int, default=None
            For each row, ids of memories to leave out, such as the row's own if it is stored.

        Returns
        -------
        self
            The retriever.

        Raises
        ------
        InvalidReward
            If a reward is not a number from 0 to 1, or there are too many or too few.
        """
        check_is_fitted(self, "memory_")
        rows = self._check(X, reset=False)
        n = rows.shape[0]
        rewards_of = _from_function(reward) if callable(reward) else _from_matrix(reward, n, self._n_seen)
        excluded = None if exclude is None else [list(ids) for ids in exclude]
        if excluded is not None and len(excluded) != n:
            raise InvalidOption(f"exclude needs a list of ids for each of the {n} rows, not {len(excluded)}")
        batches = [
            order[first : first + BATCH]
            for order in (self._chance.permutation(n) for _ in range(self.max_iter))
            for first in range(0, n, BATCH)
        ]
        for batch in track(batches, "learning", bool(self.verbose)):
            k = max(1, min(len(self.memory_), math.ceil(REWARDED * math.log2(len(self.memory_) + 2))))
            out = None if excluded is None else [excluded[i] for i in batch.tolist()]
            hits = self.memory_.query_many(rows[batch], k, beam=self.beam, exclude=out)
            self.memory_.reward_many(hits, rewards_of(batch, hits))
        if not self._has_features:
            self.memory_.refit()
        return self


def _values(rows: int, first: int, y: object, values: Iterable[object] | None) -> list[object]:
    """The values of rows, by default the numbers `first` and following."""
    if y is not None and values is not None:
        raise InvalidOption("give the values once: as values= or as y")
    given: Any = y if values is None else values
    listing: list[object] = list(range(first, first + rows)) if given is None else check_list(given)
    if len(listing) != rows:
        raise InvalidOption(f"{rows} rows need as many values, not {len(listing)}")
    return listing


BatchRewards = Callable[[np.ndarray, HitMatrix], np.ndarray]
"""The rewards for the hits of a batch of rows, given by their numbers; NaN where there is none."""


def _from_function(reward: RewardFunction) -> BatchRewards:
    """Rewards given as a function."""

    def rewards_of(batch: np.ndarray, hits: HitMatrix) -> np.ndarray:
        rewards = np.full(hits.ids.shape, np.nan)
        for i, (row, found) in enumerate(zip(batch.tolist(), hits, strict=True)):
            rewards[i, : len(found)] = check_rewards(found.ids, _rounded(reward(row, found)))
        return rewards

    return rewards_of


def _from_matrix(matrix: np.ndarray | scipy.sparse.spmatrix, rows: int, memories: int) -> BatchRewards:
    """Rewards given as a matrix, checked before anything is learned from it."""
    table: Any = scipy.sparse.csr_matrix(matrix) if scipy.sparse.issparse(matrix) else np.asarray(matrix)
    if table.shape != (rows, memories):
        raise InvalidReward(f"rewards for {rows} rows and the {memories} rows stored so far, not a matrix {table.shape}")
    numbers: np.ndarray = table.data if scipy.sparse.issparse(table) else table
    if numbers.dtype.kind not in "fiub" or np.any((numbers < -ROUNDING) | (numbers > 1 + ROUNDING)):
        raise InvalidReward("a reward is a number from 0 to 1, or NaN")

    def rewards_of(batch: np.ndarray, hits: HitMatrix) -> np.ndarray:
        present = hits.ids != NO_ID
        found = table[np.repeat(batch, hits.ids.shape[1]), np.where(present, hits.ids, 0).ravel()]
        return np.where(present, np.clip(np.asarray(found, np.float64).reshape(hits.ids.shape), 0, 1), np.nan)

    return rewards_of


def _rounded(rewards: object) -> object:
    """Rewards without the rounding errors of float32, and None for NaN. Other objects are left as they are."""
    if isinstance(rewards, str | Mapping) or not isinstance(rewards, Iterable):
        return rewards
    return [_rounded_one(float(reward)) if isinstance(reward, Real) else reward for reward in rewards]


def _rounded_one(reward: float) -> float | None:
    if math.isnan(reward):
        return None
    nearest = min(max(reward, 0.0), 1.0)
    return nearest if abs(reward - nearest) <= ROUNDING else reward
