"""Tables and rows of a store's database.

Each row ends with a seal, a checksum of its other fields. Each event holds the totals of the store after it, among them a
digest: the sum of the seals of all rows that count then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias, TypedDict

import msgpack

from memorytree.receipts import Receipt

SqlRow: TypeAlias = tuple[Any, ...]
"""A row as the module sqlite3 returns it."""

Json: TypeAlias = Any
"""JSON data of the application."""

FORMAT = 2
TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL, seal BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE events (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL, time REAL NOT NULL,
    memories INTEGER NOT NULL, rewards INTEGER NOT NULL, digest BLOB NOT NULL,
    next_id INTEGER NOT NULL, next_record INTEGER NOT NULL, next_query INTEGER NOT NULL, next_reward INTEGER NOT NULL,
    seal BLOB NOT NULL
);
CREATE TABLE memories (
    record INTEGER PRIMARY KEY, id INTEGER NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL, metadata BLOB,
    label, features BLOB, created REAL NOT NULL, expires REAL, event INTEGER NOT NULL, seal BLOB NOT NULL,
    ended INTEGER
);
CREATE INDEX ended ON memories (ended) WHERE ended IS NOT NULL;
CREATE TABLE queries (
    number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, receipt TEXT NOT NULL, event INTEGER NOT NULL,
    seal BLOB NOT NULL
);
CREATE TABLE rewards (
    number INTEGER PRIMARY KEY, query INTEGER NOT NULL, memory INTEGER NOT NULL, reward REAL, time REAL NOT NULL,
    event INTEGER NOT NULL, seal BLOB NOT NULL
);
CREATE INDEX of_query ON rewards (query);
"""
MEMORY_COLUMNS = "record, id, key, value, metadata, label, features, created, expires, event, seal"
METADATA_COLUMN = 4
QUERY_COLUMNS = "number, digest, receipt, event, seal"
REWARD_COLUMNS = "number, query, memory, reward, time, event, seal"
INSERT_MEMORY = f"INSERT INTO memories VALUES ({', '.join('?' * 11)}, NULL)"
INSERT_EVENT = f"INSERT INTO events VALUES ({', '.join('?' * 12)})"
INSERT_QUERY = f"INSERT INTO queries VALUES ({', '.join('?' * 5)})"
INSERT_REWARD = f"INSERT INTO rewards VALUES ({', '.join('?' * 7)})"

DIGEST_RANGE = 2**64


class Facts(TypedDict, total=False):
    """The table `facts`: what is known about a store, by name. All but the last three are there from its creation.

    `keys` are the kind and the dimension of the keys; `trimmed` is the first event that is kept; `reset` is the last reward
    before learning was reset.
    """

    format: int
    identity: bytes
    created: float
    options: dict[str, object]
    lineage: int
    app_settings: dict[str, Json]
    keys: tuple[str, int]  # a list where it was read from a file
    trimmed: int
    reset: int


def seal_of(*fields: object) -> bytes:
    """The checksum of a row: eight bytes that depend on every bit of its fields."""
    return blake2b(msgpack.packb(fields), digest_size=8).digest()


def is_whole(row: Sequence[object]) -> bool:
    """Whether the last field of a row is the seal of the others."""
    try:
        return bool(seal_of(*row[:-1]) == row[-1])
    except (TypeError, ValueError, OverflowError):
        return False


def shifted(digest: bytes, gained: Iterable[bytes] = (), lost: Iterable[bytes] = ()) -> bytes:
    """A digest after some seals were added and others subtracted."""
    total = int.from_bytes(digest, "big")
    for seal in gained:
        total += int.from_bytes(seal, "big")
    for seal in lost:
        total -= int.from_bytes(seal, "big")
    return (total % DIGEST_RANGE).to_bytes(8, "big")


