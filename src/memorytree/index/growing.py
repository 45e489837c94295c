"""GrowingIndex: a flat index that becomes another one, a graph or term lists, when it has grown to a fixed size.

The change is part of the insertion that exceeds the size, so that the same writes give the same state, and is never undone.
`index/moving.py` says how the memories are moved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from memorytree.index.base import (
    Array,
    Ids,
    Index,
    InsertResult,
    KeyBatch,
    PathReport,
    QueryRequest,
    QueryResult,
    RewardBatch,
    ScoredHit,
    Scores,
    n_rows,
    under,
    with_prefix,
)  # fmt: skip
from memorytree.index.evictions import Evictions
from memorytree.index.flat import FlatIndex
from memorytree.index.requirements import require
from memorytree.results import NO_ID, Outline, RewardResult, Stats

MakeLarger = Callable[[FlatIndex | None], Index]


class GrowingIndex(Index):
    """A flat index up to a number of memories, another one from then on.

    Args:
        flat: the empty flat index.
        make_larger: makes the index that follows, with the memories of a flat one or, given None, empty.
        limit: how many memories the flat index holds at most.
        groups_rewards: that of the index that follows.

    Attributes:
        inner: the index at present.
        flat: the same while it is the flat one, then None.
    """

    def __init__(self, flat: FlatIndex, make_larger: MakeLarger, limit: int, *, groups_rewards: bool):
        self.sparse, self.min_beam, self.groups_rewards = flat.sparse, flat.min_beam, groups_rewards
        self.inner: Index = flat
        self.flat: FlatIndex | None = flat
        self._make_larger, self._limit = make_larger, limit
        self._is_due = False  # the flat index is full, and its replacement was left to the caller

    def __len__(self) -> int:
        return len(self.inner)

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        """As in `Index`. Replacing the flat index is a rebuild, left to the caller before the row that needs it."""
        evicted: list[tuple[int, int]] = []
        while self.flat is not None and start < stop:
            room = self._limit - len(self.flat)
            if room == 0 and self.flat.blocking_id(ids.item(start)) == NO_ID:
                self._is_due = True
                return InsertResult(start, evicted, True)
            end = min(stop, start + max(room, 1))
            evicted += self.flat.insert(keys, ids, start, end).evicted
            start = end
        if self.flat is not None:
            return InsertResult(stop, evicted, False)
        result = self.inner.insert(keys, ids, start, stop)
        return result._replace(evicted=evicted + result.evicted)

    def rebuild(self) -> None:
        if self.flat is None:
            self.inner.rebuild()
        elif self._is_due:
            self._use(self._make_larger(self.flat))
        self._is_due = False

    def _use(self, larger: Index) -> None:
        """Replace the flat index."""
        self.inner, self.flat = larger, None

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        if self.flat is not None and n_rows(keys) > self._limit:
            self._use(self._make_larger(None))
        self.inner.build(keys, ids, labels)

    def remove(self, id: int) -> bool:
        return self.inner.remove(id)

    def set_labels(self, ids: Ids, labels: Ids) -> None:
        self.inner.set_labels(ids, labels)

    def reward(self, batch: RewardBatch) -> RewardResult:
        return self.inner.reward(batch)

    def refit(self, passes: int) -> None:
        self.inner.refit(passes)

    def sweep(self) -> int:
        return self.inner.sweep()

    def reroute(self, times: int) -> None:
        self.inner.reroute(times)

    # ---- reading

    def stored_ids(self) -> Ids:
        return self.inner.stored_ids()

    def query(self, request: QueryRequest) -> QueryResult:
        return self.inner.query(request)

    def score(self, keys: KeyBatch, ids: Ids) -> Scores:
        return self.inner.score(keys, ids)

    def key(self, id: int) -> KeyBatch:
        return self.inner.key(id)

    def label(self, id: int) -> int:
        return self.inner.label(id)

    def project(self, keys: KeyBatch) -> KeyBatch:
        return self.inner.project(keys)

    def weights(self, features: Array) -> Array:
        return self.inner.weights(features)

    def plan_evictions(self, ids: Ids) -> Evictions:
        return self.inner.plan_evictions(ids)

    def path(self, request: QueryRequest) -> PathReport:
        return self.inner.path(request)

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        return self.inner.contributions(request, found)

    def leaf_sizes(self) -> tuple[int, int]:
        return self.inner.leaf_sizes()

    def stats(self) -> Stats:
        stats = self.inner.stats()
        return stats if self.flat is None else replace(stats, leaf_limit=self._limit)

    def outline(self, depth: int) -> Outline:
        return self.inner.outline(depth)

    # ---- state

    def copy(self) -> Self:
        return self._with(self.inner.copy())

    def copy_for_rebuild(self) -> Self:
        return self._with(self.inner.copy_for_rebuild())

    def _with(self, inner: Index) -> Self:
        """The same around a copy of the inner index."""
        twin = copy(self)
        twin.inner, twin.flat = inner, inner if isinstance(inner, FlatIndex) else None
        return twin

    def state_dict(self) -> dict[str, Array]:
        return {"grown": np.array([self.flat is None])} | with_prefix("inner", self.inner.state_dict())

    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        grown = state["grown"]
        require(grown.shape == (1,) and grown.dtype == np.bool_, "one number says whether the index has grown")
        if grown[0]:
            self._use(self._make_larger(None))
        self.inner.load_state_dict(under("inner", state), trusted=trusted)
        if not trusted:
            self.check()

    def check(self) -> None:
        require(self.flat is None or len(self.flat) <= self._limit, "a flat index holds no more than its limit")
        self.inner.check()
