"""The SQLite database of a store: the only file that memories depend on.

Every operation is one transaction and one row of `events`. Removed memories stay, marked with the event that ended them,
until a snapshot of the tree makes the events before it unnecessary.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeAlias, TypeVar, cast

import msgpack

from memorytree.errors import DamagedStore, StoreError
from memorytree.receipts import Receipt
from memorytree.store.schema import (
    INSERT_EVENT,
    INSERT_MEMORY,
    INSERT_QUERY,
    INSERT_REWARD,
    MEMORY_COLUMNS,
    QUERY_COLUMNS,
    REWARD_COLUMNS,
    TABLES,
    Change,
    Event,
    Facts,
    Memory,
    Observation,
    Reward,
    RewardedQuery,
    SqlRow,
    Totals,
    is_whole,
    seal_of,
)

PAGE_BYTES = 4096
BUSY_SECONDS = 60

Row = TypeVar("Row", Memory, RewardedQuery, Reward)
Result = TypeVar("Result")
Execute: TypeAlias = Callable[..., sqlite3.Cursor]


class SqliteErrors:
    """A context in which errors of SQLite are raised as `StoreError` or `DamagedStore`."""

    def __init__(self, path: Path):
        self._path = path

    def __enter__(self) -> None:
        """Begin the context."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Raise our error for one of SQLite's, and for text in the database that is not valid Unicode."""
        if not isinstance(error, sqlite3.DatabaseError | UnicodeDecodeError):
            return
        name = getattr(error, "sqlite_errorname", "")
        if isinstance(error, UnicodeDecodeError) or name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise DamagedStore(f"{self._path} is damaged: {error}; `repair` saves what can be saved") from error
        raise StoreError(f"{self._path}: {error} ({name or 'SQLite'}); nothing was changed") from error


