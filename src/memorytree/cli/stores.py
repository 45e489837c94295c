"""Opening what is there; only `init` makes a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from memorytree.errors import StoreError

Opened = TypeVar("Opened")


def existing(open_it: Callable[..., Opened], path: Path, mode: str = "w", **options: Any) -> Opened:
    """A store, or a text memory, that is there already; `mode` is "r" to read beside a writer."""
    from memorytree.store.layout import check_directory

    try:
        check_directory(path, make=False)
    except StoreError as error:
        raise StoreError(f'{error}; "memorytree init" makes one, --store or MEMORYTREE_STORE names another') from None
    return open_it(path, mode=mode, **options)
