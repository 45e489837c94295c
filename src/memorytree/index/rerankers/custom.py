"""CustomReranker: candidates are ranked by a scorer of the user's own, in plain Python (`config.CustomScorer`)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Self, TypeAlias

import numpy as np
import scipy.sparse

from memorytree.config import CustomScorer, ScoreFunction
from memorytree.errors import InvalidOption
from memorytree.index.base import (
    Array,
    Ids,
    Index,
    KeyBatch,
    Matrix,
    QueryRequest,
    QueryResult,
    RewardBatch,
    ScoredHit,
    Scores,
    n_rows,
    rows_of,
)  # fmt: skip
from memorytree.index.contributions import without_parts
from memorytree.index.reranked import Reranker
from memorytree.results import NO_ID

Rows: TypeAlias = Matrix | scipy.sparse.csr_matrix


class CustomReranker(Reranker):
    """Ranks all memories of the leaves that a query reads.

    Args:
        scorer: a function (x, keys, features) -> scores, or an object with such a method `score`.
    """

    def __init__(self, scorer: CustomScorer | ScoreFunction):
        self.scorer = scorer
        self.rows: dict[int, Matrix] = {}  # features by id
        self._columns = 0  # of sparse keys; never decreases

    # ---- features

    def set_features(self, inner: Index, ids: Ids, features: Matrix) -> None:
        self.rows.update(zip(ids.tolist(), features, strict=True))

    def features(self, id: int) -> Matrix | None:
        return self.rows.get(id)

    def discard(self, id: int) -> None:
        self.rows.pop(id, None)

    def _feature_matrix(self, ids: list[int]) -> Matrix | None:
        """The features of some memories, zeros where there are fewer; None if there are none."""
        given = [self.rows.get(id) for id in ids]
        width = max((len(row) for row in given if row is not None), default=0)
        if not width:
            return None
        features = np.zeros((len(ids), width), np.float32)
        for row, numbers in zip(features, given, strict=True):
            if numbers is not None:
                row[: len(numbers)] = numbers
        return features

    # ---- ranking

    def candidates(self, inner: Index, k: int, beam: int) -> tuple[int, int]:
        return min(len(inner), beam * inner.leaf_sizes()[1]), beam

    def _scores(self, inner: Index, row: KeyBatch, ids: list[int]) -> Array:
        x, keys = self._key_and_candidates(row, [inner.key(id) for id in ids])
        score = self.scorer.score if isinstance(self.scorer, CustomScorer) else self.scorer
        scores = np.asarray(score(x, keys, self._feature_matrix(ids)), np.float64).reshape(-1)
        if scores.shape != (len(ids),) or np.any(np.isnan(scores)):
            raise InvalidOption(f"the scorer must return {len(ids)} numbers, none of them NaN; it returned {scores!r:.80}")
        return scores

    def rerank(self, inner: Index, keys: KeyBatch, found: QueryResult, k: int) -> tuple[Ids, Scores]:
        n = len(found.ids)
        ids, scores = np.full((n, k), NO_ID, np.int64), np.full((n, k), -np.inf, np.float32)
        for i in range(n):
            candidates = found.ids[i][found.ids[i] != NO_ID]
            if len(candidates):
                scored = self._scores(inner, rows_of(keys, i, i + 1), candidates.tolist())
                best = np.argsort(-scored, kind="stable")[:k]
                ids[i, : len(best)], scores[i, : len(best)] = candidates[best], scored[best]
        return ids, scores

    def contributions(
        self, inner: Index, request: QueryRequest, found: QueryResult, candidates: QueryResult
    ) -> list[ScoredHit]:
        return without_parts(found)

    def score(self, inner: Index, keys: KeyBatch, ids: Ids) -> Scores:
        scores = np.full(ids.shape, -np.inf, np.float32)
        stored = np.isfinite(inner.score(keys, ids))
        for i in range(n_rows(keys)):
            if stored[i].any():
                scores[i, stored[i]] = self._scores(inner, rows_of(keys, i, i + 1), ids[i, stored[i]].tolist())
        return scores

    def _key_and_candidates(self, row: KeyBatch, keys: list[KeyBatch]) -> tuple[Rows, Rows]:
        """The key of a query and the keys of candidates as a scorer takes them: a vector and a matrix, or scipy rows."""
        if not isinstance(row, tuple):
            return row[0], np.concatenate(keys)
        (first, last), features, weights = row
        features, weights = features[first:last], weights[first:last]
        stored = features >= 0  # features that no memory has are negative
        batches = [(np.array([0, np.count_nonzero(stored)]), features[stored], weights[stored]), *keys]
        self._columns = max(self._columns, *(1 + int(features.max(initial=0)) for _, features, _ in batches))
        x, *_ = rows = [
            scipy.sparse.csr_matrix((weights, features, bounds), shape=(1, self._columns))
            for bounds, features, weights in batches
        ]
        return x, scipy.sparse.vstack(rows[1:], format="csr")

    # ---- learning

    def learn(self, inner: Index, batch: RewardBatch) -> int:
        learned = 0
        if hasattr(self.scorer, "learn"):
            observed = np.isfinite(inner.score(batch.keys, batch.ids)) & ~np.isnan(batch.rewards)
            for i in np.flatnonzero(observed.any(axis=1)).tolist():
                ids = batch.ids[i, observed[i]].tolist()
                x, keys = self._key_and_candidates(rows_of(batch.keys, i, i + 1), [inner.key(id) for id in ids])
                self.scorer.learn(x, keys, self._feature_matrix(ids), batch.rewards[i, observed[i]])
                learned += 1
        return learned

    # ---- state

    def copy(self) -> Self:
        """A copy with the same scorer, which belongs to the user."""
        twin = copy(self)
        twin.rows = dict(self.rows)
        return twin

    def state_dict(self) -> dict[str, Array]:
        state: dict[str, Array] = {}
        if self.rows:
            widths = np.array([len(row) for row in self.rows.values()])
            state["features"], state["widths"] = np.concatenate(list(self.rows.values())), widths
            state["feature_ids"] = np.array(list(self.rows), np.int64)
        if hasattr(self.scorer, "state_dict"):
            state |= {f"scorer.{name}": np.asarray(array) for name, array in self.scorer.state_dict().items()}
        return state

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        self.rows = {}
        if "features" in state:
            rows = np.split(state["features"], np.cumsum(state["widths"])[:-1])
            self.rows = dict(zip(state["feature_ids"].tolist(), rows, strict=True))
        scorer = {name.removeprefix("scorer."): array for name, array in state.items() if name.startswith("scorer.")}
        if scorer:
            if not hasattr(self.scorer, "load_state_dict"):
                raise InvalidOption("the state of the scorer was saved, but this scorer has no load_state_dict")
            self.scorer.load_state_dict(scorer)

    def check(self, inner: Index) -> None:
        if not set(inner.stored_ids().tolist()).issuperset(self.rows):
            raise ValueError("contradictory state: features of memories that are not stored")
