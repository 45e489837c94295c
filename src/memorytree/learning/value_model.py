"""The value model, `scorer="values"`: rank candidates by features of their values.

The features given with a value are projected on their first principal directions, as v. The score of a candidate is a
weighted sum of three components: how well its key fits; how similar v is to that of the other candidates, weighted by their
fit (a vote); and <U x, v>, where U maps a key x to a point among the values, its aim. Before the first reward only the fit
of the keys counts.

All of it is learned from rewards by least squares. What fit and vote leave unexplained of the differences among the rewards
of a query's hits is regressed on v, and U takes a normalised step towards that change of the aim; queries use the average of
U over time, weighted towards later lessons. The weights of the three components come from running sums over keys that
appear for the first time, for which the aim was a true prediction. A component whose correlation with reward is below 3
standard errors gets weight 0, so noise changes nothing. Keys are scaled to length one and features to mean length one, and
rewards are compared only within a query: there is no scale to be set.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from memorytree.config import ValueModel
from memorytree.engine.value_model import (
    COMPONENTS,
    SEEN_WORDS,
    AimWeights,
    RewardMoments,
    ValueSettings,
    fit_component_weights,
    learn_rows,
    rank_rows,
)
from memorytree.keys.base import SparseBatch
from memorytree.learning.pca import principal_directions
from memorytree.learning.projection import load_into

FIT_ONLY = np.eye(1, COMPONENTS)[0]
Scored = tuple[np.ndarray, np.ndarray]
"""Ids and scores, (n, k) each."""
COMPONENT_NAMES = ("keys", "vote", "aim")


def scaled_directions(features: np.ndarray, width: int) -> np.ndarray:
    """The first principal directions of features (n, d) as columns (d, width), scaled to projections with a mean squared
    length of one. The features are not centred: the constant part of an aim does that."""
    squares, found = principal_directions(features.astype(np.float64), width)
    basis = np.zeros((features.shape[1], width), np.float32)
    if len(squares):
        basis[:, : len(squares)] = found / np.sqrt(squares.sum())
    return basis


class LearnedValueModel:
    """The parameters of a value model, and their learning.

    Attributes:
        basis: (d, width) the directions on which features are projected.
        center: the mean of dense keys; empty for sparse keys.
        aims: U and its averaging buffer.
        moments: the running sums that weigh the components.
        component_weights: (3,) the weights of fit, vote and aim.
        n_fitted: the number of values when the directions were computed; 0 before.
    """

    def __init__(self, options: ValueModel, n_features: int):
        self.options = options
        self.basis = np.zeros((n_features, min(options.width, n_features)), np.float32)
        self.center = np.zeros(0, np.float32)
        self.aims = AimWeights(*(np.zeros((1, self.basis.shape[1]), np.float32) for _ in range(2)))
        self.moments = RewardMoments(
            products=np.zeros((COMPONENTS, COMPONENTS)),
            with_rewards=np.zeros(COMPONENTS),
            squares=np.zeros(COMPONENTS),
            seen_keys=np.zeros(SEEN_WORDS, np.uint64),
            lessons=np.zeros(1, np.int64),
        )
        self.n_fitted = 0
        self.component_weights = FIT_ONLY

    @property
    def n_lessons(self) -> int:
        """The number of queries it has learned from."""
        return int(self.moments.lessons[0])

    @property
    def width(self) -> int:
        """The number of features of a projected value."""
        return self.basis.shape[1]

    @property
    def nbytes(self) -> int:
        """The bytes of all parameters."""
        return sum(array.nbytes for array in (self.basis, *self.aims, *self.moments))

    def copy(self) -> LearnedValueModel:
        """An independent copy."""
        twin = LearnedValueModel(self.options, len(self.basis))
        twin.basis, twin.center = self.basis.copy(), self.center.copy()
        twin.aims = AimWeights(*(array.copy() for array in self.aims))
        twin.moments, twin.n_fitted = RewardMoments(*(array.copy() for array in self.moments)), self.n_fitted
        twin.fit_component_weights()
        return twin

    def set_directions(self, basis: np.ndarray, n: int) -> None:
        """Project on these directions, computed from n values. Learned aims are transformed: in terms of the features
        themselves an aim stays the same, as far as the new directions can express it."""
        if self.n_lessons:
            squares = np.maximum((basis**2).sum(axis=0), 1e-30)
            into = np.where(squares > 1e-20, (self.basis.T @ basis) / squares, 0).astype(np.float32)
            self.aims = AimWeights(*(weights @ into for weights in self.aims))
        self.basis[:] = basis
        self.n_fitted = n

    def reserve(self, columns: int) -> None:
        """Provide weights for keys with columns below `columns`."""
        rows, width = self.aims.weights.shape
        if rows < columns:
            more = np.zeros((max(columns, 2 * rows) - rows, width), np.float32)
            self.aims = AimWeights(*(np.concatenate([weights, more]) for weights in self.aims))

    def fit_component_weights(self) -> None:
        """Compute the weights of the components; the fit of the keys alone while none is significant."""
        weights = fit_component_weights(self.moments, COMPONENTS)
        self.component_weights = weights if weights.any() else FIT_ONLY

    def rank(self, table: object, component_weights: np.ndarray, X: SparseBatch, candidates: Scored, answer: Scored) -> None:
        """Fill answer = (ids, scores) with the best of candidates = (ids, fits)."""
        rank_rows(table, self.aims, self.n_lessons, component_weights, X, candidates, answer)

    def learn(self, table: object, X: SparseBatch, candidates: Scored, rewards: np.ndarray) -> int:
        """Learn from the rewards of candidates = (ids, fits); from how many queries there was something to learn."""
        options = self.options
        settings = ValueSettings(options.damping, options.ridge, options.steps)
        learned = int(learn_rows(table, self.aims, self.moments, settings, X, candidates, rewards))
        self.fit_component_weights()
        return learned

    def state_dict(self) -> dict[str, np.ndarray]:
        """The parameters as arrays."""
        return {
            "basis": self.basis,
            "center": self.center,
            "weights": self.aims.weights,
            "averaging": self.aims.averaging,
            "products": self.moments.products,
            "with_rewards": self.moments.with_rewards,
            "squares": self.moments.squares,
            "seen_keys": self.moments.seen_keys,
            "lessons": self.moments.lessons,
            "n_fitted": np.array([self.n_fitted]),
        }

    @classmethod
    def from_state_dict(cls, options: ValueModel, state: Mapping[str, np.ndarray]) -> LearnedValueModel:
        """The model of a state; ValueError unless the arrays fit together."""
        model = cls(options, len(state["basis"]))
        model.reserve(len(state["weights"]))
        model.center = np.zeros(len(state["center"]), np.float32)
        n_fitted = np.zeros(1, np.int64)
        targets = {**model.state_dict(), "n_fitted": n_fitted}
        load_into(targets, state, "the value model")
        model.fit_component_weights()
        model.n_fitted = n_fitted.item()
        return model
