"""memorytree: a memory that learns. Insert, query, reward and forget, each in logarithmic time."""

from memorytree.errors import MemoryTreeError
from memorytree.forest import MemoryForest
from memorytree.hits import Hit, HitMatrix, Hits, Receipt
from memorytree.store import MemoryStore, open
from memorytree.text import Recall, TextHit, TextMemory
from memorytree.tree import Learned, MemoryTree

__all__ = [
    "Hit",
    "HitMatrix",
    "Hits",
    "Learned",
    "MemoryForest",
    "MemoryStore",
    "MemoryTree",
    "MemoryTreeError",
    "Recall",
    "Receipt",
    "TextHit",
    "TextMemory",
    "open",
]
__version__ = "0.1.0"