class Memory(NamedTuple):
    """A row of `memories`. A memory has one record number for life; an id may be given to another memory later."""

    record: int
    id: int
    key: bytes
    value: bytes
    metadata: bytes | None
    label: str | int | None
    features: bytes | None
    created: float
    expires: float | None
    event: int
    seal: bytes

    @classmethod
    def sealed(cls, *fields: object) -> Memory:
        """A row from its fields without the seal."""
        return cls._make((*fields, seal_of(*fields)))

    def with_metadata(self, metadata: bytes | None) -> Memory:
        """The same row with other metadata, sealed anew."""
        return Memory.sealed(*self[:METADATA_COLUMN], metadata, *self[METADATA_COLUMN + 1 : -1])

    def ended(self) -> Ended:
        """What the database needs to end this memory."""
        return Ended(self.record, self.seal)


class RewardedQuery(NamedTuple):
    """A row of `queries`: a query that was rewarded, by the digest of its receipt; the receipt is a token."""

    number: int
    digest: bytes
    receipt: str
    event: int
    seal: bytes

    @classmethod
    def sealed(cls, *fields: object) -> RewardedQuery:
        """A row from its fields without the seal."""
        return cls._make((*fields, seal_of(*fields)))


class Reward(NamedTuple):
    """A row of `rewards`: the reward of a memory for a query; it replaces earlier ones. None withdraws them."""

    number: int
    query: int
    memory: int
    reward: float | None
    time: float
    event: int
    seal: bytes

    @classmethod
    def sealed(cls, *fields: object) -> Reward:
        """A row from its fields without the seal."""
        return cls._make((*fields, seal_of(*fields)))


class Ended(NamedTuple):
    """A memory that a change removes: the number of its row, and its seal."""

    record: int
    seal: bytes


class Observation(NamedTuple):
    """What rewards teach: a query, and its rewards as (number, id, reward); the reward None withdraws the one before."""

    receipt: Receipt
    rewards: Sequence[tuple[int, int, float | None]]


@dataclass(slots=True)
class Change:
    """One operation: the rows that it writes, and what it does to the tree.

    Attributes:
        kind: insert, remove, update_metadata, reward, withdraw, reset_learning, refit, sweep or reroute.
        body: the part of the operation that its event holds; msgpack data.
        memories: new rows.
        rewritten: rows of `memories` that get other metadata, as they are afterwards.
        ended: memories that the operation removes.
        replaced_seals: the seals that `rewritten` rows had before.
        queries, rewards: new rows.
        observations: the same as the tree learns from them.
        next_id: the next free id afterwards; None where it does not change.
        facts: facts about the store that the operation settles.
    """

    kind: str
    body: Any = None
    memories: Sequence[Memory] = ()
    rewritten: Sequence[Memory] = ()
    ended: Sequence[Ended] = ()
    replaced_seals: Sequence[bytes] = ()
    queries: Sequence[RewardedQuery] = ()
    rewards: Sequence[Reward] = ()
    observations: Sequence[Observation] = ()
    next_id: int | None = None
    facts: Facts = field(default_factory=lambda: Facts())


class Totals(NamedTuple):
    """The totals of a store after an event."""

    memories: int = 0
    rewards: int = 0
    digest: bytes = bytes(8)
    next_id: int = 0
    next_record: int = 1
    next_query: int = 1
    next_reward: int = 1

    def after(self, change: Change) -> Totals:
        """The totals after one more change."""
        gained = (row.seal for rows in (change.memories, change.rewritten, change.queries, change.rewards) for row in rows)
        lost = [*(row.seal for row in change.ended), *change.replaced_seals]
        return Totals(
            memories=self.memories + len(change.memories) - len(change.ended),
            rewards=self.rewards + len(change.rewards),
            digest=shifted(self.digest, gained, lost),
            next_id=self.next_id if change.next_id is None else change.next_id,
            next_record=self.next_record + len(change.memories),
            next_query=self.next_query + len(change.queries),
            next_reward=self.next_reward + len(change.rewards),
        )


class Event(NamedTuple):
    """A row of `events`: one operation, and the totals after it."""

    number: int
    kind: str
    body: bytes
    time: float
    totals: Totals

    @classmethod
    def from_row(cls, row: SqlRow) -> Event:
        """The event in a row."""
        number, kind, body, time, *totals, _ = row
        return cls(number, kind, body, time, Totals(*totals))

    def row(self) -> SqlRow:
        """The row of this event, with its seal."""
        fields = (self.number, self.kind, self.body, self.time, *self.totals)
        return (*fields, seal_of(*fields))
