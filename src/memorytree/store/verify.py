"""Verification: reads everything in a store, and reports all damage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgpack
import numpy as np

from memorytree.errors import StoreError
from memorytree.store import snapshots
from memorytree.store.database import Database
from memorytree.store.import_export import key_batch
from memorytree.store.paths import DATABASE, SNAPSHOTS, check_directory
from memorytree.store.schema import MEMORY_COLUMNS, QUERY_COLUMNS, REWARD_COLUMNS, Memory, Totals, is_whole, shifted
from memorytree.store.state import StoreState


@dataclass
class VerifyReport:
    """What a verification found.

    Attributes:
        memories: how many memories were read and are whole.
        rewards: the same for rewards.
        damage: what is wrong, one line each.

    Example:
        >>> print(VerifyReport(memories=3, damage=["memories.sqlite: memory 7 is not what was written"]))
        3 memories and 0 rewards are whole
        damaged: memories.sqlite: memory 7 is not what was written
    """

    memories: int = 0
    rewards: int = 0
    damage: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damage

    def __str__(self) -> str:
        head = f"{self.memories:,} memories and {self.rewards:,} rewards are whole"
        return "\n".join([head, *(f"damaged: {line}" for line in self.damage)])


def verify(path: str | os.PathLike[str], *, scorer: object = None) -> VerifyReport:
    """Read everything in the store in a directory, and report all damage. Another process may write to it meanwhile.

    Args:
        path: the directory.
        scorer: the scorer of the user's own that the store was created with, if it was.

    Returns:
        A report; its `ok` says whether there is no damage.

    Raises:
        StoreError: there is no store.

    Example:
        >>> import memorytree, tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with memorytree.open(folder) as store:
        ...     id = store.insert([1.0], "one")
        >>> verify(folder).ok
        True
    """
    folder = Path(path)
    check_directory(folder, create=False)

    def examine() -> VerifyReport:
        report = VerifyReport()
        try:
            database = Database(folder / DATABASE, read_only=True)
        except StoreError as error:
            report.damage.append(str(error))
            return report
        try:
            return _examine(folder, database, None, scorer)
        finally:
            database.close()

    return snapshots.with_stable_snapshots(folder / SNAPSHOTS, examine, lambda report: report.ok)


def verify_open(folder: Path, database: Database, state: StoreState) -> VerifyReport:
    """Verify a store that is open in this process."""
    return _examine(folder, database, state, None)


def _examine(folder: Path, database: Database, state: StoreState | None, scorer: object) -> VerifyReport:
    report = VerifyReport()

    def read() -> None:
        _examine_database(database, report)
        for _, snapshot in snapshots.found_in(folder / SNAPSHOTS):
            report.damage += snapshots.damage_in(snapshot)
        examined = state or StoreState.load(database, folder / SNAPSHOTS, scorer)[0]
        examined.follow(database)
        _examine_state(database, examined, report)

    try:
        database.read(read)
    except StoreError as error:
        if str(error) not in report.damage:
            report.damage.append(str(error))
    return report


def _examine_database(database: Database, report: VerifyReport) -> None:
    """Read the pages and the rows, and compare their numbers and the digest with the totals of the last event."""
    report.damage += [f"{database.path}: {line}" for (line,) in database.rows("PRAGMA integrity_check") if line != "ok"]
    try:
        if database.is_new:
            report.damage.append(f"{database.path}: it is empty")
        database.facts()
    except StoreError as error:
        report.damage.append(str(error))
    totals = Totals()
    try:
        last, first = database.last_event(), database.first_event()
        if last is not None and first is not None:
            database.events(first - 1)
            totals = last.totals
    except StoreError as error:
        report.damage.append(str(error))
        return
    seals: list[bytes] = []
    report.memories = _count_whole(
        database, f"SELECT {MEMORY_COLUMNS} FROM memories WHERE ended IS NULL", "memory", report, seals
    )
    _count_whole(database, f"SELECT {MEMORY_COLUMNS} FROM memories WHERE ended IS NOT NULL", "removed memory", report, [])
    queries = _count_whole(database, f"SELECT {QUERY_COLUMNS} FROM queries", "rewarded query", report, seals)
    report.rewards = _count_whole(database, f"SELECT {REWARD_COLUMNS} FROM rewards", "reward", report, seals)
    for name, whole, written in (
        ("memories", report.memories, totals.memories),
        ("rewarded queries", queries, totals.next_query - 1),
        ("rewards", report.rewards, totals.rewards),
    ):
        if whole != written:
            report.damage.append(f"{database.path}: {whole} {name} are whole of the {written} that were written")
    if shifted(bytes(8), seals) != totals.digest:
        report.damage.append(f"{database.path}: the rows do not add up to the digest that was written")


def _count_whole(database: Database, query: str, name: str, report: VerifyReport, seals: list[bytes]) -> int:
    """How many rows of a query are whole. Their seals are appended to `seals`."""
    whole = 0
    try:
        for row in database.stream(query):
            if is_whole(row):
                whole += 1
                seals.append(row[-1])
            else:
                report.damage.append(f"{database.path}: {name} {row[0]} is not what was written")
    except StoreError as error:
        report.damage.append(f"{error} (while reading each {name})")
    return whole


def _examine_state(database: Database, state: StoreState, report: VerifyReport) -> None:
    """Compare the tree and the records with the database."""
    try:
        state.tree.check()
    except ValueError as error:
        report.damage.append(str(error))
    expected = 0
    for memories in database.live_memories():
        expected += len(memories)
        held = []
        for memory in memories:
            if _is_held(state, memory):
                held.append(memory)
            else:
                report.damage.append(f"memory {memory.record} (id {memory.id}) is not in the tree as it was written")
        report.damage += _different_keys(state, held)
    if expected != len(state.tree):
        report.damage.append(f"the tree holds {len(state.tree)} memories, the database {expected}")


def _is_held(state: StoreState, memory: Memory) -> bool:
    """Whether the records hold a row as it was written."""
    place = state.place(memory.id)
    if place is None or state.records.ended(place) != memory.ended():
        return False
    metadata = msgpack.unpackb(memory.metadata) if memory.metadata else {}
    return bool(state.records.metadata(place) == metadata)


def _different_keys(state: StoreState, memories: list[Memory]) -> Iterator[str]:
    """The memories whose key in the tree is not the one that was written, one line each."""
    keys = state.tree.keys
    if not memories or keys is None:
        return
    written, _ = keys.batch(keys.from_bytes([memory.key for memory in memories]))
    found, _ = keys.batch(key_batch([state.tree.key(memory.id) for memory in memories]))
    if isinstance(found, np.ndarray):
        different = (found != written).any(axis=1)
    elif not np.array_equal(found[0], written[0]):  # of other lengths: they cannot be compared position by position
        different = np.ones(len(memories), bool)
    else:
        unequal = np.cumsum(np.concatenate([[0], (found[1] != written[1]) | (found[2] != written[2])]))
        different = unequal[found[0][1:]] > unequal[found[0][:-1]]
    for position in np.flatnonzero(different).tolist():
        memory = memories[position]
        yield f"the key of memory {memory.record} (id {memory.id}) in the tree is not what was written"
