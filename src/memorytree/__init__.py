"""memorytree: a memory that learns. Insert, query, reward and forget, each in logarithmic time."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memorytree.config import (
        GraphRouting,
        LinearScorer,
        PaperRouting,
        PrincipalRouting,
        Projection,
        TermLists,
        ValueModel,
    )  # fmt: skip
    from memorytree.errors import (
        DamagedFile,
        DamagedStore,
        InvalidKey,
        InvalidOption,
        InvalidReceipt,
        InvalidReward,
        MemoryTreeError,
        ReadOnlyStore,
        StaleReceipt,
        StoreClosed,
        StoreError,
        StoreLocked,
        UnknownId,
        UnknownReward,
        UnsupportedValue,
    )  # fmt: skip
    from memorytree.receipts import Receipt
    from memorytree.results import Hit, HitMatrix, Hits, PastReward, RewardResult
    from memorytree.store import MemoryStore
    from memorytree.store import open as open
    from memorytree.text import TextHit, TextHits, TextMemory
    from memorytree.tree import MemoryTree

__all__ = [
    "DamagedFile", "DamagedStore", "GraphRouting", "Hit", "HitMatrix", "Hits", "InvalidKey",
    "InvalidOption", "InvalidReceipt", "InvalidReward", "LinearScorer", "MemoryStore", "MemoryTree", "MemoryTreeError",
    "PaperRouting", "PastReward", "PrincipalRouting", "Projection", "ReadOnlyStore", "Receipt", "RewardResult",
    "StaleReceipt", "StoreClosed", "StoreError", "StoreLocked", "TermLists", "TextHit", "TextHits", "TextMemory",
    "UnknownId", "UnknownReward", "UnsupportedValue", "ValueModel",
]  # fmt: skip
__version__ = "0.1.0"

_LAZY_MODULES = {
    "config": ("GraphRouting", "LinearScorer", "PaperRouting", "PrincipalRouting", "Projection", "TermLists", "ValueModel"),
    "errors": (
        "DamagedFile", "DamagedStore", "InvalidKey", "InvalidOption", "InvalidReceipt", "InvalidReward",
        "MemoryTreeError", "ReadOnlyStore", "StaleReceipt", "StoreClosed", "StoreError", "StoreLocked", "UnknownId",
        "UnknownReward", "UnsupportedValue",
    ),
    "receipts": ("Receipt",),
    "results": ("Hit", "HitMatrix", "Hits", "PastReward", "RewardResult"),
    "store": ("MemoryStore", "open"),
    "text": ("TextHit", "TextHits", "TextMemory"),
    "tree": ("MemoryTree",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _LAZY_MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name or a module on first use: loading the engine takes a second, which a command may not need."""
    module = _MODULE_OF.get(name, name)
    if not module.startswith("_"):
        try:
            found = import_module(f"memorytree.{module}")
        except ModuleNotFoundError as error:
            if error.name != f"memorytree.{module}":
                raise
        else:
            return globals().setdefault(name, found if module == name else getattr(found, name))
    raise AttributeError(f"module 'memorytree' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", "checks", "open", *_LAZY_MODULES]
