"""MemoryStore: a MemoryTree that lasts. This file is its face: what is there, reading, upkeep."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from memorytree import options
from memorytree.engine.arrays import NONE
from memorytree.inspection import Explanation, Stats
from memorytree.store import doctor, exchange
from memorytree.store.answers import StoredHitMatrix, StoredHits, filtered
from memorytree.store.records import NEVER, Filter
from memorytree.store.writing import Writable


class MemoryStore(Writable):
    """A memory that learns and lasts: the face of `MemoryTree` over a directory. `memorytree.open` makes one.

    Args:
        path: the directory.
        mode: "w" to write (one writer at a time; a new store is made where there is none), "r" to read beside a writer.
        durability: "full": what was acknowledged survives a power cut; "normal": it survives the end of the process.
        settings: JSON data of the application's own, kept from when the store is made.
        options: as for `MemoryTree` (and `trees=` for a forest), settled when the store is made.
    """

    # ---- what is there

    @property
    def settings(self) -> dict[str, Any]:
        """What the application has settled for itself when the store was made."""
        return deepcopy(self._facts["settings"])

    @property
    def operations(self) -> int:
        """How many operations have made the store what it is; each insertion, removal or reward, one or many, counts one."""
        image = self._image
        return self._current().at if image is None or self._reader else image.at  # what waits is counted already

    def __len__(self) -> int:
        image = self._current()
        return len(image.tree) - len(image.records.expired(time.time()))

    def __contains__(self, id: object) -> bool:
        return self._find(id)[1] is not None

    def __iter__(self) -> Iterator[int]:
        """The ids, in order of insertion."""
        image = self._current()
        expired = set(image.records.expired(time.time()))
        return (id for id in image.tree if id not in expired)

    def __getitem__(self, id: int) -> Any:
        """The value of a memory."""
        image, place = self._there(id)
        return image.records.value(place)

    def get(self, id: int, default: Any = None) -> Any:
        """The value of a memory, or a default."""
        image, place = self._find(id)
        return default if place is None else image.records.value(place)

    def key(self, id: int) -> Any:
        """The key of a memory, in the form in which keys were given."""
        return self._there(id)[0].tree.key(id)

    def metadata(self, id: int) -> dict[str, Any]:
        """The metadata of a memory."""
        image, place = self._there(id)
        return image.records.metadata(place)

    def times(self, id: int) -> tuple[float, float | None]:
        """When a memory was stored, and when it expires, in seconds since 1970."""
        image, place = self._there(id)
        expires = image.records.expires.item(place)
        return image.records.created.item(place), None if expires == NEVER else expires

    def matching(self, where: Mapping[str, Any] | None) -> list[int]:
        """The ids of all memories with this metadata, in order of insertion; `where` as in `query`."""
        image = self._current()
        with image.looked_at():
            return image.records.ids[Filter(image.records, where, time.time()).places()].tolist()

    def __repr__(self) -> str:
        state = f"{len(self):,} memories" if self._open else "closed"
        return f"<MemoryStore {str(self.path)!r}: {state}>"

    # ---- reading

    def query(
        self,
        x: Any,
        k: int = 1,
        *,
        where: Mapping[str, Any] | None = None,
        explore: float = 0.0,
        beam: int = 1,
        exclude: Iterable[int] | None = None,
        draw: int | None = None,
    ) -> StoredHits:
        """The memories that fit a key best, at most k, best first.

        Args:
            x, k, explore, beam, exclude, draw: as in `MemoryTree.query`.
            where: only memories with this metadata, such as {"user": "u17", "kind": ["fact", "task"]}. If there are k of
                them, k are found.
        """
        image = self._image
        if image is None or self._reader or image.waiting:
            image = self._current()
        expiry = image.records.next_expiry
        if where is None and (expiry == NEVER or expiry > time.time()):
            answer: Any = image.tree.query(x, k, explore=explore, beam=beam, exclude=exclude, draw=draw)
            return answer
        return filtered(image, x, k, where, exclude, beam, explore=explore, draw=draw)

    def query_many(
        self,
        X: Any,
        k: int = 1,
        *,
        where: Mapping[str, Any] | None = None,
        explore: float = 0.0,
        beam: int = 1,
        exclude: Sequence[Iterable[int]] | None = None,
        draw: int | None = None,
        threads: int = 1,
    ) -> StoredHitMatrix:
        """Answer a batch of queries, as a loop over `query` would; one filter for all."""
        image = self._current()
        asked: dict[str, Any] = {"explore": explore, "beam": beam}
        left_out: Any = exclude if exclude is None or isinstance(exclude, np.ndarray) else options.listed(exclude)
        if where is None and image.records.next_expiry > time.time():
            found = image.tree.query_many(X, k, exclude=left_out, draw=draw, threads=threads, **asked)
            return StoredHitMatrix(image, found)
        # Checks everything that is asked, and says how the keys are kept.
        blank = image.tree.query_many(X, k, exclude=left_out, draw=0, threads=threads)
        rows = X.tocsr() if hasattr(X, "tocsr") else X
        hits = [
            filtered(image, rows[i], k, where, None if left_out is None else [id for id in left_out[i] if id != NONE],
                     draw=None if draw is None else draw + i, **asked)
            for i in range(len(blank))
        ]  # fmt: skip
        return StoredHitMatrix.of(image, hits, blank)

    def compare(self, x: Any, ids: Iterable[int]) -> np.ndarray:
        """How well some memories fit a key, each looked at: one score for each id, minus infinity where there is none."""
        asked = options.listed(ids)
        there = np.array([id in self for id in asked], bool)
        return np.where(there, self._current().tree.compare(x, asked), -np.inf)

    # ---- looking inside

    def stats(self) -> Stats:
        """Size, shape and balance of the tree, and the bytes it takes in memory."""
        return self._current().tree.stats()

    def explain(self, x: Any, k: int = 5, *, beam: int = 1) -> Explanation:
        """Why a query for x with this beam returns what it does."""
        image, now = self._current(), time.time()
        told = image.tree.explain(x, k, beam=beam)
        candidates = [
            replace(candidate, hit=candidate.hit._replace(value=image.records.value(candidate.hit.value)))
            for candidate in told.candidates
            if image.records.expires.item(candidate.hit.value) > now
        ]
        return replace(told, candidates=tuple(candidates))

    def draw(self, ax: Any = None, *, depth: int = 4, names: Mapping[Any, str] | None = None) -> Any:
        """A picture of the tree, as `MemoryTree.draw` makes it."""
        return self._current().tree.draw(ax, depth=depth, names=names)

    # ---- upkeep

    def verify(self) -> doctor.Report:
        """Read everything there is, and report all damage."""
        with self._busy:
            return doctor.verify(self.path, self._database, self._current())

    def compact(self) -> None:
        """Write the snapshot and the database anew, without what has been removed."""
        with self._writing() as image:
            self._snapshot(image)
            self._database.vacuum()

    def backup(self, path: str | os.PathLike) -> None:
        """Copy the store as it is now to a new directory, while it is in use."""
        with self._busy:
            self._current()
            exchange.backup(self, path)

    def export(self, file: Any, *, progress: bool = False) -> int:
        """Write all memories to a file (or a path) as JSON Lines; returns how many."""
        return exchange.export(self, file, progress)

    def import_(self, file: Any, *, progress: bool = False) -> int:
        """Store the memories of a file (or a path) that `export` wrote, all or none of them; returns how many."""
        return exchange.import_(self, file, progress)
