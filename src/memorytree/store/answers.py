"""What a store answers: hits whose values are read from the records, whose receipts are tokens, and which fit a filter."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from memorytree import options
from memorytree.engine.arrays import NONE
from memorytree.engine.search import AT_NODE
from memorytree.hits import HitMatrix, Hits, blank_trace
from memorytree.store import key_codec, tokens
from memorytree.store.records import FEW, Filter
from memorytree.store.tokens import DECISION, Question

if TYPE_CHECKING:
    from memorytree.store.image import Image  # which has answers of this kind made

# A filtered query asks the tree for more, fourfold each time, until it looks into so many leaves; then at all that fit.
WIDEST_BEAM = 64
NONCE_BYTES = 8


class StoredHits(Hits):
    """The memories of a store that fit a key, best first.

    `receipt_id` is a string by which a reward finds its way back, in this process or another, today or tomorrow. `values`
    and `metadata` are read when they are asked for; those of a memory that has been removed since the query are None.
    """

    __slots__ = ("_image", "_places", "_read", "_token")

    def __init__(
        self,
        image: Any,
        ids: list[int],
        places: list[int],
        scores: list[float],
        keys: Any,
        kept: Any,
        trace: np.ndarray,
        nonce: bytes | None = None,
    ):
        self.ids = ids
        self.scores = scores
        self._keys, self._kept, self._trace = keys, kept, trace
        self._image, self._places = image, places
        self._read: list[Any] | None = None
        self._token: str | bytes | None = nonce  # what the receipt's id is made with, and then the id

    @property
    def values(self) -> list[Any]:  # type: ignore[override]
        """The value of each hit."""
        if self._read is None:
            self._read = self._image.records.values_at(self._places)
        return self._read

    @property
    def metadata(self) -> list[dict[str, Any] | None]:
        """The metadata of each hit."""
        metadata = self._image.records.metadata
        return [None if place is None else metadata(place) for place in self._places]

    @property
    def receipt_id(self) -> str:
        """What `reward` takes. That of a store without memories has no key to learn from."""
        if not isinstance(self._token, str):
            key = b"" if self._kept is None else key_codec.encoded_kept(self._keys, self._kept)
            # Only what was explored has more to tell than its branch.
            decision = [int(self._trace[place]) for place in DECISION]
            if decision[0] != AT_NODE:
                decision[1:] = [NONE] * (len(DECISION) - 1)
            question = Question(key, self.ids, decision, self._image.lineage)
            self._token = tokens.issue(self._image.identity, self._token or secrets.token_bytes(NONCE_BYTES), question)
        return self._token

    def only(self, kept: Iterable[Any]) -> StoredHits:
        """Some of the hits. What leaf each lay in is no longer told."""
        chosen = [i for i, keep in enumerate(kept) if keep]
        trace = blank_trace(len(chosen))
        trace[list(DECISION)] = self._trace[list(DECISION)]
        ids, places = [self.ids[i] for i in chosen], [self._places[i] for i in chosen]
        return StoredHits(self._image, ids, places, [self.scores[i] for i in chosen], self._keys, self._kept, trace)


class StoredHitMatrix(HitMatrix):
    """The answers of a store to a batch of queries; row i is what `query` would have given."""

    def __init__(self, image: Image, found: HitMatrix):
        super().__init__(found.ids, found.scores, image, found._keys, found._kept, found._traces)
        self._nonce = secrets.token_bytes(NONCE_BYTES)

    @classmethod
    def of(cls, image: Image, rows: Sequence[StoredHits], blank: HitMatrix) -> StoredHitMatrix:
        """Hits that were found row by row; `blank` has the shape and the keys."""
        blank.ids[:], blank.scores[:] = NONE, -np.inf
        for i, hits in enumerate(rows):
            blank.ids[i, : len(hits)], blank.scores[i, : len(hits)] = hits.ids, hits.scores
        traces = np.tile(blank_trace(blank.ids.shape[1]), (len(rows), 1))
        for i, hits in enumerate(rows):
            traces[i, list(DECISION)] = hits._trace[list(DECISION)]
        return cls(image, HitMatrix(blank.ids, blank.scores, None, blank._keys, blank._kept, traces))

    def __getitem__(self, index: Any) -> Any:
        """Row i as hits, or several rows."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        image: Any = self._tree
        hits = HitMatrix(self.ids, self.scores, image.tree, self._keys, self._kept, self._traces)[i]
        nonce = self._nonce + i.to_bytes(8, "big")
        return StoredHits(image, hits.ids, hits.values, hits.scores, hits._keys, hits._kept, hits._trace, nonce)

    def receipt_id(self, row: int) -> str:
        """What `reward` takes for a row."""
        return str(self[row].receipt_id)


def filtered(
    image: Image, x: Any, k: int, where: Mapping[str, Any] | None, exclude: Iterable[int] | None, beam: int, **asked: Any
) -> StoredHits:
    """The best k of the memories that fit a filter and have not expired.

    The tree is asked for more and more, until there are k that fit. Where few can fit, or none of that was enough, each of
    those that fit is compared with the key.
    """
    k, beam = options.whole("k", k, 1), max(image.tree._checked_beam(beam), 1)
    exclude = None if exclude is None else options.ids("exclude", exclude).tolist()
    with image.looked_at():
        chosen = Filter(image.records, where, time.time())
        while chosen.at_most >= FEW:
            hits = _asked_of_the_tree(image, x, k, chosen, beam, exclude, asked)
            if hits is not None:
                return hits
            if beam >= WIDEST_BEAM:
                break
            beam = min(4 * beam, WIDEST_BEAM)
        return _compared_one_by_one(image, x, k, chosen, exclude, asked)


def _asked_of_the_tree(
    image: Image, x: Any, k: int, chosen: Filter, beam: int, exclude: list[int] | None, asked: dict[str, Any]
) -> StoredHits | None:
    """The k best that fit among what the tree finds with this beam; None if it finds fewer."""
    n = len(image.tree)
    # Twice as many as it would take if those that fit were anywhere.
    wide = 2 * beam * k * max(1, n // int(min(chosen.at_most, n) or 1))
    hits: Any = image.tree.query(x, max(1, min(wide, n)), beam=beam, exclude=exclude, **asked)
    fitting = np.cumsum(chosen.fits(np.array(hits._places, np.int64)))
    if not len(hits) or fitting[-1] < k:
        return None
    found: StoredHits = hits.only((np.diff(fitting, prepend=0) > 0) & (fitting <= k))
    return found


def _compared_one_by_one(
    image: Image, x: Any, k: int, chosen: Filter, exclude: list[int] | None, asked: dict[str, Any]
) -> StoredHits:
    """The k best of all that fit."""
    any_hit: Any = image.tree.query(x, 1, **asked)  # for the key as it is kept, and the errors of one that is none
    places = chosen.places()
    ids = image.records.ids[places]
    if exclude:
        kept = ~np.isin(ids, exclude)
        places, ids = places[kept], ids[kept]
    scores = image.tree.compare(x, ids)
    best = np.lexsort((ids, -scores))[:k]
    found = ids[best].tolist(), places[best].tolist(), scores[best].tolist()
    return StoredHits(image, *found, any_hit._keys, any_hit._kept, blank_trace(len(best)))
