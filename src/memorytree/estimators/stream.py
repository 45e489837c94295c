"""StreamClassifier: the classifier one row at a time, as river has it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse

from memorytree.errors import InvalidKey
from memorytree.estimators.classifier import MemoryTreeClassifier

try:
    from river.base import Classifier
except ImportError:  # river is not needed to use its conventions

    class Classifier:  # type: ignore[no-redef]
        """Stands for river's base class where river is not installed."""


COLUMNS = 2**30  # of sparse rows; those of features that have not come yet are empty


class StreamClassifier(Classifier):
    """Learn from rows {feature: number} one at a time; new classes may come at any time.

    The features of the first row are those that count: later a missing one is 0 and an unknown one is left out. Sparse rows,
    such as bags of words, may bring new features at any time.

    Args:
        neighbors: how many memories have a say.
        capacity: how many rows to remember at the most; those that were of no use for longest go first.
        seed: fixes what is left to chance.
        sparse: each row has a few of very many features; rows are compared by their cosine.

    Example:
        >>> model = StreamClassifier(seed=0)
        >>> for x, y in [({"warm": 1.0, "wet": 0.1}, "sun"), ({"warm": 0.2, "wet": 0.9}, "rain")]:
        ...     model.learn_one(x, y)
        >>> model.predict_one({"warm": 0.9, "wet": 0.2})
        'sun'
    """

    def __init__(self, neighbors: int = 20, capacity: int | None = None, seed: int | None = None, sparse: bool = False):
        self.neighbors = neighbors
        self.capacity = capacity
        self.seed = seed
        self.sparse = sparse
        self._model = MemoryTreeClassifier(neighbors=neighbors, capacity=capacity, random_state=seed)
        self._features: dict[Any, int] = {}  # their columns

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _has_learned(self) -> bool:
        return hasattr(self._model, "memory_")

    def _row(self, x: Mapping[Any, float]) -> Any:
        """A matrix of one row."""
        known = {feature: value for feature, value in x.items() if feature in self._features}
        if not all(isinstance(value, numbers.Real) and math.isfinite(value) for value in known.values()):
            raise InvalidKey(
                "features must be numbers, and finite; encode others first, for instance with river's OneHotEncoder"
            )
        columns = [self._features[feature] for feature in known]
        if self.sparse:
            return scipy.sparse.csr_matrix((list(known.values()), columns, [0, len(known)]), (1, COLUMNS), np.float64)
        row = np.zeros((1, len(self._features)))
        row[0, columns] = list(known.values())
        return row

    def learn_one(self, x: Mapping[Any, float], y: Any) -> None:
        """Learn from a row and remember it."""
        new: list[Any] = []
        if self.sparse or not self._has_learned:
            new = sorted((feature for feature in x if feature not in self._features), key=str)  # sums depend on their order
        first = len(self._features)
        self._features.update((feature, first + number) for number, feature in enumerate(new))
        try:
            if not self.sparse and not self._features:
                raise InvalidKey("the first row needs at least one feature")
            self._model.partial_fit(self._row(x), [y])
        except Exception:
            for feature in new:
                del self._features[feature]
            raise

    def predict_proba_one(self, x: Mapping[Any, float], **_: Any) -> dict[Any, float]:
        """The probability of each label seen so far; none where no memory behind the prediction carries it."""
        if not self._has_learned:
            return {}
        [chances] = self._model.predict_proba(self._row(x))
        return dict(zip(self._model.classes_.tolist(), chances.tolist(), strict=True))

    def predict_one(self, x: Mapping[Any, float], **_: Any) -> Any:
        """The likeliest label, or None before there is any."""
        return self._model.predict(self._row(x)).tolist()[0] if self._has_learned else None
