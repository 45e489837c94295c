"""An open store: its lock, its database, its state in memory, and how an operation is committed.

An operation is committed to the database first and applied to the state then: one that fails leaves both as they were, and
one that was acknowledged survives a crash. This file also decides when a snapshot is written.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from memorytree.config import TreeConfig
from memorytree.errors import DamagedStore, InvalidOption, MemoryTreeError, ReadOnlyStore, StoreClosed, StoreError
from memorytree.serialization import sync_directory
from memorytree.store import snapshots
from memorytree.store.database import Database
from memorytree.store.owner_lock import OwnerLock
from memorytree.store.paths import DATABASE, LOCK, SNAPSHOTS, check_directory
from memorytree.store.schema import FORMAT, Change, Facts, Json, Totals
from memorytree.store.snapshots import Snapshot
from memorytree.store.state import Outcome, StoreState

SNAPSHOT_WEIGHT = 20_000
"""A snapshot is due when this much has been applied since the last one, and as much as there are memories."""

LOAD_ATTEMPTS = 5
SETTLED = ("identity", "options", "app_settings", "lineage")  # facts that every store has


class Session:
    """The files of a store while it is open, and its state in memory.

    Args:
        path: the directory.
        mode: "w" to write, "r" to read beside a writer.
        durability: "full" or "normal".
        app_settings: JSON data of the application, kept from when the store is created; None: do not compare.
        options: options of `MemoryTree`, kept from when the store is created.

    Attributes:
        lock: held while this thread writes, follows another writer, or reads the database.
        database: the connection to the database.
        facts: what was settled when the store was created.
    """

    def __init__(
        self, path: Path, mode: str, durability: str, app_settings: Mapping[str, Json] | None, options: Mapping[str, object]
    ):
        if mode not in ("w", "r"):
            raise InvalidOption(f'mode is "w" or "r", not {mode!r}')
        if durability not in ("full", "normal"):
            raise InvalidOption(f'durability is "full" or "normal", not {durability!r}')
        self.path = path
        self.lock = threading.RLock()
        self._reader = mode == "r"
        self._writer_process = None if self._reader else os.getpid()
        self._scorer = options.get("scorer")
        self._state: StoreState | None = None  # None: to be read from the disk
        self._open = False
        given: dict[str, Any] = {**options}
        checked = TreeConfig(**given).to_dict()
        settings = None if app_settings is None else _checked_settings(app_settings)
        check_directory(self.path, create=not self._reader)
        self._owner_lock = None if self._reader else OwnerLock(self.path / LOCK)
        try:
            self.database = Database(self.path / DATABASE, durability=durability, read_only=self._reader)
            try:
                if self.database.is_new:
                    self._create(checked, settings or {})
                self.facts = self._checked_facts(settings, options, checked)
                self._load()
            except BaseException:
                self.database.close()
                raise
        except BaseException:
            if self._owner_lock:
                self._owner_lock.release()
            raise
        self._open = True

    def _create(self, options: dict[str, object], settings: dict[str, Json]) -> None:
        """Write the tables of a new store."""
        if self._reader:
            raise StoreError(f"{self.path} is not a store yet: open it for writing first")
        if snapshots.found_in(self.path / SNAPSHOTS):
            raise DamagedStore(f"{self.path / DATABASE} is empty, but there is a snapshot; `repair` saves what it holds")
        self.database.create(
            {
                "format": FORMAT, "identity": secrets.token_bytes(8), "created": time.time(), "options": options,
                "lineage": 0, "app_settings": settings,
            }
        )  # fmt: skip
        try:
            sync_directory(self.path)
            sync_directory(self.path.parent)
        except OSError as error:
            raise StoreError(f"{self.path} could not be forced to the disk: {error}") from error

    def _checked_facts(
        self, settings: dict[str, Json] | None, given: Mapping[str, object], checked: Mapping[str, object]
    ) -> Facts:
        """The facts about the store. Raises for settings and options that differ from those it was created with.

        `given` are the options as the caller gave them, `checked` all options as plain data.
        """
        facts = self.database.facts()
        if facts.get("format") != FORMAT:
            raise StoreError(f"{self.path} has format {facts.get('format')}, this version reads {FORMAT}")
        for name in SETTLED:
            if name not in facts:
                raise DamagedStore(f"{self.path / DATABASE}: the fact {name!r} is missing")
        if settings is not None and settings != facts["app_settings"]:
            raise InvalidOption(f"{self.path} was created with app_settings={facts['app_settings']!r}, which cannot change")
        for name, option in given.items():
            if option is not None and checked[name] != facts["options"][name]:
                raise InvalidOption(
                    f"{self.path} was created with {name}={facts['options'][name]!r}, which cannot change to {option!r}"
                )
        return facts

    def _load(self) -> None:
        """Make the state from the snapshot and the database."""
        for attempt in range(LOAD_ATTEMPTS):
            version = self.database.version()
            try:
                state, damage, self.totals, self.facts = self.database.read(self._read_all)
                if not damage or not self._reader:
                    break
            except StoreError:
                if not self._reader or attempt == LOAD_ATTEMPTS - 1:
                    raise
            # A writer may have replaced the snapshot while this process was reading it; the next attempt reads the new one.
        for line in damage:
            warnings.warn(f"{line}; the tree was made from the database instead", stacklevel=5)
        self._committed, self._version, self._state = state.event, version, state
        if state.lineage != self.facts["lineage"] and not self._reader:
            self.database.set_facts({"lineage": state.lineage})
            self._try_snapshot(state)

    def _read_all(self) -> tuple[StoreState, list[str], Totals, Facts]:
        """The state, the damage in snapshots, the totals and the facts after the last event."""
        state, damage = StoreState.load(self.database, self.path / SNAPSHOTS, self._scorer)
        last = self.database.last_event()
        return state, damage, Totals() if last is None else last.totals, self.database.facts()

    # ---- reading

    @property
    def is_open(self) -> bool:
        """Whether the store was not closed yet."""
        return self._open

    @property
    def identity(self) -> bytes:
        """Tells this store from all others."""
        return bytes(self.facts["identity"])

    def state(self) -> StoreState:
        """The state after all operations, here or by another writer.

        Raises:
            StoreClosed: the store was closed.
        """
        state = self._state
        return self._current() if state is None or self._reader else state

    def _current(self) -> StoreState:
        """The state, loaded from the disk or brought up to date."""
        with self.lock:
            if not self._open:
                raise StoreClosed(f"{self.path} was closed")
            if self._state is None:
                self._load()
            elif self._reader and (version := self.database.version()) != self._version:
                self._follow(self._state)
                self._version = version
            assert self._state is not None
            return self._state

    def _follow(self, state: StoreState) -> None:
        """Apply what a writer has done. If that fails half-way, the state is loaded again."""
        self._state = None

        def read() -> None:
            first = self.database.first_event()
            # A snapshot of the writer makes it delete events, and memories that had ended by the first event it keeps.
            if first is None or first <= state.event:
                state.follow(self.database)
                self.facts = self.database.facts()
                self._state = state

        self.database.read(read)
        if self._state is None:
            self._load()

    # ---- writing

    @contextmanager
    def writing(self) -> Iterator[StoreState]:
        """A context for one writing thread, with the state after expired memories were removed.

        If an exception comes between a commit and the end of its application, the state is loaded again from the disk.
        """
        if os.getpid() != self._writer_process:
            if self._reader:
                raise ReadOnlyStore(f"{self.path} was opened for reading")
            raise StoreError(f"{self.path} was opened by process {self._writer_process}; a fork must open the store itself")
        with self.lock:
            state = self._current()
            try:
                self._remove_expired(state)
                yield state
            except BaseException as error:
                current = self._state
                if not isinstance(error, MemoryTreeError) or (current is not None and current.event != self._committed):
                    self._state = None
                raise
            state = self._current()
            if state.weight > max(SNAPSHOT_WEIGHT, len(state.tree)):
                self._try_snapshot(state)

    def commit(self, change: Change) -> Outcome:
        """Commit an operation and apply it; returns what it returns. The caller is in `writing`."""
        state, number = self._current(), self._committed + 1
        totals = self.totals.after(change)
        self.database.commit(number, change, totals)
        self._committed, self.totals = number, totals
        self.facts |= change.facts
        result = state.apply(change)
        state.event = number
        return result

    @property
    def next_event(self) -> int:
        """The number that the next event gets."""
        return self._committed + 1

    def remove(self, ids: list[int]) -> None:
        """Remove present memories. The caller is in `writing`."""
        self.commit(Change("remove", ids, ended=self._current().ended(ids)))

    def _remove_expired(self, state: StoreState) -> None:
        """Remove the memories that have expired."""
        now = time.time()
        if state.records.next_expiry <= now:
            expired = state.records.expired(now)
            if expired:
                self.remove(expired)
            state.records.update_next_expiry()

    # ---- snapshots

    def checkpoint(self) -> None:
        """Write a snapshot, and delete what it makes unnecessary."""
        with self.writing() as state:
            self._snapshot(state)

    def compact(self) -> None:
        """Write a snapshot, and rewrite the database without what was removed."""
        with self.writing() as state:
            self._snapshot(state)
            self.database.vacuum()

    def _snapshot(self, state: StoreState) -> None:
        """Write a snapshot of the state, unless there is one."""
        if state.event == 0:
            return
        path = snapshots.path_of(self.path / SNAPSHOTS, state.event)
        if path.exists() and not any(snapshots.damage_in(path)):
            return
        try:
            self.database.sync()  # a snapshot must not hold more than the database does after a power cut
            snapshot = Snapshot(state.event, state.lineage, state.tree, state.records, self.facts["app_settings"])
            path = snapshots.write(self.path / SNAPSHOTS, snapshot, self.database.seal_of_event(state.event))
        except OSError as error:
            raise StoreError(f"no snapshot could be written: {error}; the memories themselves are safe") from error
        state.weight = 0
        numbers = state.records.numbers[state.records.alive]
        self.database.trim(state.event, lambda ended: bool(np.isin(ended, numbers).any()))
        if state.records.mostly_removed:
            # Places are used once, so the state is read again without those of removed memories. Readers keep the old one.
            self._state = StoreState(self.identity, state.keys, snapshots.read(path, self._scorer))

    def _try_snapshot(self, state: StoreState) -> None:
        """Write a snapshot that the caller did not ask for: if it fails, the operation has succeeded all the same."""
        try:
            self._snapshot(state)
        except StoreError as error:
            state.weight = 0  # the next attempt comes after as much has been applied again
            warnings.warn(str(error), stacklevel=6)

    def close(self) -> None:
        """Write a snapshot if anything was applied since the last one, and close the files. A fork only closes them."""
        with self.lock:
            if not self._open:
                return
            state, self._open, self._state = self._state, False, None
            try:
                is_writer = os.getpid() == self._writer_process
                if state is not None and state.weight and is_writer and self._committed == state.event:
                    self._try_snapshot(state)
            finally:
                self.database.close()
                if self._owner_lock:
                    self._owner_lock.release()


def _checked_settings(settings: object) -> dict[str, Json]:
    """A copy of the JSON data of an application. Raises `InvalidOption`."""
    try:
        copied = msgpack.unpackb(msgpack.packb(settings))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidOption(f"app_settings are JSON data: {error}") from None
    if not isinstance(copied, dict):
        raise InvalidOption(f"app_settings are a mapping of JSON data, not {type(settings).__name__}")
    return copied
