"""The keys of a flat index by row, and the distances from a query to them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from memorytree.index.base import Array, Ids, KeyBatch, Matrix, Scores
from memorytree.index.ties import hash_numbers
from memorytree.keys.base import LARGEST
from memorytree.results import Outline, OutlineNode

Distances = NDArray[np.float64]
QueryKey = TypeVar("QueryKey")

LEAST_ROWS = 64
"""Arrays begin with room for so many rows, and double."""
BATCH_CELLS = 2**21
"""So many distances of a batch are in memory at the same time."""
ROUNDING = 2.0**-24
"""The largest relative error of one operation in float32."""
SHORT = 1e-30
"""Products with shorter keys may be too small for float32."""


class Bounds(NamedTuple):
    """The distances from a query to some rows lie between these, (m,) each."""

    low: Distances
    high: Distances


def grown(array: Array, rows: int) -> Array:
    """An array with room for more rows, at least twice as many as before; what is added is zero."""
    if rows <= len(array):
        return array
    larger = np.zeros((max(rows, 2 * len(array)), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


class FlatKeys(ABC, Generic[QueryKey]):
    """Keys by row, without holes.

    Distances depend on a query and one key only, not on the row of the key or on other keys, so that equal keys tie, and a
    batch answers as single queries do.
    """

    sparse: ClassVar[bool]
    by_angle: bool
    """Whether the score is an overlap divided by lengths, not a distance."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def append(self, keys: KeyBatch, i: int) -> None:
        """Store key i of a batch in a new row."""

    @abstractmethod
    def remove(self, row: int) -> None:
        """Remove the key of a row; the key of the last row takes its place."""

    def learn(self, keys: KeyBatch, i: int, rows: Ids, rewards: Distances) -> int:
        """Learn from the rewards of some rows for key i of a batch; whether anything was learned, as 0 or 1."""
        return 0

    @abstractmethod
    def queries(self, keys: KeyBatch, start: int, stop: int, rows: Ids | None) -> Iterator[tuple[QueryKey, Bounds]]:
        """For each key of a part of a batch: what `distances` needs of it, and bounds of the distances to some rows, or to
        all. The bounds are the caller's to change."""

    @abstractmethod
    def query_key(self, keys: KeyBatch, i: int) -> QueryKey:
        """What `distances` needs of key i of a batch."""

    @abstractmethod
    def distances(self, query: QueryKey, rows: Ids) -> Distances:
        """The distances to some rows."""

    @abstractmethod
    def scores(self, distances: Distances) -> Scores:
        """Scores, the larger the better."""

    @abstractmethod
    def unrelated(self, query: QueryKey, bounds: Bounds, rows: Ids | None) -> NDArray[np.bool_] | None:
        """Which of the rows of these bounds have nothing in common with the query, and the distance 1; None: this does not
        matter."""

    @abstractmethod
    def bits(self, keys: KeyBatch, i: int) -> int:
        """The hash of key i of a batch, for the order of equal distances."""

    @abstractmethod
    def key(self, row: int) -> KeyBatch:
        """The key of a row, as a batch of one."""

    @abstractmethod
    def rows_as_batch(self, rows: Ids) -> KeyBatch:
        """The keys of some rows, with all features that they are compared by, as a batch."""

    @abstractmethod
    def every_feature(self) -> KeyBatch:
        """A key with all features, as a batch of one."""

    def compared(self, row: int) -> KeyBatch:
        """The key of a row with all features that it is compared by, as a batch of one."""
        return self.key(row)

    def feature_weights(self, features: Array) -> Array:
        """The learned weights of features."""
        return np.ones(len(features), np.float32)

    @abstractmethod
    def size(self) -> int:
        """How many keys, or entries of sparse keys, a query is compared with."""

    @abstractmethod
    def outline(self) -> Outline:
        """What there is, for pictures."""

    @abstractmethod
    def nbytes(self) -> tuple[int, int, int]:
        """Bytes of keys, bytes in use, and bytes allocated."""

    @abstractmethod
    def copy(self) -> Self:
        """An independent copy."""

    @abstractmethod
    def state_dict(self) -> dict[str, Array]:
        """The complete state."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Array]) -> int:
        """Replace the state; returns the number of rows.

        Raises:
            ValueError: an array is missing, or has the wrong shape or type.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise ValueError if the state contradicts itself."""


class DenseQuery(NamedTuple):
    """A dense query: its key in float64 (d,), and the sum of its squares."""

    x: Distances
    squares: float


class DenseKeys(FlatKeys[DenseQuery]):
    """Rows of a matrix.

    Args:
        dimension: numbers in a key.
        cosine: whether keys are compared by their angle, not by their distance.
    """

    sparse: ClassVar[bool] = False

    def __init__(self, dimension: int, cosine: bool):
        self.by_angle = cosine
        self.n = 0
        self.matrix: Matrix = np.zeros((LEAST_ROWS, dimension), np.float32)
        self.squares: Distances = np.zeros(LEAST_ROWS)  # sums of squares

    def __len__(self) -> int:
        return self.n

    def append(self, keys: KeyBatch, i: int) -> None:
        x, row = keys[i], self.n
        self.matrix, self.squares = grown(self.matrix, row + 1), grown(self.squares, row + 1)
        self.matrix[row] = x
        self.squares[row] = _sum_of_squares(self.matrix[row : row + 1])[0]
        self.n = row + 1

    def remove(self, row: int) -> None:
        self.n -= 1
        self.matrix[row], self.squares[row] = self.matrix[self.n], self.squares[self.n]

    def query_key(self, keys: KeyBatch, i: int) -> DenseQuery:
        x = np.asarray(keys[i], np.float64)
        return DenseQuery(x, float((x * x).sum()))

    def queries(self, keys: KeyBatch, start: int, stop: int, rows: Ids | None) -> Iterator[tuple[DenseQuery, Bounds]]:
        stored = self.matrix[: self.n] if rows is None else self.matrix[rows]
        squares = self.squares[: self.n] if rows is None else self.squares[rows]
        step = max(BATCH_CELLS // max(len(stored), 1), 1)
        for first in range(start, stop, step):
            asked = [self.query_key(keys, i) for i in range(first, min(first + step, stop))]
            for query, product in zip(asked, self._products(asked, stored), strict=True):
                yield query, self._bounds(query, squares, product)

    def _products(self, asked: list[DenseQuery], stored: Matrix) -> Matrix:
        """The products (queries, rows) of scaled queries and keys."""
        X = np.array([self._scaled(query) for query in asked], np.float32)
        # One query as a vector: BLAS then reads the keys once, without packing them.
        products: Matrix = (stored @ X[0])[None] if len(X) == 1 else X @ stored.T
        return products

    def _scaled(self, query: DenseQuery) -> Distances:
        """The key whose products with stored keys bound the distances; zeros for one that is not valid."""
        if not self._is_valid(query):
            return np.zeros(len(query.x))
        if not self.by_angle:
            return query.x
        return query.x / math.sqrt(query.squares) if query.squares > 0 else query.x

    def _is_valid(self, query: DenseQuery) -> bool:
        """Whether the key of a query can be finite numbers of at most `LARGEST`."""
        return query.squares <= len(query.x) * LARGEST**2

    def _bounds(self, query: DenseQuery, squares: Distances, products: NDArray[np.float32]) -> Bounds:
        """Bounds of the distances from products in float32, whose error is at most that of d + 1 operations."""
        if not self._is_valid(query):
            return Bounds(np.full(len(squares), np.inf), np.full(len(squares), np.inf))
        share = (self.matrix.shape[1] + 16) * ROUNDING
        if self.by_angle:
            lengths = np.sqrt(squares)
            cosines = np.divide(products, lengths, out=np.zeros(len(lengths)), where=lengths > 0)
            error = np.where((lengths > SHORT) | (lengths == 0), share, 3.0)
            return Bounds(1.0 - cosines - error, 1.0 - cosines + error)
        total = query.squares + squares
        middle, error = total - 2.0 * products, share * total + SHORT
        return Bounds(middle - error, middle + error)

    def distances(self, query: DenseQuery, rows: Ids) -> Distances:
        keys = self.matrix[rows].astype(np.float64)
        if not self.by_angle:
            # Rounded as a score is: memories whose scores are equal tie.
            return np.asarray(_sum_of_squares(keys - query.x).astype(np.float32), np.float64)
        lengths = np.sqrt(query.squares * self.squares[rows])
        products = (keys * query.x).sum(axis=1)
        return 1.0 - np.divide(products, lengths, out=np.zeros(len(rows)), where=lengths > 0)

    def scores(self, distances: Distances) -> Scores:
        return (1.0 - distances if self.by_angle else 0.0 - np.sqrt(distances)).astype(np.float32)

    def unrelated(self, query: DenseQuery, bounds: Bounds, rows: Ids | None) -> None:
        return None

    def bits(self, keys: KeyBatch, i: int) -> int:
        x = np.asarray(keys[i], np.float32) + np.float32(0)  # without -0.0
        return hash_numbers(len(x), x.view(np.uint32).tolist())

    def key(self, row: int) -> Matrix:
        return self.matrix[row : row + 1].copy()

    def rows_as_batch(self, rows: Ids) -> Matrix:
        return self.matrix[rows]

    def every_feature(self) -> Matrix:
        return np.zeros((1, self.matrix.shape[1]), np.float32)

    def size(self) -> int:
        return self.n

    def outline(self) -> OutlineNode:
        return OutlineNode(0, self.n, True, 1.0)

    def nbytes(self) -> tuple[int, int, int]:
        used = self.matrix[: self.n].nbytes
        return used, used + self.squares[: self.n].nbytes, self.matrix.nbytes + self.squares.nbytes

    def copy(self) -> Self:
        twin = type(self)(self.matrix.shape[1], self.by_angle)
        twin.n, twin.matrix, twin.squares = self.n, self.matrix.copy(), self.squares.copy()
        return twin

    def state_dict(self) -> dict[str, Array]:
        return {"keys": self.matrix[: self.n].copy()}

    def load_state_dict(self, state: Mapping[str, Array]) -> int:
        keys = state["keys"]
        if keys.dtype != np.float32 or keys.ndim != 2 or keys.shape[1] != self.matrix.shape[1]:
            raise ValueError(f"the keys are {keys.dtype} {keys.shape}, not rows of {self.matrix.shape[1]} float32 numbers")
        self.n = len(keys)
        self.matrix = grown(np.require(keys, requirements=["C", "W"]), LEAST_ROWS)
        self.squares = _sum_of_squares(self.matrix.astype(np.float64))
        return self.n

    def check(self) -> None:
        if not np.isfinite(self.squares[: self.n]).all():
            raise ValueError("contradictory state: keys are finite numbers")


def _sum_of_squares(rows: Array) -> Distances:
    """The sum of squares of each row in float64, whatever rows there are beside it."""
    wide = np.ascontiguousarray(rows, np.float64)
    return np.asarray((wide * wide).sum(axis=1))
