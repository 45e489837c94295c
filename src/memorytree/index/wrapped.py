"""WrappedIndex: what indexes around another index have in common; all methods are passed on."""

from __future__ import annotations

from typing import Self

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
)  # fmt: skip
from memorytree.results import Outline, PastReward, RewardResult, Stats


class WrappedIndex(Index):
    """An index around another one, `inner`. Subclasses replace what they add."""

    def __init__(self, inner: Index):
        self.inner = inner
        self.sparse, self.groups_rewards = inner.sparse, inner.groups_rewards

    def __len__(self) -> int:
        return len(self.inner)

    @property
    def projection_fit(self) -> int:
        return self.inner.projection_fit

    @property
    def is_refined(self) -> bool:
        return self.inner.is_refined

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        return self.inner.insert(keys, ids, start, stop)

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        self.inner.build(keys, ids, labels)

    def remove(self, id: int) -> bool:
        return self.inner.remove(id)

    def set_labels(self, ids: Ids, labels: Ids) -> None:
        self.inner.set_labels(ids, labels)

    def check_features(self, features: Matrix) -> None:
        self.inner.check_features(features)

    def set_features(self, ids: Ids, features: Matrix) -> None:
        self.inner.set_features(ids, features)

    def features(self, id: int) -> Matrix | None:
        return self.inner.features(id)

    def reward(self, batch: RewardBatch) -> RewardResult:
        return self.inner.reward(batch)

    def mark_used(self, batch: RewardBatch) -> None:
        self.inner.mark_used(batch)

    def past_rewards(self) -> list[PastReward]:
        return self.inner.past_rewards()

    def known_rewards(self, receipt: bytes) -> dict[int, float]:
        return self.inner.known_rewards(receipt)

    def withdraw(self, number: int) -> None:
        self.inner.withdraw(number)

    def withdraw_of(self, receipt: bytes, memory: int) -> None:
        self.inner.withdraw_of(receipt, memory)

    def reset_learning(self) -> None:
        self.inner.reset_learning()

    def rebuild(self) -> None:
        self.inner.rebuild()

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

    @property
    def geometry(self) -> Index:
        return self.inner.geometry

    def plan_evictions(self, ids: Ids) -> Evictions:
        return self.inner.plan_evictions(ids)

    def path(self, request: QueryRequest) -> PathReport:
        return self.inner.path(request)

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        return self.inner.contributions(request, found)

    def leaf_sizes(self) -> tuple[int, int]:
        return self.inner.leaf_sizes()

    def stats(self) -> Stats:
        return self.inner.stats()

    def outline(self, depth: int) -> Outline:
        return self.inner.outline(depth)

    # ---- state

    def copy(self) -> Self:
        twin = self.copy_for_rebuild()
        twin.inner = self.inner.copy()
        return twin

    def check(self) -> None:
        self.inner.check()
