"""A progress bar for long work."""

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], description: str, show: bool, total: int | None = None) -> Iterable[T]:
    """Iterate over items and draw a progress bar on standard error, so that standard output can carry the items.

    Args:
        items: what to iterate over.
        description: the text before the bar.
        show: False: no bar.
        total: how many items there are, if `items` has no length.

    Returns:
        The items.
    """
    if not show:
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, description=description, total=total, console=Console(stderr=True))
