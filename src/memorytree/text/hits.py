"""What `TextMemory.recall` returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from memorytree.receipts import Receipt
from memorytree.store import StoreHits
from memorytree.store.inputs import MetadataValue


class TextHit(NamedTuple):
    """One text that answers a question.

    Attributes:
        id: its id.
        text: the text.
        score: how well it fits; larger is better.
        metadata: its metadata.

    Example:
        >>> from memorytree import TextMemory
        >>> with TextMemory(seed=0) as memory:
        ...     _ = memory.remember("Ada likes tea", {"kind": "fact"})
        ...     hit = memory.recall("Ada likes tea")[0]
        >>> hit.id, hit.text, round(hit.score, 6), hit.metadata
        (0, 'Ada likes tea', 1.0, {'kind': 'fact'})
    """

    id: int
    text: str
    score: float
    metadata: dict[str, MetadataValue]


class TextHits(Sequence[TextHit]):
    """The texts that answer a question, best first.

    A sequence of `TextHit`. `TextMemory.recall` makes it; the texts are those of that moment and stay when the memory
    changes or is closed.

    Example:
        >>> from memorytree import TextMemory
        >>> with TextMemory(seed=0) as memory:
        ...     _ = memory.remember_many(["Ada likes tea", "Bob takes the train"])
        ...     hits = memory.recall("the train", k=2)
        >>> hits.texts
        ['Bob takes the train', 'Ada likes tea']
        >>> hits[0].id, len(hits)
        (1, 2)
        >>> hits.ids, hits.scores.round(2)
        (array([1, 0]), array([0.83, 0.  ], dtype=float32))
    """

    def __init__(self, hits: StoreHits):
        self._ids = np.asarray(hits.ids, np.int64)
        self._scores = np.asarray(hits.scores, np.float32)
        columns = self._ids.tolist(), hits.values, self._scores.tolist(), hits.metadata
        self._hits = [TextHit(id, text, score, metadata or {}) for id, text, score, metadata in zip(*columns, strict=True)]
        self._stored = hits

    @property
    def ids(self) -> NDArray[np.int64]:
        """The ids of the texts: an array of shape (number of hits,)."""
        return self._ids

    @property
    def texts(self) -> list[str]:
        """The texts."""
        return [hit.text for hit in self._hits]

    @property
    def scores(self) -> NDArray[np.float32]:
        """The scores of the texts, in descending order: an array of shape (number of hits,)."""
        return self._scores

    @property
    def metadata(self) -> list[dict[str, MetadataValue]]:
        """The metadata of the texts."""
        return [hit.metadata for hit in self._hits]

    @property
    def receipt(self) -> Receipt:
        """What `TextMemory.reward` needs to learn from this answer; `str(receipt)` can be stored or sent elsewhere."""
        return self._stored.receipt

    def __len__(self) -> int:
        return len(self._hits)

    @overload
    def __getitem__(self, index: int) -> TextHit: ...
    @overload
    def __getitem__(self, index: slice) -> list[TextHit]: ...
    def __getitem__(self, index: int | slice) -> TextHit | list[TextHit]:
        return self._hits[index]

    def __repr__(self) -> str:
        return f"TextHits({self._hits!r})"
