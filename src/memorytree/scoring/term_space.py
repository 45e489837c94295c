"""`scorer="metric"` for sparse keys: a space of few dimensions, learned from rewards, in front of term lists.

What is seen of a memory is its own key along the principal directions of all keys, each as long as the others (latent
semantic analysis, whitened), at length one. In this space a key learns where to aim (`scoring/values.py`), just as if these
were the features of values; the importance of terms learns beside it, from the memories that were returned first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from memorytree.engine import kernels
from memorytree.engine.arrays import NONE, SLOT
from memorytree.routing.terms import TermsCore
from memorytree.scoring.directions import sparse_directions
from memorytree.scoring.valued import FIRST_VALUES, ValuedCore, sample_of
from memorytree.scoring.values import Aims, Values

# No lesson is taken before there are so many memories: the directions of fewer are about to change.
FIRST_LESSON = 512
# The importance of terms is learned from so many of the memories returned: words decide about the first few.
TOLD = 10


class TermSpaceCore(ValuedCore):
    """Term lists whose candidates are ranked in a learned space as well."""

    def __init__(self, base: TermsCore, scorer: Values):
        super().__init__(base, scorer, {})

    def describe(self, ids: np.ndarray) -> None:
        """Features of values are not looked at here."""

    def admit(self, features: np.ndarray) -> None:
        """Nor refused."""

    def _stored(self, rows: Any) -> scipy.sparse.csr_matrix:
        """The keys of some memories, with terms for columns."""
        arrays = self.base.raw.arrays()
        first, lengths = arrays["spans"][arrays["rows"][: len(self), SLOT][rows]].T
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        at = np.repeat(first - bounds[:-1], lengths) + np.arange(bounds[-1])
        keys = arrays["key_weights"][at], arrays["key_features"][at], bounds
        return scipy.sparse.csr_matrix(keys, shape=(len(lengths), self.base.terms))

    def _look_at(self, keys: scipy.sparse.csr_matrix) -> np.ndarray:
        """What is seen of keys; terms that came later than the directions are not seen."""
        basis = self.aims.basis
        seen = keys[:, : len(basis)] @ basis[: keys.shape[1]]
        return np.asarray(seen / np.maximum(np.linalg.norm(seen, axis=1, keepdims=True), 1e-12))

    def _settle(self) -> None:
        """Find the directions from the keys that are there, and look at all of them."""
        n = len(self)
        self.aims = Aims(self.scorer, self.base.terms)
        self.aims.settle(sparse_directions(self._stored(sample_of(n)), self.aims.width), n)
        ids = self.base.raw.arrays()["row_ids"][:n]
        self._see_anew(ids.copy(), self._look_at(self._stored(slice(None))))

    def insert(self, X: Any, ids: np.ndarray, progress: np.ndarray, last: int, removed: list) -> int:
        """Insert rows, and look at them."""
        first = progress.item()
        super().insert(X, ids, progress, last, removed)
        n = len(self)
        if n >= FIRST_VALUES and (self.aims is None or self._is_due(n)):
            self._settle()
        elif self.aims is not None:
            bounds, terms, weights = self.base.in_terms(X, first, last)
            keys = scipy.sparse.csr_matrix((weights, terms, bounds), shape=(last - first, self.base.terms))
            # With a capacity some may have gone again; of equal ids the last one counts.
            places = {int(id): row for row, id in enumerate(ids[first:last])}
            there = {id: row for id, row in places.items() if kernels.locate(self.base.raw.tree, id)[1] != NONE}
            self._see(np.array(list(there), np.int64), self._look_at(keys[list(there.values())]))
        return NONE

    def fill(self, X: Any, ids: np.ndarray, labels: np.ndarray | None = None) -> None:
        """Put all rows into this empty core."""
        self.base.fill(X, ids, labels)
        if len(self) >= FIRST_VALUES:
            self._settle()

    def _is_due(self, n: int) -> bool:
        """What was learned in one space of keys says nothing in another, so there is none after the first lesson."""
        return super()._is_due(n) and not self.aims.lessons

    def _may_learn(self) -> bool:
        return self.aims is not None and self.aims.settled >= FIRST_LESSON

    def _told(self, rewards: np.ndarray) -> np.ndarray:
        told = rewards.copy()
        told[:, TOLD:] = np.nan
        return told
