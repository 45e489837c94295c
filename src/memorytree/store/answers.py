"""What a store answers: hits whose values are read from the records, whose receipts are tokens, and which fit a filter."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from memorytree import options
from memorytree.hits import HitMatrix, Hits, blank_trace
from memorytree.packing import unpacked
from memorytree.store import key_codec, tokens
from memorytree.store.image import Image
from memorytree.store.records import FEW, Filter
from memorytree.store.tokens import DECISION, Question

# A filtered query asks the tree for more, fourfold each time, until it looks into so many leaves; then at all that fit.
WIDEST_BEAM = 64
NONCE_BYTES = 8


class StoredHits(Hits):
    """The memories of a store that fit a key, best first.

    `receipt_id` is a string by which a reward finds its way back, in this process or another, today or tomorrow;
    `metadata` is that of each hit.
    """

    # No slots: what is asked for rarely is made when it is asked for.

    def __init__(self, image: Image, hits: Hits, issued: Callable[[], str]):
        data = [image.records.packed_value(place) for place in hits.values]
        if None in data:  # removed by another thread since the tree was asked
            hits = _only(hits, [found is not None for found in data])
            data = [found for found in data if found is not None]
        super().__init__(hits.ids, [unpacked(found) for found in data], hits.scores, hits._keys, hits._kept, hits._trace)
        self._places, self._records = hits.values, image.records
        self._issued = issued

    @cached_property
    def receipt_id(self) -> str:
        """What `reward` takes."""
        return self._issued()

    @cached_property
    def metadata(self) -> list[dict[str, Any]]:
        """The metadata of each hit."""
        return [self._records.metadata(place) for place in self._places]


def dressed(store: bytes, image: Image, hits: Hits) -> StoredHits:
    """The hits of a tree, whose values are places, as hits of the store."""
    return StoredHits(image, hits, lambda: _token(store, secrets.token_bytes(NONCE_BYTES), image, hits))


def _token(store: bytes, nonce: bytes, image: Image, hits: Hits) -> str:
    """The receipt of hits as a string. A store that is empty has no keys to learn from."""
    key = b"" if hits._kept is None else key_codec.encoded_kept(hits._keys, hits._kept)
    decision = [int(hits._trace[place]) for place in DECISION]
    return tokens.issue(store, nonce, Question(key, hits.ids, decision, image.lineage))


class StoredHitMatrix(HitMatrix):
    """The answers of a store to a batch of queries; row i is what `query` would have given."""

    def __init__(self, store: Any, image: Image, found: HitMatrix):
        super().__init__(found.ids, found.scores, store, found._keys, found._kept, found._traces)
        self._image, self._identity = image, store._identity
        self._found = HitMatrix(found.ids, found.scores, image.tree, found._keys, found._kept, found._traces)
        self._nonce = secrets.token_bytes(NONCE_BYTES)

    def __getitem__(self, index: Any) -> Any:
        """Row i as hits, or several rows."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        hits = self._found[i]
        there = _only(hits, [place is not None for place in hits.values])
        return StoredHits(self._image, there, lambda: self.receipt_id(i))

    def __iter__(self) -> Iterator[Any]:
        """Row by row."""
        return (self[i] for i in range(len(self)))

    def receipt_id(self, row: int) -> str:
        """What `reward` takes for a row."""
        return _token(self._identity, self._nonce + row.to_bytes(8, "big"), self._image, self._found[row])


def _only(hits: Hits, kept: Iterable[Any]) -> Hits:
    """Some of the hits. What leaf each lay in is no longer told."""
    chosen = [i for i, keep in enumerate(kept) if keep]
    if len(chosen) == len(hits):
        return hits
    trace = blank_trace(len(chosen))
    trace[list(DECISION)] = hits._trace[list(DECISION)]
    ids, values = [hits.ids[i] for i in chosen], [hits.values[i] for i in chosen]
    return Hits(ids, values, [hits.scores[i] for i in chosen], hits._keys, hits._kept, trace)


def filtered(
    image: Image, x: Any, k: int, where: Mapping[str, Any] | None, exclude: Iterable[int] | None, beam: int, **asked: Any
) -> Hits:
    """The best k of the memories that fit a filter and have not expired; the values are places.

    The tree is asked for more and more, until there are k that fit. Where few can fit, or none of that was enough, each of
    those that fit is compared with the key.
    """
    records, tree = image.records, image.tree
    k = options.whole("k", k, 1)
    exclude = None if exclude is None else options.ids("exclude", exclude).tolist()
    chosen = Filter(records, where, time.time())
    if chosen.at_most >= FEW:
        wide = k * max(1, int(2 * len(tree) / min(chosen.at_most, len(tree) or 1)))
        while beam <= WIDEST_BEAM:
            hits = tree.query(x, max(1, min(wide, len(tree))), beam=beam, exclude=exclude, **asked)
            fitting = np.cumsum(chosen.fits(np.array(hits.values, np.int64)))
            if len(hits) and fitting[-1] >= k:
                return _only(hits, (np.diff(fitting, prepend=0) > 0) & (fitting <= k))
            wide, beam = 4 * wide, 4 * beam
    hits = tree.query(x, 1, **asked)  # for the key as it is kept, and for the errors of a key that is none
    places = chosen.places()
    ids = records.ids.array[places]
    if exclude:
        kept = ~np.isin(ids, exclude)
        places, ids = places[kept], ids[kept]
    scores = tree.compare(x, ids)
    there = ~np.isneginf(scores)
    places, ids, scores = places[there], ids[there], scores[there]
    best = np.lexsort((ids, -scores))[:k]
    found = ids[best].tolist(), places[best].tolist(), scores[best].tolist()
    return Hits(*found, hits._keys, hits._kept, blank_trace(len(best)))
