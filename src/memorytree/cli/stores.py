"""Opening an existing store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from memorytree.errors import StoreError

Opened = TypeVar("Opened")


def open_existing(opener: Callable[..., Opened], path: Path, mode: str = "w") -> Opened:
    """Open a store or a text memory that exists; only `memorytree init` creates one.

    Args:
        opener: `memorytree.open` or `TextMemory`.
        path: the directory.
        mode: "w", or "r" to read while another process writes.

    Returns:
        What the opener returns.

    Raises:
        StoreError: there is no store at the path.
    """
    from memorytree.store.paths import check_directory

    try:
        check_directory(path, create=False)
    except StoreError as error:
        raise StoreError(
            f'{error}; "memorytree init" creates a store, --store or MEMORYTREE_STORE names another directory'
        ) from None
    return opener(path, mode=mode)
