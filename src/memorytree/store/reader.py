"""StoreReader: what every open store can do, also one that was opened for reading."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Self, TypeAlias, Unpack

import numpy as np

from memorytree.arguments import check_list
from memorytree.errors import UnknownId
from memorytree.packing import Value
from memorytree.results import Explanation, Stats
from memorytree.store import import_export
from memorytree.store.filtering import (
    Filter,
    QueryOptions,
    SingleQueryOptions,
    explain_present,
    query_many_present,
    query_present,
)
from memorytree.store.import_export import TextFile
from memorytree.store.inputs import NO_EXPIRY, Key, MetadataValue, Times, Where
from memorytree.store.results import StoreHitMatrix, StoreHits
from memorytree.store.schema import Json
from memorytree.store.session import Session
from memorytree.store.state import StoreState
from memorytree.store.verify import VerifyReport, verify_open

FeatureNames: TypeAlias = Mapping[int, str] | Mapping[str, str]
Picture: TypeAlias = Any  # text, or axes of matplotlib


class StoreReader:
    """The methods of a `MemoryStore` that change nothing in it.

    All of them raise `StoreClosed` after `close`. Their examples begin with the store of the example of `MemoryStore`.

    Args:
        session: the open files.

    Attributes:
        path: the directory.
    """

    def __init__(self, session: Session):
        self.path = session.path
        self._session = session

    @property
    def app_settings(self) -> dict[str, Json]:
        """The JSON data that the application gave when it created the store.

        >>> store.app_settings
        {}
        """
        return deepcopy(self._session.facts["app_settings"])

    @property
    def version(self) -> int:
        """The number of operations so far. Each insertion, removal, update or reward, single or batch, counts as one.

        >>> store.version
        2
        """
        return self._session.state().event

    def __len__(self) -> int:
        state = self._session.state()
        return len(state.tree) - len(state.records.expired(time.time()))

    def __contains__(self, id: object) -> bool:
        return self._find(id)[1] is not None

    def __iter__(self) -> Iterator[int]:
        """The ids, in order of insertion."""
        state = self._session.state()
        expired = set(state.records.expired(time.time()))
        return (id for id in state.tree if id not in expired)

    def __getitem__(self, id: int) -> Value:
        """The value of a memory; `UnknownId` if there is none."""
        state, place = self._present(id)
        return state.records.value(place)

    def _find(self, id: object) -> tuple[StoreState, int | None]:
        """The state, and the place of a memory in it; None if there is no such memory or it has expired."""
        state = self._session.state()
        place = state.place(id)
        if place is not None and state.records.expires[place] <= time.time():
            place = None
        return state, place

    def _present(self, id: object) -> tuple[StoreState, int]:
        """The state, and the place of a memory in it; `UnknownId` if there is none."""
        state, place = self._find(id)
        if place is None:
            raise UnknownId(f"no memory has the id {id!r}; ids are whole numbers that insert returned or was given")
        return state, place

    def get(self, id: int, default: Value = None) -> Value:
        """The value of a memory, or a default.

        Args:
            id: an id.
            default: what to return for an id that no memory has.

        Returns:
            The value or `default`.

        >>> store.get(0), store.get(7, "none")
        ('east', 'none')
        """
        state, place = self._find(id)
        return default if place is None else state.records.value(place)

    def get_many(self, ids: Iterable[int], default: Value = None) -> list[Value]:
        """The values of several memories.

        Args:
            ids: n ids.
            default: what to return for an id that no memory has.

        Returns:
            n values, in the order of the ids.

        >>> store.get_many([1, 7, 0])
        ['north', None, 'east']
        """
        return [self.get(id, default) for id in check_list(ids)]

    def key(self, id: int) -> Key:
        """The key of a memory.

        Args:
            id: an id.

        Returns:
            The key in the form in which keys were given: an array, a sparse row or a mapping.

        Raises:
            UnknownId: no memory has this id.

        >>> store.key(1)
        array([0., 1.], dtype=float32)
        """
        return self._present(id)[0].tree.key(id)

    def metadata(self, id: int) -> dict[str, MetadataValue]:
        """The metadata of a memory.

        Args:
            id: an id.

        Returns:
            A new dict.

        Raises:
            UnknownId: no memory has this id.

        >>> store.metadata(0)
        {'kind': 'fact'}
        """
        state, place = self._present(id)
        return state.records.metadata(place)

    def timestamps(self, id: int) -> Times:
        """When a memory was created, and when it expires.

        Args:
            id: an id.

        Returns:
            Both in seconds since 1970; None as the second for a memory that does not expire.

        Raises:
            UnknownId: no memory has this id.

        >>> store.timestamps(0)
        (1..., None)
        """
        state, place = self._present(id)
        expires = float(state.records.expires[place])
        return float(state.records.created[place]), None if expires == NO_EXPIRY else expires

    def ids(self, where: Where | None = None) -> list[int]:
        """The ids of all memories, or of those with some metadata.

        Args:
            where: as in `query`.

        Returns:
            The ids, in order of insertion.

        Raises:
            InvalidOption: `where` is not a filter.

        >>> store.ids(), store.ids({"kind": ["task", "note"]})
        ([0, 1], [1])
        """
        state = self._session.state()
        with state.reading():
            places = Filter(state.records, where, time.time()).places()
            return [int(id) for id in state.records.ids[places]]

    def __repr__(self) -> str:
        size = f"{len(self):,} memories" if self._session.is_open else "closed"
        return f"<{type(self).__name__} {str(self.path)!r}: {size}>"

    # ---- queries

    def query(
        self, x: Key, k: int = 1, *, where: Where | None = None, **query_options: Unpack[SingleQueryOptions]
    ) -> StoreHits:
        """The memories that fit a key best.

        Args:
            x, k: as in `MemoryTree.query`.
            query_options: recall, beam, explore, exclude and exploration_seed, as in `MemoryTree.query`.
            where: only memories with this metadata, {name: value or list of alternatives}. If k memories match, k are
                returned.

        Returns:
            At most k hits, best first, with the receipt for `MemoryStore.reward`.

        Raises:
            InvalidKey: x is no key of the store's kind.
            InvalidOption: another argument is invalid.

        >>> store.query([0.9, 0.2], where={"kind": ["task", "note"]}).values
        ['north']
        """
        return query_present(self._session.state(), x, k, where, query_options)

    def query_many(
        self, X: Key, k: int = 1, *, where: Where | None = None, threads: int = 1, **query_options: Unpack[QueryOptions]
    ) -> StoreHitMatrix:
        """Answer a batch of queries, as a loop over `query` would.

        Args:
            X, k, threads: as in `MemoryTree.query_many`.
            where: as in `query`; one filter for all.
            query_options: recall, beam, explore, exclude and exploration_seed, as in `MemoryTree.query_many`.

        Returns:
            A row of hits for each key.

        Raises:
            InvalidKey: X is no batch of keys of the store's kind.
            InvalidOption: another argument is invalid.

        >>> store.query_many([[0.9, 0.2], [0.1, 0.8]]).ids.tolist()
        [[0], [1]]
        """
        return query_many_present(self._session.state(), X, k, where, threads, query_options)

    def score(self, x: Key, ids: Iterable[int]) -> np.ndarray:
        """How well given memories fit a key, whatever routing would find.

        Args:
            x: the key.
            ids: n ids.

        Returns:
            An array of n scores, float32; minus infinity for an id that no memory has.

        Raises:
            InvalidKey: x is no key of the store's kind.

        >>> store.score([1.0, 1.0], [1, 7])
        array([ -1., -inf], dtype=float32)
        """
        asked = check_list(ids)
        present = np.array([id in self for id in asked], bool)
        return np.where(present, self._session.state().tree.score(x, asked), -np.inf).astype(np.float32)

    # ---- inspection, copies, closing

    def stats(self) -> Stats:
        """Size, shape and balance of the tree, and the bytes it uses in memory.

        >>> store.stats().memories
        2
        """
        return self._session.state().tree.stats()

    def explain(self, x: Key, k: int = 5, *, beam: int | None = None) -> Explanation:
        """Why a query returns what it does.

        Args:
            x, k, beam: those of the query.

        Returns:
            The path through the tree, and the parts of each score.

        Raises:
            InvalidKey: x is no key of the store's kind.
            InvalidOption: another argument is out of range.

        >>> store.explain([0.9, 0.2], 1).candidates[0].hit.value
        'east'
        """
        return explain_present(self._session.state(), x, k, beam)

    def plot(self, ax: Picture = None, *, depth: int = 4, names: FeatureNames | None = None) -> Picture:
        """A picture of the tree.

        Args:
            ax, depth, names: as in `MemoryTree.plot`.

        Returns:
            The text, or the axes of matplotlib.

        >>> print(store.plot())
        leaf 0: 2
        """
        return self._session.state().tree.plot(ax, depth=depth, names=names)

    def verify(self) -> VerifyReport:
        """Read everything in the store, and report all damage.

        Returns:
            A report; its `ok` says whether there is no damage.

        >>> store.verify().ok
        True
        """
        with self._session.lock:
            return verify_open(self.path, self._session.database, self._session.state())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is now, while it is in use.

        Args:
            path: a new or empty directory.

        Raises:
            StoreError: the directory is not empty, or cannot be written.

        >>> import tempfile
        >>> store.backup(tempfile.mkdtemp())
        """
        with self._session.lock:
            self._session.state()
            import_export.backup(self._session, path)

    def export_jsonl(self, file: TextFile, *, progress: bool = False) -> int:
        """Write all memories as JSON Lines.

        Args:
            file: a path or an open text file.
            progress: show a progress bar.

        Returns:
            How many memories were written.

        Raises:
            StoreError: the file cannot be written.

        >>> import io
        >>> store.export_jsonl(io.StringIO())
        2
        """
        return import_export.export_jsonl(self._session, file, progress)

    def close(self) -> None:
        """Close the files. A store that was opened for writing writes a snapshot first if anything has changed.

        >>> store.close()
        """
        self._session.close()

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the store."""
        self.close()
