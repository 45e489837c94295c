"""Everything that changes a store: memories come and go, rewards teach. `session.py` sees to it that it lasts."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from memorytree import options
from memorytree.engine.arrays import NONE
from memorytree.errors import InvalidKey, InvalidOption, InvalidReceipt, InvalidReward, MemoryTreeError, UnknownId
from memorytree.packing import packed_value
from memorytree.store import key_codec, tokens
from memorytree.store.answers import StoredHitMatrix, StoredHits
from memorytree.store.arguments import (
    checked_features,
    checked_labels,
    checked_metadata,
    end_of_life,
    lifetimes,
    new_rewards,
    one_each,
    packed_metadata,
)
from memorytree.store.image import Image
from memorytree.store.rows import Lesson, Memory, Reward, sealed
from memorytree.store.session import Session
from memorytree.store.tokens import Question
from memorytree.writing import Learned

# So many memories may come by themselves; the next has an event, which counts them all, and they are taken in.
PATIENCE = 1023


class Writable(Session):
    """A store as its writer sees it; `MemoryStore` is this and all that reads."""

    def _find(self, id: Any) -> tuple[Image, int | None]:
        """The image, and where in it the record of a memory lies; None if there is none or it has expired."""
        image = self._current()
        place = image.tree.get(id) if id in image.tree else None
        if place is not None and image.records.expires.item(place) <= time.time():
            place = None
        return image, place

    def _there(self, id: Any) -> tuple[Image, int]:
        """The same for a memory that must be there."""
        image, place = self._find(id)
        if place is None:
            raise UnknownId(f"no memory has the id {id!r}; ids are whole numbers that insert returned or was given")
        return image, place

    # ---- writing

    def insert(
        self,
        x: Any,
        value: Any,
        *,
        id: int | None = None,
        features: Any = None,
        label: str | int | None = None,
        metadata: Mapping[str, Any] | None = None,
        ttl: float | timedelta | None = None,
    ) -> int:
        """Store a memory and return its id, once it is sure to last.

        Args:
            x, id, features, label: as in `MemoryTree.insert`.
            value: JSON data, bytes, text or a NumPy array.
            metadata: {name: text, number, boolean or None}, for `query(where=...)`.
            ttl: after so many seconds it is gone.
        """
        if id is None and features is None and label is None and os.getpid() == self._owner:
            with self._busy:
                image, now = self._image, time.time()
                if (
                    image is not None
                    and image.encode is not None
                    and image.records.next_expiry > now
                    and image.at - self._noted < PATIENCE
                ):
                    return self._append(image.encode, x, value, metadata, now, ttl)
        ids = [options.id_to_give(id)]
        with self._writing() as image:
            keys, core = image.tree._begin(x)
            data = [key_codec.encoder(keys)(x)]
            given = checked_features(None if features is None else [features], 1, core)
            named = None if label is None else [label]
            now = time.time()
            times = [(now, end_of_life(now, ttl))]
            return self._insert(image, keys, data, [value], ids, given, named, [metadata], times)[0]

    def _append(self, encode: Any, x: Any, value: Any, metadata: Any, now: float, ttl: Any) -> int:
        """Store a memory by itself and return its id. Whoever stores one by one waits for all of this, so it is short."""
        key, told = encode(x), (packed_value(value), packed_metadata(metadata))
        end = None if ttl is None else end_of_life(now, ttl)
        # Only now: what the caller gave may have stored something itself. Should anybody still, the record is taken twice,
        # and the database refuses.
        image = self._image or self._current()
        state, alone, at = self._counted, self._alone, image.at + 1
        record, id = state.next_record + len(alone), state.next_id + len(alone)
        if id > options.LARGEST_ID:
            raise _no_more_ids()
        memory = sealed(Memory, record, id, key, *told, None, None, now, end, at)
        try:
            self._database.append(memory)
            alone.append(memory)
            image.waiting.append(memory)
            self._last = image.at = at
        except MemoryTreeError:
            raise
        except BaseException:
            self._image = None  # to be read again from the disk
            raise
        return id

    def insert_many(
        self,
        X: Any,
        values: Iterable[Any],
        *,
        ids: Sequence[int | None] | np.ndarray | None = None,
        features: Any = None,
        labels: Iterable[str | int | None] | None = None,
        metadata: Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None = None,
        ttl: float | timedelta | Sequence[float | timedelta | None] | None = None,
        times: Sequence[tuple[float | None, float | None]] | None = None,
    ) -> np.ndarray:
        """Store a batch of memories, all or none of them, and return their ids.

        Args:
            X, values, ids, features, labels: as in `MemoryTree.insert_many`; an id that is None is the next free number.
            metadata: one mapping for all, or a mapping or None for each.
            ttl: one for all, or one for each.
            times: instead of `ttl`: for each when it was made (None: now) and when it expires, in seconds since 1970.
        """
        values = options.listed(values)
        numbers = options.ids_for(X, len(values), None)
        if ids is not None:
            taken = one_each("ids", len(numbers), ids, False)
            numbers = np.array([options.id_to_give(id) for id in taken], np.int64)
        if not len(numbers):
            return numbers
        with self._writing() as image:
            keys, core = image.tree._begin(X)
            batch, n = keys.many(X)
            data = key_codec.encoded(keys, X, batch)
            given = checked_features(features, n, core)
            described = one_each("mappings of metadata", n, metadata, isinstance(metadata, Mapping))
            lasting = lifetimes(n, ttl, times)
            named = None if labels is None else options.listed(labels)
            taken = self._insert(image, keys, data, values, numbers.tolist(), given, named, described, lasting)
            return np.array(taken, np.int64)

    def _insert(
        self, image: Image, keys: Any, data: list[bytes], values: list, ids: list[int], features: list, labels: list | None,
        metadata: Sequence, times: Sequence[tuple[float, float | None]],
    ) -> list[int]:  # fmt: skip
        """Store memories whose keys were checked; returns their ids."""
        n, kind = len(ids), key_codec.kind_of(keys)
        if list(kind) != self._facts.get("keys", list(kind)):
            raise InvalidKey(f"this store holds {' keys of dimension '.join(map(str, self._facts['keys']))}, not {kind}")
        first, last = self._state.next_record, self._state.next_record + n - 1
        ids, next_id = self._take_ids(ids)
        leaving, passing = image.departures(ids)
        columns: tuple[Iterable[Any], ...] = (
            range(first, last + 1),
            ids,
            data,
            [packed_value(value) for value in values],
            checked_metadata(metadata),
            [None] * n if labels is None else checked_labels(labels, n),
            features,
            [created for created, _ in times],
            [expires for _, expires in times],
            [image.at + 1] * n,
        )
        memories = [sealed(Memory, *row) for row in zip(*columns, strict=True)]
        event = self._commit(
            image,
            "insert",
            [first, last],
            memories=memories,
            ended=[*map(image.stub, leaving), *((memories[i].record, memories[i].seal) for i in passing)],
            next_id=next_id,
            facts=None if "keys" in self._facts else {"keys": list(kind)},
        )
        image.insert(memories, kind)
        image.at = event.at
        return ids

    def _take_ids(self, ids: list[int]) -> tuple[list[int], int]:
        """The ids of a batch, with numbers for the memories that have none yet, and the next that is free."""
        next_id, taken = self._state.next_id, []
        for id in ids:
            taken.append(next_id if id == NONE else id)
            next_id = max(next_id, taken[-1] + 1)
        if next_id - 1 > options.LARGEST_ID:
            raise _no_more_ids()
        return taken, next_id

    def remove(self, id: int) -> None:
        """Forget a memory; `UnknownId` where there is none."""
        self.remove_many([id])

    def remove_many(self, ids: Iterable[int]) -> None:
        """Forget memories, all or none of them; `UnknownId` where one is not there."""
        asked = options.listed(ids)
        with self._writing() as image:
            for id in asked:
                self._there(id)
            if asked:
                self._remove(image, list(dict.fromkeys(map(int, asked))))

    # ---- learning

    def reward(self, receipt_id: str, rewards: Mapping[int, float]) -> Learned:
        """Say how useful memories were that a query returned, by the `receipt_id` of its hits.

        The first reward of a memory counts; the same again changes nothing, a different one is a `ConflictingReward`.
        """
        if not isinstance(rewards, Mapping):
            raise InvalidReward(f"rewards are a mapping {{memory id: number from 0 to 1}}, not {type(rewards).__name__}")
        with self._writing() as image:
            receipt, question = tokens.read(receipt_id, self._identity)
            if rewards and "keys" in self._facts:
                key_codec.check_key(self._facts["keys"], question.key)
            values = options.rewards_for(len(rewards), rewards.values()).tolist()
            given = {id: reward for id, reward in zip(rewards, values, strict=True) if not math.isnan(reward)}
            return self._teach(image, [(receipt, question, given)])

    def update(self, hits: StoredHits | str, rewards: Any) -> Learned:
        """Say how useful the hits of a query were: for each a number in [0, 1], or None where none was observed."""
        if isinstance(hits, str):
            receipt_id, ids = hits, tokens.read(hits, self._identity)[1].ids
        elif isinstance(hits, StoredHits):
            receipt_id, ids = hits.receipt_id, hits.ids
        else:
            raise InvalidReceipt(f"update takes hits of this store or their receipt_id, not {type(hits).__name__}")
        given = options.rewards_for(len(ids), rewards).tolist()
        return self.reward(receipt_id, {id: reward for id, reward in zip(ids, given, strict=True) if not math.isnan(reward)})

    def update_many(self, hits: StoredHitMatrix, rewards: Any) -> Learned:
        """The same for a batch, as one operation: rewards is an n x k array, NaN where none was observed."""
        if not isinstance(hits, StoredHitMatrix):
            raise InvalidReceipt(f"update_many takes what query_many returned, not {type(hits).__name__}")
        given = options.reward_matrix(hits.ids.shape, rewards)
        with self._writing() as image:
            lessons = []
            for row, (ids, of_row) in enumerate(zip(hits.ids.tolist(), given.tolist(), strict=True)):
                seen = {id: r for id, r in zip(ids, of_row, strict=True) if id != NONE and not math.isnan(r)}
                if seen:
                    lessons.append((*tokens.read(hits.receipt_id(row), self._identity), seen))
            return self._teach(image, lessons)

    def _teach(self, image: Image, given: Sequence[tuple[bytes, Question, dict[int, float]]]) -> Learned:
        """Note rewards and learn from those that are new."""
        now, at, state = time.time(), image.at + 1, self._state
        lessons: list[Lesson] = []
        rewards: list[Reward] = []
        taught = []
        for receipt, question, told in given:
            number, known = self._database.lesson_of(receipt) or (state.next_lesson + len(lessons), None)
            new = new_rewards(question, told, known or {})
            if not new:
                continue
            if known is None:
                lessons.append(sealed(Lesson, number, receipt, question.packed(), at))
            first = state.next_reward + len(rewards)
            rewards += [
                sealed(Reward, first + i, number, id, reward + 0.0, now, at) for i, (id, reward) in enumerate(new.items())
            ]
            taught.append((question, new))
        if not taught:
            return Learned(0, 0)
        bounds = [state.next_reward, state.next_reward + len(rewards) - 1]
        event = self._commit(image, "reward", bounds, lessons=lessons, rewards=rewards)
        learned = image.teach(taught, self._facts["keys"])
        image.at = event.at
        return learned

    def learn(self, passes: int = 1) -> None:
        """The explicit learning step: routers learn, then every memory is placed by them."""
        self._tidy("learn", options.whole("passes", passes, 1))

    def sweep(self) -> int:
        """Put every memory where today's routers send it, without learning; returns how many moved."""
        return int(self._tidy("sweep", None))

    def reroute(self, times: int) -> None:
        """Take a random memory out and put it in again, `times` times."""
        self._tidy("reroute", options.whole("times", times, 0))

    def _tidy(self, kind: str, argument: Any) -> Any:
        with self._writing() as image:
            event = self._commit(image, kind, argument)
            result = image.tidy(kind, event.body)
            image.at = event.at
            return result


def _no_more_ids() -> InvalidOption:
    return InvalidOption("ids go up to 2**61, which a memory has or had: give the next ones an id that is free")
