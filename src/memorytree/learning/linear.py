"""The paper's scorer, `scorer="linear"`: its weights, their state and their learning."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy

import numpy as np
from numpy.typing import NDArray

from memorytree.config import LinearScorer
from memorytree.engine.arrays import NONE
from memorytree.engine.hash_map import SMALLEST_TABLE
from memorytree.engine.linear import Linear, learn_rows, set_scorer, take_places
from memorytree.keys.base import SparseBatch


class LinearWeights:
    """Weights of the products of features, which start at one, and a bias.

    Attributes:
        arrays: what trees score by.
    """

    def __init__(self, options: LinearScorer, sparse: bool, dimension: int):
        self.options = options
        self.sparse = sparse
        self.arrays = _initial(SMALLEST_TABLE if sparse else dimension)
        self._reserved = 0  # an upper bound of the features in the table (sparse keys)

    def copy(self) -> LinearWeights:
        """An independent copy."""
        twin = copy(self)
        twin.arrays = Linear(*(array.copy() for array in self.arrays))
        return twin

    def learn(self, tree: object, X: NDArray[np.float32] | SparseBatch, ids: np.ndarray, rewards: np.ndarray) -> int:
        """Learn from the rewards of queries to a tree that scores by these weights; from how many queries."""
        if isinstance(X, tuple):
            self._reserve(tree, X[1][X[0][0] : X[0][-1]])
        return int(learn_rows(tree, self.options.rate, X, ids, rewards))

    def _reserve(self, tree: object, features: np.ndarray) -> None:
        """Provide places for these features. The exact number in use is only counted when the upper bound is reached."""
        self._reserved += len(features)
        if 2 * self._reserved > len(self.arrays.features):
            known = self.state_dict()
            there, distinct = len(known["features"]), len(np.unique(features))
            self.arrays = _table(known, max(there, distinct))
            self._reserved = there + distinct
            set_scorer(tree, self.arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights, with spare capacity."""
        return sum(array.nbytes for array in self.arrays)

    def state_dict(self) -> dict[str, np.ndarray]:
        """The weights; features of sparse keys in order, so that equal weights have equal states."""
        features, weights, squares, bias = self.arrays
        if not self.sparse:
            return {"weights": weights, "squares": squares, "bias": bias}
        known = np.flatnonzero(squares > 0)
        known = known[np.argsort(features[known])]
        return {"features": features[known], "weights": weights[known], "squares": squares[known], "bias": bias}

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the weights; ValueError unless the arrays fit together. A tree must then be made with `arrays`."""
        weights, squares, bias = (state[name] for name in ("weights", "squares", "bias"))
        if any(array.dtype != np.float32 or not np.all(np.isfinite(array)) for array in (weights, squares, bias)):
            raise ValueError("the weights of the scorer have the wrong type, or are not finite")
        size = len(state["features"]) if self.sparse else len(self.arrays.weights)
        if weights.shape != (size,) or squares.shape != (size,) or bias.shape != (2,):
            raise ValueError("the weights of the scorer do not fit together")
        if self.sparse:
            if state["features"].dtype != np.int32:
                raise ValueError("the features of the scorer have the wrong type")
            self.arrays, self._reserved = _table(state, 0), size
        else:
            self.arrays = Linear(self.arrays.features, weights.copy(), squares.copy(), bias.copy())


def _initial(size: int) -> Linear:
    """Weights of one."""
    features = np.full(size, NONE, np.int32)
    return Linear(features, np.ones(size, np.float32), np.zeros(size, np.float32), np.zeros(2, np.float32))


def _table(state: Mapping[str, np.ndarray], more: int) -> Linear:
    """The weights of a state in a table with places for `more` other features; half of the table stays empty."""
    size = SMALLEST_TABLE
    while size < 2 * (len(state["features"]) + more):
        size *= 2
    arrays = _initial(size)
    places = take_places(arrays.features, state["features"])
    arrays.weights[places], arrays.squares[places] = state["weights"], state["squares"]
    arrays.bias[:] = state["bias"]
    return arrays
