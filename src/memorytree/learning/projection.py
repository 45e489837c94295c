"""The learned projection of dense keys, `scorer="metric"`.

A key x is projected to the unit vector of (W (x - c), lift). W has few rows and c is the mean of the keys; the constant
`lift` keeps keys near the mean from being scaled to full length, and encodes how far a key is from it. The score is the
cosine of two projections, so a key always ranks itself highest. W starts at the principal directions of the keys and learns
from the rewards of the hits of a query, by the gradient of the softmax of their scores.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from memorytree.config import Projection
from memorytree.engine.projection import ProjectionArrays, ProjectionSettings, learn_rows, project_rows
from memorytree.learning.pca import principal_directions

NEGLIGIBLE = 1e-6
"""A feature whose spread is below this part of its size, or of the usual spread, is treated as constant."""


def initial_weights(keys: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(center, W, units) from the principal directions of some keys, half whitened, with projections of mean length one.

    Features with a much larger spread than the others would dominate, and those with a much smaller one would vanish: the
    spread is clipped to between half and twice the median. Spread is the fourth root of the mean fourth power, so that a
    feature that is rarely non-zero (a pixel near the border) has nearly the spread of its neighbours, and its few values are
    not magnified. The unit of a feature is the size of its weights before learning; steps are multiples of it, so that
    learning does not depend on the scale of the keys.
    """
    center = keys.mean(axis=0, dtype=np.float64)
    centered = keys - center
    most = np.maximum(np.abs(centered).max(axis=0), 1e-300)
    spread = most * np.mean((centered / most) ** 4, axis=0) ** 0.25
    varies = spread > NEGLIGIBLE * np.abs(keys).max(axis=0)
    usual = np.median(spread[varies]) if np.any(varies) else 1.0
    relative = np.maximum(np.where(varies, spread / usual, 1.0), NEGLIGIBLE)
    shrink = np.clip(relative, 0.5, 2.0) / relative
    centered *= shrink
    variances, directions = principal_directions(centered, rank)
    weights = np.zeros((rank, keys.shape[1]))
    found = len(variances)
    if found:
        half_white = directions * (variances + 1e-3 * variances.mean()) ** -0.25
        weights[:found] = half_white.T / np.sqrt(np.mean(np.sum((centered @ half_white) ** 2, axis=1)))
    units = np.sqrt(np.mean(weights[: max(found, 1)] ** 2)) * shrink
    return center.astype(np.float32), (weights * shrink).astype(np.float32), units.astype(np.float32)


class LearnedProjection:
    """The parameters of a projection, and their learning.

    Attributes:
        arrays: W and what belongs to it.
        n_lessons: how many queries it has learned from.
        n_fitted: the number of keys when the initial directions were computed; 0 before.
    """

    def __init__(self, options: Projection, dimension: int):
        self.options = options
        rank = min(options.rank, dimension)
        self.arrays = ProjectionArrays(
            weights=np.zeros((rank, dimension), np.float32),
            squares=np.zeros((rank, dimension), np.float32),
            center=np.zeros(dimension, np.float32),
            units=np.zeros(dimension, np.float32),
        )
        self.n_lessons = 0
        self.n_fitted = 0

    @property
    def width(self) -> int:
        """The number of features of a projection."""
        return len(self.arrays.weights) + 1

    def copy(self) -> LearnedProjection:
        """An independent copy."""
        twin = LearnedProjection(self.options, len(self.arrays.center))
        twin.arrays = ProjectionArrays(*(array.copy() for array in self.arrays))
        twin.n_lessons, twin.n_fitted = self.n_lessons, self.n_fitted
        return twin

    def fit(self, keys: np.ndarray, n: int) -> None:
        """Start at the principal directions of these keys, a sample of n."""
        self.arrays.center[:], self.arrays.weights[:], self.arrays.units[:] = initial_weights(keys, len(self.arrays.weights))
        self.arrays.squares[:] = 0
        self.n_fitted = n

    def project(self, X: np.ndarray) -> np.ndarray:
        """The projections (n, width) of keys (n, d)."""
        return project_rows(self.arrays.weights, self.arrays.center, self.options.lift, X)

    def learn(self, tree: object, X: np.ndarray, ids: np.ndarray, rewards: np.ndarray) -> int:
        """Learn from the rewards of queries; `tree` stores the projections of the memories. How many had a gradient."""
        options = self.options
        settings = ProjectionSettings(options.rate, options.temperature, options.lift)
        learned = int(learn_rows(tree, self.arrays, settings, self.n_lessons, X, ids, rewards))
        self.n_lessons += learned
        return learned

    def _named_arrays(self) -> dict[str, np.ndarray]:
        weights, squares, center, units = self.arrays
        return {"weights": weights, "squares": squares, "center": center, "units": units}

    def state_dict(self) -> dict[str, np.ndarray]:
        """The parameters as arrays."""
        numbers = np.array([self.n_lessons, self.n_fitted])
        return {**self._named_arrays(), "numbers": numbers}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the parameters; ValueError unless their shapes and types fit."""
        load_into({**self._named_arrays(), "numbers": (numbers := np.zeros(2, np.int64))}, state, "the projection")
        self.n_lessons, self.n_fitted = numbers.tolist()


def load_into(targets: Mapping[str, np.ndarray], state: Mapping[str, np.ndarray], owner: str) -> None:
    """Copy arrays of a state into arrays that are there; ValueError unless shapes and types fit and all is finite."""
    for name, target in targets.items():
        array = state[name]
        if array.shape != target.shape or array.dtype != target.dtype or not np.all(np.isfinite(array)):
            raise ValueError(f"{name} of {owner} has the wrong shape or type, or is not finite")
    for name, target in targets.items():
        target[:] = state[name]
