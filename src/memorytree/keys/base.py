"""What every kind of keys can do."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from memorytree.errors import InvalidKey

LARGEST = 1e15
"""No number in a key may be larger: squares and sums of squares then stay finite in float32."""
SAFE_SUM_OF_SQUARES = LARGEST**2
"""No number whose square is part of a smaller sum can be too large, and NaN fails every comparison."""

SparseBatch = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]
B = TypeVar("B")  # a batch for the index
E = TypeVar("E")  # one encoded key
EM = TypeVar("EM")  # encoded keys of a batch


class Keys(ABC, Generic[B, E, EM]):
    """Conversions of keys of one kind.

    An *encoded* key is what hits keep of the key of a query, so that it can be used again when a reward arrives, which may
    be after other keys have been stored.

    Attributes:
        kind: the name of the kind.
        sparse: whether batches are sparse.
        dimension: the number of features; 0 where it grows.
    """

    kind: ClassVar[str]
    sparse: ClassVar[bool]
    dimension: int

    @abstractmethod
    def one(self, x: object, adding: bool = False) -> B:
        """A batch of one key; `InvalidKey` if x is none. With `adding`, unknown features are added to the vocabulary."""

    @abstractmethod
    def batch(self, X: object, adding: bool = False) -> tuple[B, int]:
        """A batch, and the number of keys in it; `InvalidKey` if one is invalid."""

    def check(self, row: B) -> None:
        """Raise `InvalidKey` unless a batch of one, made by `one` without `adding`, holds finite numbers."""

    @abstractmethod
    def encode(self, x: object, row: B) -> E:
        """The key x, which `one` has made a batch of, encoded."""

    @abstractmethod
    def encode_many(self, X: object, batch: B) -> EM:
        """The keys X, which `batch` has made a batch of, encoded."""

    @abstractmethod
    def decode(self, encoded: E) -> B:
        """The batch of one for an encoded key; features that are unknown are added to the vocabulary."""

    @abstractmethod
    def decode_many(self, encoded: EM) -> B:
        """The batch for encoded keys."""

    @abstractmethod
    def take(self, encoded: EM, i: int) -> E:
        """Key i of several encoded ones."""

    @abstractmethod
    def to_bytes(self, encoded: E) -> bytes:
        """An encoded key as bytes."""

    @abstractmethod
    def from_bytes(self, data: list[bytes]) -> object:
        """The keys that `to_bytes` wrote, as a batch in the form in which users give keys.

        Raises:
            InvalidKey: the bytes are no keys of this kind.
        """

    @abstractmethod
    def to_user(self, row: B) -> object:
        """The key of a batch of one in the form in which users give keys."""

    def feature_name(self, feature: int) -> str | int:
        """The name of a feature."""
        return feature

    def vocabulary(self) -> list[str | int] | None:
        """The names of features by number, None where numbers are their names."""
        return None

    def key_to_bytes(self, x: object) -> bytes:
        """A key in the form in which users give keys, checked, as bytes."""
        row = self.one(x)
        self.check(row)
        return self.to_bytes(self.encode(x, row))


def is_scipy_sparse(x: object) -> bool:
    """Whether x is a sparse matrix or array of SciPy.

    There is none before `scipy.sparse` is imported, which takes a fifth of a second; so it is not imported here.
    """
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(x))


def check_weights(weights: NDArray[np.generic], what: str = "key") -> None:
    """Raise `InvalidKey` unless every number is finite and at most `LARGEST`."""
    flat: np.ndarray = weights.reshape(-1)
    if flat.dtype.kind != "f":
        flat = flat.astype(np.float64)
    # One pass without a temporary array decides the usual case.
    if not np.vdot(flat, flat) < SAFE_SUM_OF_SQUARES and not np.all(np.abs(flat) <= LARGEST):
        worst = flat[~(np.abs(flat) <= LARGEST)][0]
        raise InvalidKey(f"{what} holds {worst}; numbers must be finite and at most {LARGEST:g}")
