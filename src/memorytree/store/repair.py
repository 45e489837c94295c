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
from memorytree.engine.arrays import LABEL
from memorytree.errors import StoreError
from memorytree.store import key_codec, snapshots
from memorytree.store.database import FORMAT, Database
from memorytree.store.layout import DATABASE, LOCK, SNAPSHOTS
from memorytree.store.records import NEVER
from memorytree.store.rows import Event, Lesson, Memory, Reward, State, event_of, is_whole, sealed, shifted
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
    fresh = folder / f"{DATABASE}.repaired"
    if not (folder / DATABASE).exists() and not fresh.exists() and not snapshots.found_in(folder / SNAPSHOTS):
        raise StoreError(f"{folder} is not a store: there is no {DATABASE}, and no snapshot")
    lock = WriterLock(folder / LOCK)
    try:
        kept = folder / f"damaged-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        done = Repaired(kept=kept)
        snapshot = _readable_snapshot(folder, scorer)
        rows = _Salvage(folder / DATABASE)
        try:
            facts = _facts(rows.facts(), snapshot, done)
            memories = _memories(rows, snapshot, done)
            lessons, rewards = _lessons(rows, done)
        finally:
            rows.close()
        for leftover in folder.glob(f"{fresh.name}*"):
            leftover.unlink()
        _write(Database(fresh), facts, memories, lessons, rewards, rows.next_id)
        done.memories, done.rewards = len(memories), len(rewards)
        _swap(folder, fresh, kept)
        return done
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{folder} could not be repaired: {error}") from error
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
        if path.exists():
            self._connection = sqlite3.connect(path, isolation_level=None)
        found = {row[0]: event_of(row) for row in self._whole(self._each("*", "events", "at", self._listed("events", "at")))}
        self.events = [found[at] for at in sorted(found)]
        self.last = self.events[-1].state if self.events else None
        self.next_id, self._later = 0, 0
        if self.last:  # each of those that came by themselves after it had an id
            self._later = sum(record >= self.last.next_record for record in self._listed("memories", "record"))
            self.next_id = self.last.next_id + self._later

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

    def _listed(self, table: str, column: str) -> set[int]:
        """The numbers of rows as far as the table can be read in one go, from either end."""
        found: set[int] = set()
        for order in ("", "DESC"):
            try:
                if self._connection is not None:
                    for (number,) in self._connection.execute(f"SELECT {column} FROM {table} ORDER BY {column} {order}"):
                        found.add(number)
            except (sqlite3.Error, OverflowError, UnicodeDecodeError):
                continue
        return {number for number in found if isinstance(number, int)}

    def _each(self, columns: str, table: str, column: str, numbers: set[int]) -> Iterator[tuple]:
        for number in sorted(numbers):
            yield from self._ask(f"SELECT {columns} FROM {table} WHERE {column} = ?", number)

    @staticmethod
    def _whole(rows: Iterable[tuple]) -> Iterator[tuple]:
        return (row for row in rows if is_whole(row))

    def _numbers(self, table: str, column: str, until: int) -> set[int]:
        """The numbers that rows may have: those that can be listed, and those that the last event knows of."""
        return self._listed(table, column) | set(range(1, until))

    def memories(self) -> tuple[dict[int, Memory], set[int]]:
        """All whole memories by record, and which of them are marked as removed or were removed by an event."""
        numbers = self._numbers("memories", "record", self.last.next_record if self.last else 1)
        whole, ended = {}, set()
        for *row, mark in self._each(", ".join(Memory._fields) + ", ended", "memories", "record", numbers):
            if is_whole(row):
                whole[row[0]] = Memory(*row)
                if mark is not None:
                    ended.add(row[0])
        removed = {id: event.at for event in self.events if event.kind == "remove" for id in msgpack.unpackb(event.body)}
        ended |= {record for record, memory in whole.items() if memory.added < removed.get(memory.id, 0)}
        return whole, ended

    def counted(self) -> int | None:
        """How many memories there should be: those that the last event counts, and those that came by themselves later."""
        return None if self.last is None else self.last.memories + self._later

    def lessons(self) -> dict[int, Lesson]:
        """All whole lessons by number."""
        numbers = self._numbers("lessons", "lesson", self.last.next_lesson if self.last else 1)
        rows = self._whole(self._each(", ".join(Lesson._fields), "lessons", "lesson", numbers))
        return {row[0]: Lesson(*row) for row in rows}

    def rewards(self) -> list[Reward]:
        """All whole rewards in order."""
        numbers = self._numbers("feedback", "number", self.last.next_reward if self.last else 1)
        return [Reward(*row) for row in self._whole(self._each(", ".join(Reward._fields), "feedback", "number", numbers))]

    def facts(self) -> dict[str, Any]:
        """What is known about the store, as far as it can be read."""
        names = ("format", "identity", "made", "options", "lineage", "settings", "keys")
        rows = [row for name in names for row in self._ask("SELECT name, value, seal FROM facts WHERE name = ?", name)]
        return {name: msgpack.unpackb(value) for name, value, seal in rows if is_whole((name, value, seal))}


