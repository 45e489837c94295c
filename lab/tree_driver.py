"""How the lab and the benchmarks drive a memory tree: fill it, query it on one thread, compile its kernels beforehand.

Rows are inserted in their order into an empty tree, so the id of a memory is the number of its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from lab.datasets import Rows
from memorytree import MemoryTree
from memorytree.config import FLAT

WARM_UP_ROWS = FLAT + 200  # more than are compared without kernels
COMPACTED_ROWS = 20_000  # of two features: enough insertions for a tree to compact its storage


def filled_tree(keys: Rows, values: Sequence[Any] | None = None, *, seed: int, **settings: Any) -> MemoryTree:
    """Return a memory of all rows; the value of a row without one is its number.

    >>> tree = filled_tree(np.eye(3, dtype=np.float32), ["a", "b", "c"], seed=0)
    >>> nearest_ids(tree, np.eye(3, dtype=np.float32)).tolist()
    [[0], [1], [2]]
    """
    tree = MemoryTree(seed=seed, **settings)
    tree.insert_many(keys, range(keys.shape[0]) if values is None else values)
    return tree


def nearest_ids(tree: MemoryTree, keys: Rows, k: int = 1, beam: int = 1) -> np.ndarray:
    """Return the ids of the k best memories of each key, (n, k) padded with -1, computed on one thread."""
    return np.asarray(tree.query_many(keys, k=k, beam=beam, threads=1).ids)


def class_error(found: np.ndarray, classes: np.ndarray, truth: np.ndarray) -> float:
    """Return the share of answers with a wrong class.

    Args:
        found: the id of the answer for each query; -1 for none.
        classes: the class of each memory.
        truth: the class of each query.
    """
    return float(np.mean((classes[np.maximum(found, 0)] != truth) | (found < 0)))


def own_key_error(keys: Rows, found: np.ndarray) -> float:
    """Return the self-consistency error: the share of stored keys for which a memory with another key was found.

    Args:
        keys: the queried keys, a row each; row i is the key of memory i.
        found: the id that was found for each key; -1 for none.

    >>> own_key_error(np.array([[1.0], [2.0], [2.0]]), np.array([0, 2, 0]))
    0.3333333333333333
    """
    wrong = 0
    for row in np.flatnonzero(found != np.arange(len(found))).tolist():
        if found[row] < 0:
            wrong += 1
            continue
        difference = keys[row] - keys[found[row]]
        wrong += bool(difference.nnz if sp.issparse(difference) else np.any(difference))
    return wrong / len(found)


def own_key_error_of(tree: MemoryTree, keys: Rows) -> float:
    """Return the self-consistency error of a memory that holds these keys."""
    return own_key_error(keys, nearest_ids(tree, keys)[:, 0])


def warm_up(keys: Rows, *, seed: int, beams: Iterable[int] = (1, 4), **settings: Any) -> None:
    """Compile every kernel that is about to be timed, on a few rows, repeated where there are not enough."""
    keys = keys[np.arange(WARM_UP_ROWS) % keys.shape[0]]
    tree = filled_tree(keys, seed=seed, **settings)
    row = keys[0]
    tree.insert(row, 0)
    tree.query(row)
    for beam in beams:
        nearest_ids(tree, keys, beam=beam)
    tree.sweep()
    _compile_compaction(sp.issparse(keys), seed, settings)


def _compile_compaction(sparse: bool, seed: int, settings: dict[str, Any]) -> None:
    """Fill a larger tree: a small one never compacts its storage."""
    points = np.random.default_rng(0).normal(size=(COMPACTED_ROWS, 2)).astype(np.float32)
    filled_tree(sp.csr_matrix(points) if sparse else points, seed=seed, **settings)


def project(memory: MemoryTree, rows: Rows) -> np.ndarray:
    """Return rows in the learned space of a memory that holds such rows."""
    assert memory.keys is not None
    assert memory.index is not None
    batch, _ = memory.keys.batch(rows)
    return np.asarray(memory.index.project(batch))
