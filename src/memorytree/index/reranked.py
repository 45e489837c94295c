"""RerankedIndex: another index finds candidates, a reranker ranks them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from memorytree.engine.search import AT_LEAF, BRANCH
from memorytree.index.base import (
    Array,
    Ids,
    Index,
    InsertResult,
    KeyBatch,
    Matrix,
    QueryRequest,
    QueryResult,
    RewardBatch,
    Rewards,
    ScoredHit,
    Scores,
    rows_of,
    under,
    with_prefix,
)  # fmt: skip
from memorytree.index.wrapped import WrappedIndex
from memorytree.results import NO_ID, RewardResult, Stats

ROWS_PER_CALL = 1024
"""Queries of a batch whose candidates are in memory at the same time."""


class Reranker(ABC):
    """Ranks the candidates of an index. `inner` is that index in all methods."""

    @abstractmethod
    def candidates(self, inner: Index, k: int, beam: int) -> tuple[int, int]:
        """How many candidates to ask for, and with which beam, for k hits."""

    def ready(self) -> bool:
        """Whether there is something to rank by; until then the inner index answers alone."""
        return True

    @abstractmethod
    def rerank(self, inner: Index, keys: KeyBatch, found: QueryResult, k: int) -> tuple[Ids, Scores]:
        """The k best candidates of each row, best first, and their scores."""

    @abstractmethod
    def score(self, inner: Index, keys: KeyBatch, ids: Ids) -> Scores:
        """The scores of memories, as if they were the candidates; -inf for ids that are not stored."""

    @abstractmethod
    def learn(self, inner: Index, batch: RewardBatch) -> int:
        """Learn from rewards; from how many queries."""

    def rewards_for_inner(self, rewards: Rewards) -> list[Rewards]:
        """The rewards that are passed on to the inner index, one after another."""
        return [rewards]

    def contributions(
        self, inner: Index, request: QueryRequest, found: QueryResult, candidates: QueryResult
    ) -> list[ScoredHit] | None:
        """What contributes to the scores of `found`, chosen from `candidates`; None where only the inner index can tell."""
        return None

    def add(self, inner: Index, keys: KeyBatch, ids: Ids) -> None:
        """These memories have been stored in the inner index."""

    def discard(self, id: int) -> None:
        """A memory has been removed."""

    def check_features(self, features: Matrix) -> None:
        """Raise `InvalidOption` for features that cannot be used."""

    def set_features(self, inner: Index, ids: Ids, features: Matrix) -> None:
        """These memories have been given features."""

    def features(self, id: int) -> Matrix | None:
        """The features of a memory."""
        return None

    def nbytes(self) -> tuple[int, int]:
        """Bytes in use, and bytes allocated."""
        return 0, 0

    @abstractmethod
    def copy(self) -> Self:
        """An independent copy."""

    @abstractmethod
    def state_dict(self) -> dict[str, Array]:
        """The complete state."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Replace the state; ValueError if it contradicts itself."""

    def check(self, inner: Index) -> None:
        """Raise ValueError if the state contradicts itself, or the inner index."""


class RerankedIndex(WrappedIndex):
    """An index whose candidates are ranked by a reranker."""

    def __init__(self, inner: Index, reranker: Reranker):
        super().__init__(inner)
        self.reranker = reranker

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        result = self.inner.insert(keys, ids, start, stop)
        for _, id in result.evicted:
            self.reranker.discard(id)
        self.reranker.add(self.inner, rows_of(keys, start, result.done), ids[start : result.done])
        return result

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        self.inner.build(keys, ids, labels)
        self.reranker.add(self.inner, keys, ids)

    def remove(self, id: int) -> bool:
        self.reranker.discard(id)
        return self.inner.remove(id)

    def check_features(self, features: Matrix) -> None:
        self.reranker.check_features(features)

    def set_features(self, ids: Ids, features: Matrix) -> None:
        self.reranker.set_features(self.inner, ids, features)

    def features(self, id: int) -> Matrix | None:
        return self.reranker.features(id)

    def reward(self, batch: RewardBatch) -> RewardResult:
        learned, skipped = self.reranker.learn(self.inner, batch), 0
        for rewards in self.reranker.rewards_for_inner(batch.rewards):
            result = self.inner.reward(batch._replace(rewards=rewards, unobserved=math.nan))
            learned, skipped = learned + result.learned, skipped + result.skipped
        return RewardResult(learned, skipped)

    # ---- reading

    def query(self, request: QueryRequest) -> QueryResult:
        if not self.reranker.ready():
            return self.inner.query(self._candidate_request(request, request.start, request.stop, request.k))
        parts = []
        for start in range(request.start, max(request.stop, request.start + 1), ROWS_PER_CALL):
            stop = min(start + ROWS_PER_CALL, request.stop)
            found = self._candidates(request, start, stop)
            keys = rows_of(request.keys, start, stop)
            parts.append(QueryResult(*self.reranker.rerank(self.inner, keys, found, request.k), found.decisions))
        if len(parts) == 1:
            return parts[0]
        return QueryResult(*(np.concatenate([part[column] for part in parts]) for column in range(3)))

    def _candidate_request(self, request: QueryRequest, start: int, stop: int, k: int) -> QueryRequest:
        _, beam = self.reranker.candidates(self.inner, request.k, request.breadth)
        return replace(request, k=k, start=start, stop=stop, beam=beam)

    def _candidates(self, request: QueryRequest, start: int, stop: int) -> QueryResult:
        """The candidates for some rows of a request."""
        wanted, _ = self.reranker.candidates(self.inner, request.k, request.breadth)
        found = self.inner.query(self._candidate_request(request, start, stop, wanted))
        if len(found.decisions):
            found.ids[found.decisions[:, BRANCH] == AT_LEAF, request.k :] = NO_ID  # keep a random choice random
        return found

    def score(self, keys: KeyBatch, ids: Ids) -> Scores:
        return self.reranker.score(self.inner, keys, ids)

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        if self.reranker.ready():
            candidates = self._candidates(request, 0, 1)
            hits = self.reranker.contributions(self.inner, request, found, candidates)
            if hits is not None:
                return hits
        return self.inner.contributions(request, found)

    def stats(self) -> Stats:
        stats = self.inner.stats()
        used, allocated = self.reranker.nbytes()
        return stats.with_bytes(stats.key_bytes, stats.bytes + used, stats.bytes + stats.spare_bytes + allocated)

    # ---- state

    def copy(self) -> Self:
        twin = copy(self)
        twin.inner, twin.reranker = self.inner.copy(), self.reranker.copy()
        return twin

    def copy_for_rebuild(self) -> Self:
        twin = copy(self)
        twin.inner = self.inner.copy_for_rebuild()
        return twin

    def state_dict(self) -> dict[str, Array]:
        own = with_prefix("reranker", self.reranker.state_dict())
        return {name: array.copy() for name, array in own.items()} | with_prefix("inner", self.inner.state_dict())

    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        self.inner.load_state_dict(under("inner", state), trusted=trusted)
        self.reranker.load_state_dict(under("reranker", state))
        if not trusted:
            self.reranker.check(self.inner)

    def check(self) -> None:
        self.inner.check()
        self.reranker.check(self.inner)
