"""ProjectedIndex, `scorer="metric"` for dense keys: trees over learned projections of the keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from memorytree.engine.arrays import LABEL, Settings
from memorytree.engine.search import BRANCH, EXPLOIT, GENERATION_OF_NODE, NODE
from memorytree.index import contributions
from memorytree.index.base import (
    Array,
    Evictions,
    Ids,
    Index,
    InsertResult,
    KeyBatch,
    Matrix,
    PathReport,
    QueryRequest,
    QueryResult,
    RewardBatch,
    ScoredHit,
    Scores,
    rows_of,
    under,
    with_prefix,
)  # fmt: skip
from memorytree.index.forest import ForestIndex
from memorytree.index.key_table import KeyTable
from memorytree.index.single import insert_all, remove_now
from memorytree.learning.projection import LearnedProjection
from memorytree.results import NO_ID, Outline, RewardResult, Stats

FIRST_KEYS = 8
"""The projection is computed when there are so many memories, and again each time they double, up to `ENOUGH_KEYS` or the
first lesson; with a capacity, also each time so many have been inserted."""
ENOUGH_KEYS = 1024
FIRST_LESSON = 64
"""No lesson is learned from fewer memories: their projection is about to change."""
SAMPLE = 4096
"""The projection is computed from at most so many keys."""
GENERATIONS = 2**32
"""A decision's generation of a node also counts how often the trees were rebuilt, in multiples of this."""


