"""The state of a store in memory: a tree, and the records of its memories.

Operations and the replay of events change it by the same method, `apply`, so that a store which was opened again continues
exactly as it would have done without having been closed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np

from memorytree.errors import DamagedStore
from memorytree.locks import ReadersWriterLock
from memorytree.packing import Value
from memorytree.store import snapshots, tree_access
from memorytree.store.database import Database
from memorytree.store.records import Records
from memorytree.store.schema import Change, Ended, Memory, Observation, shifted
from memorytree.store.snapshots import Snapshot
from memorytree.store.tree_access import KeyKind, RewardResult

MAX_PENDING = 10_000
"""So many insertions at most are replayed as one batch."""


class StoreState:
    """A tree and the records of its memories after some event.

    Attributes:
        identity: the identity of the store.
        kind: the kind of its keys; None before the first one.
        event: the number of the last event that was applied.
        lineage: which tree this is; it grows by one when a tree has to be rebuilt from the memories alone.
        tree: the tree; the values of its memories are places in the records.
        records: the records.
        weight: how much was applied since the snapshot that this began with.
    """

    def __init__(self, identity: bytes, kind: KeyKind | None, snapshot: Snapshot):
        self.identity, self.kind = identity, kind
        self.event, self.lineage = snapshot.event, snapshot.lineage
        self.tree, self.records = snapshot.tree, snapshot.records
        self.weight = 0
        self._lock = ReadersWriterLock()  # held for reading where tree and records must agree

    @classmethod
    def empty(cls, facts: dict[str, Any], scorer: object, lineage: int = 0) -> StoreState:
        """The state of a store without memories."""
        tree = tree_access.empty_tree(facts["options"], scorer)
        return cls(facts["identity"], key_kind_in(facts), Snapshot(0, lineage, tree, Records()))

    @classmethod
    def load(cls, database: Database, folder: Path, scorer: object) -> tuple[StoreState, list[str]]:
        """The state after the last event in a database, from the newest whole snapshot; and the damage in other snapshots."""
        facts = database.facts()
        last, first = database.last_event(), database.first_event()
        database.check_nothing_is_missing(last)
        found = snapshots.found_in(folder)
        if last is None and found:
            raise DamagedStore(f"{database.path}: all events are missing; `repair` saves what can be saved")
        damage = []
        for event, path in found:
            try:
                if snapshots.read_manifest(path)["seal"] != database.seal_of_event(event).hex():
                    raise DamagedStore(f"{path} does not belong to this database")
                state = cls(facts["identity"], key_kind_in(facts), snapshots.read(path, scorer))
            except DamagedStore as error:
                damage.append(str(error))
                continue
            state.follow(database)
            return state, damage
        if first in (None, 1) and "trimmed" not in facts:
            state = cls.empty(facts, scorer)
            state.follow(database)
            return state, damage
        return cls.rebuilt(database, scorer), damage

    @classmethod
    def rebuilt(cls, database: Database, scorer: object) -> StoreState:
        """The state of a store whose snapshots and first events are missing: memories and rewards are applied again.

        Memories and what rewards taught are the same; the shape of the tree may differ.
        """
        facts, last = database.facts(), database.last_event()
        if last is None:
            raise DamagedStore(f"{database.path}: all events are missing; `repair` saves what can be saved")
        state = cls.empty(facts, scorer, facts["lineage"] + 1)
        digest = bytes(8)
        for memories in database.live_memories():
            state.apply(Change("insert", memories=memories))
            digest = shifted(digest, (memory.seal for memory in memories))
        rewards = database.rewards(1, last.totals.next_reward - 1)
        for _, together in itertools.groupby(rewards, key=lambda row: row.event):
            state.apply(Change("reward", observations=database.observations(list(together))))
        queries = (database.query(number) for number in range(1, last.totals.next_query))
        digest = shifted(digest, (row.seal for rows in (queries, rewards) for row in rows))
        if digest != last.totals.digest:
            raise DamagedStore(f"{database.path}: rows are missing, or marked as removed; `repair` saves what can be saved")
        state.event, state.weight = last.number, 1 + len(state.tree)
        return state

    # ---- reading

    def reading(self) -> AbstractContextManager[object]:
        """A context in which memories neither come nor go."""
        return self._lock.reading()

    def place(self, id: object) -> int | None:
        """The place of a memory; None where there is none."""
        return self.tree.get(id) if isinstance(id, int | np.integer) and id in self.tree else None

    def value(self, id: int) -> Value:
        """The value of a memory, or None."""
        place = self.place(id)
        return None if place is None else self.records.value(place)

    def ended(self, ids: Sequence[int]) -> list[Ended]:
        """What the database needs to end present memories."""
        return [self.records.ended(self.tree.get(id)) for id in ids]

    # ---- changing

    def apply(self, change: Change) -> Any:
        """Do what an operation does to the tree and the records; returns what the operation returns."""
        if change.kind == "insert":
            self.kind = self.kind or key_kind_in(change.facts)
            return self._insert(change.memories)
        if change.kind == "remove":
            return self._remove(change.body)
        if change.kind == "update_metadata":
            return self._update_metadata(change.rewritten)
        if change.kind == "reward":
            return self._reward(change.observations)
        self.weight += 1 + len(self.tree) // 8  # replaying it takes long, so a snapshot is due sooner
        if change.kind == "sweep":
            return self.tree.sweep()
        return self.tree.learn(change.body) if change.kind == "refit" else self.tree.reroute(change.body)

    def _insert(self, memories: Sequence[Memory]) -> None:
        """Insert memories; those that they replace, and those beyond the capacity, leave."""
        self.weight += len(memories)
        with self._lock.writing():
            leaving, passing = tree_access.plan_evictions(self.tree, [memory.id for memory in memories])
            removed = [self.tree.get(id) for id in leaving]
            places = self.records.add(memories)
            removed += [places[position] for position in passing]
            for _, alike in itertools.groupby(
                zip(memories, places, strict=True), key=lambda pair: pair[0].features and len(pair[0].features)
            ):
                self._insert_alike(*zip(*alike, strict=True))
            for place in removed:
                self.records.remove(place)

    def _insert_alike(self, memories: Sequence[Memory], places: Sequence[int]) -> None:
        """Insert memories that all have the same number of features."""
        kind = self.kind
        assert kind is not None
        keys = tree_access.keys_from_bytes(kind, [memory.key for memory in memories])
        features = [np.frombuffer(memory.features, np.float32) for memory in memories if memory.features is not None]
        if len(memories) == 1 and not features:
            tree_access.insert(self.tree, keys[0], places[0], memories[0].id, memories[0].label)
            return
        labels = [memory.label for memory in memories]
        self.tree.insert_many(
            keys,
            places,
            ids=np.array([memory.id for memory in memories], np.int64),
            features=np.stack(features) if features else None,
            labels=labels if any(label is not None for label in labels) else None,
        )

    def _remove(self, ids: Sequence[int]) -> None:
        self.weight += len(ids)
        with self._lock.writing():
            for id in ids:
                place = self.tree.get(id)
                self.tree.remove(id)
                self.records.remove(place)

    def _update_metadata(self, memories: Sequence[Memory]) -> None:
        self.weight += len(memories)
        with self._lock.writing():
            for memory in memories:
                place = self.place(memory.id)
                # In a replay the row is already as a later event left it: its memory may have been removed or replaced.
                if place is not None and self.records.numbers[place] == memory.record:
                    self.records.set_metadata(place, memory.metadata, memory.seal)

    def _reward(self, observations: Sequence[Observation]) -> RewardResult:
        self.weight += len(observations)
        if not len(self.tree) or self.kind is None:
            return RewardResult(0, 0)
        return tree_access.reward_batch(self.tree, self.kind, observations, self.lineage)

    def follow(self, database: Database) -> None:
        """Apply the events after this state. Insertions one after another are applied as one batch."""
        pending: list[Memory] = []
        events = database.events(self.event)
        if events:
            self.kind = key_kind_in(database.facts())
        for event in events:
            change = database.change(event)
            # Labels and features are set after each insertion, so an insertion that has them is applied by itself.
            joinable = event.kind == "insert" and all(row.label is None and row.features is None for row in change.memories)
            if joinable:
                pending += change.memories
            if pending and (not joinable or len(pending) >= MAX_PENDING):
                self._insert(pending)
                pending = []
            if not joinable:
                self.apply(change)
        if pending:
            self._insert(pending)
        if events:
            self.event = events[-1].number


def key_kind_in(facts: dict[str, Any]) -> KeyKind | None:
    """The kind of keys that the facts of a store name."""
    return (facts["keys"][0], facts["keys"][1]) if "keys" in facts else None
