"""Memories that were rewarded together, as groups: what routers learn from rewards."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


class Links:
    """Groups of ids (union-find). A memory that goes leaves its place to the next that is asked for.

    >>> links = Links()
    >>> links.join([1, 2]), links.join([3, 4]), links.join([2, 4])
    (None, None, None)
    >>> links.top(1) == links.top(3), links.top(5)
    (True, 5)
    """

    def __init__(self, above: dict[int, int] | None = None):
        self._above = above or {}

    def __len__(self) -> int:
        return len(self._above)

    def top(self, id: int) -> int:
        """The id that stands for the group of this one."""
        above = self._above
        while (up := above.get(id, id)) != id:
            above[id] = above.get(up, up)
            id = above[id]
        return id

    def join(self, ids: Iterable[int]) -> None:
        """These belong together."""
        tops = sorted({self.top(id) for id in ids})
        for id in tops[1:]:
            self._above[id] = tops[0]

    def grouped(self, ids: Iterable[int]) -> np.ndarray:
        """(id, group) of those that belong to a group."""
        groups = set(self._above.values())
        return np.array([(id, self.top(id)) for id in ids if id in self._above or id in groups], np.int64).reshape(-1, 2)

    def prune(self, ids: Iterable[int]) -> None:
        """Forget all but these."""
        self._above = {int(id): int(group) for id, group in self.grouped(ids)}

    def pairs(self) -> np.ndarray:
        """Everything there is, for saving: (id, the one above it)."""
        return np.array(sorted(self._above.items()), np.int64).reshape(-1, 2)
