"""Rows as a memory compares them: what class and label scorers learn from.

Dense rows are projected into the learned space of the memory, which changes when the memory finds a new projection. Sparse
rows are compared as they are, with a learned weight for each column.
"""

from __future__ import annotations

import numpy as np

from memorytree.estimators.arrays import Matrix
from memorytree.estimators.kernels.records import SparseRows
from memorytree.index.base import Index, KeyBatch
from memorytree.results import NO_ID, HitMatrix
from memorytree.tree import MemoryTree

SHARPNESS = 3.0  # cosines of projected rows are close together: votes weigh powers of exp(SHARPNESS * (cosine - 1))


def check_keys(memory: MemoryTree, X: object) -> None:
    """Raise `InvalidKey` unless rows are keys of the kind that the memory holds."""
    _batch(memory, X)


def encode_sparse(memory: MemoryTree, X: object) -> SparseRows:
    """Sparse rows as (bounds, columns, values)."""
    rows = _batch(memory, X)
    assert isinstance(rows, tuple)
    return rows


def projection_version(memory: MemoryTree) -> int:
    """A number that changes when a memory of dense rows computes a new projection; 0 before the first."""
    return _index(memory).projection_fit


def is_refined(memory: MemoryTree) -> bool:
    """Whether rewards have changed the projection."""
    return _index(memory).is_refined


def _index(memory: MemoryTree) -> Index:
    """The index of a memory that holds rows."""
    assert memory.index is not None
    return memory.index


def _batch(memory: MemoryTree, X: object) -> KeyBatch:
    """Rows as keys of the memory."""
    assert memory.keys is not None
    batch: KeyBatch = memory.keys.batch(X)[0]
    return batch


def _projected(memory: MemoryTree, X: object) -> np.ndarray:
    """Dense rows in the learned space: (n, width) float32."""
    rows = _index(memory).project(_batch(memory, X))
    assert isinstance(rows, np.ndarray)
    return rows


def projection_width(memory: MemoryTree) -> int:
    """The number of columns of projected rows."""
    assert memory.keys is not None
    return int(_projected(memory, np.zeros((1, memory.keys.dimension), np.float32)).shape[1])


def scorer_rows(memory: MemoryTree, X: Matrix, version: int) -> np.ndarray:
    """Dense rows in the learned space, or without columns while a scorer was made for no projection (version 0)."""
    return _projected(memory, X) if version else np.zeros((X.shape[0], 0), np.float32)


def projected_rows(memory: MemoryTree, X: Matrix, version: int) -> SparseRows:
    """`scorer_rows` as sparse rows of which all columns are present."""
    rows = scorer_rows(memory, X, version)
    n, width = rows.shape
    return np.arange(n + 1) * width, np.tile(np.arange(width, dtype=np.int32), n), rows.reshape(-1)


def weighted_rows(memory: MemoryTree, X: Matrix) -> SparseRows:
    """Sparse rows with the learned weight of each column."""
    bounds, columns, values = encode_sparse(memory, X)
    return bounds, columns, values * np.sqrt(_index(memory).weights(columns))


def similarities(memory: MemoryTree, hits: HitMatrix) -> np.ndarray:
    """The similarities of dense rows whose powers weigh the votes of memories."""
    if projection_version(memory):
        similar: np.ndarray = np.exp(SHARPNESS * (hits.scores - 1))
        return similar
    # Before the first projection scores are negative distances: compare them with the mean distance.
    distances = np.where(hits.ids == NO_ID, 0, -hits.scores)
    mean = distances.sum(axis=1, keepdims=True) / np.maximum((hits.ids != NO_ID).sum(axis=1, keepdims=True), 1)
    return np.exp(SHARPNESS * (distances[:, :1] - distances) / np.maximum(mean, 1e-30)).astype(np.float32)
