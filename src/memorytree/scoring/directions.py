"""Along which directions do rows of numbers spread?"""

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
