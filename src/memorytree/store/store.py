"""MemoryStore: a memory that learns and is durable. The methods that write are here, those that read in `StoreReader`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from memorytree.arguments import check_list, check_new_id, check_new_ids
from memorytree.errors import InvalidOption
from memorytree.packing import Value, pack
from memorytree.store import changes, import_export
from memorytree.store.import_export import TextFile
from memorytree.store.inputs import (
    GivenMemories,
    Key,
    Lifetime,
    Metadata,
    NewMemories,
    Where,
    check_labels,
    check_where,
    feature_bytes,
    key_bytes,
    lifetime,
    lifetimes,
    one_each,
    pack_metadata,
)
from memorytree.store.learning import StoreLearner
from memorytree.store.schema import Json
from memorytree.store.session import Session


class MemoryStore(StoreLearner):
    """A memory that learns, in a directory: what it has acknowledged survives crashes and power cuts.

    It has the methods of `MemoryTree`, and metadata, filters and expiry. `memorytree.open` is the same as this class.

    Args:
        path: the directory; a new store is created if there is none.
        mode: "w" to write (one process at a time), "r" to read, also while another process writes.
        durability: "full": what was acknowledged survives a power cut; "normal": it survives the end of the process.
        app_settings: JSON data of the application, kept from when the store is created.
        options: options of `MemoryTree`, kept from when the store is created.

    Raises:
        StoreLocked: another process writes to the store.
        DamagedStore: the files contradict their checksums; `memorytree.store.repair` saves what can be saved.
        StoreError: the directory cannot be a store, or cannot be read or written.
        InvalidOption: an option does not fit, or differs from the one the store was created with.

    All methods raise `StoreClosed` after `close`. Those that write raise `ReadOnlyStore` in a store that was opened for
    reading, and `StoreError` for errors of the disk; then nothing was changed. The examples of the methods begin with this
    store.

    Example:
        >>> import tempfile
        >>> store = MemoryStore(tempfile.mkdtemp(), seed=0)
        >>> store.insert([1.0, 0.0], "east", metadata={"kind": "fact"})
        0
        >>> store.insert([0.0, 1.0], "north", metadata={"kind": "task"})
        1
        >>> store.query([0.9, 0.2]).values, store.query([0.9, 0.2], where={"kind": "task"}).values
        (['east'], ['north'])
        >>> store.close()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: str = "w",
        durability: str = "full",
        app_settings: Mapping[str, Json] | None = None,
        **options: object,
    ):
        super().__init__(Session(Path(path).absolute(), mode, durability, app_settings, options))

    # ---- memories

    def insert(
        self,
        x: Key,
        value: Value,
        *,
        id: int | None = None,
        features: object = None,
        label: str | int | None = None,
        metadata: Metadata | None = None,
        ttl: Lifetime = None,
    ) -> int:
        """Store a memory.

        Args:
            x, id, features, label: as in `MemoryTree.insert`.
            value: JSON data, bytes, text or a NumPy array.
            metadata: {name: text, number, boolean or None}, for filters.
            ttl: the lifetime in seconds or as a timedelta, after which the memory expires. None: it does not.

        Returns:
            The id, once the memory is committed.

        Raises:
            InvalidKey: x is no key, or not of the store's kind.
            UnsupportedValue: the value is not as described.
            InvalidOption: another argument is invalid.

        >>> store.insert([1.0, 1.0], "north-east", metadata={"kind": "task"}, ttl=3600)
        2
        """
        with self._session.writing() as state:
            kind, keys = key_bytes(state.tree, x)
            given = feature_bytes(state.tree, x, None if features is None else [features], 1)
            ids, labels, packed = [check_new_id(id)], check_labels([label], 1), [pack(value)]
            new = NewMemories(kind, keys, packed, ids, given, labels, [pack_metadata(metadata)], [lifetime(ttl)])
            return changes.insert(self._session, new)[0]

    def insert_many(
        self,
        X: Key,
        values: Iterable[Value],
        *,
        ids: Sequence[int | None] | np.ndarray | None = None,
        features: object = None,
        labels: Iterable[str | int | None] | None = None,
        metadata: Metadata | Sequence[Metadata | None] | None = None,
        ttl: Lifetime | Sequence[Lifetime] = None,
    ) -> np.ndarray:
        """Store a batch of memories, all or none of them.

        Args:
            X, values, features, labels: as in `MemoryTree.insert_many`.
            ids: the ids to give; None for the next free one.
            metadata: one mapping for all memories, or one for each.
            ttl: one lifetime for all memories, or one for each.

        Returns:
            The ids, (n,) int64.

        Raises:
            InvalidKey, UnsupportedValue, InvalidOption: as `insert`.

        >>> store.insert_many([[1.0, 2.0], [3.0, 4.0]], ["a", "b"], metadata={"kind": "letter"}).tolist()
        [2, 3]
        """
        values = check_list(values)
        n = len(check_new_ids(X, len(values), None))
        described = [metadata] * n if isinstance(metadata, Mapping) else one_each("mappings of metadata", n, metadata)
        return self._insert_many(GivenMemories(X, values, ids, features, labels, described, lifetimes(n, ttl)))

    def _insert_many(self, given: GivenMemories) -> np.ndarray:
        """Store a batch of memories; returns their ids."""
        if not given.values:
            return np.zeros(0, np.int64)
        with self._session.writing() as state:
            return np.array(changes.insert(self._session, given.checked(state.tree)), np.int64)

    def update_metadata(self, id: int, metadata: Metadata, *, replace: bool = False) -> None:
        """Change the metadata of a memory.

        Args:
            id: of the memory.
            metadata: the names to set; others keep their values.
            replace: remove all other names.

        Raises:
            UnknownId: no memory has this id.
            InvalidOption: the metadata is not as described for `insert`.

        >>> store.update_metadata(0, {"read": True})
        >>> store.metadata(0)
        {'kind': 'fact', 'read': True}
        """
        with self._session.writing():
            self._present(id)
            changes.update_metadata(self._session, id, metadata, replace=replace)

    def remove(self, id: int | None = None, *, where: Where | None = None) -> int:
        """Remove one memory, or all with some metadata.

        Args:
            id: of the memory.
            where: instead of an id, a filter as in `query` with at least one name.

        Returns:
            How many memories were removed.

        Raises:
            UnknownId: no memory has this id.
            InvalidOption: both an id and a filter were given, or neither.

        >>> store.remove(where={"kind": "task"}), store.remove(0), len(store)
        (1, 1, 0)
        """
        if (id is None) == (not check_where(where)):
            raise InvalidOption("remove takes either an id, or a filter that names at least one field")
        with self._session.writing():
            return self.remove_many(self.ids(where) if id is None else [id])

    def remove_many(self, ids: Iterable[int]) -> int:
        """Remove memories, all or none of them.

        Args:
            ids: of the memories.

        Returns:
            How many memories were removed.

        Raises:
            UnknownId: no memory has one of the ids.

        >>> store.remove_many([0, 1])
        2
        """
        asked = check_list(ids)
        with self._session.writing():
            for id in asked:
                self._present(id)
            present = list(dict.fromkeys(map(int, asked)))
            if present:
                self._session.remove(present)
        return len(present)

    def import_jsonl(self, file: TextFile, *, progress: bool = False) -> int:
        """Store the memories of a file that `export_jsonl` wrote, all or none of them.

        Args:
            file: a path or an open text file.
            progress: show a progress bar.

        Returns:
            How many memories were read.

        Raises:
            InvalidOption: a line is not a memory; the message names it.
            InvalidKey: the keys are not of the store's kind.

        >>> import io
        >>> store.import_jsonl(io.StringIO('{"key": [0.5, 0.5], "value": "between"}'))
        1
        """
        memories = import_export.read_jsonl(file, progress)
        return 0 if memories is None else len(self._insert_many(memories))

    # ---- maintenance

    def checkpoint(self) -> None:
        """Write a snapshot of the tree, so that the store opens quickly, and delete what it makes unnecessary.

        >>> store.checkpoint()
        """
        self._session.checkpoint()

    def compact(self) -> None:
        """Write a snapshot, and rewrite the database without what was removed.

        >>> store.compact()
        """
        self._session.compact()
