"""Dense keys: arrays of one length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from memorytree.errors import InvalidKey
from memorytree.keys.base import SAFE_SUM_OF_SQUARES, Keys, check_weights, is_scipy_sparse
from memorytree.keys.named import is_mapping_batch
from memorytree.keys.sparse import KeyRows

_FLOAT32 = np.dtype(np.float32)
Matrix = NDArray[np.float32]


class DenseKeys(Keys[Matrix, Matrix, Matrix]):
    """Arrays of one length; a batch is a float32 matrix, and an encoded key a matrix of one row."""

    kind: ClassVar[str] = "dense"
    sparse: ClassVar[bool] = False

    def __init__(self, dimension: int):
        self.dimension = dimension
        self._shape = (dimension,)

    def one(self, x: object, adding: bool = False) -> Matrix:
        if isinstance(x, np.ndarray) and x.dtype is _FLOAT32 and x.shape == self._shape:
            row: Matrix = x[None].copy()  # the usual case
        else:
            x = as_numbers(x)
            if x.ndim == 1 and x.shape != self._shape:
                raise InvalidKey(f"key has {x.shape[0]} features, this tree holds {self.dimension}")
            if x.ndim != 1:
                raise InvalidKey(f"a key is an array of shape {self._shape}, this one has {x.shape}")
            if x.dtype.itemsize > 4:
                check_weights(x)
            row = np.array(x, _FLOAT32, ndmin=2)
        if adding:
            self.check(row)
        return row

    def check(self, row: Matrix) -> None:
        flat = row[0]
        if not flat.dot(flat) < SAFE_SUM_OF_SQUARES:
            check_weights(flat)

    def batch(self, X: object, adding: bool = False) -> tuple[Matrix, int]:
        array = as_numbers(X)
        if array.size == 0 and array.ndim < 2:
            array = array.reshape(0, self.dimension)
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise InvalidKey(f"a batch of keys has shape (n, {self.dimension}), this one has {array.shape}")
        with np.errstate(over="ignore"):
            batch = np.require(array, np.float32, ["C", "W"])
        check_weights(batch, "a key")
        return batch, len(batch)

    def encode(self, x: object, row: Matrix) -> Matrix:
        return row

    def encode_many(self, X: object, batch: Matrix) -> Matrix:
        return batch.copy() if isinstance(X, np.ndarray) and np.may_share_memory(batch, X) else batch

    def decode(self, encoded: Matrix) -> Matrix:
        return encoded

    def decode_many(self, encoded: Matrix) -> Matrix:
        return encoded

    def take(self, encoded: Matrix, i: int) -> Matrix:
        return encoded[i : i + 1].copy()

    def to_bytes(self, encoded: Matrix) -> bytes:
        return encoded.tobytes()

    def from_bytes(self, data: list[bytes]) -> Matrix:
        if any(len(key) != 4 * self.dimension for key in data):
            raise InvalidKey(f"not a key of {self.dimension} numbers")
        return np.frombuffer(b"".join(data), np.float32).reshape(len(data), self.dimension)

    def to_user(self, row: Matrix) -> Matrix:
        return row[0].copy()


def as_numbers(x: object) -> NDArray[np.generic]:
    """A dense key or batch as an array of real numbers."""
    if is_scipy_sparse(x) or isinstance(x, Mapping | KeyRows) or is_mapping_batch(x):
        raise InvalidKey(f"this tree holds dense keys (arrays), not {type(x).__name__}")
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise InvalidKey(f"a key must be an array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InvalidKey(f"a key must hold real numbers, this one has dtype {array.dtype}")
    return array
