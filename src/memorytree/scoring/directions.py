"""Along which directions do rows of numbers spread?"""

from typing import Any

import numpy as np
from scipy.linalg import eigh

ITERATIONS = 5
SPARE = 16  # directions that are carried along, so that the last ones wanted are found as well


def principal_directions(rows: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """(squares, directions): at most `most` orthogonal directions as columns, the one along which the rows reach furthest
    first, with the mean square of what is seen of the rows along each. Rows are taken as they are, not centred."""
    n, width = rows.shape
    # The smaller of the two matrices of products has the same directions.
    products = (rows.T @ rows if n >= width else rows @ rows.T) / n
    size = len(products)
    squares, found = eigh(products, subset_by_index=(max(0, size - most), size - 1))
    squares, found = squares[::-1], found[:, ::-1]
    kept = squares > 1e-7 * max(squares[0], 1e-300)
    squares, found = squares[kept], found[:, kept]
    return squares, found if n >= width else rows.T @ (found / np.sqrt(squares * n))


def sparse_directions(rows: Any, width: int) -> np.ndarray:
    """The first principal directions of sparse rows as columns, each divided by how far the rows reach along it; fewer rows
    than `width` leave the last columns empty. By subspace iteration: whatever the rows, it comes to an end."""
    n, columns = rows.shape
    basis = np.zeros((columns, width), np.float32)
    most = min(width, n, columns)
    rows = rows.astype(np.float64)
    reach = np.random.default_rng(0).normal(size=(n, min(most + SPARE, n)))
    for _ in range(ITERATIONS):
        reach = np.linalg.qr(rows @ (rows.T @ reach))[0]
    seen = rows.T @ reach
    squares, mixed = np.linalg.eigh(seen.T @ seen)
    squares, mixed = squares[::-1][:most], mixed[:, ::-1][:, :most]
    kept = squares > 1e-9 * max(squares[0], 1e-300)
    basis[:, : kept.sum()] = seen @ (mixed[:, kept] / squares[kept])
    return basis
