"""Fits."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import linear_regression


def exponent(points: Sequence[Sequence[float]]) -> float:
    """The power of n by which something grows: the slope of its logarithm against that of n.

    >>> round(exponent([(10, 5), (100, 50), (1000, 500)]), 3), round(exponent([(10, 7), (1000, 7)]), 3)
    (1.0, 0.0)
    """
    known = [(log(point[0]), log(max(point[1], 1e-9))) for point in points]
    return linear_regression(*zip(*known, strict=True)).slope
