"""The keys of a flat index by row, and the distances from a query to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from memorytree.index.base import Array, Ids, KeyBatch, Scores
from memorytree.results import Outline

Distances = NDArray[np.float64]
QueryKey = TypeVar("QueryKey")

LEAST_ROWS = 64
"""Arrays begin with room for so many rows, and double."""


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
