"""What a query to a store returns: hits whose values are read from the records when they are needed."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload

import numpy as np

from memorytree.packing import Value
from memorytree.receipts import Receipt
from memorytree.results import Hit, HitMatrix, Hits
from memorytree.store.inputs import MetadataValue

if TYPE_CHECKING:
    from memorytree.store.state import StoreState

NONCE_BYTES = 8


class StoreHits(Sequence[Hit]):
    """The memories of a store that fit a key, best first.

    Attributes:
        ids: the ids of the hits, an array of int64.
        scores: their scores, an array of float32; the larger the better.

    Example:
        >>> import memorytree, tempfile
        >>> with memorytree.MemoryStore(tempfile.mkdtemp(), seed=0) as store:
        ...     ids = store.insert_many([[1.0, 0.0], [0.0, 1.0]], ["east", "north"], metadata={"kind": "fact"})
        ...     hits = store.query([0.9, 0.2], k=2)
        ...     hits.ids.tolist(), hits.values, hits.metadata[0], hits[0].value
        ([0, 1], ['east', 'north'], {'kind': 'fact'}, 'east')
    """

    __slots__ = ("_last_record", "_nonce", "_places", "_receipt", "_source", "_state", "_values", "ids", "scores")

    def __init__(self, state: StoreState, source: Hits, nonce: bytes | None = None):
        """Hits of a store from hits of its tree, whose values are places."""
        self.ids: np.ndarray = source.ids
        self.scores: np.ndarray = source.scores
        self._places: list[int | None] = source.values
        self._state, self._source = state, source
        self._values: list[Value] | None = None
        self._nonce, self._last_record = nonce, state.last_record
        self._receipt: Receipt | None = None

    @property
    def values(self) -> list[Value]:
        """The values of the hits. That of a memory which was removed since the query is None."""
        if self._values is None:
            value = self._state.records.value
            self._values = [None if place is None else value(place) for place in self._places]
        return self._values

    @property
    def metadata(self) -> list[dict[str, MetadataValue] | None]:
        """The metadata of the hits as they are now; None for a memory that is not present any more."""
        metadata = self._state.records.metadata
        return [None if place is None else metadata(place) for place in self._places]

    @property
    def receipt(self) -> Receipt:
        """The receipt of the query; `str(receipt)` is a token for `MemoryStore.reward`, in this process or another one."""
        if self._receipt is None:
            self._receipt = replace(
                self._source.receipt,
                ids=tuple(self.ids.tolist()),
                issuer=self._state.identity,
                version=self._state.lineage,
                inserted=self._last_record,
                nonce=self._nonce or secrets.token_bytes(NONCE_BYTES),
            )
        return self._receipt

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        return list(self)[index]

    def __iter__(self) -> Iterator[Hit]:
        return map(Hit, self.ids.tolist(), self.values, self.scores.tolist())

    def __repr__(self) -> str:
        return f"StoreHits({list(self)!r})"


class StoreHitMatrix(Sequence[StoreHits]):
    """The answers of a store to a batch of queries; row i is what `query` would have returned.

    Attributes:
        ids: an array of n x k ids, padded with -1.
        scores: an array of n x k scores, padded with minus infinity.

    Example:
        >>> import memorytree, tempfile
        >>> with memorytree.MemoryStore(tempfile.mkdtemp(), seed=0) as store:
        ...     ids = store.insert_many([[1.0, 0.0], [0.0, 1.0]], ["east", "north"])
        ...     matrix = store.query_many([[0.9, 0.2], [0.1, 0.8]])
        ...     matrix.ids.tolist(), matrix[1].values
        ([[0], [1]], ['north'])
    """

    def __init__(self, ids: np.ndarray, scores: np.ndarray, row: Callable[[int], StoreHits]):
        self.ids, self.scores, self._row = ids, scores, row

    @classmethod
    def from_matrix(cls, state: StoreState, found: HitMatrix) -> StoreHitMatrix:
        """The answers of the tree to a batch."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return cls(found.ids, found.scores, lambda i: StoreHits(state, found[i], nonce=nonce + i.to_bytes(8, "big")))

    @property
    def values(self) -> list[list[Value]]:
        """The values, row by row, without padding."""
        return [hits.values for hits in self]

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> StoreHits: ...
    @overload
    def __getitem__(self, index: slice) -> list[StoreHits]: ...
    def __getitem__(self, index: int | slice) -> StoreHits | list[StoreHits]:
        rows = range(len(self))[index]
        return [self._row(i) for i in rows] if isinstance(rows, range) else self._row(rows)

    def __repr__(self) -> str:
        return f"StoreHitMatrix({self.ids.shape[0]} queries x {self.ids.shape[1]} hits)"
