"""The files in the directory of a store."""

from __future__ import annotations

from pathlib import Path

from memorytree.errors import StoreError

DATABASE = "memories.sqlite"
SNAPSHOTS = "snapshots"
LOCK = "owner.lock"


def check_directory(path: Path, *, create: bool) -> None:
    """Raise `StoreError` unless a directory holds a store, or with `create` may become one. Creates the directory then."""
    try:
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is a file; a store is a directory")
        if (path / DATABASE).exists():
            return
        if not create:
            raise StoreError(f"{path} is not a store: there is no {DATABASE}")
        path.mkdir(parents=True, exist_ok=True)
        others = [entry.name for entry in path.iterdir() if entry.name != LOCK]
        if others:
            raise StoreError(f"{path} is not a store and not empty: it holds {others[0]!r}")
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path} cannot be a store: {error}") from error
