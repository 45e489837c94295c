"""The dense keys of a flat index: rows of a matrix.

One product of matrices in float32 bounds the distances to all rows; those that may be among the nearest are then computed
in float64, key by key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memorytree.index.base import Array, Ids, KeyBatch, Matrix, Scores
from memorytree.index.flat_keys import LEAST_ROWS, Bounds, Distances, FlatKeys, grown
from memorytree.index.ties import hash_numbers
from memorytree.keys.base import LARGEST
from memorytree.results import OutlineNode

BATCH_CELLS = 2**21
"""So many distances of a batch are in memory at the same time."""
ROUNDING = 2.0**-24
"""The largest relative error of one operation in float32."""
SHORT = 1e-30
"""Products with shorter keys may be too small for float32."""


class DenseQuery(NamedTuple):
    """A dense query: its key in float64 (d,), and the sum of its squares."""

    x: Distances
    squares: float


class FlatVectors(FlatKeys[DenseQuery]):
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
