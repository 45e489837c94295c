"""An open store: its lock, its database, its image in memory, and how an operation is made to last.

What is to be done is committed to the database first, then done to the image: an operation that fails leaves both as they
were, and one that was acknowledged is there after a crash.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgpack
import numpy as np

from memorytree import files
from memorytree.errors import DamagedStore, InvalidOption, MemoryTreeError, ReadOnlyStore, StoreClosed, StoreError
from memorytree.forest import MemoryForest
from memorytree.store import snapshots
from memorytree.store.database import FORMAT, READABLE, Database
from memorytree.store.image import Image
from memorytree.store.layout import DATABASE, LOCK, SNAPSHOTS, check_directory
from memorytree.store.rows import Event, Lesson, Memory, Reward, State, shifted
from memorytree.store.writer_lock import WriterLock
from memorytree.tree import MemoryTree

# A snapshot is due when as much has happened since the last as there are memories, and at least so much.
OFTEN_ENOUGH = 20_000


class Session:
    """What a `MemoryStore` does beneath its face."""

    def __init__(
        self,
        path: str | os.PathLike,
        *,
        mode: str = "w",
        durability: str = "full",
        settings: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        if mode not in ("w", "r"):
            raise InvalidOption(f'mode is "w" or "r", not {mode!r}')
        if durability not in ("full", "normal"):
            raise InvalidOption(f'durability is "full" or "normal", not {durability!r}')
        self.path = Path(path).absolute()
        self._reader = mode == "r"
        self._busy = threading.RLock()  # held by whoever writes, follows another writer, or asks the database
        self._owner = None if self._reader else os.getpid()  # the process that may write
        self._scorer = options.get("scorer")
        self._image: Image | None = None
        self._counted = State()
        self._alone: list[Memory] = []  # came by themselves; not counted yet
        self._noted = 0  # the newest event that has a row
        self._open = False
        asked = _checked_options(options)
        settings = None if settings is None else _checked_settings(settings)
        check_directory(self.path, make=not self._reader)
        self._lock = None if self._reader else WriterLock(self.path / LOCK)
        try:
            self._database = Database(self.path / DATABASE, durability=durability, read_only=self._reader)
            try:
                self._facts = self._settled(settings, options, asked)
                self._load()
            except BaseException:
                self._database.close()
                raise
        except BaseException:
            if self._lock:
                self._lock.release()
            raise
        self._open = True

    def _settled(self, settings: dict | None, given: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
        """What is settled about this store: read, or for a new one written. What differs is refused.

        `given` are the options as the caller gave them, `asked` all options as plain data.
        """
        if self._database.is_new:
            if self._reader:
                raise StoreError(f"{self.path} is not a store yet: open it for writing first")
            if snapshots.found_in(self.path / SNAPSHOTS):
                raise DamagedStore(f"{self.path / DATABASE} is empty, but there is a snapshot; `repair` saves what it holds")
            new: dict[str, Any] = {
                "format": FORMAT, "identity": secrets.token_bytes(8), "made": time.time(), "options": asked, "lineage": 0,
                "settings": settings or {},
            }  # fmt: skip
            self._database.create(new)
            try:
                files.sync_directory(self.path)
                files.sync_directory(self.path.parent)
            except OSError as error:
                raise StoreError(f"{self.path} cannot be made to last: {error}") from error
        facts = self._database.facts()
        if facts.get("format") not in READABLE:
            raise StoreError(f"{self.path} has format {facts.get('format')}, this version reads {READABLE}")
        for name in ("identity", "options", "settings", "lineage"):
            if name not in facts:
                raise DamagedStore(f"{self.path / DATABASE}: the fact {name!r} is missing")
        if settings is not None and settings != facts["settings"]:
            raise InvalidOption(f"{self.path} was made with settings={facts['settings']!r}; that is settled")
        for name, option in given.items():
            if option is not None and asked[name] != facts["options"][name]:
                raise InvalidOption(
                    f"{self.path} was made with {name}={facts['options'][name]!r}; that is settled, so not {option!r}"
                )
        return facts

    def _load(self) -> None:
        """Make the image of what is in the database."""
        for attempt in range(5):
            version = self._database.version()
            try:
                with self._database.as_of_now():
                    image, damage = Image.load(self._database, self.path / SNAPSHOTS, self._scorer)
                    last = self._database.last_event()
                    facts = self._database.facts()
                if not damage or not self._reader:
                    break
            except StoreError:
                if not self._reader or attempt == 4:
                    raise
            # A writer may have replaced the snapshot while we were looking; then a second look finds the new one.
        for what in damage:
            warnings.warn(f"{what}; the tree was made from the database instead", stacklevel=4)
        self._counted, self._alone = State() if last is None else last.state, []
        self._facts, self._last, self._version, self._image = facts, image.at, version, image
        self._noted = self._database.newest_event_kept()
        if facts["format"] != FORMAT and not self._reader:
            self._database.note({"format": FORMAT})
        if image.lineage != facts["lineage"] and not self._reader:
            self._database.note({"lineage": image.lineage})
            self._snapshot_quietly(image)

    @property
    def _state(self) -> State:
        """What everything amounts to."""
        if self._alone:
            self._counted, self._alone = self._counted.after(self._alone), []
        return self._counted

    @property
    def _identity(self) -> bytes:
        return bytes(self._facts["identity"])

    def _current(self) -> Image:
        """The image, after everything that was done to the store, here or by another writer."""
        image = self._image
        if image is not None and not self._reader and self._take_in(image):
            return image
        with self._busy:
            if not self._open:
                raise StoreClosed(f"{self.path} was closed")
            if self._image is image and not self._reader:
                self._image = None  # there is none, or it is not whole
            if self._image is None:
                self._load()
            elif self._reader and (version := self._database.version()) != self._version:
                self._follow(self._image)
                self._version = version
            assert self._image is not None
            return self._image

    def _take_in(self, image: Image) -> bool:
        """Let the image take in what waits; whether it is whole then."""
        if not image.waiting:
            return True
        if os.getpid() == self._owner:
            return image.take_in(self._facts["keys"])
        if not image.take_in(self._facts["keys"], seconds=1):
            raise self._forked()
        return True

    def _forked(self) -> StoreError:
        return StoreError(f"{self.path} was opened by process {self._owner}; a fork of it must open the store itself")

    def _follow(self, image: Image) -> None:
        """Do what a writer has done. Whatever goes wrong half-way, the image is then read anew."""
        self._image = None
        with self._database.as_of_now():
            first = self._database.first_event()
            # The writer may have let go of what we have not seen yet, and of what came and went with its first event; its
            # snapshot has it.
            if first is None or first <= image.at:
                image.follow(self._database)
                self._facts = self._database.facts()
                self._image = image
        if self._image is None:
            self._load()

    # ---- how an operation is made to last

    def _check_writer(self) -> None:
        """Raise unless this may write."""
        if os.getpid() != self._owner:
            raise ReadOnlyStore(f"{self.path} was opened for reading") if self._reader else self._forked()

    @contextmanager
    def _writing(self) -> Iterator[Image]:
        """The image, to change; memories that have expired are let go first.

        Should anything go wrong between the commit and the end of the change, the image is read again from the disk.
        """
        self._check_writer()
        with self._busy:
            image = self._current()
            try:
                self._forget_expired(image)
                yield image
            except MemoryTreeError:
                if self._last != image.at:
                    self._image = None
                raise
            except BaseException:
                self._image = None
                raise
            if image.weight > max(OFTEN_ENOUGH, len(image.tree)):
                self._snapshot_quietly(image)

    def _forget_expired(self, image: Image) -> None:
        """Let go of the memories that have expired."""
        now = time.time()
        if image.records.next_expiry <= now:
            expired = image.records.expired(now)
            if expired:
                self._remove(image, expired)
            image.records.look_ahead()

    def _remove(self, image: Image, ids: list[int]) -> None:
        """Forget memories that are there."""
        ended = [image.stub(id) for id in ids]
        event = self._commit(image, "remove", ids, ended=ended)
        image.remove(ids)
        image.at = event.at

    def _commit(
        self,
        image: Image,
        kind: str,
        body: Any,
        *,
        memories: Sequence[Memory] = (),
        ended: Sequence[tuple[int, bytes]] = (),
        lessons: Sequence[Lesson] = (),
        rewards: Sequence[Reward] = (),
        next_id: int | None = None,
        facts: dict[str, Any] | None = None,
    ) -> Event:
        """Make an operation last."""
        old = self._state
        gained = (row.seal for rows in (memories, lessons, rewards) for row in rows)
        state = State(
            memories=old.memories + len(memories) - len(ended),
            rewards=old.rewards + len(rewards),
            digest=shifted(old.digest, gained, (seal for _, seal in ended)),
            next_id=old.next_id if next_id is None else next_id,
            next_record=old.next_record + len(memories),
            next_lesson=old.next_lesson + len(lessons),
            next_reward=old.next_reward + len(rewards),
        )
        event = Event(image.at + 1, kind, msgpack.packb(body), time.time(), state)
        self._database.commit(
            event, memories=memories, ended=[record for record, _ in ended], lessons=lessons, rewards=rewards, facts=facts
        )
        self._counted, self._last, self._noted = state, event.at, event.at
        if facts:
            self._facts |= facts
        return event

    # ---- snapshots

    def checkpoint(self) -> None:
        """Write a snapshot of the tree, so that the store opens quickly, and let go of what it makes superfluous."""
        with self._writing() as image:
            self._snapshot(image)

    def _snapshot(self, image: Image) -> None:
        if image.at == 0 or not self._take_in(image):
            return
        path = snapshots.path_for(self.path / SNAPSHOTS, image.at)
        if path.exists() and not any(snapshots.damage(path)):
            return
        if self._noted != image.at:  # a memory came by itself; a snapshot needs an event
            newest = msgpack.packb([self._state.next_record - 1] * 2)
            self._database.commit(Event(image.at, "insert", newest, time.time(), self._state))
            self._noted = image.at
        try:
            # A snapshot must not know more than the database would after a power cut.
            self._database.sync()
            kept = image.snapshot(self._facts["settings"])
            path = snapshots.write(self.path / SNAPSHOTS, kept, self._database.seal_of_event(image.at))
        except OSError as error:
            raise StoreError(f"no snapshot could be written: {error}; the memories themselves are safe") from error
        image.weight = 0
        numbers = image.records.numbers[image.records.alive]
        self._database.trim(image.at, lambda gone: bool(np.isin(gone, numbers).any()))
        if image.records.mostly_empty:
            # Places are never given out again, so an image of which most has gone is read anew; whoever reads keeps the old.
            self._image = Image(self._identity, snapshots.read(path, self._scorer))

    def _snapshot_quietly(self, image: Image) -> None:
        """The same where nobody asked for it: what fails is no reason for an operation to fail that has been done."""
        try:
            self._snapshot(image)
        except StoreError as error:
            image.weight = 0  # not again at every operation
            warnings.warn(str(error), stacklevel=5)

    def close(self) -> None:
        """Write a snapshot if anything has changed, and let go of the files."""
        with self._busy:
            if not self._open:
                return
            image, self._open, self._image = self._image, False, None
            try:
                mine = os.getpid() == self._owner  # neither a reader's nor a fork's, which writes nothing
                if image is not None and (image.weight or image.waiting) and mine and self._last == image.at:
                    self._snapshot_quietly(image)
            finally:
                self._database.close()
                if self._lock:
                    self._lock.release()

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def _checked_options(given: dict[str, Any]) -> dict[str, Any]:
    """All options as plain data; an error for those that make no sense, before anything is made on the disk."""
    kind = MemoryForest if "trees" in given else MemoryTree
    return files.plain_options(kind(**given))


def _checked_settings(settings: Any) -> dict[str, Any]:
    """A copy of JSON data that the application wants kept."""
    try:
        kept = msgpack.unpackb(msgpack.packb(settings))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidOption(f"settings are JSON data: {error}") from None
    if not isinstance(kept, dict):
        raise InvalidOption(f"settings are a mapping of JSON data, not {type(settings).__name__}")
    return kept
