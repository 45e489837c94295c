"""Along which directions do rows of numbers spread?"""

from typing import Any

import numpy as np
from scipy.linalg import eigh


def principal_directions(rows: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """(squares, directions): at most `most` orthogonal directions as columns, the one along which the rows reach furthest
    first, with the mean square of what is seen of the rows along each. Rows are taken as they are, not centred."""
    n, width = rows.shape
    # The smaller of the two matrices of products has the same directions.
    products = (rows.T @ rows if n >= width else rows @ rows.T) / n
    size = len(products)
    squares, found = eigh(products, subset_by_index=(max(0, size - most), size - 1))
    squares, found = squares[::-1], found[:, ::-1]
    kept = squares > 1e-7 * max(squares[0], 0)
    squares, found = squares[kept], found[:, kept]
    return squares, found if n >= width else rows.T @ (found / np.sqrt(squares * n))


def sparse_directions(rows: Any, width: int) -> np.ndarray:
    """The first principal directions of sparse rows as columns, each divided by how far the rows reach along it; fewer rows
    than `width` leave the last columns empty."""
    from scipy.sparse.linalg import svds

    basis = np.zeros((rows.shape[1], width), np.float32)
    most = min(width, min(rows.shape) - 1)
    if most > 0 and rows.nnz:
        _, lengths, found = svds(rows.astype(np.float64), k=most, v0=np.ones(min(rows.shape)))
        kept = lengths > 1e-6 * lengths.max()
        basis[:, : kept.sum()] = (found[kept] / lengths[kept, None]).T[:, ::-1]
    return basis
