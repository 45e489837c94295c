"""A bar for long work."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def track(items: Sequence[T], what: str, show: bool) -> Iterable[T]:
    """The items, with a progress bar if wanted."""
    if not show:
        return items
    from rich.progress import track

    return track(items, description=what)
