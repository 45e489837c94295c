"""Saving what can be saved of a damaged store: every row of the database that is whole, and what else the snapshot holds.

The damaged files are kept beside the new ones; nothing is deleted.
"""

from __future__ import annotations

import itertools
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgpack

from memorytree import files
from memorytree.errors import StoreError
from memorytree.store import key_codec, snapshots
from memorytree.store.database import (
    FORMAT,
    Database,
    Event,
    Lesson,
    Memory,
    Reward,
    State,
    event_of,
    is_whole,
    seal_of,
    sealed,
    shifted,
)
from memorytree.store.layout import DATABASE, LOCK, SNAPSHOTS, check_directory
from memorytree.store.records import NEVER
from memorytree.store.snapshots import Snapshot
from memorytree.store.writer_lock import WriterLock


@dataclass
class Repaired:
    """What a repair has saved.

    Attributes:
        memories: how many memories the store holds now.
        from_snapshot: how many of them only the snapshot still had.
        rewards: how many rewards.
        lost: what could not be saved, a line each.
        kept: where the damaged files are now.
    """

    memories: int = 0
    from_snapshot: int = 0
    rewards: int = 0
    lost: list[str] = field(default_factory=list)
    kept: Path | None = None

    def __str__(self) -> str:
        from_snapshot = f"{self.from_snapshot:,} of them from the snapshot"
        head = f"saved {self.memories:,} memories ({from_snapshot}) and {self.rewards:,} rewards"
        return "\n".join([head, *(f"lost: {what}" for what in self.lost), f"the damaged files are kept in {self.kept}"])


def repair(path: str | os.PathLike, scorer: Any = None) -> Repaired:
    """Make a damaged store whole again, as far as it goes. The store must not be open."""
    folder = Path(path)
    check_directory(folder, make=False)
    lock = WriterLock(folder / LOCK)
    try:
        kept = folder / f"damaged-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        done = Repaired(kept=kept)
        snapshot = _readable_snapshot(folder, scorer)
        rows = _Salvage(folder / DATABASE)
        facts = _facts(rows.facts(), snapshot, done)
        memories = _memories(rows, snapshot, done)
        lessons, rewards = _lessons(rows, done)
        rows.close()
        fresh = folder / f"{DATABASE}.repaired"
        for leftover in folder.glob(f"{fresh.name}*"):
            leftover.unlink()
        _write(Database(fresh), facts, memories, lessons, rewards, rows.next_id)
        done.memories, done.rewards = len(memories), len(rewards)
        _swap(folder, fresh, kept)
        return done
    finally:
        lock.release()


def _readable_snapshot(folder: Path, scorer: Any) -> Snapshot | None:
    for _, path in snapshots.found_in(folder / SNAPSHOTS):
        try:
            return snapshots.read(path, scorer)
        except StoreError:
            continue
    return None


class _Salvage:
    """Rows of a damaged database, each asked for by itself, so that one unreadable page hides no other."""

    def __init__(self, path: Path):
        self._connection: sqlite3.Connection | None = None
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.execute("PRAGMA writable_schema = ON")  # read on although the schema may look odd
        except sqlite3.Error:
            self._connection = None
        events = {row[0]: event_of(row) for row in self._whole_rows("events", "at", self._reach("events", "at"))}
        self.events = [events[at] for at in sorted(events)]
        last = self.events[-1].state if self.events else State()
        self.next_id = last.next_id
        self.known_until = {"memories": last.next_record, "lessons": last.next_lesson, "feedback": last.next_reward}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _ask(self, query: str, *arguments: Any) -> list[tuple]:
        if self._connection is None:
            return []
        try:
            return self._connection.execute(query, arguments).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeDecodeError):
            return []

    def _reach(self, table: str, column: str) -> range:
        """The numbers that rows of a table may have."""
        highest = [row[0] for row in self._ask(f"SELECT max({column}) FROM {table}") if isinstance(row[0], int)]
        lowest = [row[0] for row in self._ask(f"SELECT min({column}) FROM {table}") if isinstance(row[0], int)]
        return range(max(1, *lowest, 1), 1 + max([0, *highest]))

    def _whole_rows(self, table: str, column: str, numbers: Iterable[int], columns: str = "*") -> Iterator[tuple]:
        for number in numbers:
            for row in self._ask(f"SELECT {columns} FROM {table} WHERE {column} = ?", number):
                if is_whole(row):
                    yield row

    def rows(self, kind: Any, table: str, column: str) -> dict[int, Any]:
        """All whole rows of a table."""
        numbers = range(1, max(self.known_until[table], self._reach(table, column).stop))
        found = self._whole_rows(table, column, numbers, ", ".join(kind._fields))
        return {row[0]: kind(*row) for row in found}

    def ended(self) -> set[int]:
        """The records that are marked as removed."""
        return {record for (record,) in self._ask("SELECT record FROM memories WHERE ended IS NOT NULL")}

    def facts(self) -> dict[str, Any]:
        """What is known about the store, as far as it can be read."""
        names = ("format", "identity", "made", "options", "lineage", "settings", "keys")
        rows = [row for name in names for row in self._ask("SELECT name, value, seal FROM facts WHERE name = ?", name)]
        return {name: msgpack.unpackb(value) for name, value, seal in rows if seal_of(name, value) == seal}


