"""Repair: saves every whole row of a damaged database, and what else the snapshot holds.

The damaged files are moved aside; nothing is deleted.
"""

from __future__ import annotations

import itertools
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import msgpack

from memorytree.errors import StoreError
from memorytree.serialization import sync_directory
from memorytree.store import snapshots
from memorytree.store.database import Database
from memorytree.store.inputs import NO_EXPIRY
from memorytree.store.owner_lock import OwnerLock
from memorytree.store.paths import DATABASE, LOCK, SNAPSHOTS
from memorytree.store.schema import (
    FORMAT,
    MEMORY_COLUMNS,
    QUERY_COLUMNS,
    REWARD_COLUMNS,
    Change,
    Event,
    Facts,
    Memory,
    Reward,
    RewardedQuery,
    SqlRow,
    Totals,
    is_whole,
)
from memorytree.store.snapshots import Snapshot

FACTS = ("format", "identity", "created", "options", "lineage", "app_settings", "keys")


@dataclass
class RepairReport:
    """What a repair has saved.

    Attributes:
        memories: how many memories the store holds now.
        from_snapshot: how many of them only the snapshot still held.
        rewards: how many rewards the store holds now.
        lost: what could not be saved, one line each.
        kept: the directory with the damaged files.

    Example:
        >>> print(RepairReport(memories=2, lost=["1 rewards"], kept="notes/damaged-1"))
        saved 2 memories (0 of them from the snapshot) and 0 rewards
        lost: 1 rewards
        the damaged files are kept in notes/damaged-1
    """

    memories: int = 0
    from_snapshot: int = 0
    rewards: int = 0
    lost: list[str] = field(default_factory=list)
    kept: Path | str | None = None

    def __str__(self) -> str:
        from_snapshot = f"{self.from_snapshot:,} of them from the snapshot"
        head = f"saved {self.memories:,} memories ({from_snapshot}) and {self.rewards:,} rewards"
        return "\n".join([head, *(f"lost: {line}" for line in self.lost), f"the damaged files are kept in {self.kept}"])


def repair(path: str | os.PathLike[str], scorer: object = None) -> RepairReport:
    """Make a damaged store whole again, as far as possible. The store must not be open.

    Args:
        path: the directory.
        scorer: the scorer of the user's own that the store was created with, if it was.

    Returns:
        A report of what was saved and what was lost.

    Raises:
        StoreLocked: a process has the store open.
        StoreError: there is no store, or nothing can be saved.

    Example:
        >>> import memorytree, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with memorytree.open(folder) as store:
        ...     id = store.insert([1.0], "one")
        >>> repair(folder).memories
        1
    """
    folder = Path(path)
    fresh = folder / f"{DATABASE}.repaired"
    if not (folder / DATABASE).exists() and not fresh.exists() and not snapshots.found_in(folder / SNAPSHOTS):
        raise StoreError(f"{folder} is not a store: there is no {DATABASE}, and no snapshot")
    lock = OwnerLock(folder / LOCK)
    try:
        kept = folder / f"damaged-{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
        report = RepairReport(kept=kept)
        snapshot = _readable_snapshot(folder, scorer)
        rows = RowRecovery(folder / DATABASE)
        try:
            facts = _recovered_facts(rows.facts(), snapshot, report)
            memories = _recovered_memories(rows, snapshot, report)
            queries, rewards = _recovered_rewards(rows, report)
        finally:
            rows.close()
        for leftover in folder.glob(f"{fresh.name}*"):
            leftover.unlink()
        database = Database(fresh)
        try:
            database.create(facts)
            _write(database, memories, queries, rewards, rows.totals.next_id if rows.totals else 0)
            database.vacuum()
        finally:
            database.close()
        report.memories, report.rewards = len(memories), len(rewards)
        _replace_files(folder, fresh, kept)
        return report
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{folder} could not be repaired: {error}") from error
    finally:
        lock.release()


def _readable_snapshot(folder: Path, scorer: object) -> Snapshot | None:
    """The newest whole snapshot."""
    for _, path in snapshots.found_in(folder / SNAPSHOTS):
        try:
            return snapshots.read(path, scorer)
        except StoreError:
            continue
    return None


