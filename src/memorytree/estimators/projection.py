"""Rows as a memory compares them: what class and label scorers learn from.

Dense rows are projected into the learned space of the memory, which changes when the memory finds a new projection. Sparse
rows are compared as they are, with a learned weight for each column.
"""

from __future__ import annotations

import numpy as np

from memorytree.estimators.arrays import NO_ID, Matrix
from memorytree.estimators.kernels.records import SparseRows
from memorytree.hits import HitMatrix
from memorytree.tree import MemoryTree

SHARPNESS = 3.0  # cosines of projected rows are close together: votes weigh powers of exp(SHARPNESS * (cosine - 1))


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


def scorer_rows(memory: MemoryTree, X: Matrix, version: int) -> np.ndarray:
    """Dense rows in the learned space, or without columns while a scorer was made for no projection (version 0)."""
    return project(memory, X) if version else np.zeros((X.shape[0], 0), np.float32)


def projected_rows(memory: MemoryTree, X: Matrix, version: int) -> SparseRows:
    """`scorer_rows` as sparse rows of which all columns are present."""
    rows = scorer_rows(memory, X, version)
    n, width = rows.shape
    return np.arange(n + 1) * width, np.tile(np.arange(width, dtype=np.int32), n), rows.reshape(-1)


def weighted_rows(memory: MemoryTree, X: Matrix) -> SparseRows:
    """Sparse rows with the learned weight of each column."""
    bounds, columns, values = encode_sparse(memory, X)
    return bounds, columns, values * np.sqrt(column_weights(memory, columns))


def similarities(memory: MemoryTree, hits: HitMatrix) -> np.ndarray:
    """The similarities of dense rows whose powers weigh the votes of memories."""
    if has_projection(memory):
        similar: np.ndarray = np.exp(SHARPNESS * (hits.scores - 1))
        return similar
    # Before the first projection scores are negative distances: compare them with the mean distance.
    distances = np.where(hits.ids == NO_ID, 0, -hits.scores)
    mean = distances.sum(axis=1, keepdims=True) / np.maximum((hits.ids != NO_ID).sum(axis=1, keepdims=True), 1)
    return np.exp(SHARPNESS * (distances[:, :1] - distances) / np.maximum(mean, 1e-30)).astype(np.float32)
