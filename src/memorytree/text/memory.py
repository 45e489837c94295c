"""TextMemory: store texts, find them by questions, learn from rewards, forget them."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar, cast, overload

from memorytree.errors import InvalidOption
from memorytree.results import Explanation
from memorytree.store import MemoryStore, exists
from memorytree.store.inputs import Lifetime, Metadata, MetadataValue, Where
from memorytree.text.encoders import Encoder, Fingerprint, KeyMaker, VectorKeys, WordKeys, check_text
from memorytree.text.hits import TextHits
from memorytree.text.learning import TextLearner

Default = TypeVar("Default")


class TextMemory(TextLearner):
    """Texts that are found by questions, in a store on disk that learns from rewards.

    Without an encoder a text is compared by its words, pairs of words and character 4-grams; rare ones weigh more, counted
    over the texts that are stored at the time of the question. This needs no model and no download.

    Args:
        path: the directory of the store, created if missing. None: a temporary directory that is deleted with the memory.
        encoder: a function from a list of texts to as many vectors, or from one text to its vector. A memory can only be
            opened with the encoder it was created with (or without one).
        mode: "w" to read and write (one process at a time), "r" to read, also while another process writes.
        durability: "full": acknowledged changes survive a power cut; "normal": they survive the end of the process.
        capacity: the largest number of texts. When it is exceeded, the text that was least recently useful is removed.
        seed: the same seed and the same calls give the same memory.

    Raises:
        InvalidOption: the store holds no texts, or was created with another encoder.
        StoreLocked: another process has the store open for writing.
        StoreError: the directory cannot be used.

    Example:
        >>> memory = TextMemory(seed=0)
        >>> ada = memory.remember("Ada's favourite colour is green", {"speaker": "Ada"})
        >>> bob = memory.remember("Bob takes the train to work", {"speaker": "Bob"})
        >>> hits = memory.recall("How does Bob get to work?", k=1)
        >>> hits[0].text
        'Bob takes the train to work'
        >>> memory.reward(hits, [1.0])
        RewardResult(learned=0, skipped=0, experiences=1)
        >>> memory.recall("colours", where={"speaker": "Bob"}).texts
        ['Bob takes the train to work']
        >>> memory.forget(ada)
        1
        >>> len(memory)
        1
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        encoder: Encoder | None = None,
        mode: str = "w",
        durability: str = "full",
        capacity: int | None = None,
        seed: int | None = None,
    ):
        keys: KeyMaker = WordKeys() if encoder is None else VectorKeys(encoder)
        if path is None:
            if mode != "w":
                raise InvalidOption(f'mode must be "w" for a memory without a path, not {mode!r}')
            path, durability = tempfile.mkdtemp(prefix="memorytree-"), "normal"
            weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)
        options: dict[str, Any] = {"mode": mode, "durability": durability, "capacity": capacity, "seed": seed}
        if not exists(path):
            # An existing store keeps the options it was created with.
            options |= {"app_settings": {"text": keys.fingerprint()}, **keys.store_options}
        super().__init__(keys, MemoryStore(path, **options))
        fingerprint = cast(Fingerprint | None, self._store.app_settings.get("text"))
        if fingerprint is None or not self._keys.matches(fingerprint):
            self._store.close()
            reason = (
                "holds no texts; open it with memorytree.open" if fingerprint is None else "was created with another encoder"
            )
            raise InvalidOption(f"{path} {reason}")

    # ---- writing

    def remember(self, text: str, metadata: Metadata | None = None, *, id: int | None = None, ttl: Lifetime = None) -> int:
        """Store a text.

        Args:
            text: the text; it must contain more than spaces.
            metadata: {name: str, int, float, bool or None}, for `recall(where=...)`.
            id: its id, an integer >= 0. A text that has this id is replaced. None: the next free integer.
            ttl: lifetime in seconds or as a timedelta, after which the text is gone. None: no limit.

        Returns:
            The id.

        Raises:
            InvalidOption: an argument is not as described.

        Example:
            >>> with TextMemory() as memory:
            ...     memory.remember("The umbrella is behind the door", {"room": "hall"}, ttl=3600)
            0
        """
        key = self._keys.key(check_text(text))
        return int(self._store.insert(key, text, id=id, metadata=metadata or None, ttl=ttl))

    def remember_many(
        self,
        texts: Iterable[str],
        metadata: Sequence[Metadata | None] | None = None,
        *,
        ids: Sequence[int | None] | None = None,
        ttl: Lifetime | Sequence[Lifetime] = None,
    ) -> list[int]:
        """Store several texts as one operation: all of them or, after an error, none.

        Args:
            texts: n texts.
            metadata: n mappings (or None for a text without metadata).
            ids: n ids (None for the next free integer).
            ttl: one lifetime for all texts, or n lifetimes.

        Returns:
            The n ids.

        Raises:
            InvalidOption: an argument is not as described.

        Example:
            >>> with TextMemory() as memory:
            ...     memory.remember_many(["Ada likes tea", "Bob likes coffee"], [{"who": "Ada"}, {"who": "Bob"}])
            [0, 1]
        """
        if isinstance(texts, str):
            raise InvalidOption("remember_many takes a list of texts; use remember for one text")
        texts = [check_text(text) for text in texts]
        if not texts:
            return []
        ids_given = self._store.insert_many(self._keys.keys(texts), texts, ids=ids, metadata=metadata, ttl=ttl)
        return [int(id) for id in ids_given]

    def update_metadata(self, id: int, metadata: Metadata, *, replace: bool = False) -> None:
        """Change the metadata of a text.

        Args:
            id: the id of the text.
            metadata: the names to set; other names keep their values.
            replace: remove all other names.

        Raises:
            UnknownId: no text has this id.
            InvalidOption: the metadata is not as described for `remember`.

        Example:
            >>> with TextMemory() as memory:
            ...     id = memory.remember("Ada likes tea", {"who": "Ada"})
            ...     memory.update_metadata(id, {"checked": True})
            ...     memory.metadata(id)
            {'who': 'Ada', 'checked': True}
        """
        self._store.update_metadata(id, metadata, replace=replace)

    def forget(self, id: int | None = None, *, where: Where | None = None) -> int:
        """Remove a text by its id, or all texts with some metadata.

        Args:
            id: the id of a text.
            where: instead of an id, metadata as in `recall`.

        Returns:
            How many texts were removed.

        Raises:
            UnknownId: no text has this id.
            InvalidOption: both an id and metadata were given, or neither.

        Example:
            >>> memory = TextMemory()
            >>> _ = memory.remember_many(["a draft", "a second draft", "a letter"], [{"draft": True}, {"draft": True}, {}])
            >>> memory.forget(where={"draft": True}), memory.forget(2)
            (2, 1)
        """
        return self._store.remove(id, where=where)

    # ---- reading

    def recall(self, question: str, k: int = 5, *, where: Where | None = None, explore: float = 0.0) -> TextHits:
        """Find the texts that answer a question best.

        Args:
            question: a text.
            k: the largest number of hits. If fewer texts have a feature in common with the question, those that were used
                last follow with score 0.
            where: only texts with this metadata, {name: value or list of alternatives}, such as
                {"user": "u17", "kind": ["fact", "task"]}.
            explore: the probability, in [0, 1], that one decision of the search is random, to collect rewards for texts that
                would not be found otherwise.

        Returns:
            At most k hits, best first.

        Raises:
            InvalidOption: an argument is not as described.

        Example:
            >>> with TextMemory() as memory:
            ...     _ = memory.remember_many(["Ada likes tea", "Bob likes tea"], [{"who": "Ada"}, {"who": "Bob"}])
            ...     memory.recall("tea?", where={"who": ["Bob", "Cleo"]}).texts
            ['Bob likes tea']
        """
        key = self._keys.key(check_text(question))
        return TextHits(self._store.query(key, k, where=where, explore=explore, beam=self._keys.beam))

    def explain(self, question: str, k: int = 5) -> Explanation:
        """Show why a question finds the texts it does.

        Args:
            question: a text.
            k: how many hits to explain.

        Returns:
            For each hit the three features shared with the question that contribute most to its score.

        Raises:
            InvalidOption: an argument is not as described.

        Example:
            >>> with TextMemory() as memory:
            ...     _ = memory.remember("The cat sleeps on the sofa")
            ...     candidate = memory.explain("cat?").candidates[0]
            >>> candidate.hit.value, sorted(feature for feature, part in candidate.parts)
            ('The cat sleeps on the sofa', ['cat', '~ cat', '~cat '])
        """
        explanation = self._store.explain(self._keys.key(check_text(question)), k, beam=self._keys.beam)
        names: dict[str | int, str] = dict(self._keys.feature_names(question).items())
        candidates = tuple(
            replace(candidate, parts=tuple((names.get(column, column), part) for column, part in candidate.parts))
            for candidate in explanation.candidates
        )
        return replace(explanation, candidates=candidates)

    def ids(self, where: Where | None = None) -> list[int]:
        """The ids of all texts, or of those with some metadata, in order of insertion.

        Args:
            where: metadata as in `recall`.

        Returns:
            The ids.

        Example:
            >>> with TextMemory() as memory:
            ...     _ = memory.remember_many(["Ada likes tea", "Bob likes tea"], [{"who": "Ada"}, {"who": "Bob"}])
            ...     memory.ids(), memory.ids(where={"who": "Bob"})
            ([0, 1], [1])
        """
        return self._store.ids(where)

    @overload
    def get(self, id: int) -> str | None: ...
    @overload
    def get(self, id: int, default: Default) -> str | Default: ...
    def get(self, id: int, default: Default | None = None) -> str | Default | None:
        """The text with an id, or `default` if there is none.

        Args:
            id: an id.
            default: what to return for an unknown id.

        Returns:
            The text or `default`.

        Example:
            >>> with TextMemory() as memory:
            ...     _ = memory.remember("Ada likes tea", id=7)
            ...     memory.get(7), memory.get(8), memory.get(8, "nothing")
            ('Ada likes tea', None, 'nothing')
        """
        return cast(str | Default | None, self._store.get(id, default))

    def metadata(self, id: int) -> dict[str, MetadataValue]:
        """The metadata of a text.

        Args:
            id: an id.

        Returns:
            A new dict.

        Raises:
            UnknownId: no text has this id.

        Example:
            >>> with TextMemory() as memory:
            ...     memory.metadata(memory.remember("Ada likes tea", {"who": "Ada"}))
            {'who': 'Ada'}
        """
        return dict(self._store.metadata(id))

    def __len__(self) -> int:
        return len(self._store)

    def __contains__(self, id: object) -> bool:
        return id in self._store

    def __iter__(self) -> Iterator[int]:
        """The ids, in order of insertion."""
        return iter(self._store)

    def __getitem__(self, id: int) -> str:
        """The text with an id; `UnknownId` if there is none."""
        return str(self._store[id])

    # ---- maintenance

    @property
    def store(self) -> MemoryStore:
        """The store that holds the texts, with `verify`, `backup`, `compact`, export and import.

        Example:
            >>> with TextMemory() as memory:
            ...     memory.store.verify().ok
            True
        """
        return self._store

    def close(self) -> None:
        """Close the store. A memory without a path loses its texts when it is garbage collected.

        Example:
            >>> TextMemory().close()
        """
        self._store.close()

    def __enter__(self) -> Self:
        """The memory itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the memory."""
        self.close()

    def __repr__(self) -> str:
        return f"<TextMemory in {self._store!r}>"
