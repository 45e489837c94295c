"""A bar for long work."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], what: str, show: bool, total: int | None = None) -> Iterable[T]:
    """The items, with a progress bar if wanted; `total` is how many there will be, where they do not know it themselves."""
    if not show:
        return items
    from rich.progress import track

    return track(items, description=what, total=total)
