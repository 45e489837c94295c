"""What the reference learns with: the paper's own choice, one with exact arithmetic, and doors to other libraries."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from memorytree.reference.tree import Memory

CONSTANT = ("constant",)  # the name of the feature that is 1 in every key


def features(x: Any) -> Iterator[tuple[Any, float]]:
    """Give the (name, value) pairs of a mapping or an array, without zeros, and the constant feature last.

    >>> list(features([2, 0, 3])) == [*features({0: 2, 2: 3})]
    True
    """
    for name, value in x.items() if isinstance(x, Mapping) else enumerate(np.asarray(x, dtype=float).tolist()):
        if value:
            yield name, float(value)
    yield CONSTANT, 1.0


class Distance:
    """The scorer that learns nothing: minus the Euclidean distance between the keys.

    >>> from memorytree.reference import Memory
    >>> Distance().score([0, 0], Memory(0, [3, 4], None)), Distance().score({"a": 3}, Memory(0, {"b": 4}, None))
    (-5.0, -5.0)
    """

    def score(self, x: Any, memory: Memory) -> float:
        """Return minus the distance from `x` to the memory's key."""
        a, b = dict(features(x)), dict(features(memory.x))
        total = 0.0
        for name in {**a, **b}:
            difference = a.get(name, 0.0) - b.get(name, 0.0)
            total += difference * difference
        return -math.sqrt(total)

    def update(self, x: Any, memory: Memory, reward: float) -> None:
        """Do nothing."""


class Linear:
    """A weight for each feature, in a dict, so that arrays and {feature: weight} mappings both work."""

    def __init__(self) -> None:
        self.weights: dict[Any, float] = {}

    def predict(self, x: Any) -> float:
        """Return the weighted sum of the features, the constant one last."""
        total = 0.0
        for name, value in features(x):
            total += self.weights.get(name, 0.0) * value
        return total


class AdagradLinear(Linear):
    """Hinge loss, with a rate for each feature that falls as its gradients add up (the paper does not name its loss).

    A margin of 1 on the right side is enough: a router that is sure is left alone, so it stays where memories found it.

    >>> g = AdagradLinear(rate=0.1)
    >>> g.update([1.0, 0.0], +1)
    >>> g.predict([1.0, 0.0]), g.predict([0.0, 1.0])
    (0.2, 0.1)
    """

    def __init__(self, rate: float = 0.03) -> None:
        super().__init__()
        self.rate = rate
        self.squares: dict[Any, float] = {}

    def update(self, x: Any, y: int, weight: float = 1.0) -> None:
        """Take one step towards `y`, unless the margin is there already."""
        if y * self.predict(x) >= 1:
            return
        gradient = -weight * y
        for name, value in features(x):
            slope = gradient * value
            square = self.squares[name] = self.squares.get(name, 0.0) + slope * slope
            if square > 0:
                self.weights[name] = self.weights.get(name, 0.0) - self.rate * slope / math.sqrt(square)


class Perceptron(Linear):
    """Moves by a multiple of the key when it errs; exact for keys with few binary digits, in any order of summation.

    >>> g = Perceptron(step=0.5)
    >>> g.update([1.0, 0.0], +1, weight=0.3)
    >>> g.predict([1.0, 0.0])
    0.25
    """

    def __init__(self, step: float = 0.5) -> None:
        super().__init__()
        self.step = step

    def update(self, x: Any, y: int, weight: float = 1.0) -> None:
        """Add the key to the weights if its margin is wrong; the importance is rounded to quarters, at most 4."""
        if y * self.predict(x) <= 0:
            quarters = min(4.0, math.floor(weight * 4 + 0.5) / 4)
            for name, value in features(x):
                self.weights[name] = self.weights.get(name, 0.0) + self.step * quarters * y * value


class SklearnLearner:
    """A scikit-learn classifier with `partial_fit`, over dense arrays; give the tree `lambda: SklearnLearner(...)`."""

    def __init__(self, model: Any) -> None:
        self.model, self.fitted = model, False
        self.takes_weight = "sample_weight" in inspect.signature(model.partial_fit).parameters

    def predict(self, x: Any) -> float:
        """Return the decision value, or 2 p(+1) - 1 where there is none; 0 before the first update."""
        if not self.fitted:
            return 0.0
        row = np.asarray(x, dtype=float).reshape(1, -1)
        if hasattr(self.model, "decision_function"):
            return float(self.model.decision_function(row)[0])
        p = float(self.model.predict_proba(row)[0, 1])
        return 0.0 if math.isnan(p) else 2 * p - 1  # NaN: naive Bayes that has seen one class alone

    def update(self, x: Any, y: int, weight: float = 1.0) -> None:
        """Fit one row; one of weight 0 is passed over, as not every model takes weights."""
        if weight > 0:
            weights = {"sample_weight": [weight]} if self.takes_weight else {}
            self.model.partial_fit(np.asarray(x, dtype=float).reshape(1, -1), [y], classes=[-1, 1], **weights)
            self.fitted = True


class RiverLearner:
    """A river classifier, over mappings or arrays; it learns the classes as False and True, river's own for two."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.takes_weight = "w" in inspect.signature(model.learn_one).parameters

    def predict(self, x: Any) -> float:
        """Return p(+1) - p(-1)."""
        p = self.model.predict_proba_one(self._mapping(x))
        return float(p.get(True, 0.0) - p.get(False, 0.0))

    def update(self, x: Any, y: int, weight: float = 1.0) -> None:
        """Learn one example; one of weight 0 is passed over, as not every model takes weights."""
        if weight > 0:
            weights = {"w": weight} if self.takes_weight else {}
            self.model.learn_one(self._mapping(x), y > 0, **weights)

    @staticmethod
    def _mapping(x: Any) -> dict[Any, float]:
        return dict(x) if isinstance(x, Mapping) else dict(enumerate(np.asarray(x, dtype=float).tolist()))
