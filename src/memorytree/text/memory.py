"""TextMemory: remember texts, recall them by a question, say which were useful, forget them."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, NamedTuple, Self, overload

import numpy as np

from memorytree import options
from memorytree.errors import InvalidOption, InvalidReceipt
from memorytree.inspection import Explanation
from memorytree.store import MemoryStore, exists, tokens
from memorytree.text.keys import Encoder, VectorKeys, WordKeys
from memorytree.writing import Learned


class TextHit(NamedTuple):
    """One text that was recalled: its id, the text, its score (the larger the better), and what is known of it."""

    id: int
    text: str
    score: float
    metadata: dict[str, Any]


class Recall(Sequence[TextHit]):
    """The texts that answer a question best, best first.

    `receipt` is a string by which a reward finds its way back, later or from another process.
    """

    def __init__(self, hits: Any):
        self._hits = hits

    @property
    def ids(self) -> list[int]:
        """The ids of the texts."""
        return list(self._hits.ids)

    @property
    def texts(self) -> list[str]:
        """The texts themselves."""
        return list(self._hits.values)

    @property
    def receipt(self) -> str:
        """What `reward` takes, in this process or another."""
        return str(self._hits.receipt_id)

    def __len__(self) -> int:
        return len(self._hits.ids)

    @overload
    def __getitem__(self, index: int) -> TextHit: ...
    @overload
    def __getitem__(self, index: slice) -> list[TextHit]: ...
    def __getitem__(self, index: int | slice) -> TextHit | list[TextHit]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        hits = self._hits
        return TextHit(hits.ids[index], hits.values[index], hits.scores[index], hits.metadata[index])

    def __repr__(self) -> str:
        return f"Recall({list(self)!r})"


class TextMemory:
    """Texts that can be asked for in words, and that learn from rewards which words tell.

    Without an encoder a text is known by its words, pairs of words and parts of words; what few texts have counts more, as
    of the moment of the question. No model and no download is needed.

    Args:
        path: a directory in which everything lasts (made if there is none); None: a temporary one that goes with the memory.
        encoder: a function from a list of texts to as many vectors, or from a text to its vector, if these are to be the
            keys. A memory keeps to the encoder it was made with, or to none.
        mode: "w" to write (one writer at a time), "r" to read beside a writer.
        durability: "full": what was acknowledged survives a power cut; "normal": it survives the end of the process.
        capacity: keep at most so many texts; the one whose last use lies furthest back goes.
        seed: the same seed and the same writes give the same memory.

    Example:
        >>> memory = TextMemory(seed=0)
        >>> ada = memory.remember("Ada's favourite colour is green", speaker="Ada")
        >>> bob = memory.remember("Bob takes the train to work", speaker="Bob")
        >>> found = memory.recall("How does Bob get to work?", k=1)
        >>> found[0].text
        'Bob takes the train to work'
        >>> memory.reward(found, bob)
        Learned(learned=1, skipped=0)
        >>> memory.recall("colours", where={"speaker": "Bob"}).texts
        ['Bob takes the train to work']
        >>> memory.forget(ada)
        >>> len(memory)
        1
    """

    def __init__(
        self,
        path: str | os.PathLike | None = None,
        *,
        encoder: Encoder | None = None,
        mode: str = "w",
        durability: str = "full",
        capacity: int | None = None,
        seed: int | None = None,
    ):
        self._made_of = WordKeys() if encoder is None else VectorKeys(encoder)
        if path is None:
            if mode != "w":
                raise InvalidOption(f'a memory without a path is there for its one writer: mode is "w", not {mode!r}')
            path, durability = tempfile.mkdtemp(prefix="memorytree-"), "normal"
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        self._store = self._opened(path, mode=mode, durability=durability, capacity=capacity, seed=seed)

    def _opened(self, path: str | os.PathLike, **options: Any) -> MemoryStore:
        """The store at a path, if its keys are made as ours are."""
        # What is settled when a memory is made may be made otherwise by a later version.
        made = {} if exists(path) else {"settings": {"text": self._made_of.mark()}, **self._made_of.options}
        store = MemoryStore(path, **made, **options)
        mark = store.settings.get("text")
        if mark is None or not self._made_of.fit(mark):
            store.close()
            what = "holds no texts: open it with memorytree.open" if mark is None else "was made with another encoder"
            raise InvalidOption(f"{path} {what}")
        return store

    # ---- writing

    def remember(self, text: str, /, *, id: int | None = None, ttl: Any = None, **metadata: Any) -> int:
        """Remember a text and return its id.

        Args:
            text: what to remember.
            id: the id to give it (a text that has it is replaced); by default the next free number.
            ttl: after so many seconds (or a timedelta) it is gone.
            metadata: what else is known of it: texts, numbers, booleans or None, for `recall(where=...)`.
        """
        key = self._made_of.row(checked(text))
        return int(self._store.insert(key, text, id=id, metadata=metadata or None, ttl=ttl))

    def remember_many(
        self,
        texts: Iterable[str],
        *,
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
        ids: Sequence[int] | None = None,
        ttl: Any = None,
    ) -> list[int]:
        """Remember texts, all or none of them, and return their ids.

        Args:
            texts: what to remember.
            metadata: a mapping or None for each.
            ids: the ids to give them.
            ttl: after so many seconds they are gone: one for all, or one for each.
        """
        if isinstance(texts, str):
            raise InvalidOption("remember_many takes a list of texts; remember takes one")
        texts = [checked(text) for text in options.listed(texts)]
        if not texts:
            return []
        found = self._store.insert_many(self._made_of.rows(texts), texts, ids=ids, metadata=metadata, ttl=ttl)
        return [int(id) for id in found]

    def forget(self, id: int) -> None:
        """Forget a text; `UnknownId` where there is none."""
        self._store.remove(id)

    def reward(self, recall: Recall | str, rewards: Any) -> Learned:
        """Say how useful the texts were that a question recalled.

        Args:
            recall: what `recall` returned, or its `receipt`.
            rewards: the id of the text that was useful, or a set of such ids (the others were not); a mapping {id: number
                from 0 to 1}; or a list with one such number for each text, None where none was observed.

        Something is learned where one text was more useful than another.
        """
        if not isinstance(recall, Recall | str):
            raise InvalidReceipt(f"reward takes what recall returned, or its receipt, not {type(recall).__name__}")
        receipt = recall.receipt if isinstance(recall, Recall) else recall
        if isinstance(rewards, int | np.integer) and not isinstance(rewards, bool):
            rewards = {int(rewards)}
        if isinstance(rewards, AbstractSet):
            returned = tokens.read(receipt, self._store._identity)[1].ids
            rewards = {**dict.fromkeys(returned, 0.0), **dict.fromkeys(rewards, 1.0)}
        if isinstance(rewards, Mapping):
            return self._store.reward(receipt, rewards)
        return self._store.update(receipt, rewards)

    # ---- reading

    def recall(self, question: str, k: int = 5, *, where: Mapping[str, Any] | None = None, explore: float = 0.0) -> Recall:
        """The texts that answer a question best, at most k.

        Args:
            question: in plain words.
            k: how many to return.
            where: only texts with this metadata: {"user": "u17", "kind": ["fact", "task"]}.
            explore: with this probability one decision is left to chance, so that rewards tell something new.
        """
        key = self._made_of.row(checked(question))
        return Recall(self._store.query(key, k, where=where, explore=explore, beam=self._made_of.beam))

    def explain(self, question: str, k: int = 5) -> Explanation:
        """Why a question recalls what it does: for each text the three features it has in common that count most."""
        told = self._store.explain(self._made_of.row(checked(question)), k, beam=self._made_of.beam)
        names = self._made_of.names(question)
        candidates = tuple(
            replace(candidate, parts=tuple((names.get(feature, feature), part) for feature, part in candidate.parts))
            for candidate in told.candidates
        )
        return replace(told, candidates=candidates)

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, id: object) -> bool:
        return id in self._store

    def __iter__(self) -> Iterator[int]:
        """The ids, in order of insertion."""
        return iter(self._store)

    def __getitem__(self, id: int) -> str:
        """The text that has an id."""
        return str(self._store[id])

    def metadata(self, id: int) -> dict[str, Any]:
        """What else is known of a text."""
        return dict(self._store.metadata(id))

    # ---- upkeep

    @property
    def store(self) -> MemoryStore:
        """What the texts lie in, with all its means of upkeep: checkpoint, verify, backup, export ..."""
        return self._store

    def close(self) -> None:
        """Let go of the files."""
        self._store.close()

    def __enter__(self) -> Self:
        """The memory itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        return f"<TextMemory in {self._store!r}>"


def checked(text: Any) -> str:
    """A text, if it is one."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidOption(f"a text is a str with something in it, not {text!r:.80}")
    return text