class RowRecovery:
    """Reads each row of a damaged database by itself, so that an unreadable page hides no other row.

    Attributes:
        events: the whole events, in order.
        totals: the totals after the last of them; None if there is none.
    """

    def __init__(self, path: Path):
        self._connection: sqlite3.Connection | None = None
        if path.exists():
            self._connection = sqlite3.connect(path, isolation_level=None)
        rows = self._each("*", "events", "number", self._listed("events", "number"))
        found = {row[0]: Event.from_row(row) for row in rows if is_whole(row)}
        self.events = [found[number] for number in sorted(found)]
        self.totals: Totals | None = self.events[-1].totals if self.events else None

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()

    def _rows(self, query: str, *arguments: object) -> list[SqlRow]:
        """The rows of a query; none if it fails."""
        if self._connection is None:
            return []
        try:
            return self._connection.execute(query, arguments).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeDecodeError):
            return []

    def _listed(self, table: str, column: str) -> set[int]:
        """The numbers of rows, as far as the table can be read from either end."""
        found: set[object] = set()
        for order in ("", "DESC"):
            try:
                if self._connection is not None:
                    for (number,) in self._connection.execute(f"SELECT {column} FROM {table} ORDER BY {column} {order}"):
                        found.add(number)
            except (sqlite3.Error, OverflowError, UnicodeDecodeError):
                continue
        return {number for number in found if isinstance(number, int)}

    def _each(self, columns: str, table: str, column: str, numbers: set[int]) -> Iterator[SqlRow]:
        """The rows with some numbers, each by a query of its own."""
        for number in sorted(numbers):
            yield from self._rows(f"SELECT {columns} FROM {table} WHERE {column} = ?", number)

    def _numbers(self, table: str, column: str, end: int) -> set[int]:
        """The numbers that rows may have: those that can be listed, and those below the next one of the last event."""
        return self._listed(table, column) | set(range(1, end))

    def memories(self) -> tuple[dict[int, Memory], set[int]]:
        """All whole memories by record, and the records that are marked as removed or were removed by an event."""
        numbers = self._numbers("memories", "record", self.totals.next_record if self.totals else 1)
        whole, ended = {}, set()
        for *row, mark in self._each(f"{MEMORY_COLUMNS}, ended", "memories", "record", numbers):
            if is_whole(row):
                whole[row[0]] = Memory(*row)
                if mark is not None:
                    ended.add(row[0])
        removed = {id: event.number for event in self.events if event.kind == "remove" for id in msgpack.unpackb(event.body)}
        ended |= {record for record, memory in whole.items() if memory.event < removed.get(memory.id, 0)}
        return whole, ended

    def queries(self) -> dict[int, RewardedQuery]:
        """All whole queries by number."""
        numbers = self._numbers("queries", "number", self.totals.next_query if self.totals else 1)
        rows = self._each(QUERY_COLUMNS, "queries", "number", numbers)
        return {row[0]: RewardedQuery(*row) for row in rows if is_whole(row)}

    def rewards(self) -> list[Reward]:
        """All whole rewards in order."""
        numbers = self._numbers("rewards", "number", self.totals.next_reward if self.totals else 1)
        return [Reward(*row) for row in self._each(REWARD_COLUMNS, "rewards", "number", numbers) if is_whole(row)]

    def facts(self) -> Facts:
        """The whole facts about the store."""
        rows = [row for name in FACTS for row in self._rows("SELECT name, value, seal FROM facts WHERE name = ?", name)]
        return cast(Facts, {name: msgpack.unpackb(value) for name, value, _ in filter(is_whole, rows)})


def _recovered_facts(found: Facts, snapshot: Snapshot | None, report: RepairReport) -> Facts:
    """The facts of the new database; a lost one comes from the snapshot, or is made up where that does no harm."""
    facts: Facts = {"format": FORMAT, "created": time.time(), "lineage": 0}
    if snapshot is not None:
        facts |= {
            "options": snapshot.tree.config.to_dict(),
            "lineage": snapshot.lineage,
            "app_settings": snapshot.app_settings,
        }
        if snapshot.tree.keys is not None:
            facts["keys"] = snapshot.tree.keys.kind, snapshot.tree.keys.dimension
    facts |= found
    if facts["format"] != FORMAT:
        raise StoreError(f"this store has format {facts['format']}, this version reads {FORMAT}: nothing was changed")
    if "identity" not in facts:
        facts["identity"] = secrets.token_bytes(8)
        report.lost.append("the identity of the store: receipts from before are refused from now on")
    if "app_settings" not in facts:
        facts["app_settings"] = {}
        report.lost.append("the settings of the application")
    if "options" not in facts:
        raise StoreError("neither the database nor a snapshot holds the options of this store: nothing can be saved")
    facts["lineage"] += 1  # the tree will have other nodes
    return facts


