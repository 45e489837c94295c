"""ForestIndex: several trees over the same memories, whose answers are merged."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from memorytree.engine.arrays import Settings
from memorytree.engine.merge import merge_rows
from memorytree.index.base import (
    Array,
    Evictions,
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
    under,
    with_prefix,
)  # fmt: skip
from memorytree.index.graph import make_tree
from memorytree.index.single import EngineRouting, EngineScorer, TreeIndex, insert_all, remove_now
from memorytree.results import Outline, RewardResult, Stats

SEED_STEP = 0x9E3779B97F4A7C15


class ForestIndex(Index):
    """Trees that split the same memories differently, because of different seeds; each stores its own copy of the keys."""

    def __init__(
        self, sparse: bool, dimension: int, settings: Settings, routing: EngineRouting, scorer: EngineScorer, trees: int
    ):
        self.trees = []
        for number in range(trees):
            seed = (settings.seed + number * SEED_STEP) % 2**62
            own = Settings(settings.leaf_factor, settings.reroutes, settings.capacity, seed)
            self.trees.append(make_tree(sparse, dimension, own, routing, scorer))
        self.sparse = sparse
        self.groups_rewards = self.trees[0].groups_rewards

    @property
    def first(self) -> TreeIndex:
        """The tree that explores, and whose shape is shown."""
        return self.trees[0]

    def __len__(self) -> int:
        return len(self.first)

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        """Insert rows into every tree. The order of use is the same in all of them, so all evict the same memories."""
        evicted = [insert_all(tree, keys, ids, start, stop) for tree in self.trees]
        return InsertResult(stop, evicted[0], False)

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        for tree in self.trees:
            tree.build(keys, ids, labels)

    def remove(self, id: int) -> bool:
        for tree in self.trees:
            remove_now(tree, id)
        return False

    def replace_keys(self, keys: KeyBatch, ids: Ids) -> None:
        """Give memories that are stored new keys."""
        for tree in self.trees:
            tree.replace_keys(keys, ids)

    def set_labels(self, ids: Ids, labels: Ids) -> None:
        for tree in self.trees:
            tree.set_labels(ids, labels)

    def reward(self, batch: RewardBatch) -> RewardResult:
        """Learn from rewards. Only routers of the first tree explored; the others only record which memories were used."""
        result = self.first.reward(batch)
        others = batch.without_decisions()
        for tree in self.trees[1:]:
            tree.reward(others)
        return result

    def mark_used(self, batch: RewardBatch) -> None:
        for tree in self.trees:
            tree.mark_used(batch)

    def rebuild(self) -> None:
        """Nothing is ever due: rebuilds are done at once."""

    def refit(self, passes: int) -> None:
        for tree in self.trees:
            tree.refit(passes)

    def sweep(self) -> int:
        return sum(tree.sweep() for tree in self.trees)

    def reroute(self, times: int) -> None:
        for tree in self.trees:
            tree.reroute(times)

    # ---- reading

    def stored_ids(self) -> Ids:
        return self.first.stored_ids()

    def query(self, request: QueryRequest) -> QueryResult:
        answers = [self.first.query(request)]
        request = replace(request, explore=0.0)
        answers += [tree.query(request) for tree in self.trees[1:]]
        ids, scores = np.empty_like(answers[0].ids), np.empty_like(answers[0].scores)
        merge_rows(
            np.stack([answer.ids for answer in answers]), np.stack([answer.scores for answer in answers]), ids, scores
        )
        return QueryResult(ids, scores, answers[0].decisions)

    def score(self, keys: KeyBatch, ids: Ids) -> Scores:
        return self.first.score(keys, ids)

    def key(self, id: int) -> KeyBatch:
        return self.first.key(id)

    @property
    def top_score(self) -> float | None:
        return self.first.top_score

    def label(self, id: int) -> int:
        return self.first.label(id)

    def plan_evictions(self, ids: Ids) -> Evictions:
        return self.first.plan_evictions(ids)

    def path(self, request: QueryRequest) -> PathReport:
        return self.first.path(request)

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        return self.first.contributions(request, found)

    def leaf_sizes(self) -> tuple[int, int]:
        return self.first.leaf_sizes()

    def stats(self) -> Stats:
        stats = [tree.stats() for tree in self.trees]
        used, spare = sum(each.bytes for each in stats), sum(each.spare_bytes for each in stats)
        return stats[0].with_bytes(stats[0].key_bytes, used, used + spare)

    def outline(self, depth: int) -> Outline:
        return self.first.outline(depth)

    # ---- state

    def copy(self) -> Self:
        twin = copy(self)
        twin.trees = [tree.copy() for tree in self.trees]
        return twin

    def state_dict(self) -> dict[str, Array]:
        state: dict[str, Array] = {}
        for number, tree in enumerate(self.trees):
            state |= with_prefix(f"trees.{number}", tree.state_dict())
        return state

    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        for number, tree in enumerate(self.trees):
            tree.load_state_dict(under(f"trees.{number}", state), trusted=trusted)
        if not trusted:
            self.check()

    def check(self) -> None:
        ids = set(self.first.stored_ids().tolist())
        for tree in self.trees:
            tree.check()
            if set(tree.stored_ids().tolist()) != ids:
                raise ValueError("contradictory state: trees hold different memories")
