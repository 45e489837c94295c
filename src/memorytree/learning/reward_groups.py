"""Groups of memories that were rewarded together, from which routers learn."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np


class RewardGroups:
    """Disjoint groups of ids. Joining two groups moves the members of the smaller one.

    >>> groups = RewardGroups()
    >>> groups.join([1, 2]), groups.join([3, 4]), groups.join([2, 4]), groups.discard(2)
    (None, None, None, None)
    >>> groups.pairs().tolist()
    [[1, 0], [3, 0], [4, 0]]
    """

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()):
        self._group: dict[int, int] = dict(pairs)
        self._members: dict[int, set[int]] = {}
        for id, group in self._group.items():
            self._members.setdefault(group, set()).add(id)
        self._next = 1 + max(self._members, default=-1)

    def join(self, ids: Iterable[int]) -> None:
        """Put these ids into one group; a single id is ignored."""
        ids = list(ids)
        if len(ids) < 2:
            return
        known = sorted({self._group[id] for id in ids if id in self._group}, key=lambda g: (-len(self._members[g]), g))
        if not known:
            known = [self._next]
            self._members[self._next] = set()
            self._next += 1
        moving = set(ids).union(*(self._members.pop(group) for group in known[1:]))
        self._members[known[0]] |= moving
        self._group.update(dict.fromkeys(moving, known[0]))
        self._reuse_numbers()

    def discard(self, id: int) -> None:
        """Remove an id, if it is in a group."""
        if id in self._group:
            group = self._group.pop(id)
            self._members[group].discard(id)
            if not self._members[group]:
                del self._members[group]
                self._reuse_numbers()

    def _reuse_numbers(self) -> None:
        """Free the numbers behind the last group, so that the next number depends only on the pairs, as after loading."""
        while self._next > 0 and self._next - 1 not in self._members:
            self._next -= 1

    def pairs(self) -> np.ndarray:
        """(id, group) of all ids in groups, an array (n, 2)."""
        return np.array(sorted(self._group.items()), np.int64).reshape(-1, 2)
