"""StreamClassifier: the classifier for one row at a time, in river's conventions."""

from __future__ import annotations

import math
import numbers
from collections.abc import Hashable, Mapping
from typing import TypeAlias

import numpy as np
import scipy.sparse

from memorytree.errors import InvalidKey
from memorytree.estimators.arrays import Matrix
from memorytree.estimators.classifier import MemoryTreeClassifier

try:
    from river.base import Classifier
except ImportError:  # its conventions can be used without river

    class Classifier:  # type: ignore[no-redef]  # replaces river's base class where river is not installed
        """Replaces river's base class where river is not installed."""


Label: TypeAlias = bool | str | int
"""Labels, as river has them."""

SPARSE_COLUMNS = 2**30  # columns of sparse rows; those of features that have not occurred yet are empty


class StreamClassifier(Classifier):
    """Learn from rows ``{feature: number}`` one at a time. New classes can occur at any time.

    For dense rows the features of the first row are used: later a missing one is 0 and an unknown one is ignored. Sparse
    rows, such as bags of words, can have new features at any time.

    Parameters
    ----------
    n_neighbors
        Memories that vote.
    capacity
        The most rows to keep. Rows that have not been useful for longest are removed first.
    seed
        Seed of everything random.
    sparse
        Whether each row has a few of very many features. Sparse rows are compared by their cosine.

    Examples
    --------
    >>> model = StreamClassifier(seed=0)
    >>> for x, y in [({"warm": 1.0, "wet": 0.1}, "sun"), ({"warm": 0.2, "wet": 0.9}, "rain")]:
    ...     model.learn_one(x, y)
    >>> model.predict_one({"warm": 0.9, "wet": 0.2})
    'sun'
    """

    def __init__(self, n_neighbors: int = 20, capacity: int | None = None, seed: int | None = None, sparse: bool = False):
        self.n_neighbors = n_neighbors
        self.capacity = capacity
        self.seed = seed
        self.sparse = sparse
        self._classifier = MemoryTreeClassifier(n_neighbors=n_neighbors, capacity=capacity, random_state=seed)
        self._columns: dict[Hashable, int] = {}  # by feature

    @property
    def _multiclass(self) -> bool:
        return True

    @property
    def _has_learned(self) -> bool:
        return hasattr(self._classifier, "memory_")

    def _row(self, x: Mapping[Hashable, float]) -> Matrix:
        """A matrix of one row."""
        known = {feature: value for feature, value in x.items() if feature in self._columns}
        if not all(isinstance(value, numbers.Real) and math.isfinite(value) for value in known.values()):
            raise InvalidKey(
                "features must be numbers, and finite; encode others first, for instance with river's OneHotEncoder"
            )
        columns = [self._columns[feature] for feature in known]
        if self.sparse:
            return scipy.sparse.csr_matrix((list(known.values()), columns, [0, len(known)]), (1, SPARSE_COLUMNS), np.float64)
        row = np.zeros((1, len(self._columns)))
        row[0, columns] = list(known.values())
        return row

    def learn_one(self, x: Mapping[Hashable, float], y: Label) -> None:
        """Learn from a row, then store it.

        Parameters
        ----------
        x
            The row, numbers by feature.
        y
            Its label.
        """
        new: list[Hashable] = []
        if self.sparse or not self._has_learned:
            new = sorted((feature for feature in x if feature not in self._columns), key=str)  # sums depend on their order
        first = len(self._columns)
        self._columns.update((feature, first + number) for number, feature in enumerate(new))
        try:
            if not self.sparse and not self._columns:
                raise InvalidKey("the first row needs at least one feature")
            self._classifier.partial_fit(self._row(x), [y])
        except Exception:
            for feature in new:
                del self._columns[feature]
            raise

    def predict_proba_one(self, x: Mapping[Hashable, float], **_: object) -> dict[Label, float]:
        """The probability of each label seen so far, 0 for those that no memory found has.

        Parameters
        ----------
        x
            The row, numbers by feature.
        """
        if not self._has_learned:
            return {}
        [probabilities] = self._classifier.predict_proba(self._row(x))
        return dict(zip(self._classifier.classes_.tolist(), probabilities.tolist(), strict=True))

    def predict_one(self, x: Mapping[Hashable, float], **_: object) -> Label | None:
        """The most probable label, or None before the first row.

        Parameters
        ----------
        x
            The row, numbers by feature.
        """
        if not self._has_learned:
            return None
        label: Label = self._classifier.predict(self._row(x)).tolist()[0]
        return label
