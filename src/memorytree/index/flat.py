"""FlatIndex, `routing="flat"`: every query is compared with every memory, in NumPy.

It needs no compiled kernel, so a process that holds few memories does not wait for a compiler. Every memory begins with it
(`index/growing.py`).

Bounds of all distances, from one product of matrices, leave a few memories, whose distances are then computed one by one.
Equal distances are ordered by the hash of every index (`index/ties.py`). Memories without a term in common with a query
follow in the order of their last use, as in term lists. There is nothing to explore.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from copy import copy
from itertools import islice, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from memorytree.index import contributions
from memorytree.index.base import (
    FIRST_GROUP,
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
    blank_decisions,
    n_rows,
    under,
    with_prefix,
)  # fmt: skip
from memorytree.index.evictions import Evictions, plan_evictions
from memorytree.index.flat_keys import LEAST_ROWS, Bounds, Distances, FlatKeys, grown
from memorytree.index.requirements import require
from memorytree.index.ties import tie_ranks
from memorytree.results import NO_ID, Outline, RewardResult, Stats

FEW_ALLOWED = 8
"""If more than one in so many memories may be returned, all are compared."""


class FlatIndex(Index):
    """An exact index without compiled code.

    Args:
        keys: an empty store of keys, which decides how they are compared.
        capacity: store at most so many memories; 0 for any number.
        seed: orders equal distances.
    """

    def __init__(self, keys: FlatKeys[Any], capacity: int, seed: int):
        self.sparse, self.keys, self.capacity, self.seed = keys.sparse, keys, capacity, seed
        self.min_beam = 0 if keys.sparse else 1
        self.next_id = 0
        self.rows: OrderedDict[int, int] = OrderedDict()  # rows by id, the least recently used first
        self.ids, self.labels = np.zeros(LEAST_ROWS, np.int64), np.zeros(LEAST_ROWS, np.int64)

    def __len__(self) -> int:
        return len(self.rows)

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        evicted = []
        for i in range(start, stop):
            if ids[i] == NO_ID:
                ids[i] = self.next_id
            id = ids.item(i)
            obstacle = self.blocking_id(id)
            if obstacle != NO_ID:
                evicted.append((i, obstacle))
                self.remove(obstacle)
            row = len(self.rows)
            self.ids, self.labels = grown(self.ids, row + 1), grown(self.labels, row + 1)
            self.keys.append(keys, i)
            self.ids[row], self.labels[row], self.rows[id] = id, NO_ID, row
            self.next_id = max(self.next_id, id + 1)
        return InsertResult(stop, evicted, False)

    def blocking_id(self, id: int) -> int:
        """The memory to remove before one with this id is inserted, or `NO_ID`."""
        if id in self.rows:
            return id
        return next(iter(self.rows)) if self.capacity and len(self.rows) >= self.capacity else NO_ID

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        self.insert(keys, ids, 0, n_rows(keys))
        if labels is not None:
            self.set_labels(ids, labels)

    def remove(self, id: int) -> bool:
        row, last = self.rows.pop(id), len(self.rows)
        self.keys.remove(row)
        if row != last:
            self.ids[row], self.labels[row] = self.ids[last], self.labels[last]
            self.rows[self.ids.item(row)] = row
        return False

    def set_labels(self, ids: Ids, labels: Ids) -> None:
        for id, label in zip(ids.tolist(), labels.tolist(), strict=True):
            row = self.rows.get(id)
            # Groups inferred from rewards never replace labels that were given.
            if row is not None and (label < FIRST_GROUP or not 0 <= self.labels[row] < FIRST_GROUP):
                self.labels[row] = label

    def reward(self, batch: RewardBatch) -> RewardResult:
        learned = 0
        for i, (ids, rewards) in enumerate(zip(batch.ids.tolist(), batch.rewards.tolist(), strict=True)):
            seen = [(id, reward) for id, reward in zip(ids, rewards, strict=True) if reward >= 0 and id in self.rows]
            for id, reward in seen:
                if reward > 0:
                    self.rows.move_to_end(id)
            if seen:
                rows = np.array([self.rows[id] for id, _ in seen])
                learned += self.keys.learn(batch.keys, i, rows, np.array([reward for _, reward in seen]))
        return RewardResult(learned, 0)

    def rebuild(self) -> None:
        """Nothing is ever due."""

    def refit(self, passes: int) -> None:
        """There are no routers."""

    def sweep(self) -> int:
        return 0

    def reroute(self, times: int) -> None:
        """There are no routers."""

    # ---- reading

    def stored_ids(self) -> Ids:
        return self.ids[: len(self.rows)]

    def query(self, request: QueryRequest) -> QueryResult:
        n, k = request.stop - request.start, request.k
        ids, scores = np.full((n, k), NO_ID, np.int64), np.full((n, k), -np.inf, np.float32)
        rows = None if request.allowed is None else self._rows_of(request.allowed)
        queries = self.keys.queries(request.keys, request.start, request.stop, rows)
        for i, (query, bounds) in enumerate(queries):
            row = request.start + i
            excluded = request.excluded.ids[request.excluded.bounds[row] : request.excluded.bounds[row + 1]]
            self._exclude(bounds, rows, excluded)
            idle = self.keys.unrelated(query, bounds, rows)
            if idle is not None:
                self._keep_latest(bounds, idle, rows, k)
            near = _nearest(bounds, k)
            near = near if rows is None else rows[near]
            distances = self.keys.distances(query, near)
            order = np.argsort(distances, kind="stable")
            if _has_ties(distances[order], k):
                ranks = tie_ranks(self.seed, self.keys.bits(request.keys, row), self.ids[near])
                order = np.lexsort((~ranks, distances))
            order = order[:k]
            ids[i, : len(order)], scores[i, : len(order)] = self.ids[near[order]], self.keys.scores(distances[order])
        return QueryResult(ids, scores, blank_decisions(n if request.explore > 0 else 0))

    def _rows_of(self, allowed: Ids) -> Ids | None:
        """The rows of these ids, in order; None for all rows."""
        if FEW_ALLOWED * len(allowed) < len(self.rows):
            return np.array(sorted(self.rows[id] for id in allowed.tolist() if id in self.rows), np.int64)
        stored = self.stored_ids()
        places = np.searchsorted(allowed, stored)
        is_allowed = places < len(allowed)
        is_allowed[is_allowed] = allowed[places[is_allowed]] == stored[is_allowed]
        return None if is_allowed.all() else np.flatnonzero(is_allowed)

    def _exclude(self, bounds: Bounds, rows: Ids | None, excluded: Ids) -> None:
        """Set the bounds of excluded memories to infinity."""
        if not len(excluded):
            return
        out = np.array([self.rows[id] for id in excluded.tolist() if id in self.rows], np.int64)
        places = out if rows is None else np.flatnonzero(np.isin(rows, out))
        bounds.low[places] = bounds.high[places] = np.inf

    def _keep_latest(self, bounds: Bounds, idle: NDArray[np.bool_], rows: Ids | None, k: int) -> None:
        """Leave only as many of the idle rows as are needed for k hits, those that were used last."""
        needed = k - int(np.count_nonzero((bounds.low <= 1.0) & ~idle))
        waiting = np.zeros(len(self.rows), bool)
        waiting[slice(len(idle)) if rows is None else rows] = idle
        latest = (row for row in reversed(self.rows.values()) if waiting[row])
        waiting[list(islice(latest, max(needed, 0)))] = False
        left_out = waiting if rows is None else waiting[rows]
        bounds.low[left_out] = bounds.high[left_out] = np.inf

    def score(self, keys: KeyBatch, ids: Ids) -> Scores:
        scores = np.full(ids.shape, -np.inf, np.float32)
        for i, asked in enumerate(ids.tolist()):
            places = [place for place, id in enumerate(asked) if id in self.rows]
            rows = np.array([self.rows[asked[place]] for place in places], np.int64)
            distances = self.keys.distances(self.keys.query_key(keys, i), rows)
            scores[i, places] = self.keys.scores(distances)
        return scores

    def key(self, id: int) -> KeyBatch:
        return self.keys.key(self.rows[id])

    def label(self, id: int) -> int:
        return self.labels.item(self.rows[id])

    def weights(self, features: Array) -> Array:
        return self.keys.feature_weights(features)

    def plan_evictions(self, ids: Ids) -> Evictions:
        return plan_evictions(ids, self.capacity, len(self.rows), self.rows.__contains__, iter(self.rows))

    def path(self, request: QueryRequest) -> PathReport:
        return PathReport((), 0, self.keys.size())

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        def compared(id: int) -> KeyBatch:
            return self.keys.compared(self.rows[id])

        if not self.sparse:
            return contributions.of_features(request.keys, found, compared, self.keys.by_angle)
        row = contributions.weighted(request.keys, self.weights)
        return contributions.of_features(
            row, found, lambda id: contributions.weighted(compared(id), self.weights), self.keys.by_angle
        )

    def leaf_sizes(self) -> tuple[int, int]:
        """All memories are found."""
        return 2**62, 2**62

    def stats(self) -> Stats:
        n = len(self.rows)
        key_bytes, used, allocated = self.keys.nbytes()
        stats = Stats(memories=n, leaves=min(n, 1), leaf_limit=max(n, 1), largest_leaf=n, expected_recall=1.0, measured_at=n)
        own = self.ids.itemsize + self.labels.itemsize
        return stats.with_bytes(key_bytes, used + own * n, allocated + own * len(self.ids))

    def outline(self, depth: int) -> Outline:
        return self.keys.outline()

    # ---- state

    def copy(self) -> Self:
        twin = copy(self)
        twin.keys, twin.rows = self.keys.copy(), self.rows.copy()
        twin.ids, twin.labels = self.ids.copy(), self.labels.copy()
        return twin

    def state_dict(self) -> dict[str, Array]:
        n = len(self.rows)
        return {
            "next_id": np.array([self.next_id]),
            "ids": self.ids[:n].copy(),
            "labels": self.labels[:n].copy(),
            "order": self.order_of_use(),
        } | with_prefix("keys", self.keys.state_dict())

    def order_of_use(self) -> Ids:
        """The rows, the least recently used first."""
        return np.array(list(self.rows.values()), np.int64)

    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        for name in ("next_id", "ids", "labels", "order"):
            if state[name].dtype != np.int64 or state[name].ndim != 1:
                raise ValueError(f"{name} is {state[name].dtype} {state[name].shape}, not a list of int64")
        n = self.keys.load_state_dict(under("keys", state))
        ids, order = state["ids"], state["order"]
        require(len(state["next_id"]) == 1 and n == len(ids) == len(state["labels"]), "every memory has an id and a label")
        require(np.array_equal(np.sort(order), np.arange(n)), "the order of use runs through all memories")
        self.next_id = state["next_id"].item()
        self.rows = OrderedDict(zip(ids[order].tolist(), order.tolist(), strict=True))
        self.ids, self.labels = grown(ids, LEAST_ROWS), grown(state["labels"], LEAST_ROWS)
        if not trusted:
            self.check()

    def check(self) -> None:
        ids, labels = self.stored_ids(), self.labels[: len(self.rows)]
        require(len(self.rows) == len(self.keys), "every memory has a key and an id of its own")
        require(not len(ids) or (ids.min() >= 0 and ids.max() < self.next_id), "ids are in range")
        require(all(ids[row] == id for id, row in self.rows.items()), "ids lead to their memories")
        require(not self.capacity or len(ids) <= self.capacity, "no more memories than the capacity")
        require(np.all(labels >= NO_ID), "labels are numbers")
        self.keys.check()


def _nearest(bounds: Bounds, k: int) -> Ids:
    """The rows that may be among the k nearest."""
    low, high = bounds
    furthest = np.partition(high, k - 1)[k - 1] if k < len(high) else np.inf
    return np.flatnonzero(low <= furthest if furthest < np.inf else low < np.inf)


def _has_ties(ordered: Distances, k: int) -> bool:
    """Whether an equal distance stands beside one of the k nearest."""
    return any(distance == next for distance, next in pairwise(ordered[: k + 1].tolist()))