class ProjectedIndex(Index):
    """Trees over projections of the keys; the keys themselves are stored in a table.

    Args:
        projection: the projection.
        settings: of the table of keys.
        make_inner: an empty forest for keys of this many features.
        renewals: how many memories are projected again for each lesson.
    """

    sparse = False

    def __init__(
        self,
        projection: LearnedProjection,
        settings: Settings,
        make_inner: Callable[[int], ForestIndex],
        renewals: int,
    ):
        self.projection = projection
        self._make_inner, self._renewals = make_inner, renewals
        self.keys = KeyTable(False, len(projection.arrays.center), settings)
        self.inner: ForestIndex | None = None
        self.groups_rewards = make_inner(projection.width).groups_rewards
        self._next = 0  # the row to be projected again next
        self._inserted = 0  # memories inserted so far
        self._inserted_at_fit = 0
        self.projection_version = 0  # how often the trees were rebuilt

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def projection_fit(self) -> int:
        return self._inserted_at_fit

    @property
    def is_refined(self) -> bool:
        return self.projection.n_lessons > 0

    @property
    def _outer(self) -> KeyTable | ForestIndex:
        """What answers queries: the table until there is a projection."""
        return self.keys if self.inner is None else self.inner

    def project(self, keys: KeyBatch) -> Matrix:
        assert not isinstance(keys, tuple)
        return keys if self.inner is None else self.projection.project(keys)

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        evicted: list[tuple[int, int]] = []
        while start < stop:
            until = min(stop, start + max(1, self._fit_due_at() - len(self)))
            if self.keys.settings.capacity or self._replaces(ids[start:until]):
                until = start + 1  # a memory may have to be removed first
            gone = self.keys.insert(keys, ids, start, until).evicted
            self._inserted += until - start
            evicted += gone
            if self.inner is not None:
                for _, id in gone:
                    remove_now(self.inner, id)
                insert_all(self.inner, self.project(rows_of(keys, start, until)), ids[start:until], 0, until - start)
            if len(self) >= self._fit_due_at() or self._is_refilled():
                self.fit_projection()
            start = until
        return InsertResult(stop, evicted, False)

    def _replaces(self, ids: Ids) -> bool:
        """Whether one of the ids to give is in use already, or will be when an earlier one has been given."""
        given = ids[ids != NO_ID]
        if not len(given):
            return False
        repeated = len(np.unique(given)) < len(given) or len(given) < len(ids)
        return repeated or any(self.keys.holds(id) for id in given.tolist())

    def _fit_due_at(self) -> int:
        """The number of memories at which the projection is computed again."""
        if self.projection.n_lessons or self.projection.n_fitted >= ENOUGH_KEYS:
            return 2**62
        return max(FIRST_KEYS, 2 * self.projection.n_fitted)

    def _is_refilled(self) -> bool:
        """Whether `capacity` memories have been inserted since the projection was computed."""
        capacity = self.keys.settings.capacity
        if not capacity or not self.projection.n_fitted or self.projection.n_lessons:
            return False
        return self._inserted - self._inserted_at_fit >= capacity

    def fit_projection(self) -> None:
        """Compute the projection from the stored keys, and rebuild the trees."""
        n = len(self)
        self.projection.fit(self.keys.matrix(np.arange(min(n, SAMPLE)) * n // min(n, SAMPLE)), n)
        self._inserted_at_fit = self._inserted
        self.refit(1)

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        self.keys.build(keys, ids, labels)
        self._inserted = len(self)
        if len(self) >= FIRST_KEYS:
            self.fit_projection()

    def remove(self, id: int) -> bool:
        self.keys.remove(id)
        if self.inner is not None:
            remove_now(self.inner, id)
        return False

    def set_labels(self, ids: Ids, labels: Ids) -> None:
        self.keys.set_labels(ids, labels)
        if self.inner is not None:
            self.inner.set_labels(ids, labels)

    def reward(self, batch: RewardBatch) -> RewardResult:
        """The projection learns from every query, then the routers; some memories are projected again for each lesson."""
        self.mark_used(batch)
        if self.inner is None:
            return RewardResult(0, 0)
        lessons = 0
        assert not isinstance(batch.keys, tuple)
        if len(self) >= FIRST_LESSON:
            lessons = self.projection.learn(self.inner.first.tree, batch.keys, batch.ids, batch.with_unobserved())
            self.reroute(self._renewals * lessons)
        decisions = batch.decisions.copy()
        version, decisions[:, GENERATION_OF_NODE] = np.divmod(decisions[:, GENERATION_OF_NODE], GENERATIONS)
        decisions[version != self.projection_version, NODE] = NO_ID  # a node of trees that have been rebuilt since
        result = self.inner.reward(batch._replace(keys=self.project(batch.keys), decisions=decisions))
        return RewardResult(lessons + result.learned, result.skipped)

    def mark_used(self, batch: RewardBatch) -> None:
        self.keys.mark_used(batch)

    def reset_learning(self) -> None:
        """Compute the projection anew from the keys."""
        if self.inner is not None:
            self.projection.n_lessons = 0
            self.fit_projection()

    def rebuild(self) -> None:
        """Nothing is ever due: rebuilds are done at once."""

    def refit(self, passes: int) -> None:
        """Project every memory again, and rebuild the trees."""
        if not self.projection.n_fitted:
            return
        self.inner = self._make_inner(self.projection.width)
        self.projection_version += 1
        labels = self.keys.arrays()["rows"][: len(self), LABEL].astype(np.int64)
        self.inner.build(self.projection.project(self.keys.matrix()), self.keys.stored_ids().copy(), labels)

    def sweep(self) -> int:
        """Project every memory again and place it by that; the number of memories moved."""
        if self.inner is None:
            return 0
        self._project_again(np.arange(len(self)))
        return self.inner.sweep()

    def reroute(self, times: int) -> None:
        """Project so many memories again, in turn, and place them by that."""
        if self.inner is None or not len(self):
            return
        times = min(times, len(self))
        rows = np.arange(self._next, self._next + times) % len(self)
        self._next = (self._next + times) % len(self)
        self._project_again(rows)

    def _project_again(self, rows: Ids) -> None:
        assert self.inner is not None
        self.inner.replace_keys(self.projection.project(self.keys.matrix(rows)), self.keys.stored_ids()[rows].copy())

    # ---- reading

    def stored_ids(self) -> Ids:
        return self.keys.stored_ids()

    def query(self, request: QueryRequest) -> QueryResult:
        """Scores are cosines of projections."""
        if self.inner is None:
            return self.keys.query(request)
        start, stop = request.start, request.stop
        projected = self.project(rows_of(request.keys, start, stop))
        excluded = request.excluded.rows(start, stop)
        inner = replace(request, keys=projected, start=0, stop=stop - start, draw=request.draw + start, excluded=excluded)
        ids, scores, decisions = self.inner.query(inner)
        if len(decisions):
            explored = decisions[:, BRANCH] != EXPLOIT
            decisions[:, GENERATION_OF_NODE] += np.where(explored, self.projection_version * GENERATIONS, 0)
        return QueryResult(ids, _cosines(scores), decisions)

    def score(self, keys: KeyBatch, ids: Ids) -> Scores:
        if self.inner is None:
            return self.keys.score(keys, ids)
        return _cosines(self.inner.score(self.project(keys), ids))

    def key(self, id: int) -> KeyBatch:
        return self.keys.key(id)

    @property
    def top_score(self) -> float | None:
        """None before there is a projection: scores are distances until then."""
        return None if self.inner is None else 1.0

    @property
    def learns_to_compare(self) -> bool:
        return self.inner is not None

    def key_gaps(self, key: KeyBatch, others: KeyBatch) -> Scores:
        """By the cosine of projections."""
        projected = self.project(np.concatenate([key, others]))
        return np.maximum(1 - projected[1:] @ projected[0], 0.0).astype(np.float32)

    def label(self, id: int) -> int:
        return self.keys.label(id)

    def plan_evictions(self, ids: Ids) -> Evictions:
        return self.keys.plan_evictions(ids)

    def _projected_request(self, request: QueryRequest) -> QueryRequest:
        return replace(request, keys=self.project(rows_of(request.keys, 0, 1)))

    def path(self, request: QueryRequest) -> PathReport:
        return self._outer.path(self._projected_request(request))

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        """Contributions of the directions of the projection."""
        if self.inner is None:
            return self.keys.contributions(request, found)
        return contributions.of_features(self._projected_request(request).keys, found, self.inner.key, by_angle=True)

    def leaf_sizes(self) -> tuple[int, int]:
        return self._outer.leaf_sizes()

    def stats(self) -> Stats:
        keys = self.keys.stats()
        learned = sum(array.nbytes for array in self._own_state().values())
        inner = Stats() if self.inner is None else self.inner.stats()
        used, spare = keys.bytes + inner.bytes + learned, keys.spare_bytes + inner.spare_bytes
        return (keys if self.inner is None else inner).with_bytes(keys.key_bytes, used, used + spare)

    def outline(self, depth: int) -> Outline:
        return self._outer.outline(depth)

    # ---- state

    def copy(self) -> Self:
        twin = copy(self)
        twin.projection, twin.keys = self.projection.copy(), self.keys.copy()
        twin.inner = None if self.inner is None else self.inner.copy()
        return twin

    def _own_state(self) -> dict[str, Array]:
        own = np.array([self._next, self._inserted, self._inserted_at_fit, self.projection_version])
        return {**with_prefix("projection", self.projection.state_dict()), "numbers": own}

    def state_dict(self) -> dict[str, Array]:
        state = {name: array.copy() for name, array in self._own_state().items()}
        state |= with_prefix("keys", self.keys.state_dict())
        return state | ({} if self.inner is None else with_prefix("inner", self.inner.state_dict()))

    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        self.projection.load_state_dict(under("projection", state))
        if state["numbers"].shape != (4,) or state["numbers"].dtype != np.int64:
            raise ValueError("the counters of the projected index have the wrong shape or type")
        self._next, self._inserted, self._inserted_at_fit, self.projection_version = state["numbers"].tolist()
        self.keys.load_state_dict(under("keys", state), trusted=trusted)
        self.inner = None
        if self.projection.n_fitted:
            self.inner = self._make_inner(self.projection.width)
            self.inner.load_state_dict(under("inner", state), trusted=trusted)
        if not trusted:
            self.check()

    def check(self) -> None:
        self.keys.check()
        if self.inner is not None:
            self.inner.check()
            if set(self.inner.first.stored_ids().tolist()) != set(self.keys.stored_ids().tolist()):
                raise ValueError("contradictory state: keys and projections belong to different memories")


def _cosines(scores: Scores) -> Scores:
    """Scores by distance as cosines: between unit vectors the cosine is 1 - distance^2 / 2."""
    return np.where(np.isneginf(scores), -np.inf, 1 - scores**2 / 2).astype(np.float32)
