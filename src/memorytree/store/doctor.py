"""Is a store what it was written as? Reads everything, and names every damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from memorytree.checks import check_tree
from memorytree.errors import StoreError
from memorytree.store import key_codec, snapshots
from memorytree.store.database import Database
from memorytree.store.image import Image
from memorytree.store.layout import DATABASE, SNAPSHOTS, check_directory
from memorytree.store.rows import Lesson, Memory, Reward, State, is_whole, shifted


@dataclass
class Report:
    """What an examination found.

    Attributes:
        memories: how many were read and found whole.
        rewards: the same for rewards.
        damage: what is wrong, a line each; empty if nothing is.
    """

    memories: int = 0
    rewards: int = 0
    damage: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything is whole."""
        return not self.damage

    def __str__(self) -> str:
        head = f"{self.memories:,} memories and {self.rewards:,} rewards are whole"
        return "\n".join([head, *(f"damaged: {what}" for what in self.damage)])


def verify(path: Path, database: Database | None = None, image: Image | None = None, scorer: Any = None) -> Report:
    """Examine a store: the one that is open as `database` and `image`, or else the one that lies at a path."""
    check_directory(path, make=False)
    if database is not None:
        return _verify(path, database, image, scorer)
    return snapshots.undisturbed(path / SNAPSHOTS, lambda: _verify(path, None, None, scorer), lambda report: report.ok)


def _verify(path: Path, database: Database | None, image: Image | None, scorer: Any) -> Report:
    report, mine = Report(), None
    try:
        if database is None:
            database = mine = Database(path / DATABASE, read_only=True)
        with database.as_of_now():
            _examine_database(database, report)
            for _, snapshot in snapshots.found_in(path / SNAPSHOTS):
                report.damage += snapshots.damage(snapshot)
            if image is None:
                image, _ = Image.load(database, path / SNAPSHOTS, scorer)
            image.follow(database)
            _examine_image(database, image, report)
    except StoreError as error:
        if str(error) not in report.damage:
            report.damage.append(str(error))
    finally:
        if mine is not None:
            mine.close()
    return report


def _examine_database(database: Database, report: Report) -> None:
    """Pages, rows, and whether rows are missing."""
    report.damage += [f"{database.path}: {line}" for (line,) in database.rows("PRAGMA integrity_check") if line != "ok"]
    try:
        if database.is_new:
            report.damage.append(f"{database.path}: there is nothing in it")
        database.facts()
    except StoreError as error:
        report.damage.append(str(error))
    state = State()
    try:
        last = database.last_event()
        first = database.first_event()
        if last is not None and first is not None:
            database.events(first - 1)
            state = last.state
    except StoreError as error:
        report.damage.append(str(error))
        return
    columns = ", ".join(Memory._fields)
    seals: list[bytes] = []
    report.memories = _examine_rows(database, f"SELECT {columns} FROM memories WHERE ended IS NULL", "memory", report, seals)
    _examine_rows(database, f"SELECT {columns} FROM memories WHERE ended IS NOT NULL", "removed memory", report, [])
    lessons = _examine_rows(database, f"SELECT {', '.join(Lesson._fields)} FROM lessons", "lesson", report, seals)
    query = f"SELECT {', '.join(Reward._fields)} FROM feedback"
    report.rewards = _examine_rows(database, query, "reward", report, seals)
    for what, there, counted in (
        ("memories", report.memories, state.memories),
        ("lessons", lessons, state.next_lesson - 1),
        ("rewards", report.rewards, state.rewards),
    ):
        if there != counted:
            report.damage.append(f"{database.path}: {there} {what} are whole of the {counted} that were written")
    if shifted(bytes(8), seals) != state.digest:
        report.damage.append(f"{database.path}: the rows do not add up to the digest that was written")


def _examine_rows(database: Database, query: str, what: str, report: Report, seals: list[bytes]) -> int:
    """Read the rows of a query; how many are whole. Their seals are added to those given."""
    whole = 0
    try:
        for row in database.stream(query):
            if is_whole(row):
                whole += 1
                seals.append(row[-1])
            else:
                report.damage.append(f"{database.path}: {what} {row[0]} is not what was written")
    except StoreError as error:
        report.damage.append(f"{error} (while reading each {what})")
    return whole


def _examine_image(database: Database, image: Image, report: Report) -> None:
    """Whether the tree in memory holds what the database says."""
    try:
        check_tree(image.tree)
    except ValueError as error:
        report.damage.append(str(error))
    expected = 0
    for there in database.live_memories():
        expected += len(there)
        lost = [memory for memory in there if not _is_held(image, memory)]
        report.damage += [f"memory {memory.record} (id {memory.id}) is not in the tree as it was written" for memory in lost]
        report.damage += _different_keys(database, image, [memory for memory in there if memory not in lost])
    if expected != len(image.tree):
        report.damage.append(f"the tree holds {len(image.tree)} memories, the database {expected}")


def _is_held(image: Image, memory: Memory) -> bool:
    place = image.tree.get(memory.id)
    return place is not None and image.records.stub(place) == (memory.record, memory.seal)


def _different_keys(database: Database, image: Image, memories: list[Memory]) -> Iterator[str]:
    """Those whose key in the tree is not the one that was written."""
    if not memories:
        return
    keys: Any = image.tree._keys
    written, _ = keys.many(key_codec.decoded(database.facts()["keys"], [memory.key for memory in memories]))
    held = [image.tree.key(memory.id) for memory in memories]
    stacked = scipy.sparse.vstack(held, "csr") if scipy.sparse.issparse(held[0]) else held
    found, _ = keys.many(np.stack(held) if isinstance(held[0], np.ndarray) else stacked)
    if isinstance(found, np.ndarray):
        different = (found != written).any(axis=1)
    else:
        # Same lengths, or the rest cannot be compared place by place.
        if not np.array_equal(found[0], written[0]):
            yield "the keys in the tree are not as long as those that were written"
            return
        unequal = np.cumsum(np.concatenate([[0], (found[1] != written[1]) | (found[2] != written[2])]))
        different = unequal[found[0][1:]] > unequal[found[0][:-1]]
    for place in np.flatnonzero(different).tolist():
        yield f"the key of memory {memories[place].record} (id {memories[place].id}) in the tree is not what was written"
