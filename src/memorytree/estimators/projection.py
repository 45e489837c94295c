"""Rows as a memory compares them: what class and label scorers learn from.

Dense rows are projected into the learned space of the memory, which changes when the memory finds a new projection. Sparse rows
are compared as they are, with a learned weight for each column.
"""

from __future__ import annotations

import numpy as np

from memorytree.estimators.kernels.records import SparseRows
from memorytree.tree import MemoryTree


def check_keys(memory: MemoryTree, X: object) -> None:
    """Raise `InvalidKey` unless rows are keys of the kind that the memory holds."""
    memory._keys.many(X)


def encode_sparse(memory: MemoryTree, X: object) -> SparseRows:
    """Sparse rows as (bounds, columns, values)."""
    rows: SparseRows = memory._keys.many(X)[0]
    return rows


def project(memory: MemoryTree, X: object) -> np.ndarray:
    """Dense rows in the learned space: (n, width) float32."""
    rows: np.ndarray = memory._core.seen(memory._keys.many(X)[0])
    return rows


def projection_version(memory: MemoryTree) -> int:
    """A number that changes when a memory of dense rows finds a new projection; 0 before the first."""
    return int(memory._core.settled_at)


def projection_width(memory: MemoryTree) -> int:
    """The number of columns of projected rows."""
    return int(memory._core.space.width)


def has_projection(memory: MemoryTree) -> bool:
    """Whether a memory of dense rows has found a projection."""
    return bool(memory._core.space.settled)


def is_refined(memory: MemoryTree) -> bool:
    """Whether rewards have changed the projection."""
    return bool(memory._core.space.lessons)


def column_weights(memory: MemoryTree, columns: np.ndarray) -> np.ndarray:
    """The learned weights of columns of sparse rows."""
    weights: np.ndarray = memory._core.weights(columns)
    return weights
