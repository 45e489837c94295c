"""StreamClassifier: the classifier one row at a time, as river has it."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from memorytree.errors import InvalidKey
from memorytree.estimators.classifier import MemoryTreeClassifier

try:
    from river.base import Classifier
except ImportError:  # river is not needed to use its conventions

    class Classifier:  # type: ignore[no-redef]
        """Stands for river's base class where river is not installed."""


class StreamClassifier(Classifier):
    """Learn from rows {feature: number} one at a time; new classes may come at any time.

    The features of the first row are those that count: later a missing one is 0 and an unknown one is left out.

    Args:
        neighbors: how many memories have a say.
        capacity: how many rows to remember at the most; those that were of no use for longest go first.
        seed: fixes what is left to chance.

    Example:
        >>> model = StreamClassifier(seed=0)
        >>> for x, y in [({"warm": 1.0, "wet": 0.1}, "sun"), ({"warm": 0.2, "wet": 0.9}, "rain")]:
        ...     model.learn_one(x, y)
        >>> model.predict_one({"warm": 0.9, "wet": 0.2})
        'sun'
    """

    def __init__(self, neighbors: int = 20, capacity: int | None = None, seed: int | None = None):
        self.neighbors = neighbors
        self.capacity = capacity
        self.seed = seed
        self._model = MemoryTreeClassifier(neighbors=neighbors, capacity=capacity, random_state=seed)
        self._features: list[Any] | None = None

    @property
    def _multiclass(self) -> bool:
        return True

    def _row(self, x: Mapping[Any, float]) -> np.ndarray:
        values = [x.get(feature, 0.0) for feature in self._features or []]
        if not all(isinstance(value, numbers.Real) for value in values):
            raise InvalidKey("features must be numbers; encode others first, for instance with river's OneHotEncoder")
        return np.array([values], np.float64)

    def learn_one(self, x: Mapping[Any, float], y: Any) -> None:
        """Learn from a row and remember it."""
        if self._features is None:
            self._features = sorted(x, key=str)  # sums of float32 depend on their order
        self._model.partial_fit(self._row(x), [y])

    def predict_proba_one(self, x: Mapping[Any, float], **_: Any) -> dict[Any, float]:
        """The probability of each label seen so far; none where no memory behind the prediction carries it."""
        if self._features is None:
            return {}
        [chances] = self._model.predict_proba(self._row(x))
        return dict(zip(self._model.classes_.tolist(), chances.tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, float], **_: Any) -> Any:
        """The likeliest label, or None before there is any."""
        return None if self._features is None else self._model.predict(self._row(x)).tolist()[0]
