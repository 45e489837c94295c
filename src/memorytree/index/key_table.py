"""KeyTable: a tree of a single leaf, which other indexes use to store rows by id."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from memorytree.engine.arrays import SLOT, Settings
from memorytree.engine.routers.principal import Principal
from memorytree.engine.scorers.distance import Distance
from memorytree.index.base import Array, Ids, Matrix
from memorytree.index.single import ALL_ROWS, FixedEngineScorer, TreeIndex

ONE_LEAF = 1e6
"""With this leaf factor a leaf is never split."""


class KeyTable(TreeIndex):
    """Dense or sparse rows by id, with a capacity and an order of use."""

    def __init__(self, sparse: bool, dimension: int, settings: Settings, scorer: FixedEngineScorer | None = None):
        one_leaf = Settings(leaf_factor=ONE_LEAF, reroutes=0, capacity=settings.capacity, seed=settings.seed)
        super().__init__(sparse, dimension, one_leaf, Principal(False, False, True, 0), scorer or Distance(False))

    @classmethod
    def of_rows(cls, ids: Ids, rows: Matrix) -> KeyTable:
        """A table that holds these rows."""
        table = cls(False, rows.shape[1], Settings(leaf_factor=ONE_LEAF, reroutes=0, capacity=0, seed=0))
        table.put(ids, rows)
        return table

    def put(self, ids: Ids, rows: Matrix) -> None:
        """Store dense rows."""
        self.insert(np.ascontiguousarray(rows, np.float32), ids.astype(np.int64), 0, len(ids))

    def discard(self, id: int) -> None:
        """Remove a row, if it is there."""
        if self.holds(id):
            self.remove(id)

    def matrix(self, rows: slice | Ids = ALL_ROWS) -> Matrix:
        """Some dense rows, in order of row numbers."""
        return self.arrays()["keys"][self.slots(rows)]

    def csr(self, rows: slice | Ids, columns: int) -> scipy.sparse.csr_matrix:
        """Some sparse rows as a matrix."""
        arrays = self.arrays()
        first, lengths = arrays["spans"][arrays["rows"][: len(self), SLOT][rows]].T
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        at: Array = np.repeat(first - bounds[:-1], lengths) + np.arange(bounds[-1])
        entries = arrays["key_weights"][at], arrays["key_features"][at], bounds
        return scipy.sparse.csr_matrix(entries, shape=(len(lengths), columns))
