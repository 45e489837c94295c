"""Arrays that grow by doubling, and pools of hash tables made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from memorytree.engine.state import NONE as NO_ID
from memorytree.estimators.kernels.records import FeatureTables
from memorytree.estimators.kernels.tables import UNBOUNDED

__all__ = ["NO_ID", "TablePool", "extended"]


def extended(array: np.ndarray, size: int, fill: int = 0) -> np.ndarray:
    """The array, doubled along its first axis until it has at least `size` entries; new ones hold `fill`."""
    while len(array) < size:
        array = np.concatenate([array, np.full_like(array, fill)])
    return array


class TablePool:
    """Hash tables from columns of X to float32 values, one for each label, in one growing pool.

    Args:
        values: values for each column.
        least: least number of entries of a pool that has grown.
        n_columns: columns of X, where a table may have an entry for each of them.
    """

    def __init__(self, values: int, least: int, n_columns: int = UNBOUNDED):
        self.spans = np.zeros((16, 3), np.int64)
        self.words = np.empty((least, 1 + values), np.int32)
        self.top = np.zeros(1, np.int64)
        self.n_columns = n_columns
        self._least = least

    @property
    def arrays(self) -> FeatureTables:
        """As kernels take it."""
        return FeatureTables(self.spans, self.words, self.words.view(np.float32), self.top, self.n_columns)

    def reserve(self, labels: int) -> None:
        """Have a table for every label below `labels`."""
        self.spans = extended(self.spans, labels)

    def grow(self, more: int = 0) -> None:
        """Double the pool, and make room for at least `more` entries behind those that are taken."""
        taken = self.top[0]
        # The new half is not written to, so that it takes no memory before it is used.
        words = np.empty((max(2 * len(self.words), taken + more, self._least), self.words.shape[1]), np.int32)
        words[:taken] = self.words[:taken]
        self.words = words

    def shrink(self) -> None:
        """Give entries back if less than a quarter of the pool is taken."""
        if len(self.words) > max(4 * self.top[0], self._least):
            self.words = self.words[: max(2 * self.top[0], self._least)].copy()

    def __getstate__(self) -> dict[str, Any]:
        """A pickle holds only the entries that are taken."""
        return {**vars(self), "words": self.words[: self.top[0]].copy()}
