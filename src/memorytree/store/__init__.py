"""A memory that lasts: a directory with a database that is the truth, and snapshots of the tree that are quick to open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memorytree.store.answers import StoredHitMatrix, StoredHits
from memorytree.store.database import Database
from memorytree.store.doctor import Report
from memorytree.store.layout import DATABASE
from memorytree.store.repair import Repaired, repair
from memorytree.store.store import MemoryStore

__all__ = ["MemoryStore", "Repaired", "Report", "StoredHitMatrix", "StoredHits", "exists", "open", "repair", "verify"]


def open(
    path: str | os.PathLike,
    *,
    mode: str = "w",
    durability: str = "full",
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> MemoryStore:
    """Open the store in a directory; a new one is made where there is none.

    Args:
        path: the directory.
        mode: "w" to write (one writer at a time), "r" to read, also while another process writes.
        durability: "full": what was acknowledged survives a power cut; "normal": it survives the end of the process.
        settings: JSON data of the application's own, kept from when the store is made.
        options: as for `MemoryTree` (and `trees=` for a forest), settled when the store is made.

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
    return MemoryStore(path, mode=mode, durability=durability, settings=settings, **options)


def exists(path: str | os.PathLike) -> bool:
    """Whether there is a store at a path. A database without its tables is none: its making was cut short."""
    file = Path(path) / DATABASE
    if not file.exists():
        return False
    database = Database(file, read_only=True)
    try:
        return not database.is_new
    finally:
        database.close()


def verify(path: str | os.PathLike, *, scorer: Any = None) -> Report:
    """Examine the store in a directory: read everything, and report all damage. It may be in use."""
    from memorytree.store import doctor

    return doctor.verify(Path(path), scorer=scorer)