def _facts(found: dict[str, Any], snapshot: Snapshot | None, done: Repaired) -> dict[str, Any]:
    """The facts of the new database; what is lost comes from the snapshot, or is made up where that does no harm."""
    known: dict[str, Any] = {"format": FORMAT, "made": time.time(), "lineage": 0}
    if snapshot is not None:
        known |= {"options": files.plain_options(snapshot.tree), "lineage": snapshot.lineage}
        if snapshot.settings is not None:
            known["settings"] = snapshot.settings
        if snapshot.tree._keys is not None:
            known["keys"] = list(key_codec.kind_of(snapshot.tree._keys))
    known |= found
    if known["format"] > FORMAT:
        raise StoreError(f"this store has format {known['format']}, this version knows {FORMAT}: nothing was changed")
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
    whole, ended = rows.memories()
    live = {record: memory for record, memory in whole.items() if record not in ended}
    if snapshot is not None:
        later = [event for event in rows.events if event.at > snapshot.at and event.kind == "remove"]
        removed = {id for event in later for id in msgpack.unpackb(event.body)}
        labels = _labels_in(snapshot)
        for place, record in enumerate(snapshot.records.numbers.tolist()):
            id = int(snapshot.records.ids.item(place))
            if record not in whole and id not in removed:
                live[record] = _from_snapshot(snapshot, place, record, id, labels.get(id))
                done.from_snapshot += 1
    by_id = {live[record].id: live[record] for record in sorted(live)}  # a later record replaces an earlier one
    counted = rows.counted()
    if counted is not None and len(by_id) < counted:
        done.lost.append(f"{counted - len(by_id)} memories whose rows are damaged and which no snapshot holds")
    if counted is not None and len(by_id) > counted:
        done.lost.append(f"the removal of {len(by_id) - counted} memories, which are there again")
    if counted is None and by_id:
        done.lost.append("the count of memories and of rewards: some may be missing that nobody knows of")
    return sorted(by_id.values(), key=lambda memory: memory.record)


def _labels_in(snapshot: Snapshot) -> dict[int, Any]:
    """The labels that memories of a snapshot were given, by id."""
    names = list(snapshot.tree._labels)
    if not names:
        return {}
    core = next(iter(snapshot.tree._known()[1].parts.values()))
    ids, codes = core.arrays()["row_ids"][: len(core)], core.arrays()["rows"][: len(core), LABEL]
    return {id: names[code] for id, code in zip(ids.tolist(), codes.tolist(), strict=True) if 0 <= code < len(names)}


def _from_snapshot(snapshot: Snapshot, place: int, record: int, id: int, label: Any) -> Memory:
    """The row of a memory that only the snapshot has."""
    tree, records = snapshot.tree, snapshot.records
    keys: Any = tree._keys
    key = tree.key(id)
    row = keys.one(key)
    metadata, expires, features = records.metadata(place), records.expires.item(place), tree._features.get(id)
    return sealed(
        Memory, record, id, key_codec.encoded_kept(keys, keys.keep(key, row)), bytes(records.packed_value(place) or b""),
        msgpack.packb(metadata) if metadata else None, label, None if features is None else features.tobytes(),
        records.created.item(place), None if expires == NEVER else expires, 0,
    )  # fmt: skip


def _lessons(rows: _Salvage, done: Repaired) -> tuple[list[Lesson], list[Reward]]:
    """The lessons and rewards that can be saved, numbered anew."""
    lessons = rows.lessons()
    kept = [reward for reward in rows.rewards() if reward.lesson in lessons]
    counted = rows.last.rewards if rows.last else len(kept)
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
    if memories:
        at += 1
        first = state.next_record
        fresh = [sealed(Memory, first + i, *memory[1:9], at) for i, memory in enumerate(memories)]
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
