"""The truth about a store: one SQLite database in which every row carries a seal, a checksum of all that is in it.

Every operation is one transaction and one row of `events`, which says what was done and what the whole then amounts to: how
many memories and rewards there are, and a digest, the sum of all their seals. Memories that were removed stay, marked with
the event that ended them, until a snapshot of the tree makes the events before it superfluous.

A memory that comes by itself may do without an event: its row tells all that an event would, and is all that its commit
writes. The next event counts such memories too.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgpack

from memorytree.errors import DamagedStore
from memorytree.store.connection import Connection
from memorytree.store.rows import Event, Lesson, Memory, Reward, State, event_of, is_whole, seal_of

FORMAT = 2
READABLE = (1, 2)  # in the first every operation had an event
SCHEMA = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL, seal BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    at INTEGER PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL, time REAL NOT NULL,
    memories INTEGER NOT NULL, rewards INTEGER NOT NULL, digest BLOB NOT NULL,
    next_id INTEGER NOT NULL, next_record INTEGER NOT NULL, next_lesson INTEGER NOT NULL, next_reward INTEGER NOT NULL,
    seal BLOB NOT NULL
);
CREATE TABLE memories (
    record INTEGER PRIMARY KEY, id INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, metadata BLOB,
    label, features BLOB, created REAL NOT NULL, expires REAL, added INTEGER NOT NULL, seal BLOB NOT NULL,
    ended INTEGER
);
CREATE INDEX ended ON memories (ended) WHERE ended IS NOT NULL;
CREATE TABLE lessons (
    lesson INTEGER PRIMARY KEY, receipt BLOB NOT NULL UNIQUE, body BLOB NOT NULL, added INTEGER NOT NULL, seal BLOB NOT NULL
);
CREATE TABLE feedback (
    number INTEGER PRIMARY KEY, lesson INTEGER NOT NULL, memory INTEGER NOT NULL, reward REAL NOT NULL, time REAL NOT NULL,
    added INTEGER NOT NULL, seal BLOB NOT NULL, UNIQUE (lesson, memory)
);
"""

