"""The image of a store in memory: a tree and the records of its memories, as the events have made them.

Live operations and the replay of events take the same way through here, so that a store that is opened again goes on exactly
as it would have, had it never been closed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any

import msgpack
import numpy as np

from memorytree import files
from memorytree.engine.arrays import NEWER, NONE, OLDEST
from memorytree.errors import DamagedStore, InvalidOption
from memorytree.forest import MemoryForest
from memorytree.locks import ReadersWriterLock
from memorytree.store import key_codec, snapshots
from memorytree.store.answers import StoredHits
from memorytree.store.database import Database
from memorytree.store.records import Records
from memorytree.store.rows import Event, Memory, shifted
from memorytree.store.snapshots import Positions, Snapshot
from memorytree.store.tokens import Question
from memorytree.tree import MemoryTree
from memorytree.writing import Learned

BATCH = 10_000
Taught = tuple[Question, dict[int, float]]


class Image:
    """A tree and its records after some event."""

    def __init__(self, identity: bytes, begun: Snapshot):
        self.identity = identity  # of the store
        self.at = begun.at  # the last event that is in here
        self.lineage = begun.lineage  # which tree this is: one more each time it had to be built anew from the memories
        self.tree, self.records = begun.tree, begun.records
        self.tree._answer = partial(StoredHits, self)
        self.weight = 0  # how much has happened since the snapshot this began with
        self.waiting: list[Memory] = []  # stored one by one, and not taken in before somebody looks
        self._intake = RLock()  # held by whoever takes these in; others may add to them
        self._whole = True  # not while they are taken in, and never again should that fail half-way
        self._turn = ReadersWriterLock()  # whoever must see tree and records agree reads under it
        self._look_whether_settled()

    @classmethod
    def empty(cls, facts: dict[str, Any], scorer: Any, lineage: int = 0) -> Image:
        """Of a store without memories."""
        options = dict(facts["options"])
        if options["scorer"] == files.OWN:
            if scorer is None:
                raise InvalidOption("this store has a scorer of its own: open it with scorer=")
            options["scorer"] = scorer
        kind = MemoryForest if options["trees"] else MemoryTree
        tree = kind.__new__(kind)
        files.restore(tree, {"options": options, "values": Positions(), "labels": []})
        return cls(facts["identity"], Snapshot(0, lineage, tree, Records()))

    @classmethod
    def load(cls, database: Database, folder: Path, scorer: Any) -> tuple[Image, list[str]]:
        """The image of what the database says now, from the newest snapshot that is whole; and the damage in others."""
        facts = database.facts()
        last, first = database.last_event(), database.first_event()
        database.check_nothing_is_missing(last)
        there = snapshots.found_in(folder)
        if last is None and there:
            raise DamagedStore(f"{database.path}: all events are missing; `repair` saves what can be saved")
        damage = []
        for at, path in there:
            try:
                if snapshots.read_manifest(path)["event"] != database.seal_of_event(at).hex():
                    raise DamagedStore(f"{path} does not belong to what the database holds")
                image = cls(facts["identity"], snapshots.read(path, scorer))
            except DamagedStore as error:
                damage.append(str(error))
                continue
            image.follow(database)
            return image, damage
        if first in (None, 1) and "trimmed" not in facts:
            image = cls.empty(facts, scorer)
            image.follow(database)
            return image, damage
        return cls.rebuilt(database, scorer), damage

    @classmethod
    def rebuilt(cls, database: Database, scorer: Any) -> Image:
        """Of a store whose snapshots are gone, with events too old to be there: memories and lessons are taken anew.

        Memories and what was learned from rewards are the same; the shape of the tree may not be.
        """
        facts, last = database.facts(), database.last_event()
        assert last is not None
        image = cls.empty(facts, scorer, facts["lineage"] + 1)
        digest = bytes(8)
        for memories in database.live_memories():
            image.insert(memories, facts["keys"])
            digest = shifted(digest, (memory.seal for memory in memories))
        rewards = database.rewards(1, last.state.next_reward - 1)
        for _, together in itertools.groupby(rewards, key=lambda row: row.added):
            image.teach(lessons_of(database, list(together)), facts["keys"])
        lessons = (database.lesson(number) for number in range(1, last.state.next_lesson))
        digest = shifted(digest, (row.seal for rows in (lessons, rewards) for row in rows))
        if digest != last.state.digest:
            raise DamagedStore(f"{database.path}: rows are missing, or marked as removed; `repair` saves what can be saved")
        image.at, image.weight = last.at, 1 + len(image.tree)
        return image

    def _look_whether_settled(self) -> None:
        # A new memory changes nothing else when the kind of keys is known, and nobody has to make room for it: then this
        # makes bytes of its key.
        settled = self.tree._keys is not None and self.tree._options["capacity"] is None
        self.encode = key_codec.encoder(self.tree._keys) if settled else None

    def stub(self, id: int) -> tuple[int, bytes]:
        """The number and the seal of a memory's record."""
        return self.records.stub(self.tree.get(id))

    def snapshot(self, settings: dict[str, Any]) -> Snapshot:
        """What a snapshot keeps."""
        return Snapshot(self.at, self.lineage, self.tree, self.records, settings)

    def get(self, id: int) -> Any:
        """The value of a memory, or None."""
        place = self.tree.get(id)
        return None if place is None else self.records.value(place)

    # ---- what events do

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """While this lasts, nothing comes or goes."""
        with self._turn.reading():
            yield

    def insert(self, memories: Sequence[Memory], kind: Sequence[Any]) -> None:
        """Take memories in. What they replace, and what has to make room for them, goes."""
        self._turn.acquire_write()
        try:
            for _, alike in itertools.groupby(memories, key=lambda memory: memory.features and len(memory.features)):
                self._insert_alike(list(alike), kind)
            self._let_go()
        finally:
            self._turn.release_write()
        self._look_whether_settled()
        self.weight += len(memories)

    def take_in(self, kind: Sequence[Any], seconds: float = -1) -> bool:
        """Take in the memories that wait: insertions one after another are as one, which takes less time.

        Returns whether the image is whole then. It is not if somebody failed to do this, or has not done it for so many
        seconds; it must then be read anew from the disk.
        """
        if not self._intake.acquire(timeout=seconds):
            return False
        try:
            if self.waiting and self._whole:
                taken = list(self.waiting)
                self._whole = False
                self.insert(taken, kind)
                del self.waiting[: len(taken)]
                self._whole = True
            return self._whole
        finally:
            self._intake.release()

    def _insert_alike(self, memories: list[Memory], kind: Sequence[Any]) -> None:
        """Take in memories that all have as many features."""
        if len(memories) == 1 and memories[0].features is None:  # the same, and much quicker
            [x], [memory] = key_codec.decoded(kind, [memories[0].key]), memories
            self.tree.insert(x, self.records.add(memories)[0], id=memory.id, label=memory.label)
            return
        features = [np.frombuffer(memory.features, np.float32) for memory in memories if memory.features is not None]
        labels = [memory.label for memory in memories]
        self.tree.insert_many(
            key_codec.decoded(kind, [memory.key for memory in memories]),
            self.records.add(memories),
            ids=np.array([memory.id for memory in memories], np.int64),
            features=np.stack(features) if features else None,
            labels=labels if any(label is not None for label in labels) else None,
        )

    def remove(self, ids: Sequence[int]) -> None:
        """Let memories go."""
        self._turn.acquire_write()
        try:
            for id in ids:
                self.tree.remove(id)
            self._let_go()
        finally:
            self._turn.release_write()
        self.weight += len(ids)

    def _let_go(self) -> None:
        """Drop the records of memories that have left the tree."""
        positions: Any = self.tree._values
        gone, positions.gone = positions.gone, []
        for _, place in gone:
            self.records.drop(place)

    def departures(self, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Who goes when memories with such ids come, one after another: replaced, or forgotten for want of room.

        Returns the ids of memories that are there now, and the places in the batch of those that do not even stay.
        """
        capacity = self.tree._options["capacity"]
        if capacity is None and self.tree._values.keys().isdisjoint(ids) and len(set(ids)) == len(ids):
            return [], []
        waiting = self._longest_unused()
        there, gone = len(self.tree), set()
        staying: dict[int, int] = {}
        old, own = [], []
        for place, id in enumerate(ids):
            if id in staying:
                own.append(staying.pop(id))
            elif id in self.tree and id not in gone:
                gone.add(id)
                old.append(id)
            elif capacity is None or there < capacity:
                there += 1
            elif (oldest := next((id for id in waiting if id not in gone), None)) is not None:
                gone.add(oldest)
                old.append(oldest)
            else:
                own.append(staying.pop(next(iter(staying))))
            staying[id] = place
        return old, own

    def _longest_unused(self) -> Iterator[int]:
        """The ids, the one first whose last use lies furthest back."""
        if self.tree._core is None:
            return
        arrays = next(iter(self.tree._core.parts.values())).arrays()
        row = int(arrays["counters"][OLDEST])
        while row != NONE:
            yield int(arrays["row_ids"][row])
            row = int(arrays["rows"][row, NEWER])

    def teach(self, lessons: Sequence[Taught], kind: Sequence[Any]) -> Learned:
        """Learn from rewards, all lessons in one go."""
        if not len(self.tree):
            return Learned(0, 0)
        wide = max(len(question.ids) for question, _ in lessons)
        ids = np.full((len(lessons), wide), NONE, np.int64)
        rewards = np.full(ids.shape, np.nan)
        for row, (question, given) in enumerate(lessons):
            ids[row, : len(question.ids)] = question.ids
            rewards[row, : len(question.ids)] = [given.get(id, np.nan) for id in question.ids]
        traces = np.stack([question.trace(self.lineage) for question, _ in lessons])
        X = key_codec.decoded(kind, [question.key for question, _ in lessons])
        self.weight += len(lessons)
        with self.tree._writer:
            keys, core = self.tree._known()
            return self.tree._learn(core, keys.many(X, growing=True)[0], traces, ids, rewards)

    def tidy(self, kind: str, body: bytes) -> Any:
        """Have the tree learn, sweep or reroute."""
        self.weight += 1 + len(self.tree) // 8  # not to be done again at every opening
        if kind == "sweep":
            return self.tree.sweep()
        return getattr(self.tree, kind)(msgpack.unpackb(body))

    # ---- replay

    def follow(self, database: Database) -> None:
        """Do what the events after this image say."""
        events = database.events(self.at)
        if not events:
            return
        kind = tuple(database.facts().get("keys", ("", 0)))
        for event in events:
            if event.kind == "insert":
                memories = database.memories(*msgpack.unpackb(event.body))
                # Labels and features are noted after each insertion, so those that have them are not joined.
                alone = any(memory.label is not None or memory.features is not None for memory in memories)
                if not alone:
                    self.waiting += memories
                if alone or len(self.waiting) >= BATCH:
                    self.take_in(kind)
                if alone:
                    self.insert(memories, kind)
                continue
            self.take_in(kind)
            self._follow_one(event, kind, database)
        self.take_in(kind)
        self.at = events[-1].at

    def _follow_one(self, event: Event, kind: Any, database: Database) -> None:
        if event.kind == "remove":
            self.remove(msgpack.unpackb(event.body))
        elif event.kind == "reward":
            first, last = msgpack.unpackb(event.body)
            self.teach(lessons_of(database, database.rewards(first, last)), kind)
        elif event.kind in ("learn", "sweep", "reroute"):
            self.tidy(event.kind, event.body)


def lessons_of(database: Database, rewards: Sequence[Any]) -> list[Taught]:
    """The lessons of some rewards, in order."""
    grouped = itertools.groupby(rewards, key=lambda reward: reward.lesson)
    return [
        (Question.unpacked(database.lesson(lesson).body), {reward.memory: reward.reward for reward in of})
        for lesson, of in grouped
    ]
