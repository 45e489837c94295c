"""Sparse keys: rows of scipy matrices with one number of columns."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from memorytree.errors import InvalidKey
from memorytree.keys.base import Keys, SparseBatch, check_weights


class SparseKeys(Keys[SparseBatch, SparseBatch, SparseBatch]):
    """Rows of scipy sparse matrices; a batch, and an encoded key, is (bounds, features, weights)."""

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
        if not scipy.sparse.issparse(X):
            raise InvalidKey(f"this tree holds sparse keys (rows of a scipy matrix), not {type(X).__name__}")
        matrix: scipy.sparse.csr_matrix = X
        if matrix.shape[-1] != self.dimension:
            raise InvalidKey(f"key has {matrix.shape[-1]} columns, this tree holds {self.dimension}")
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

    def from_bytes(self, data: list[bytes]) -> scipy.sparse.csr_matrix:
        if any(len(key) % 8 for key in data):
            raise InvalidKey("not a sparse key")
        lengths = [len(key) // 8 for key in data]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        halves = [(key[: 4 * n], key[4 * n :]) for key, n in zip(data, lengths, strict=True)]
        features = np.frombuffer(b"".join(half for half, _ in halves), np.int32)
        weights = np.frombuffer(b"".join(half for _, half in halves), np.float32)
        self._check_columns(features)
        return scipy.sparse.csr_matrix((weights, features, bounds), shape=(len(data), self.dimension))

    def to_user(self, row: SparseBatch) -> scipy.sparse.csr_matrix:
        _, features, weights = row
        return scipy.sparse.csr_matrix((weights, features, [0, len(weights)]), shape=(1, self.dimension))


def as_batch(rows: scipy.sparse.csr_matrix) -> SparseBatch:
    """A scipy matrix in canonical format as a batch."""
    return rows.indptr.astype(np.int64), rows.indices.astype(np.int32), rows.data.astype(np.float32)
