"""A durable memory: a directory with a database that holds the memories, and snapshots of the tree that open quickly."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from memorytree.store.database import Database
from memorytree.store.paths import DATABASE
from memorytree.store.repair import RepairReport, repair
from memorytree.store.results import StoreHitMatrix, StoreHits
from memorytree.store.schema import Json
from memorytree.store.store import MemoryStore
from memorytree.store.verify import VerifyReport, verify

__all__ = [
    "MemoryStore",
    "RepairReport",
    "StoreHitMatrix",
    "StoreHits",
    "VerifyReport",
    "exists",
    "open",
    "repair",
    "verify",
]


def open(
    path: str | os.PathLike[str],
    *,
    mode: str = "w",
    durability: str = "full",
    app_settings: Mapping[str, Json] | None = None,
    **options: object,
) -> MemoryStore:
    """Open the store in a directory; it is created if there is none. The same as `MemoryStore(path, ...)`.

    Args:
        path: the directory.
        mode: "w" to write (one process at a time), "r" to read, also while another process writes.
        durability: "full": what was acknowledged survives a power cut; "normal": it survives the end of the process.
        app_settings: JSON data of the application, kept from when the store is created.
        options: options of `MemoryTree`, kept from when the store is created.

    Returns:
        The open store.

    Raises:
        StoreLocked: another process writes to the store.
        DamagedStore: the files contradict their checksums; `repair` saves what can be saved.
        StoreError: the directory cannot be a store, or cannot be read or written.
        InvalidOption: an option does not fit, or differs from the one the store was created with.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with open(folder, seed=0) as store:
        ...     first = store.insert([1.0, 0.0], "east", metadata={"kind": "fact"})
        ...     second = store.insert([0.0, 1.0], "north")
        >>> with open(folder) as store:
        ...     store.query([0.1, 0.9])[0].value, store.query([0.1, 0.9], where={"kind": "fact"})[0].value
        ('north', 'east')
    """
    return MemoryStore(path, mode=mode, durability=durability, app_settings=app_settings, **options)


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is a store at a path. A database without tables does not count: its creation was interrupted.

    Args:
        path: the directory.

    Returns:
        Whether `open` would find one, not create one.

    Raises:
        DamagedStore: the tables in the database are not those of a store.

    Example:
        >>> import tempfile
        >>> exists(tempfile.mkdtemp())
        False
    """
    file = Path(path) / DATABASE
    if not file.exists():
        return False
    database = Database(file, read_only=True)
    try:
        return not database.is_new
    finally:
        database.close()