def _facts(found: dict[str, Any], snapshot: Snapshot | None, done: Repaired) -> dict[str, Any]:
    """The facts of the new database; what is lost comes from the snapshot, or is made up where that does no harm."""
    known: dict[str, Any] = {"format": FORMAT, "made": time.time(), "lineage": 0}
    if snapshot is not None:
        known |= {"options": files.plain_options(snapshot.tree), "lineage": snapshot.lineage}
        if snapshot.tree._keys is not None:
            known["keys"] = list(key_codec.kind_of(snapshot.tree._keys))
    known |= found
    if "identity" not in known:
        known["identity"] = secrets.token_bytes(8)
        done.lost.append("the identity of the store: receipts from before are not taken any more")
    if "settings" not in known:
        known["settings"] = {}
        done.lost.append("the settings of the application")
    if "options" not in known:
        raise StoreError("neither the database nor a snapshot says how this store was made: nothing can be saved")
    known["lineage"] += 1  # the tree will be another
    return known


def _memories(rows: _Salvage, snapshot: Snapshot | None, done: Repaired) -> list[Memory]:
    """All memories that can be saved, in order, each id once."""
    whole = rows.rows(Memory, "memories", "record")
    ended = rows.ended()
    live = {record: memory for record, memory in whole.items() if record not in ended}
    if snapshot is not None:
        later = [event for event in rows.events if event.at > snapshot.at and event.kind == "remove"]
        removed = {id for event in later for id in msgpack.unpackb(event.body)}
        for place, record in enumerate(snapshot.records.numbers.array.tolist()):
            id = int(snapshot.records.ids.item(place))
            if record not in whole and id not in removed:
                live[record] = _from_snapshot(snapshot, place, record, id)
                done.from_snapshot += 1
    by_id = {live[record].id: live[record] for record in sorted(live)}  # a later record replaces an earlier one
    counted = rows.events[-1].state.memories if rows.events else None
    if counted is not None and len(by_id) < counted:
        done.lost.append(f"{counted - len(by_id)} memories whose rows are damaged and which no snapshot holds")
    if counted is None:
        done.lost.append("the count of memories: some may be missing that nobody knows of")
    return sorted(by_id.values(), key=lambda memory: memory.record)


def _from_snapshot(snapshot: Snapshot, place: int, record: int, id: int) -> Memory:
    """The row of a memory that only the snapshot has."""
    tree, records = snapshot.tree, snapshot.records
    keys: Any = tree._keys
    key = tree.key(id)
    row = keys.one(key)
    metadata, expires, features = records.metadata(place), records.expires.item(place), tree._features.get(id)
    return sealed(
        Memory, record, id, key_codec.encoded_kept(keys, keys.keep(key, row)), bytes(records.packed_value(place) or b""),
        msgpack.packb(metadata) if metadata else None, None, None if features is None else features.tobytes(),
        records.created.item(place), None if expires == NEVER else expires, 0,
    )  # fmt: skip


def _lessons(rows: _Salvage, done: Repaired) -> tuple[list[Lesson], list[Reward]]:
    """The lessons and rewards that can be saved, numbered anew."""
    lessons, rewards = rows.rows(Lesson, "lessons", "lesson"), rows.rows(Reward, "feedback", "number")
    kept = [reward for _, reward in sorted(rewards.items()) if reward.lesson in lessons]
    counted = rows.events[-1].state.rewards if rows.events else len(kept)
    if len(kept) < counted:
        done.lost.append(f"{counted - len(kept)} rewards")
    numbers = {old: new for new, old in enumerate(sorted({reward.lesson for reward in kept}), 1)}
    renumbered = [sealed(Lesson, new, lessons[old].receipt, lessons[old].body, 0) for old, new in numbers.items()]
    return renumbered, [
        sealed(Reward, number, numbers[row.lesson], row.memory, row.reward, row.time, row.added)
        for number, row in enumerate(kept, 1)
    ]


def _write(
    database: Database,
    facts: dict[str, Any],
    memories: list[Memory],
    lessons: list[Lesson],
    rewards: list[Reward],
    next_id: int,
) -> None:
    """A new database with all that was saved. What was learned is learned again, in the same groups."""
    state, at = State(next_id=max([next_id, *(memory.id + 1 for memory in memories)])), 0
    database.create(facts)
    for _, alike in itertools.groupby(memories, key=lambda memory: memory.features is None):
        at += 1
        first = state.next_record
        fresh = [sealed(Memory, first + i, *memory[1:9], at) for i, memory in enumerate(alike)]
        state = state._replace(
            memories=state.memories + len(fresh),
            next_record=first + len(fresh),
            digest=shifted(state.digest, (memory.seal for memory in fresh)),
        )
        bounds = msgpack.packb([first, first + len(fresh) - 1])
        database.commit(Event(at, "insert", bounds, time.time(), state), memories=fresh)
    for number, (_, of_one_event) in enumerate(itertools.groupby(rewards, key=lambda reward: reward.added)):
        at += 1
        fresh_rewards = [sealed(Reward, *reward[:5], at) for reward in of_one_event]
        # All lessons come with the first of the rewards.
        new_lessons = lessons if number == 0 else []
        gained = [row.seal for rows in (fresh_rewards, new_lessons) for row in rows]
        state = state._replace(
            rewards=state.rewards + len(fresh_rewards),
            next_reward=state.next_reward + len(fresh_rewards),
            next_lesson=len(lessons) + 1,
            digest=shifted(state.digest, gained),
        )
        bounds = msgpack.packb([fresh_rewards[0].number, fresh_rewards[-1].number])
        database.commit(Event(at, "reward", bounds, time.time(), state), rewards=fresh_rewards, lessons=new_lessons)
    database.vacuum()
    database.close()


def _swap(folder: Path, fresh: Path, kept: Path) -> None:
    """Put the damaged files aside and the new database in their place."""
    kept.mkdir()
    for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", SNAPSHOTS):
        if (folder / name).exists():
            os.rename(folder / name, kept / name)
    for leftover in folder.glob(f"{fresh.name}-*"):
        leftover.unlink()
    os.rename(fresh, folder / DATABASE)
    files.sync_directory(folder)