INSERT_MEMORY = f"INSERT INTO memories VALUES ({', '.join('?' * 11)}, NULL)"
# For one that comes by itself, and so has neither label nor features, and no end.
APPEND_MEMORY = (
    "INSERT INTO memories (record, id, key, value, metadata, created, added, seal) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
INSERT_EVENT = f"INSERT INTO events VALUES ({', '.join('?' * 12)})"


class Database(Connection):
    """What a store's database holds, and how it comes there."""

    @property
    def is_new(self) -> bool:
        """Whether nothing has been written yet. `DamagedStore` if the tables are not those that `create` makes."""
        there = self.rows("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
        if not there:
            return True
        with contextlib.closing(sqlite3.connect(":memory:")) as model:
            model.executescript(SCHEMA)
            query = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name"
            if model.execute(query).fetchall() != there:
                raise DamagedStore(f"{self.path}: the tables are not those of a store; `repair` saves what can be saved")
        return False

    # ---- writing

    def create(self, facts: dict[str, Any]) -> None:
        """Make the tables of a new store, and note what will never change."""
        with self.transaction() as run:
            for statement in SCHEMA.split(";\n"):
                run(statement)
            self._note(run, facts)

    def note(self, facts: dict[str, Any]) -> None:
        """Set facts about the store."""
        with self.transaction() as run:
            self._note(run, facts)

    @staticmethod
    def _note(run: Any, facts: dict[str, Any]) -> None:
        for name, fact in facts.items():
            value = msgpack.packb(fact)
            run("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", (name, value, seal_of(name, value)))

    def commit(
        self,
        event: Event,
        *,
        memories: Sequence[Memory] = (),
        ended: Sequence[int] = (),
        lessons: Sequence[Lesson] = (),
        rewards: Sequence[Reward] = (),
        facts: dict[str, Any] | None = None,
    ) -> None:
        """One operation, whole or not at all."""
        with self.transaction() as run:
            many = self._connection.executemany
            if memories:
                many(INSERT_MEMORY, memories)
            if ended:
                many("UPDATE memories SET ended = ? WHERE record = ?", [(event.at, record) for record in ended])
            if lessons:
                many("INSERT INTO lessons VALUES (?, ?, ?, ?, ?)", lessons)
            if rewards:
                many("INSERT INTO feedback VALUES (?, ?, ?, ?, ?, ?, ?)", rewards)
            if facts:
                self._note(run, facts)
            row = (*event[:4], *event.state)
            run(INSERT_EVENT, (*row, seal_of(*row)))
        self.count_commit()

    def append(self, memory: Memory) -> None:
        """A memory by itself, without an event: the quickest way to make something last. It has no label and no features."""
        size = len(memory.key) + len(memory.value)
        if memory.expires is None:
            record, id, key, value, metadata, _, _, created, _, added, seal = memory
            # Of bytes Python's sqlite3 first asks whether they are to be adapted, which takes longer than a copy.
            data = bytearray(key), bytearray(value), metadata and bytearray(metadata)
            self.run_alone(APPEND_MEMORY, (record, id, *data, created, added, bytearray(seal)), size)
        else:
            self.run_alone(INSERT_MEMORY, memory, size)

    def trim(self, at: int, alive: Callable[[list[int]], bool]) -> None:
        """Let go of what only mattered before an event, because a snapshot holds the tree as it was then.

        Before rows are deleted, `alive` is asked whether the tree holds one of them: then their marks are damaged.
        """
        with self.transaction() as run:
            gone = [record for (record,) in run("SELECT record FROM memories WHERE ended <= ?", (at,))]
            if alive(gone):
                raise DamagedStore(f"{self.path}: a memory that is there is marked as removed; `repair` mends that")
            run("DELETE FROM memories WHERE ended <= ?", (at,))
            run("DELETE FROM events WHERE at < ?", (at,))
            self._note(run, {"trimmed": at})

    # ---- reading

    def facts(self) -> dict[str, Any]:
        """What is known about the store."""
        found = {}
        for name, value, seal in self.rows("SELECT name, value, seal FROM facts"):
            if seal_of(name, value) != seal:
                raise DamagedStore(f"{self.path}: the fact {name!r} is damaged; `repair` saves what can be saved")
            found[name] = msgpack.unpackb(value)
        return found

    def events(self, after: int) -> list[Event]:
        """The events after one, in order; `DamagedStore` if one of them is missing or not whole.

        Memories that came by themselves, one after another, are told as one event, which has the number of the last.
        """
        newest_known = "SELECT max(at) FROM events WHERE at <= ?"
        rows = self.rows(f"SELECT * FROM events WHERE at >= coalesce(({newest_known}), 0) ORDER BY at", after)
        found: list[Event] = []
        last = Event(after, "", b"", 0.0, State())
        for row in rows:
            if not is_whole(row):
                raise DamagedStore(f"{self.path}: event {row[0]} is damaged; `repair` saves what can be saved")
            event = event_of(row)
            if event.at > last.at + 1:
                found += self._arrivals(last, event.at - last.at - 1, after)
            if event.at > after:
                found.append(event)
            last = event
        return found + (self._arrivals(last, None, after) if rows else [])

    def _arrivals(self, last: Event, count: int | None, after: int) -> list[Event]:
        """The memories that came by themselves after an event, so many or all, as one event; none if it is not `after`."""
        first = last.state.next_record
        query = f"SELECT {', '.join(Memory._fields)} FROM memories WHERE record >= ? ORDER BY record LIMIT ?"
        memories = self._whole(Memory, self.rows(query, first, -1 if count is None else count))
        for number, memory in enumerate(memories):
            if (memory.record, memory.added) != (first + number, last.at + number + 1):
                raise DamagedStore(f"{self.path}: events are missing before memory {memory.record}")
        if count is not None and len(memories) != count:
            raise DamagedStore(f"{self.path}: events are missing after {last.at}; `repair` saves what can be saved")
        seen = max(0, after - last.at)
        if len(memories) <= seen:
            return []
        body = msgpack.packb([first + seen, memories[-1].record])
        return [Event(last.at + len(memories), "insert", body, memories[-1].created, last.state.after(memories))]

    def seal_of_event(self, at: int) -> bytes:
        """The seal of an event; nothing if it is not there."""
        found = self.rows("SELECT seal FROM events WHERE at = ?", at)
        return bytes(found[0][0]) if found else b""

    def last_event(self) -> Event | None:
        """The newest event, or the newest memory that came by itself after it."""
        newest = self.newest_event_kept()
        return self.events(newest - 1)[-1] if newest else None

    def newest_event_kept(self) -> int:
        """The number of the newest event that has a row; 0 if there is none."""
        return self.rows("SELECT max(at) FROM events")[0][0] or 0

    def first_event(self) -> int | None:
        """The number of the oldest event that is kept."""
        return self.rows("SELECT min(at) FROM events")[0][0]

    def memories(self, first: int, last: int) -> list[Memory]:
        """The memories of some records, removed ones as well."""
        columns = ", ".join(Memory._fields)
        query = f"SELECT {columns} FROM memories WHERE record BETWEEN ? AND ? ORDER BY record"
        return self._whole(Memory, self.rows(query, first, last), first, last)

    def live_memories(self, batch: int = 10_000) -> Iterator[list[Memory]]:
        """All memories that were not removed, in order, some at a time."""
        columns = ", ".join(Memory._fields)
        after = 0
        while True:
            query = f"SELECT {columns} FROM memories WHERE record > ? AND ended IS NULL ORDER BY record LIMIT ?"
            found = self._whole(Memory, self.rows(query, after, batch))
            if not found:
                return
            after = found[-1].record
            yield found

    def check_nothing_is_missing(self, last: Event | None) -> None:
        """Raise `DamagedStore` if there are rows that no event knows of: then events are missing."""
        state, at = (State(), 0) if last is None else (last.state, last.at)
        for table, column, least in (
            ("memories", "record", state.next_record),
            ("lessons", "lesson", state.next_lesson),
            ("feedback", "number", state.next_reward),
            ("memories", "ended", at + 1),
        ):
            [highest] = self.rows(f"SELECT max({column}) FROM {table}")[0]
            if highest is not None and not (isinstance(highest, int) and highest < least):
                raise DamagedStore(f"{self.path}: events are missing; `repair` saves what can be saved")

    def rewards(self, first: int, last: int) -> list[Reward]:
        """Some rewards by their numbers."""
        rows = self.rows("SELECT * FROM feedback WHERE number BETWEEN ? AND ? ORDER BY number", first, last)
        return self._whole(Reward, rows, first, last)

    def lesson(self, number: int) -> Lesson:
        """A lesson by its number."""
        return self._whole(Lesson, self.rows("SELECT * FROM lessons WHERE lesson = ?", number), number, number)[0]

    def lesson_of(self, receipt: bytes) -> tuple[int, dict[int, float]] | None:
        """The number of the lesson that a receipt became, and the rewards it has had."""
        found = self.rows("SELECT lesson FROM lessons WHERE receipt = ?", receipt)
        if not found:
            return None
        return found[0][0], dict(self.rows("SELECT memory, reward FROM feedback WHERE lesson = ?", found[0][0]))

    def _whole(self, kind: Any, rows: list[tuple], first: int | None = None, last: int | None = None) -> list:
        """Rows as a kind; `DamagedStore` if one is not whole, or missing from a range that must be complete."""
        for row in rows:
            if not is_whole(row):
                raise DamagedStore(
                    f"{self.path}: {kind.__name__.lower()} {row[0]} is damaged; `repair` saves what can be saved"
                )
        if first is not None and last is not None and len(rows) != last - first + 1:
            raise DamagedStore(f"{self.path}: {kind.__name__.lower()} rows are missing between {first} and {last}")
        return [kind(*row) for row in rows]