class Database:
    """One connection to the database of a store. It is used by one thread at a time; the session ensures that.

    Args:
        path: the file.
        durability: "full" waits for the disk at each commit; "normal" does not.
        read_only: open an existing file for reading.
    """

    def __init__(self, path: Path, *, durability: str = "full", read_only: bool = False):
        self.path = path
        self._errors = SqliteErrors(path)
        self._unchanging = _size_and_date(path) if read_only else None
        uri = f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        if self._unchanging:
            uri += "&immutable=1"  # SQLite could not create its lock files there, and needs none
        with self._errors:
            self._connection = sqlite3.connect(
                uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
            )
            try:
                self._prepare(durability, read_only)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self, durability: str, read_only: bool) -> None:
        run = self._connection.execute
        run("PRAGMA cell_size_check = ON")
        run("PRAGMA trusted_schema = OFF")
        if not read_only:
            run(f"PRAGMA page_size = {PAGE_BYTES}")  # of a new database; an existing one keeps its own
            run("PRAGMA journal_mode = WAL")
            # In WAL mode FULL waits for the disk at every commit; NORMAL leaves the last commits to the system's cache.
            run(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
            run("PRAGMA temp_store = MEMORY")

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    # ---- transactions

    def transact(self, work: Callable[[Execute], Result], kind: str = "IMMEDIATE") -> Result:
        """Do all of what a function does, or nothing; returns what it returns. No exception leaves a transaction open.

        This is no context manager: Ctrl-C could come before its `__exit__` has begun, and the transaction would stay open.
        """
        with self._errors:
            if self._connection.in_transaction:
                raise StoreError(f"{self.path} is being read or written by the caller; nothing was changed")
            self._check_unchanged()
            run = self._connection.execute
            try:
                run(f"BEGIN {kind}")
                result = work(run)
                run("COMMIT")
                return result
            except BaseException:
                if self._connection.in_transaction:
                    run("ROLLBACK")
                raise

    def read(self, work: Callable[[], Result]) -> Result:
        """What a function returns that reads the database as it is at one moment, whatever a writer does meanwhile."""
        return self.transact(lambda run: work(), "DEFERRED")

    def _check_unchanged(self) -> None:
        """Raise if a database in a read-only place has changed all the same: it was written from another machine."""
        if self._unchanging and self._unchanging != _size_and_date(self.path):
            raise StoreError(f"{self.path} was opened where nothing can be written, but has changed since: open it again")

    def sync(self) -> None:
        """Force everything that was committed to the disk, whatever the durability."""
        with self._errors:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def vacuum(self) -> None:
        """Rewrite the file without gaps."""
        with self._errors:
            self._connection.execute("VACUUM")
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def copy_to(self, path: Path) -> None:
        """Write a copy of the database as it is now."""
        with SqliteErrors(path), contextlib.closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)

    def version(self) -> int:
        """A number that changes when another connection has written."""
        with self._errors:
            self._check_unchanged()
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def rows(self, query: str, *arguments: object) -> list[SqlRow]:
        """All rows of a query."""
        with self._errors:
            return self._connection.execute(query, arguments).fetchall()

    def stream(self, query: str) -> Iterator[SqlRow]:
        """The rows of a query one by one."""
        with self._errors:
            yield from self._connection.execute(query)

    # ---- writing

    @property
    def is_new(self) -> bool:
        """Whether the file has no tables yet. Raises `DamagedStore` if its tables are not those of a store."""
        statements = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
        found = self.rows(statements)
        if not found:
            return True
        with contextlib.closing(sqlite3.connect(":memory:")) as model:
            model.executescript(TABLES)
            if _words(model.execute(statements).fetchall()) != _words(found):
                raise DamagedStore(f"{self.path}: the tables are not those of a store; `repair` saves what can be saved")
        return False

    def create(self, facts: Facts) -> None:
        """Create the tables of a new store, with its first facts."""

        def write(run: Execute) -> None:
            for statement in TABLES.split(";\n"):
                run(statement)
            _set_facts(run, facts)

        self.transact(write)

    def set_facts(self, facts: Facts) -> None:
        """Set facts about the store."""
        self.transact(lambda run: _set_facts(run, facts))

    def commit(self, number: int, change: Change, totals: Totals) -> None:
        """Write one operation as the event with this number; `totals` are those after it."""
        event = Event(number, change.kind, msgpack.packb(change.body), time.time(), totals)

        def write(run: Execute) -> None:
            many = self._connection.executemany
            if change.memories:
                many(INSERT_MEMORY, change.memories)
            if change.rewritten:
                rows = [(row.metadata, row.seal, row.record) for row in change.rewritten]
                many("UPDATE memories SET metadata = ?, seal = ? WHERE record = ?", rows)
            if change.ended:
                many("UPDATE memories SET ended = ? WHERE record = ?", [(number, row.record) for row in change.ended])
            if change.queries:
                many(INSERT_QUERY, change.queries)
            if change.rewards:
                many(INSERT_REWARD, change.rewards)
            if change.facts:
                _set_facts(run, change.facts)
            run(INSERT_EVENT, event.row())

        self.transact(write)

    def trim(self, event: int, is_present: Callable[[list[int]], bool]) -> None:
        """Delete events before this one and memories that had ended by then, because a snapshot holds the tree after it.

        `is_present` says whether the tree holds one of the rows that would be deleted: then their marks are damaged.
        """

        def write(run: Execute) -> None:
            ended = [record for (record,) in run("SELECT record FROM memories WHERE ended <= ?", (event,))]
            if is_present(ended):
                raise DamagedStore(f"{self.path}: a present memory is marked as removed; `repair` corrects that")
            run("DELETE FROM memories WHERE ended <= ?", (event,))
            run("DELETE FROM events WHERE number < ?", (event,))
            _set_facts(run, {"trimmed": event})

        self.transact(write)

    # ---- reading

    def facts(self) -> Facts:
        """The facts about the store."""
        found = {}
        for name, value, seal in self.rows("SELECT name, value, seal FROM facts"):
            if seal_of(name, value) != seal:
                raise DamagedStore(f"{self.path}: the fact {name!r} is damaged; `repair` saves what can be saved")
            found[name] = msgpack.unpackb(value)
        return cast(Facts, found)

    def events(self, after: int) -> list[Event]:
        """The events after one, in order. Raises `DamagedStore` if one of them is missing or damaged."""
        found = []
        for number, row in enumerate(self.rows("SELECT * FROM events WHERE number > ? ORDER BY number", after), after + 1):
            if row[0] != number:
                raise DamagedStore(f"{self.path}: events are missing after {number - 1}; `repair` saves what can be saved")
            if not is_whole(row):
                raise DamagedStore(f"{self.path}: event {number} is damaged; `repair` saves what can be saved")
            found.append(Event.from_row(row))
        return found

    def last_event(self) -> Event | None:
        """The newest event."""
        newest = self.rows("SELECT max(number) FROM events")[0][0]
        return self.events(newest - 1)[0] if newest else None

    def first_event(self) -> int | None:
        """The number of the oldest event that is kept."""
        return self.rows("SELECT min(number) FROM events")[0][0]

    def seal_of_event(self, number: int) -> bytes:
        """The seal of an event; empty if there is no such event."""
        found = self.rows("SELECT seal FROM events WHERE number = ?", number)
        return bytes(found[0][0]) if found else b""

    def change(self, event: Event) -> Change:
        """What an event did to the tree and the records."""
        body = msgpack.unpackb(event.body)
        change = Change(event.kind, body)
        if event.kind == "insert":
            change.memories = self.memories(*body)
        elif event.kind == "update_metadata":
            change.rewritten = [row for record in body for row in self.memories(record, record)]
        elif event.kind in ("reward", "withdraw"):
            change.observations = self.observations(self.rewards(*body))
        return change

    def observations(self, rewards: Sequence[Reward]) -> list[Observation]:
        """Rewards by query, in order."""
        grouped = itertools.groupby(rewards, key=lambda reward: reward.query)
        return [
            Observation(Receipt.parse(self.query(query).receipt), [(row.number, row.memory, row.reward) for row in rows])
            for query, rows in grouped
        ]

    def memories(self, first: int, last: int) -> list[Memory]:
        """The memories of a range of records, removed ones included."""
        query = f"SELECT {MEMORY_COLUMNS} FROM memories WHERE record BETWEEN ? AND ? ORDER BY record"
        return self._complete([Memory(*row) for row in self._checked("memory", self.rows(query, first, last))], first, last)

    def live_memories(self, batch: int = 10_000) -> Iterator[list[Memory]]:
        """All memories that were not removed, in order, in batches."""
        query = f"SELECT {MEMORY_COLUMNS} FROM memories WHERE record > ? AND ended IS NULL ORDER BY record LIMIT ?"
        after = 0
        while found := [Memory(*row) for row in self._checked("memory", self.rows(query, after, batch))]:
            after = found[-1].record
            yield found

    def rewards(self, first: int, last: int) -> list[Reward]:
        """A range of rewards."""
        query = f"SELECT {REWARD_COLUMNS} FROM rewards WHERE number BETWEEN ? AND ? ORDER BY number"
        return self._complete([Reward(*row) for row in self._checked("reward", self.rows(query, first, last))], first, last)

    def query(self, number: int) -> RewardedQuery:
        """A query that was rewarded."""
        found = self._checked("query", self.rows(f"SELECT {QUERY_COLUMNS} FROM queries WHERE number = ?", number))
        return self._complete([RewardedQuery(*row) for row in found], number, number)[0]

    def query_of(self, digest: bytes) -> int | None:
        """The number of the query with this receipt; None if it was not rewarded yet."""
        found = self.rows("SELECT number FROM queries WHERE digest = ?", digest)
        return int(found[0][0]) if found else None

    def rewards_of(self, query: int) -> dict[int, float]:
        """The rewards of a query by id, as they were last given."""
        rewards: dict[int, float | None] = {}
        for memory, reward in self.rows("SELECT memory, reward FROM rewards WHERE query = ? ORDER BY number", query):
            rewards[memory] = reward
        return {memory: reward for memory, reward in rewards.items() if reward is not None}

    def query_of_reward(self, number: int) -> int:
        """The number of the query that a reward belongs to."""
        return self.rewards(number, number)[0].query

    def _checked(self, name: str, rows: list[SqlRow]) -> list[SqlRow]:
        """The rows. Raises `DamagedStore` if the seal of one does not match."""
        for row in rows:
            if not is_whole(row):
                raise DamagedStore(f"{self.path}: {name} {row[0]} is damaged; `repair` saves what can be saved")
        return rows

    def _complete(self, rows: list[Row], first: int, last: int) -> list[Row]:
        """The rows. Raises `DamagedStore` if some between these numbers are missing."""
        if len(rows) != last - first + 1:
            raise DamagedStore(f"{self.path}: rows are missing between {first} and {last}; `repair` saves what can be saved")
        return rows

    def check_nothing_is_missing(self, last: Event | None) -> None:
        """Raise `DamagedStore` if there are rows that were written after the last event: then events are missing."""
        totals, number = (Totals(), 0) if last is None else (last.totals, last.number)
        for table, column, limit in (
            ("memories", "record", totals.next_record),
            ("queries", "number", totals.next_query),
            ("rewards", "number", totals.next_reward),
            ("memories", "ended", number + 1),
        ):
            [highest] = self.rows(f"SELECT max({column}) FROM {table}")[0]
            if highest is not None and not (isinstance(highest, int) and highest < limit):
                raise DamagedStore(f"{self.path}: events are missing; `repair` saves what can be saved")


def _words(statements: list[SqlRow]) -> list[list[str]]:
    """SQL statements without their white space."""
    return [str(statement).split() for (statement,) in statements]


def _set_facts(run: Execute, facts: Facts) -> None:
    for name, fact in facts.items():
        value = msgpack.packb(fact)
        run("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (name, value, seal_of(name, value)))


def _size_and_date(path: Path) -> tuple[int, int] | None:
    """Size and date of a database in a read-only place, if there is no log beside it; else None."""
    if not os.statvfs(path.parent).f_flag & os.ST_RDONLY or Path(f"{path}-wal").exists():
        return None
    status = path.stat()
    return status.st_size, status.st_mtime_ns