def _recovered_memories(rows: RowRecovery, snapshot: Snapshot | None, report: RepairReport) -> list[Memory]:
    """All memories that can be saved, in order, each id once."""
    whole, ended = rows.memories()
    live = {record: memory for record, memory in whole.items() if record not in ended}
    if snapshot is not None:
        later = [event for event in rows.events if event.number > snapshot.event]
        removed = {id for event in later if event.kind == "remove" for id in msgpack.unpackb(event.body)}
        updated = {number for event in later if event.kind == "update_metadata" for number in msgpack.unpackb(event.body)}
        saved = {row.record: row for row in _rows_in(snapshot) if row.record not in whole and row.id not in removed}
        live |= saved
        report.from_snapshot = len(saved)
        if stale := len(updated & saved.keys()):
            report.lost.append(f"the last metadata of {stale} memories; they have those of the snapshot")
    by_id = {live[record].id: live[record] for record in sorted(live)}  # a later record replaces an earlier one
    if rows.totals is None:
        if by_id:
            report.lost.append("the number of memories and rewards: some may be missing without being counted here")
    elif len(by_id) < rows.totals.memories:
        missing = rows.totals.memories - len(by_id)
        report.lost.append(f"{missing} memories whose rows are damaged and which no snapshot holds")
    elif len(by_id) > rows.totals.memories:
        report.lost.append(f"the removal of {len(by_id) - rows.totals.memories} memories, which are present again")
    return sorted(by_id.values(), key=lambda memory: memory.record)


def _rows_in(snapshot: Snapshot) -> Iterator[Memory]:
    """The rows of the memories in a snapshot."""
    tree, records = snapshot.tree, snapshot.records
    keys = tree.keys
    for place, (record, id) in enumerate(zip(records.numbers.tolist(), records.ids.tolist(), strict=True)):
        assert keys is not None  # a tree with memories has keys
        metadata, expires = records.metadata(place), float(records.expires[place])
        features = tree.features(id)
        yield Memory.sealed(
            record, id, keys.key_to_bytes(tree.key(id)), bytes(records.packed_value(place) or b""),
            msgpack.packb(metadata) if metadata else None, tree.label(id),
            None if features is None else features.tobytes(),
            float(records.created[place]), None if expires == NO_EXPIRY else expires, 0,
        )  # fmt: skip


def _recovered_rewards(rows: RowRecovery, report: RepairReport) -> tuple[list[RewardedQuery], list[Reward]]:
    """The queries and rewards that can be saved, numbered anew."""
    queries = rows.queries()
    kept = [reward for reward in rows.rewards() if reward.query in queries]
    written = rows.totals.rewards if rows.totals else len(kept)
    if len(kept) < written:
        report.lost.append(f"{written - len(kept)} rewards")
    numbers = {old: new for new, old in enumerate(sorted({reward.query for reward in kept}), 1)}
    renumbered = [RewardedQuery.sealed(new, queries[old].digest, queries[old].receipt, 0) for old, new in numbers.items()]
    return renumbered, [
        Reward.sealed(number, numbers[row.query], row.memory, row.reward, row.time, row.event)
        for number, row in enumerate(kept, 1)
    ]


def _write(
    database: Database, memories: Sequence[Memory], queries: Sequence[RewardedQuery], rewards: Sequence[Reward], next_id: int
) -> None:
    """Write everything that was saved as new events. Rewards of one event before are one event again."""
    number, totals = 0, Totals()
    if memories:
        number = 1
        rows = [Memory.sealed(first, *memory[1:9], number) for first, memory in enumerate(memories, 1)]
        next_id = max(next_id, *(memory.id + 1 for memory in memories))
        change = Change("insert", [1, len(rows)], memories=rows, next_id=next_id)
        totals = totals.after(change)
        database.commit(number, change, totals)
    for _, of_one_event in itertools.groupby(rewards, key=lambda reward: reward.event):
        number += 1
        fresh = [Reward.sealed(*reward[:5], number) for reward in of_one_event]
        # All queries come with the first rewards.
        kind = "withdraw" if fresh[0].reward is None else "reward"
        change = Change(kind, [fresh[0].number, fresh[-1].number], rewards=fresh, queries=queries)
        totals, queries = totals.after(change), ()
        database.commit(number, change, totals)


def _replace_files(folder: Path, fresh: Path, kept: Path) -> None:
    """Move the damaged files aside, and the new database to its place."""
    kept.mkdir()
    for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", SNAPSHOTS):
        if (folder / name).exists():
            os.rename(folder / name, kept / name)
    for leftover in folder.glob(f"{fresh.name}-*"):
        leftover.unlink()
    os.rename(fresh, folder / DATABASE)
    sync_directory(folder)
