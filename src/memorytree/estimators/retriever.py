"""MemoryTreeRetriever: find the stored values that fit a query, and learn from rewards which those are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from memorytree.engine.arrays import NONE
from memorytree.errors import InvalidOption, InvalidReward
from memorytree.estimators.remembering import ROWS, all_or_nothing
from memorytree.hits import HitMatrix, Hits
from memorytree.options import listed, rewards_for, whole
from memorytree.progress import track
from memorytree.tree import MemoryTree

# Rows that are looked at together before any of them teaches.
BATCH = 64
# While learning, so many times log2 n memories are returned and rewarded.
BREADTH = 8

# A reward may leave [0, 1] by so much.
ROUNDING = 1e-6

Reward = Callable[[int, Hits], Iterable[float | None]]


class MemoryTreeRetriever(BaseEstimator):
    """Find values by keys, the better the more rewards have told.

    `fit` stores rows with their values and, if you have them, features that describe the values: numbers that an image, an
    article or a product is like. `retrieve` returns the values that fit a query. `learn` takes queries and a reward for each
    memory returned, any number from 0 to 1, and from then on memories are also ranked by what their values are like: a query
    learns where to aim among the features. Without features, rewards teach how keys are to be compared. A memory must hold a
    few rows before it learns: 32 with features, 64 without (512 sparse ones), as what is seen of fewer is about to change.

    Args:
        passes: how often `learn` goes over its queries.
        beam: how many times as many leaves, or term lists, to look into.
        capacity: how many rows to remember at the most; those that were of no use for longest go first.
        verbose: 1 shows a progress bar during `fit` and `learn`.
        random_state: fixes what is left to chance.

    Attributes:
        memory_: the `MemoryTree` with the rows; ids count rows in the order in which they came.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> things = rng.standard_normal((300, 8))             # what the values are like
        >>> keys = np.abs(things @ rng.standard_normal((8, 5)))  # what is said of them
        >>> retriever = MemoryTreeRetriever(random_state=0).fit(keys[:200], features=things[:200])
        >>> closeness = 1 / (1 + ((things[200:, None] - things[None, :200]) ** 2).sum(axis=2))
        >>> found = retriever.learn(keys[200:], closeness).retrieve(keys[200:], k=3)
        >>> found.ids.shape, len(found[0])
        ((100, 3), 3)
    """

    def __init__(
        self,
        *,
        passes: int = 2,
        beam: int = 1,
        capacity: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ):
        self.passes = passes
        self.beam = beam
        self.capacity = capacity
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- storing

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, *, values: Iterable[Any] | None = None, features: Any = None) -> Self:
        """Forget everything, then store rows.

        Args:
            X: a key in each row, dense or sparse.
            y: the values, where scikit-learn's own tools pass them.
            values: what to return for each; by default the number of the row.
            features: a row of numbers for each value, that describe it.
        """
        X = self._checked(X, reset=True)
        n, chance = X.shape[0], check_random_state(self.random_state)
        settings: dict[str, Any] = {
            "scorer": "values" if features is not None else "metric",
            "reroutes": 1,
            "seed": int(chance.randint(2**31)),
            "capacity": self.capacity,
        }
        self.memory_ = MemoryTree(**settings)
        if features is not None or scipy.sparse.issparse(X):
            self._store(0, X, y, values, features)
        else:
            # How dense rows are compared is found from all of them, whatever order they came in.
            values = _values(n, 0, y, values)
            first = 0 if self.capacity is None else max(0, n - self.capacity)
            order = first + chance.permutation(n - first)
            self.memory_ = MemoryTree.build(X[order], [values[i] for i in order.tolist()], ids=order, **settings)
        self._chance, self._described, self._count = chance, features is not None, n
        return self

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None, *, values: Iterable[Any] | None = None, features: Any = None) -> Self:
        """Store more rows; features are needed if the first ones had some."""
        if not hasattr(self, "memory_"):
            return self.fit(X, y, values=values, features=features)
        X = self._checked(X, reset=False)
        if (features is not None) != self._described:
            raise InvalidOption(f"these rows have {'' if self._described else 'no '}features: give all of them or none")
        self._store(self._count, X, y, values, features)
        self._count += X.shape[0]
        return self

    def _store(self, count: int, X: Any, y: Any, values: Any, features: Any) -> None:
        numbers = np.arange(count, count + X.shape[0])
        values = _values(X.shape[0], count, y, values)
        self.memory_.insert_many(X, values, ids=numbers, features=features, progress=bool(self.verbose))

    def _checked(self, X: Any, reset: bool) -> Any:
        whole("passes", self.passes, 0)
        whole("beam", self.beam, 1)
        return validate_data(self, X, reset=reset, **ROWS)

    # ---- asking

    def retrieve(self, X: Any, k: int = 1, *, exclude: Sequence[Iterable[int]] | None = None) -> HitMatrix:
        """The k memories that fit each row best: row i of the answer is what `MemoryTree.query` gives.

        Args:
            X: a key in each row.
            k: how many to return for each.
            exclude: for each row the ids of memories to leave out.
        """
        check_is_fitted(self, "memory_")
        return self.memory_.query_many(self._checked(X, reset=False), k, beam=self.beam, exclude=exclude)

    # ---- learning

    def learn(self, X: Any, reward: Reward | Any, *, exclude: Sequence[Iterable[int]] | None = None) -> Self:
        """Ask for rows, and learn from how good the answers were; `passes` times, in a new order each.

        Args:
            X: a key in each row.
            reward: a function `(number of the row, hits) -> rewards`, one from 0 to 1 for each hit, None or NaN where there
                is none; or a matrix with a row for each query and a column for each memory, by its id.
            exclude: for each row the ids of memories to leave out: its own, if it is stored.
        """
        check_is_fitted(self, "memory_")
        X = self._checked(X, reset=False)
        n = X.shape[0]
        if not callable(reward):
            reward = _columns_of(reward, n, self._count)
        leave_out = None if exclude is None else [list(ids) for ids in exclude]
        if leave_out is not None and len(leave_out) != n:
            raise InvalidOption(f"exclude needs a list of ids for each of the {n} rows, not {len(leave_out)}")
        batches = [
            order[first : first + BATCH]
            for order in (self._chance.permutation(n) for _ in range(self.passes))
            for first in range(0, n, BATCH)
        ]
        for rows in track(batches, "learning", bool(self.verbose)):
            k = max(1, min(len(self.memory_), math.ceil(BREADTH * math.log2(len(self.memory_) + 2))))
            out = None if leave_out is None else [leave_out[i] for i in rows.tolist()]
            hits = self.memory_.query_many(X[rows], k, beam=self.beam, exclude=out)
            self.memory_.update_many(hits, _rewards(reward, rows, hits))
        if not self._described:
            self.memory_.learn()
        return self


def _values(rows: int, count: int, y: Any, values: Any) -> list[Any]:
    """The values of rows, by default their numbers, of which `count` have come before."""
    if y is not None and values is not None:
        raise InvalidOption("give the values once: as values= or as y")
    given = y if values is None else values
    listing = list(range(count, count + rows)) if given is None else listed(given)
    if len(listing) != rows:
        raise InvalidOption(f"{rows} rows need as many values, not {len(listing)}")
    return listing


def _rewards(reward: Any, rows: np.ndarray, hits: HitMatrix) -> np.ndarray:
    """The rewards of a batch as an array, NaN where there are none."""
    if isinstance(reward, _Table):
        return reward.of(rows, hits.ids)
    given = np.full(hits.ids.shape, np.nan)
    for i, (row, found) in enumerate(zip(rows.tolist(), hits, strict=True)):
        given[i, : len(found)] = rewards_for(len(found), _rounded(reward(row, found)))
    return given


def _rounded(rewards: Any) -> Any:
    """Rewards without errors of rounding, such as a cosine of float32 has, and None for NaN; the rest is left to checks."""
    if isinstance(rewards, str) or not isinstance(rewards, Iterable):
        return rewards
    return [_rounded_one(reward) if isinstance(reward, Real) else reward for reward in rewards]


def _rounded_one(reward: Any) -> float | None:
    if math.isnan(reward):
        return None
    nearest = min(max(float(reward), 0.0), 1.0)
    return nearest if abs(reward - nearest) <= ROUNDING else float(reward)


class _Table:
    """Rewards that were given as a matrix of queries and memories."""

    def __init__(self, matrix: Any):
        self._matrix = matrix

    def of(self, rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """The rewards of memories `ids` for some rows."""
        there = ids != NONE
        found = self._matrix[np.repeat(rows, ids.shape[1]), np.where(there, ids, 0).ravel()]
        return np.where(there, np.clip(np.asarray(found, np.float64).reshape(ids.shape), 0, 1), np.nan)


def _columns_of(matrix: Any, rows: int, memories: int) -> _Table:
    """A matrix of rewards, checked before anything is learned from it."""
    matrix = matrix.tocsr() if scipy.sparse.issparse(matrix) else np.asarray(matrix)
    if matrix.shape != (rows, memories):
        raise InvalidReward(f"rewards for {rows} rows and the {memories} rows stored so far, not a matrix {matrix.shape}")
    numbers = matrix.data if scipy.sparse.issparse(matrix) else matrix
    if numbers.dtype.kind not in "fiub" or np.any((numbers < -ROUNDING) | (numbers > 1 + ROUNDING)):
        raise InvalidReward("a reward is a number from 0 to 1, or NaN")
    return _Table(matrix)
