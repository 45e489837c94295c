"""A bar for long work."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], what: str, show: bool, total: int | None = None) -> Iterable[T]:
    """The items, with a progress bar if wanted; `total` is how many there will be, where they do not know it themselves.

    The bar is drawn on standard error: standard output may be where the items go.
    """
    if not show:
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, description=what, total=total, console=Console(stderr=True))
