"""Arrays that grow by doubling, and pools of hash tables made of them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.sparse

from memorytree.estimators.kernels.records import FeatureTables
from memorytree.estimators.kernels.tables import UNBOUNDED

Matrix: TypeAlias = np.ndarray | scipy.sparse.csr_matrix
"""Rows after scikit-learn's checks."""
PoolState: TypeAlias = tuple[int, int, tuple[np.ndarray, np.ndarray, np.ndarray]]


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

    def __init__(self, values: int, least: int, n_columns: int = int(UNBOUNDED)):
        self.n_columns = n_columns
        self._least = least
        self._set_arrays(np.zeros((16, 3), np.int64), np.empty((least, 1 + values), np.int32), np.zeros(1, np.int64))

    def _set_arrays(self, spans: np.ndarray, words: np.ndarray, top: np.ndarray) -> None:
        # Built once: kernels take it with every call.
        self.arrays = FeatureTables(spans, words, words.view(np.float32), top, self.n_columns)

    @property
    def n_used(self) -> int:
        """Entries of the pool that are taken."""
        return int(self.arrays.top[0])

    def reserve(self, labels: int) -> None:
        """Have a table for every label below `labels`."""
        if labels > len(self.arrays.spans):
            self.arrays = FeatureTables(extended(self.arrays.spans, labels), *self.arrays[1:])

    def grow(self, more: int = 0) -> None:
        """Double the pool, and make room for at least `more` entries behind those that are taken."""
        spans, old, _, top, _ = self.arrays
        # The new half is not written to, so that it takes no memory before it is used.
        words = np.empty((max(2 * len(old), self.n_used + more, self._least), old.shape[1]), np.int32)
        words[: self.n_used] = old[: self.n_used]
        self._set_arrays(spans, words, top)

    def shrink(self) -> None:
        """Give entries back if less than a quarter of the pool is taken."""
        spans, words, _, top, _ = self.arrays
        if len(words) > max(4 * self.n_used, self._least):
            self._set_arrays(spans, words[: max(2 * self.n_used, self._least)].copy(), top)

    def __getstate__(self) -> PoolState:
        """What a pickle holds: only the entries that are taken, once."""
        spans, words, _, top, n_columns = self.arrays
        return self._least, n_columns, (spans, words[: self.n_used].copy(), top)

    def __setstate__(self, state: PoolState) -> None:
        """Restore a pickled pool."""
        self._least, self.n_columns, arrays = state
        self._set_arrays(*arrays)
