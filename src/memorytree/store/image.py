"""The image of a store in memory: a tree and the records of its memories, as the events have made them.

Live operations and the replay of events take the same way through here, so that a store that is opened again goes on exactly
as it would have, had it never been closed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from memorytree import files
from memorytree.engine.state import NONE
from memorytree.errors import DamagedStore, InvalidOption
from memorytree.forest import MemoryForest
from memorytree.store import key_codec, snapshots
from memorytree.store.answers import StoredHits
from memorytree.store.database import Database, Event, Memory
from memorytree.store.records import Records
from memorytree.store.snapshots import Positions, Snapshot
from memorytree.store.tokens import Question
from memorytree.tree import Learned, MemoryTree

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
        # (record, seal) of what left for want of room: it ends in the database with the next operation.
        self.evicted = begun.evicted

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
        return cls(facts["identity"], Snapshot(0, lineage, tree, Records(), []))

    @classmethod
    def load(cls, database: Database, folder: Path, scorer: Any) -> tuple[Image, list[str]]:
        """The image of what the database says now, from the newest snapshot that is whole; and the damage in others."""
        facts = database.facts()
        last, first = database.last_event(), database.first_event()
        damage = []
        if last is not None and first is not None:
            for at, path in snapshots.found_in(folder):
                try:
                    if snapshots.read_manifest(path)["event"] != database.seal_of_event(at).hex():
                        raise DamagedStore(f"{path} does not belong to what the database holds")
                    image = cls(facts["identity"], snapshots.read(path, scorer))
                except DamagedStore as error:
                    damage.append(str(error))
                    continue
                image.follow(database)
                return image, damage
        image = cls.empty(facts, scorer)
        if first in (None, 1):
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
        image = cls.empty(facts, scorer, facts.get("lineage", 0) + 1)
        for memories in database.live_memories():
            for _, alike in itertools.groupby(memories, key=_described):
                image.insert(list(alike), facts["keys"], database)
        for _, rewards in itertools.groupby(database.rewards(1, last.state.next_reward - 1), key=lambda row: row.added):
            image.teach(lessons_of(database, list(rewards)), facts["keys"])
        image.at, image.weight = last.at, 1 + len(image.tree)
        return image

    def snapshot(self) -> Snapshot:
        """What a snapshot keeps."""
        return Snapshot(self.at, self.lineage, self.tree, self.records, self.evicted)

    def get(self, id: int) -> Any:
        """The value of a memory, or None."""
        place = self.tree.get(id)
        return None if place is None else self.records.value(place)

    # ---- what events do

    def insert(self, memories: Sequence[Memory], kind: Sequence[Any], database: Database) -> None:
        """Take memories in, all or none of them with features."""
        X = key_codec.decoded(kind, [memory.key for memory in memories])
        features = None
        if memories[0].features is not None:
            features = np.stack([np.frombuffer(memory.features or b"", np.float32) for memory in memories])
        labels = [memory.label for memory in memories]
        self.tree.insert_many(
            X,
            self.records.add(list(memories)),
            ids=[memory.id for memory in memories],
            features=features,
            labels=labels if any(label is not None for label in labels) else None,
        )
        left = self._let_go()
        if left and self.tree._options["capacity"]:
            replaced = database.ended(record for record, _ in left)
            self.evicted += [pair for pair in left if pair[0] not in replaced]
        self.weight += len(memories)

    def remove(self, ids: Sequence[int]) -> None:
        """Let memories go."""
        for id in ids:
            self.tree.remove(id)
        self._let_go()
        self.weight += len(ids)

    def _let_go(self) -> list[tuple[int, bytes]]:
        """Drop the records of memories that have left the tree; returns their (record, seal)."""
        positions: Any = self.tree._values
        gone, positions.gone = positions.gone, []
        for _, place in gone:
            self.records.drop(place)
        return [self.records.stub(place) for _, place in gone]

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
        self.evicted = []  # they ended with the first of these
        kind = tuple(database.facts().get("keys", ("", 0)))
        for is_insertion, run in itertools.groupby(events, key=lambda event: event.kind == "insert"):
            if is_insertion:
                self._follow_insertions(list(run), kind, database)
                continue
            for event in run:
                self._follow_one(event, kind, database)
        self.at = events[-1].at

    def _follow_insertions(self, events: list[Event], kind: Any, database: Database) -> None:
        """Insertions one after another are as one. Where there are labels or features, these are noted after each, so such
        insertions are not joined."""
        first, last = msgpack.unpackb(events[0].body)[0], msgpack.unpackb(events[-1].body)[1]

        def together(numbered: tuple[int, Memory]) -> int:
            number, memory = numbered
            alone = _described(memory) or memory.label is not None
            return memory.added if alone else -1 - number // BATCH

        for _, run in itertools.groupby(enumerate(_in_batches(database, first, last)), key=together):
            self.insert([memory for _, memory in run], kind, database)

    def _follow_one(self, event: Event, kind: Any, database: Database) -> None:
        if event.kind == "remove":
            self.remove(msgpack.unpackb(event.body))
        elif event.kind == "reward":
            first, last = msgpack.unpackb(event.body)
            self.teach(lessons_of(database, database.rewards(first, last)), kind)
        elif event.kind in ("learn", "sweep", "reroute"):
            self.tidy(event.kind, event.body)
        # What left for want of room does so again by itself.


def _described(memory: Memory) -> bool:
    return memory.features is not None


def _in_batches(database: Database, first: int, last: int) -> Iterator[Memory]:
    """The memories of a range of records, without holding all of them at once."""
    for begin in range(first, last + 1, BATCH):
        yield from database.memories(begin, min(last, begin + BATCH - 1))


def lessons_of(database: Database, rewards: Sequence[Any]) -> list[Taught]:
    """The lessons of some rewards, in order."""
    grouped = itertools.groupby(rewards, key=lambda reward: reward.lesson)
    return [
        (Question.unpacked(database.lesson(lesson).body), {reward.memory: reward.reward for reward in of})
        for lesson, of in grouped
    ]
