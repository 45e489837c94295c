"""memorytree: a memory that learns. Insert, query, reward and forget, each in logarithmic time."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memorytree.errors import MemoryTreeError
    from memorytree.forest import MemoryForest
    from memorytree.hits import Hit, HitMatrix, Hits, Receipt
    from memorytree.store import MemoryStore, open
    from memorytree.text import TextHit, TextHits, TextMemory
    from memorytree.tree import MemoryTree
    from memorytree.writing import Learned

__all__ = [
    "Hit",
    "HitMatrix",
    "Hits",
    "Learned",
    "MemoryForest",
    "MemoryStore",
    "MemoryTree",
    "MemoryTreeError",
    "Receipt",
    "TextHit",
    "TextHits",
    "TextMemory",
    "open",
]
__version__ = "0.1.0"

_ROOMS = {
    "errors": ("MemoryTreeError",),
    "forest": ("MemoryForest",),
    "hits": ("Hit", "HitMatrix", "Hits", "Receipt"),
    "store": ("MemoryStore", "open"),
    "text": ("TextHit", "TextHits", "TextMemory"),
    "tree": ("MemoryTree",),
    "writing": ("Learned",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name or a room, imported when it is asked for: the engine takes a second, which no shell should wait for."""
    room = _ROOM_OF.get(name, name)
    if not room.startswith("_"):
        try:
            found = import_module(f"memorytree.{room}")
        except ModuleNotFoundError as error:
            if error.name != f"memorytree.{room}":
                raise
        else:
            return globals().setdefault(name, found if room == name else getattr(found, name))
    raise AttributeError(f"module 'memorytree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS, "__version__"]
