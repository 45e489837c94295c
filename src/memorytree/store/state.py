"""The state of a store in memory: a tree, and the records of its memories.

Operations and the replay of events change it by the same method, `apply`, so that a store which was opened again continues
exactly as it would have done without having been closed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from memorytree.arguments import IdSet
from memorytree.config import TreeConfig
from memorytree.errors import DamagedStore
from memorytree.index.base import RewardBatch
from memorytree.keys import AnyKeys, make_keys
from memorytree.locks import ReadersWriterLock
from memorytree.packing import Value
from memorytree.receipts import Decision, Receipt, decision_rows
from memorytree.results import NO_ID, RewardResult
from memorytree.store import snapshots
from memorytree.store.database import Database
from memorytree.store.records import Records
from memorytree.store.schema import Change, Ended, Facts, Memory, Observation, shifted
from memorytree.store.snapshots import Snapshot, custom_scorer
from memorytree.tree import MemoryTree

Outcome: TypeAlias = RewardResult | int | None
"""What an operation returns: that of `reward`, how many memories were moved, or nothing."""

MAX_PENDING = 10_000
"""So many insertions at most are replayed as one batch."""


class StoreState:
    """A tree and the records of its memories after some event.

    Attributes:
        identity: the identity of the store.
        keys: the conversions of keys to and from bytes; None before the first key.
        event: the number of the last event that was applied.
        lineage: which tree this is; it grows by one when a tree has to be rebuilt from the memories alone.
        tree: the tree; the values of its memories are places in the records.
        records: the records.
        weight: how much was applied since the snapshot that this began with.
    """

    def __init__(self, identity: bytes, keys: AnyKeys | None, snapshot: Snapshot):
        self.identity, self.keys = identity, keys
        self.event, self.lineage = snapshot.event, snapshot.lineage
        self.tree, self.records = snapshot.tree, snapshot.records
        self.weight = 0
        self.filters: dict[str, IdSet] = {}  # the ids that match a filter, until something changes
        self._lock = ReadersWriterLock()  # held for reading where tree and records must agree
        self._removed: list[int] = []  # places of memories that the tree has removed; cleared after each change
        self.tree.on_remove = lambda id, place: self._removed.append(place)

    @classmethod
    def empty(cls, facts: Facts, scorer: object, lineage: int = 0) -> StoreState:
        """The state of a store without memories."""
        config = TreeConfig.from_dict(facts["options"], custom_scorer(facts["options"], scorer))
        return cls(
            facts["identity"], stored_keys(facts), Snapshot(0, lineage, MemoryTree.from_config(config), Records(), {})
        )

    @classmethod
    def load(cls, database: Database, folder: Path, scorer: object) -> tuple[StoreState, list[str]]:
        """The state after the last event of a database, from the newest whole snapshot; and the damage in others."""
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
                state = cls(facts["identity"], stored_keys(facts), snapshots.read(path, scorer))
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
        inserted_by: dict[int, int] = {}  # the events that inserted memories
        for memories in database.live_memories():
            inserted_by |= {memory.id: memory.event for memory in memories}
            state.apply(Change("insert", memories=memories))
            digest = shifted(digest, (memory.seal for memory in memories))
        rewards = database.rewards(1, last.totals.next_reward - 1)
        current = [row for row in rewards[facts.get("reset", 0) :] if inserted_by.get(row.memory, row.event) < row.event]
        for (_, withdrawn), together in itertools.groupby(current, key=lambda row: (row.event, row.reward is None)):
            observations = database.observations(list(together))
            state.apply(Change("withdraw" if withdrawn else "reward", observations=observations))
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
        return self.tree.get(int(id)) if isinstance(id, int | np.integer) and id in self.tree else None

    def value(self, id: int) -> Value:
        """The value of a memory, or None."""
        place = self.place(id)
        return None if place is None else self.records.value(place)

    def is_current(self, id: int, receipt: Receipt) -> bool:
        """Whether the memory with an id was there when a receipt was made; any present one is for a question."""
        place = self.place(id)
        return place is not None and (not receipt.ids or int(self.records.numbers[place]) <= receipt.inserted)

    @property
    def last_record(self) -> int:
        """The number of the newest memory."""
        numbers = self.records.numbers
        return int(numbers[-1]) if len(numbers) else 0

    def ended(self, ids: Sequence[int]) -> list[Ended]:
        """What the database needs to end present memories."""
        return [self.records.ended(self.tree.get(id)) for id in ids]

    # ---- changing

    def apply(self, change: Change) -> Outcome:
        """Do what an operation does to the tree and the records; returns what the operation returns."""
        match change.kind:
            case "reward":
                return self._reward(change.observations)
            case "withdraw":
                self._withdraw(change.observations)
            case "reset_learning":
                self._add_weight_of_all()
                self.tree.reset_learning()
            case "sweep":
                self._add_weight_of_all()
                return self.tree.sweep()
            case "insert":
                self.keys = self.keys or stored_keys(change.facts)
                self._insert(change.memories)
            case "remove":
                self._remove(change.body)
            case "update_metadata":
                self._update_metadata(change.rewritten)
            case "refit":
                self._add_weight_of_all()
                self.tree.refit(change.body)
            case "reroute":
                self._add_weight_of_all()
                self.tree.reroute(change.body)
        return None

    def _add_weight_of_all(self) -> None:
        """Add the weight of an operation on the whole tree: its replay takes long, so a snapshot is due sooner."""
        self.weight += 1 + len(self.tree) // 8

    def _insert(self, memories: Sequence[Memory]) -> None:
        """Insert memories; those that they replace, and those beyond the capacity, leave."""
        self.weight += len(memories)
        with self._lock.writing():
            places = self.records.add(memories)
            for _, alike in itertools.groupby(
                zip(memories, places, strict=True), key=lambda pair: pair[0].features and len(pair[0].features)
            ):
                self._insert_alike(*zip(*alike, strict=True))
            self._remove_records()

    def _insert_alike(self, memories: Sequence[Memory], places: Sequence[int]) -> None:
        """Insert memories that all have the same number of features."""
        assert self.keys is not None  # the first insertion settles the kind of keys
        keys: Any = self.keys.from_bytes([memory.key for memory in memories])
        features = [np.frombuffer(memory.features, np.float32) for memory in memories if memory.features is not None]
        if len(memories) == 1 and not features:
            self.tree.insert(keys[0], places[0], id=memories[0].id, label=memories[0].label)
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
                self.tree.remove(id)
            self._remove_records()

    def _remove_records(self) -> None:
        """Remove the records of the memories that the tree has removed."""
        for place in self._removed:
            self.records.remove(place)
        self._removed.clear()
        self.filters.clear()

    def _update_metadata(self, memories: Sequence[Memory]) -> None:
        self.weight += len(memories)
        with self._lock.writing():
            for memory in memories:
                place = self.place(memory.id)
                # In a replay the row is already as a later event left it: its memory may have been removed or replaced.
                if place is not None and self.records.numbers[place] == memory.record:
                    self.records.set_metadata(place, memory.metadata, memory.seal)
            self.filters.clear()

    def _reward(self, observations: Sequence[Observation]) -> RewardResult:
        self.weight += len(observations)
        if not len(self.tree) or self.keys is None:
            return RewardResult(0, 0)
        total = RewardResult(0, 0)
        # Rewards for questions come one by one, those for hits in batches.
        for returned, alike in itertools.groupby(observations, key=lambda observation: bool(observation.receipt.ids)):
            result = self.tree.reward_batch(self._reward_batch(list(alike), returned))
            total = RewardResult(*map(sum, zip(total, result, strict=True)))
        return total

    def _reward_batch(self, observations: Sequence[Observation], returned: bool) -> RewardBatch:
        """Rewards as a tree takes them; `returned` says whether they are for hits."""
        assert self.keys is not None
        assert self.tree.keys is not None
        lists = [receipt.ids if returned else [id for _, id, _ in given] for receipt, given in observations]
        shape = len(lists), max(map(len, lists))
        ids, numbers, rewards = np.full(shape, NO_ID, np.int64), np.zeros(shape, np.int64), np.full(shape, np.nan)
        for row, (_, given) in enumerate(observations):
            ids[row, : len(lists[row])] = lists[row]
            for number, id, reward in given:
                at = lists[row].index(id)
                numbers[row, at], rewards[row, at] = number, reward
        # A tree that was rebuilt since has other nodes.
        decisions = [receipt.decision if receipt.version == self.lineage else Decision() for receipt, _ in observations]
        keys, _ = self.tree.keys.batch(self.keys.from_bytes([receipt.key for receipt, _ in observations]), adding=True)
        digests = [receipt.digest for receipt, _ in observations]
        return RewardBatch(keys, ids, rewards, decision_rows(decisions), digests, returned=returned, numbers=numbers)

    def _withdraw(self, observations: Sequence[Observation]) -> None:
        self.weight += len(observations)
        for receipt, given in observations:
            for _, id, _ in given:
                self.tree.withdraw_of(receipt, id)

    def follow(self, database: Database) -> None:
        """Apply the events after this state. Insertions one after another are applied as one batch."""
        pending: list[Memory] = []
        events = database.events(self.event)
        if events:
            self.keys = self.keys or stored_keys(database.facts())
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


def stored_keys(facts: Facts) -> AnyKeys | None:
    """The conversions of a store's keys to and from bytes, from its facts; None before the first key."""
    return make_keys(*facts["keys"]) if "keys" in facts else None
