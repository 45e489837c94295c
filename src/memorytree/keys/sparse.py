"""Sparse keys: rows of scipy matrices with one number of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from memorytree.errors import InvalidKey
from memorytree.keys.base import Keys, SparseBatch, check_weights, is_scipy_sparse

if TYPE_CHECKING:
    import scipy.sparse


@dataclass(frozen=True, slots=True)
class KeyRows:
    """Rows of sparse keys as arrays, for code that makes and reads keys without importing SciPy.

    Attributes:
        bounds: (n + 1,) int64; row i has the entries bounds[i] to bounds[i + 1].
        features, weights: the column and the number of each entry, int32 and float32.
        columns: the number of columns.
    """

    bounds: NDArray[np.int64]
    features: NDArray[np.int32]
    weights: NDArray[np.float32]
    columns: int

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and of columns."""
        return len(self.bounds) - 1, self.columns

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __iter__(self) -> Iterator[KeyRows]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, i: int) -> KeyRows:
        """Row i."""
        here = slice(*self.bounds[i : i + 2])
        return KeyRows(np.array([0, here.stop - here.start]), self.features[here], self.weights[here], self.columns)

    def to_scipy(self) -> scipy.sparse.csr_matrix:
        """The rows as a matrix of SciPy."""
        import scipy.sparse

        return scipy.sparse.csr_matrix((self.weights, self.features, self.bounds), shape=self.shape)

    @property
    def is_canonical(self) -> bool:
        """Whether the columns of every row increase, and no number is zero."""
        increases = np.diff(self.features) > 0
        ends = self.bounds[1:-1]
        increases[ends[(ends > 0) & (ends < len(self.features))] - 1] = True
        return bool(increases.all() and self.weights.all())


class SparseKeys(Keys[SparseBatch, SparseBatch, SparseBatch]):
    """Rows of scipy sparse matrices, or `KeyRows`; a batch, and an encoded key, is (bounds, features, weights)."""

    kind: ClassVar[str] = "sparse"
    sparse: ClassVar[bool] = True

    def __init__(self, columns: int):
        if not 0 < columns < 2**31:
            raise InvalidKey(f"a sparse key has between 1 and 2**31 - 1 columns, this one has {columns}")
        self.dimension = columns

    def one(self, x: object, adding: bool = False) -> SparseBatch:
        batch, n = self.batch(x)
        if n != 1:
            raise InvalidKey(f"a key is one row of a sparse matrix, this one has {n} rows")
        return batch

    def batch(self, X: object, adding: bool = False) -> tuple[SparseBatch, int]:
        if isinstance(X, KeyRows):
            self._check_width(X.columns)
            self._check_columns(X.features)
            if X.is_canonical:
                check_weights(X.weights, "a key")
                # Kernels are compiled for arrays that can be written to, as those of SciPy are.
                return (X.bounds, np.require(X.features, requirements="W"), np.require(X.weights, requirements="W")), len(X)
            X = X.to_scipy()
        if not is_scipy_sparse(X):
            raise InvalidKey(f"this tree holds sparse keys (rows of a scipy matrix), not {type(X).__name__}")
        return self._scipy_batch(X)

    def _check_width(self, columns: int) -> None:
        """Raise unless a key has as many columns as those of the tree."""
        if columns != self.dimension:
            raise InvalidKey(f"key has {columns} columns, this tree holds {self.dimension}")

    def _scipy_batch(self, X: scipy.sparse.csr_matrix) -> tuple[SparseBatch, int]:
        """The rows of a matrix of SciPy."""
        import scipy.sparse

        matrix: scipy.sparse.csr_matrix = X
        self._check_width(matrix.shape[-1])
        if matrix.dtype.kind not in "fiub":
            raise InvalidKey(f"a key must hold real numbers, this one has dtype {matrix.dtype}")
        # Checking the canonical format is far quicker than producing it.
        if matrix.format == "csr" and matrix.ndim == 2 and matrix.has_canonical_format and matrix.data.all():
            self._check_columns(matrix.indices)
            check_weights(matrix.data, "a key")
            return as_batch(matrix), matrix.shape[0]
        if matrix.ndim == 1:
            matrix = matrix.reshape(1, -1)
        rows = scipy.sparse.csr_matrix(matrix, dtype=np.float32, copy=True)
        self._check_columns(rows.indices)
        rows.sum_duplicates()
        check_weights(rows.data, "a key")
        rows.eliminate_zeros()
        return as_batch(rows), rows.shape[0]

    def _check_columns(self, columns: NDArray[np.integer]) -> None:
        """Raise unless all columns exist, which scipy does not check. As unsigned numbers, negative ones are too large."""
        if columns.view(f"u{columns.itemsize}").max(initial=0) >= self.dimension:
            raise InvalidKey(f"a column of a key is outside the {self.dimension} of this tree")

    def encode(self, x: object, row: SparseBatch) -> SparseBatch:
        return row

    def encode_many(self, X: object, batch: SparseBatch) -> SparseBatch:
        return batch

    def decode(self, encoded: SparseBatch) -> SparseBatch:
        return encoded

    def decode_many(self, encoded: SparseBatch) -> SparseBatch:
        return encoded

    def take(self, encoded: SparseBatch, i: int) -> SparseBatch:
        bounds, features, weights = encoded
        span = slice(bounds[i], bounds[i + 1])
        return np.array([0, bounds[i + 1] - bounds[i]]), features[span].copy(), weights[span].copy()

    def to_bytes(self, encoded: SparseBatch) -> bytes:
        return encoded[1].tobytes() + encoded[2].tobytes()

    def from_bytes(self, data: list[bytes]) -> KeyRows:
        if any(len(key) % 8 for key in data):
            raise InvalidKey("not a sparse key")
        lengths = [len(key) // 8 for key in data]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        halves = [(key[: 4 * n], key[4 * n :]) for key, n in zip(data, lengths, strict=True)]
        features = np.frombuffer(b"".join(half for half, _ in halves), np.int32)
        weights = np.frombuffer(b"".join(half for _, half in halves), np.float32)
        self._check_columns(features)
        return KeyRows(bounds, features, weights, self.dimension)

    def to_user(self, row: SparseBatch) -> scipy.sparse.csr_matrix:
        return KeyRows(*row, self.dimension).to_scipy()


def as_batch(rows: scipy.sparse.csr_matrix) -> SparseBatch:
    """A scipy matrix in canonical format as a batch."""
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float32)
