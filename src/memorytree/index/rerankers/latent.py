"""LatentReranker, `scorer="metric"` for sparse keys: candidates of term lists are also ranked in a learned latent space.

A memory is represented by its own key, projected on the principal directions of all keys, each scaled to the same spread
(whitened latent semantic analysis), at length one. In this space a value model learns the aim of a key, as if these
projections were features of values; the importances of terms learn as well, from the first hits of a query.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse

from memorytree.index.base import Array, Ids, Index, KeyBatch, Matrix, Rewards, n_rows
from memorytree.index.key_table import KeyTable
from memorytree.index.rerankers.values import FIRST_VALUES, ValueReranker, sample_of
from memorytree.index.terms import TermIndex
from memorytree.learning.pca import sparse_directions
from memorytree.learning.value_model import LearnedValueModel

FIRST_LESSON = 512
"""No lesson is learned from fewer memories: their directions are about to change."""
HITS_FOR_TERMS = 10
"""The importances of terms learn from so many hits of a query: words decide about the first few."""


class LatentReranker(ValueReranker):
    """Ranks the candidates of a `TermIndex` by a value model of their own keys."""

    def check_features(self, features: Matrix) -> None:
        """Features of values are ignored."""

    def set_features(self, inner: Index, ids: Ids, features: Matrix) -> None:
        """Features of values are ignored."""

    def add(self, inner: Index, keys: KeyBatch, ids: Ids) -> None:
        assert isinstance(inner, TermIndex)
        n = len(inner)
        if n >= FIRST_VALUES and (self.model is None or self.fit_due(n)):
            self.model = LearnedValueModel(self.options, inner.n_terms)
            columns = inner.n_terms
            self.model.set_directions(sparse_directions(inner.keys.csr(sample_of(n), columns), self.model.width), n)
            self.table = KeyTable.of_rows(inner.stored_ids().copy(), self._represent(inner.keys.csr(slice(None), columns)))
        elif self.model is not None and self.table is not None:
            bounds, terms, weights = inner.project(keys)
            rows = scipy.sparse.csr_matrix((weights, terms, bounds), shape=(n_rows(keys), inner.n_terms))
            # With a capacity some may have been removed again; of equal ids the last one counts.
            last = {id: row for row, id in enumerate(ids.tolist())}
            there = {id: row for id, row in last.items() if inner.keys.holds(id)}
            self.table.put(np.array(list(there), np.int64), self._represent(rows[list(there.values())]))

    def _represent(self, keys: scipy.sparse.csr_matrix) -> Matrix:
        """The latent representations of keys; terms that are newer than the directions are ignored."""
        assert self.model is not None
        basis = self.model.basis
        projected = keys[:, : len(basis)] @ basis[: keys.shape[1]]
        return np.asarray(projected / np.maximum(np.linalg.norm(projected, axis=1, keepdims=True), 1e-12))

    def fit_due(self, n: int) -> bool:
        """Aims learned in one latent space are meaningless in another, so the first lesson fixes it."""
        assert self.model is not None
        return super().fit_due(n) and not self.model.n_lessons

    def _may_learn(self) -> bool:
        return self.model is not None and self.model.n_fitted >= FIRST_LESSON

    def rewards_for_inner(self, rewards: Rewards) -> list[Rewards]:
        """Those of the first hits, and if there are more hits, which of them were useful."""
        if rewards.shape[1] <= HITS_FOR_TERMS:
            return [rewards]
        first = rewards.copy()
        first[:, HITS_FOR_TERMS:] = np.nan
        return [first, *super().rewards_for_inner(rewards)]

    def state_dict(self) -> dict[str, Array]:
        return self._model_state()

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        self._load_model(state)
