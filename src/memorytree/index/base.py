"""The interface of every index, and the objects that its methods exchange.

An index stores keys by id, finds and ranks the memories that fit a key, and learns from rewards. Keys are passed as batches:
a float32 matrix (n, d), or `(bounds, features, weights)` for sparse keys, where row i has the entries bounds[i] to
bounds[i + 1]. Ids are int64, `NO_ID` stands for none.

An index may wrap another one: `ForestIndex` merges several trees, `ProjectedIndex` indexes learned projections of the keys,
`RerankedIndex` ranks the candidates of another index by a `Reranker`, `ExperiencedIndex` changes scores by past rewards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Self

import numpy as np

from memorytree.errors import UnknownReward
from memorytree.index.exchange import (
    FIRST_GROUP,
    NO_DECISIONS,
    NO_IDS,
    NONE_EXCLUDED,
    Array,
    Evictions,
    IdLists,
    Ids,
    InsertResult,
    KeyBatch,
    Matrix,
    PathReport,
    QueryRequest,
    QueryResult,
    RewardBatch,
    Rewards,
    ScoredHit,
    Scores,
    SparseBatch,
    blank_decisions,
    n_rows,
    no_exclusions,
    plan_evictions,
    rows_of,
)  # fmt: skip
from memorytree.results import NO_ID, Outline, PastReward, RewardResult, Stats

__all__ = [
    "FIRST_GROUP",
    "NONE_EXCLUDED",
    "NO_DECISIONS",
    "NO_IDS",
    "Array",
    "Evictions",
    "IdLists",
    "Ids",
    "Index",
    "InsertResult",
    "KeyBatch",
    "Matrix",
    "PathReport",
    "QueryRequest",
    "QueryResult",
    "RewardBatch",
    "Rewards",
    "ScoredHit",
    "Scores",
    "SparseBatch",
    "blank_decisions",
    "n_rows",
    "no_exclusions",
    "plan_evictions",
    "query_allowed",
    "rows_of",
    "under",
    "with_prefix",
]


class Index(ABC):
    """What every index can do. Methods that have a body here have a default that suits most indexes."""

    groups_rewards: bool = False
    """Whether `refit` uses labels that are made of memories rewarded together."""
    sparse: bool

    @property
    def min_beam(self) -> int:
        """The smallest beam of a query."""
        return 1

    @property
    def projection_fit(self) -> int:
        """Changes when `project` is computed anew from the stored keys, not when rewards refine it; 0 before."""
        return 0

    @property
    def is_refined(self) -> bool:
        """Whether rewards have refined `project`."""
        return False

    @abstractmethod
    def __len__(self) -> int: ...

    # ---- writing

    @abstractmethod
    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        """Store the rows from `start` to `stop`; ids that are `NO_ID` are filled with the next free ones."""

    @abstractmethod
    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        """Store all rows in this empty index at once."""

    @abstractmethod
    def remove(self, id: int) -> bool:
        """Remove a memory that is stored; whether a rebuild is due, as in `InsertResult`."""

    @abstractmethod
    def set_labels(self, ids: Ids, labels: Ids) -> None:
        """Give memories labels, as numbers; routers may keep equal ones together."""

    def check_features(self, features: Matrix) -> None:
        """Raise `InvalidOption` for features of values that cannot be used, before anything is written."""

    def set_features(self, ids: Ids, features: Matrix) -> None:
        """Give memories features of their values; ignored by default."""

    def features(self, id: int) -> Matrix | None:
        """The features of a memory's value, if this index stores them."""
        return None

    @abstractmethod
    def reward(self, batch: RewardBatch) -> RewardResult:
        """Learn from rewards."""

    @abstractmethod
    def mark_used(self, batch: RewardBatch) -> None:
        """Note which memories had a reward above 0, without learning anything else."""

    def past_rewards(self) -> list[PastReward]:
        """The rewards that are remembered, in order."""
        return []

    def known_rewards(self, receipt: bytes) -> dict[int, float]:
        """The rewards of a query that count, by memory."""
        return {}

    def withdraw(self, number: int) -> None:
        """Take back a reward that counts."""
        raise UnknownReward("this memory remembers no rewards")

    def withdraw_of(self, receipt: bytes, memory: int) -> None:
        """Take back the reward of a memory for one query, if it counts."""

    def reset_learning(self) -> None:
        """Forget what rewards taught, where this index can."""

    @abstractmethod
    def rebuild(self) -> None:
        """Do the rebuild that `insert` or `remove` reported as due."""

    @abstractmethod
    def refit(self, passes: int) -> None:
        """Let the routers learn from all memories, and place every memory by them."""

    @abstractmethod
    def sweep(self) -> int:
        """Place every memory by the present routers, without learning; the number of memories moved."""

    @abstractmethod
    def reroute(self, times: int) -> None:
        """Remove a random memory and insert it again, `times` times (Algorithm 7)."""

    # ---- reading

    @abstractmethod
    def stored_ids(self) -> Ids:
        """The ids of all memories, in order of their rows; valid until the next write."""

    @abstractmethod
    def query(self, request: QueryRequest) -> QueryResult:
        """Answer the rows of a request."""

    @abstractmethod
    def score(self, keys: KeyBatch, ids: Ids) -> Scores:
        """The scores (n, m) of the memories ids[i] for row i; -inf for ids that are not stored."""

    @abstractmethod
    def key(self, id: int) -> KeyBatch:
        """The key of a memory, as a batch of one."""

    @abstractmethod
    def label(self, id: int) -> int:
        """The number of a memory's label, `NO_ID` if it has none."""

    def project(self, keys: KeyBatch) -> KeyBatch:
        """The keys in the space in which they are compared."""
        return keys

    def weights(self, features: Array) -> Array:
        """The learned weights of features of sparse keys."""
        return np.ones(len(features), np.float32)

    @property
    def top_score(self) -> float | None:
        """The score of a memory whose key is the query; None where scores are no comparison of keys."""
        return None

    @property
    def geometry(self) -> Index:
        """The index that compares keys: this one, or one that it wraps."""
        return self

    @property
    def learns_to_compare(self) -> bool:
        """Whether keys are compared by something that changes; otherwise by the scorer alone."""
        return False

    def key_gaps(self, key: KeyBatch, others: KeyBatch) -> Scores:
        """How far other keys are from a key, as keys are compared now: (n,), 0 for equal ones."""
        raise NotImplementedError

    def keys_of(self, ids: Ids) -> KeyBatch:
        """The keys of stored memories, as a batch."""
        raise NotImplementedError

    @abstractmethod
    def plan_evictions(self, ids: Ids) -> Evictions:
        """What `insert` with these ids would remove, without inserting anything."""

    @abstractmethod
    def path(self, request: QueryRequest) -> PathReport:
        """Where the first query of a request searches first."""

    @abstractmethod
    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        """What contributes to the scores of the hits of the first query."""

    def explain(self, request: QueryRequest) -> tuple[PathReport, list[ScoredHit]]:
        """How the first query of a request is answered, and what contributes to the scores of its hits."""
        return self.path(request), self.contributions(request, self.query(request))

    @abstractmethod
    def leaf_sizes(self) -> tuple[int, int]:
        """How many memories a unit of beam is expected to find, and how many it may find: (leaf limit, largest leaf)."""

    @abstractmethod
    def stats(self) -> Stats:
        """Size, shape and memory use."""

    @abstractmethod
    def outline(self, depth: int) -> Outline:
        """The upper levels, for pictures."""

    # ---- state

    @abstractmethod
    def copy(self) -> Self:
        """An independent copy."""

    def copy_for_rebuild(self) -> Self:
        """A copy whose `rebuild`, `refit`, `sweep` and `reroute` do not change this index; it may share other parts."""
        return self.copy()

    @abstractmethod
    def state_dict(self) -> dict[str, Array]:
        """The complete state as arrays, without spare capacity."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        """Replace the state of this index, made with the same options; takes ownership of the arrays.

        Raises:
            ValueError: the state contradicts itself. Unless `trusted`, `check` is called as well.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise ValueError, with the reason, if the state contradicts itself."""


def query_allowed(index: Index, request: QueryRequest) -> QueryResult:
    """Answer a request by scoring every allowed memory; equal scores are ordered by id."""
    assert request.allowed is not None
    n = request.stop - request.start
    ids, scores = np.full((n, request.k), NO_ID, np.int64), np.full((n, request.k), -np.inf, np.float32)
    for i in range(n):
        row = request.start + i
        excluded = request.excluded.rows(row, row + 1)
        out = excluded.ids[excluded.bounds[0] : excluded.bounds[1]]
        wanted = request.allowed[~np.isin(request.allowed, out)] if len(out) else request.allowed
        found = index.score(rows_of(request.keys, row, row + 1), wanted[None])[0]
        best = np.lexsort((wanted, -found))[: request.k]
        best = best[found[best] > -np.inf]
        ids[i, : len(best)], scores[i, : len(best)] = wanted[best], found[best]
    return QueryResult(ids, scores, blank_decisions(n) if request.explore > 0 else NO_DECISIONS)


def under(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays whose names begin with a prefix and a dot, by the rest of their names."""
    start = f"{prefix}."
    return {name[len(start) :]: array for name, array in state.items() if name.startswith(start)}


def with_prefix(prefix: str, state: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays under prefixed names."""
    return {f"{prefix}.{name}": array for name, array in state.items()}
