"""What lies where in the directory of a store."""

from __future__ import annotations

from pathlib import Path

from memorytree.errors import StoreError

DATABASE = "memories.sqlite"
SNAPSHOTS = "snapshots"
LOCK = "writer.lock"


def check_directory(path: Path, *, make: bool) -> None:
    """Raise `StoreError` unless a directory is a store, or may become one."""
    try:
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path} is a file; a store is a directory")
        if (path / DATABASE).exists():
            return
        if not make:
            raise StoreError(f"{path} is not a store: there is no {DATABASE}")
        path.mkdir(parents=True, exist_ok=True)
        strangers = [entry.name for entry in path.iterdir() if entry.name != LOCK]
        if strangers:
            raise StoreError(f"{path} is not a store and not empty: it holds {strangers[0]!r}")
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{path} cannot be a store: {error}") from error
