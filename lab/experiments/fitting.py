"""Fits of growth."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from statistics import linear_regression


def exponent(points: Sequence[Sequence[float]]) -> float:
    """Return the exponent of growth: the slope of log y against log n.

    >>> round(exponent([(10, 5), (100, 50), (1000, 500)]), 3), round(exponent([(10, 7), (1000, 7)]), 3)
    (1.0, 0.0)
    """
    known = [(log(point[0]), log(max(point[1], 1e-9))) for point in points]
    return linear_regression(*zip(*known, strict=True)).slope
