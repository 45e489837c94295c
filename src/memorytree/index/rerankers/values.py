"""ValueReranker, `scorer="values"`: candidates are ranked by features of their values as well."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from typing import Self

import numpy as np

from memorytree.config import ValueModel
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
    Rewards,
    ScoredHit,
    Scores,
    SparseBatch,
    with_prefix,
)  # fmt: skip
from memorytree.index.key_table import KeyTable
from memorytree.index.reranked import Reranker
from memorytree.learning.value_model import COMPONENT_NAMES, LearnedValueModel, scaled_directions
from memorytree.results import NO_ID

FIRST_VALUES, ENOUGH_VALUES = 32, 4096
"""Directions are computed again each time the values double, from the first number up to the second; no lesson is learned
before the first."""


def sample_of(n: int) -> slice:
    """Which of n values the directions are computed from."""
    return slice(0, None, max(1, -(-n // ENOUGH_VALUES)))


class ValueReranker(Reranker):
    """Ranks by a value model. The projected features of values are stored in a table.

    Args:
        options: of the value model.
        breadth: `breadth` * log2 n candidates are ranked.
    """

    def __init__(self, options: ValueModel):
        self.options = options
        self.model: LearnedValueModel | None = None
        self.table: KeyTable | None = None  # projected features by id
        self.rows: dict[int, Matrix] = {}  # as they were given, by id

    # ---- features

    def check_features(self, features: Matrix) -> None:
        width = features.shape[1]
        if self.model is not None and width != len(self.model.basis):
            raise InvalidOption(f"a value has {width} features, those of this tree have {len(self.model.basis)}")

    def set_features(self, inner: Index, ids: Ids, features: Matrix) -> None:
        self.rows.update(zip(ids.tolist(), features, strict=True))
        n = len(self.rows)
        if self.model is None or self.fit_due(n):
            model = self.model or LearnedValueModel(self.options, features.shape[1])
            every = np.array(list(self.rows), np.int64)
            model.set_directions(scaled_directions(self._matrix(every[sample_of(n)]), model.width), n)
            self.model, self.table = model, KeyTable.of_rows(every, self._matrix(every) @ model.basis)
            if not inner.sparse and not model.n_lessons:
                model.center = self._center(inner)
        else:
            assert self.table is not None
            self.table.put(ids, self._matrix(ids) @ self.model.basis)

    def _center(self, inner: Index) -> Matrix:
        """The mean of a sample of the keys."""
        keys = [inner.key(id) for id in inner.stored_ids()[sample_of(len(inner))].tolist()]
        return np.concatenate(keys).mean(axis=0)

    def features(self, id: int) -> Matrix | None:
        return self.rows.get(id)

    def fit_due(self, n: int) -> bool:
        """Whether the directions are to be computed again, with n values."""
        assert self.model is not None
        return n >= max(FIRST_VALUES, 2 * self.model.n_fitted) and self.model.n_fitted < ENOUGH_VALUES

    def _matrix(self, ids: Ids) -> Matrix:
        return np.stack([self.rows[id] for id in ids.tolist()])

    def discard(self, id: int) -> None:
        self.rows.pop(id, None)
        if self.table is not None:
            self.table.discard(id)

    # ---- ranking

    def ready(self) -> bool:
        return self.model is not None and self.model.n_lessons > 0

    def candidates(self, inner: Index, k: int, beam: int) -> tuple[int, int]:
        wanted = min(len(inner), max(k, math.ceil(self.options.breadth * math.log2(len(inner) + 2))))
        return wanted, beam * math.ceil(wanted / inner.leaf_sizes()[0])

    def _columns(self, inner: Index, keys: KeyBatch) -> SparseBatch:
        """Keys as (bounds, columns, weights), column 0 being the constant, without features that no memory has."""
        assert self.model is not None
        projected = inner.project(keys)
        if isinstance(projected, tuple):
            return projected
        n, d = projected.shape
        centered = (projected - self.model.center).reshape(-1)
        return np.arange(n + 1) * d, np.tile(np.arange(1, d + 1, dtype=np.int32), n), centered

    def _rank(self, inner: Index, keys: KeyBatch, found: tuple[Ids, Scores], k: int, weights: Array) -> tuple[Ids, Scores]:
        assert self.model is not None
        assert self.table is not None
        n = len(found[0])
        answer = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
        self.model.rank(self.table.tree, weights, self._columns(inner, keys), found, answer)
        return answer

    def rerank(self, inner: Index, keys: KeyBatch, found: QueryResult, k: int) -> tuple[Ids, Scores]:
        assert self.model is not None
        return self._rank(inner, keys, (found.ids, found.scores), k, self.model.component_weights)

    def contributions(
        self, inner: Index, request: QueryRequest, found: QueryResult, candidates: QueryResult
    ) -> list[ScoredHit]:
        assert self.model is not None
        there = candidates.ids[0] != NO_ID
        chosen = candidates.ids[:, there], candidates.scores[:, there]
        parts = []
        for weights in np.diag(self.model.component_weights):
            ids, scores = self._rank(inner, request.keys, chosen, len(chosen[0][0]), weights)
            parts.append(dict(zip(ids[0].tolist(), scores[0].tolist(), strict=True)))
        return [
            ScoredHit(id, score, {}, dict(zip(COMPONENT_NAMES, (part[id] for part in parts), strict=True)))
            for id, score in zip(found.ids[0].tolist(), found.scores[0].tolist(), strict=True)
            if id != NO_ID
        ]

    def score(self, inner: Index, keys: KeyBatch, ids: Ids) -> Scores:
        fits = inner.score(keys, ids)
        if not self.ready():
            return fits
        best, ranked = self.rerank(inner, keys, QueryResult(np.ascontiguousarray(ids), fits, ids), ids.shape[1])
        # Scores come in order of rank; each is assigned to its id.
        by_id = [dict(zip(*row, strict=True)) for row in zip(best.tolist(), ranked.tolist(), strict=True)]
        return np.array([[scores[id] for id in row] for scores, row in zip(by_id, ids.tolist(), strict=True)], np.float32)

    # ---- learning

    def learn(self, inner: Index, batch: RewardBatch) -> int:
        if not self._may_learn():
            return 0
        assert self.model is not None
        assert self.table is not None
        columns = self._columns(inner, batch.keys)
        self.model.reserve(1 + int(columns[1].max(initial=0)))
        fits = inner.score(batch.keys, batch.ids)
        return self.model.learn(self.table.tree, columns, (batch.ids, fits), batch.rewards)

    def _may_learn(self) -> bool:
        return self.model is not None and self.model.n_fitted >= FIRST_VALUES

    def rewards_for_inner(self, rewards: Rewards) -> list[Rewards]:
        """Only which memories were useful: the importances of terms would learn next to nothing beside the value model, and
        would also learn from noise."""
        return [np.where(rewards > 0, 1.0, np.nan)]

    # ---- state

    def nbytes(self) -> tuple[int, int]:
        if self.model is None or self.table is None:
            return 0, 0
        stats = self.table.stats()
        return stats.bytes + self.model.nbytes, stats.bytes + stats.spare_bytes + self.model.nbytes

    def copy(self) -> Self:
        twin = copy(self)
        twin.model = None if self.model is None else self.model.copy()
        twin.table = None if self.table is None else self.table.copy()
        twin.rows = dict(self.rows)
        return twin

    def state_dict(self) -> dict[str, Array]:
        state: dict[str, Array] = {}
        if self.rows:
            state["features"] = np.stack(list(self.rows.values()))
            state["feature_ids"] = np.array(list(self.rows), np.int64)
        return state | self._model_state()

    def _model_state(self) -> dict[str, Array]:
        if self.model is None or self.table is None:
            return {}
        projected: dict[str, Array] = {"ids": self.table.stored_ids(), "rows": self.table.matrix()}
        return with_prefix("model", self.model.state_dict()) | with_prefix("projected", projected)

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        self.rows = {}
        if "features" in state or "feature_ids" in state:
            ids, features = state["feature_ids"], state["features"]
            if ids.dtype != np.int64 or features.dtype != np.float32 or ids.ndim != 1 or features.ndim != 2:
                raise ValueError("the features of values have the wrong shape or type")
            self.rows = dict(zip(ids.tolist(), features, strict=True))
        self._load_model(state)

    def _load_model(self, state: Mapping[str, Array]) -> None:
        self.model = self.table = None
        if not any(name.startswith(("model.", "projected.")) for name in state):
            return
        model = LearnedValueModel.from_state_dict(
            self.options, {name.removeprefix("model."): array for name, array in state.items()}
        )
        ids, rows = state["projected.ids"], state["projected.rows"]
        if ids.dtype != np.int64 or rows.dtype != np.float32 or rows.shape != (len(ids), model.width):
            raise ValueError("the projected features of values have the wrong shape or type")
        if not np.all(np.isfinite(rows)):
            raise ValueError("the projected features of values are not finite")
        self.model, self.table = model, KeyTable.of_rows(ids, rows)

    def check(self, inner: Index) -> None:
        if self.table is not None:
            self.table.check()
        if self.model is not None and not inner.sparse and len(inner):
            first = inner.key(inner.stored_ids().item(0))
            if self.model.center.shape != first[0].shape:
                raise ValueError("the mean of the keys has another length than the keys")
        stored = set(inner.stored_ids().tolist())
        if not stored.issuperset(self.rows) or (
            self.table is not None and not stored.issuperset(self.table.stored_ids().tolist())
        ):
            raise ValueError("contradictory state: features of memories that are not stored")
