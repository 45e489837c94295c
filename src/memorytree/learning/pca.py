"""Principal directions of dense and sparse rows."""

import numpy as np
import scipy.sparse
from scipy.linalg import eigh

ITERATIONS = 5
OVERSAMPLING = 16
"""Additional directions of subspace iteration, so that the last ones wanted converge as well."""


def principal_directions(rows: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """The first principal directions of rows, which are not centred.

    Returns:
        (squares, directions): at most `most` orthogonal directions as columns, the largest first, and the mean square of the
        rows along each.
    """
    n, width = rows.shape
    # The smaller of the two matrices of products has the same directions.
    products = (rows.T @ rows if n >= width else rows @ rows.T) / n
    size = len(products)
    squares, found = eigh(products, subset_by_index=(max(0, size - most), size - 1))
    squares, found = squares[::-1], found[:, ::-1]
    kept = squares > 1e-7 * max(squares[0], 1e-300)
    squares, found = squares[kept], found[:, kept]
    return squares, found if n >= width else rows.T @ (found / np.sqrt(squares * n))


def sparse_directions(rows: scipy.sparse.csr_matrix, width: int) -> np.ndarray:
    """The first principal directions of sparse rows as columns, each divided by the spread of the rows along it.

    By subspace iteration with a fixed number of steps. Fewer rows than `width` leave the last columns zero.
    """
    n, columns = rows.shape
    basis = np.zeros((columns, width), np.float32)
    most = min(width, n, columns)
    rows = rows.astype(np.float64)
    subspace = np.random.default_rng(0).normal(size=(n, min(most + OVERSAMPLING, n)))
    for _ in range(ITERATIONS):
        subspace = np.linalg.qr(rows @ (rows.T @ subspace))[0]
    projected = rows.T @ subspace
    squares, mixed = np.linalg.eigh(projected.T @ projected)
    squares, mixed = squares[::-1][:most], mixed[:, ::-1][:, :most]
    kept = squares > 1e-9 * max(squares[0], 1e-300)
    basis[:, : kept.sum()] = projected @ (mixed[:, kept] / squares[kept])
    return basis
