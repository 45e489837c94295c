"""MemoryForest: several trees, one face."""

from __future__ import annotations

from typing import Any

from memorytree import options
from memorytree.tree import MemoryTree


class MemoryForest(MemoryTree):
    """Several trees over the same memories: each cuts them differently, so what one overlooks another finds.

    There is one table of ids and values; each tree has keys of its own. A query looks into `beam` leaves of every tree, and
    returns the best of what all find, each memory once: time and space are those of as many trees.

    Args:
        trees: how many trees.
        settings: as for `MemoryTree`.

    Example:
        >>> forest = MemoryForest(trees=3, seed=0)
        >>> ids = forest.insert_many([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], ["up", "right", "both"])
        >>> forest.query([0.9, 0.8], k=2).values
        ['both', 'right']
    """

    def __init__(self, trees: int = 4, **settings: Any):
        super().__init__(**settings)
        self._options = options.check({**self._options, "trees": options.whole("trees", trees, 1)})
