"""The objects that indexes exchange: batches of keys, requests, results, rewards, evictions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memorytree.engine.arrays import LINKED
from memorytree.engine.search import BRANCH, DECISION_WIDTH, EXPLOIT
from memorytree.results import NO_ID, PathStep

Array = NDArray[Any]
Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
Rewards = NDArray[np.float64]
Matrix = NDArray[np.float32]
SparseBatch = tuple[Ids, NDArray[np.int32], Matrix]
KeyBatch = Matrix | SparseBatch


class IdLists(NamedTuple):
    """A list of ids for each row of a batch: ids[bounds[i] : bounds[i + 1]] belong to row i."""

    bounds: Ids
    ids: Ids

    def rows(self, start: int, stop: int) -> IdLists:
        """The lists of some rows."""
        return IdLists(self.bounds[start : stop + 1], self.ids)


def no_exclusions(n: int) -> IdLists:
    """Empty lists for n rows."""
    return IdLists(np.zeros(n + 1, np.int64), NO_IDS)


def rows_of(keys: KeyBatch, start: int, stop: int) -> KeyBatch:
    """Some rows of a batch of keys."""
    if isinstance(keys, tuple):
        return keys[0][start : stop + 1], keys[1], keys[2]
    return keys[start:stop]


def n_rows(keys: KeyBatch) -> int:
    """The number of keys in a batch."""
    return len(keys[0]) - 1 if isinstance(keys, tuple) else len(keys)


NO_IDS = np.empty(0, np.int64)
FIRST_GROUP = LINKED
"""Labels from here on are not given by users: they number groups of memories that were rewarded together."""
NONE_EXCLUDED = no_exclusions(1)


@dataclass(slots=True)
class QueryRequest:
    """A batch of queries.

    Attributes:
        keys: the batch.
        k: hits per row.
        start, stop: the rows to answer, so that threads can share a batch.
        beam: the breadth of the search; None: the default effort of the index.
        explore: the probability of exploration.
        draw: row i explores with the random stream of draw + i.
        excluded: ids to leave out of each row of `keys`.
        recall: the part of the k best that the default effort aims at; None: that of the index. Ignored if `beam` is given.
        allowed: the only ids that may be returned, sorted and unique; None: all.
    """

    keys: KeyBatch
    k: int
    start: int = 0
    stop: int = 1
    beam: int | None = None
    explore: float = 0.0
    draw: int = 0
    excluded: IdLists = field(default=NONE_EXCLUDED)
    recall: float | None = None
    allowed: Ids | None = None

    @property
    def breadth(self) -> int:
        """The beam, 1 if none was given."""
        return 1 if self.beam is None else self.beam


class QueryResult(NamedTuple):
    """Answers to the rows of a request, row 0 being `request.start`.

    Attributes:
        ids: (n, k), best first, padded with `NO_ID`.
        scores: (n, k), padded with -inf.
        decisions: (n, 4) if the request explored, otherwise no rows.
    """

    ids: Ids
    scores: Scores
    decisions: Ids


NO_DECISIONS = np.empty((0, DECISION_WIDTH), np.int64)


def blank_decisions(n: int) -> Ids:
    """Decisions of n queries that did not explore."""
    decisions = np.full((n, DECISION_WIDTH), NO_ID, np.int64)
    decisions[:, BRANCH] = EXPLOIT
    return decisions


class RewardBatch(NamedTuple):
    """Rewards for the hits of a batch of queries.

    Attributes:
        keys: the keys of the queries.
        ids: (n, k) the hits, `NO_ID` where there is none.
        rewards: (n, k) in [0, 1], NaN where none was observed.
        decisions: (n, 4).
        receipts: n digests that tell queries apart; empty: queries with the same key and hits are the same.
        unobserved: the reward that slow learning assumes for hits without one; NaN: it leaves them out.
        returned: whether the ids are the hits of a query, best first; otherwise the caller chose them.
        numbers: (n, k) the numbers of the rewards, where the caller numbers them.
    """

    keys: KeyBatch
    ids: Ids
    rewards: Rewards
    decisions: Ids
    receipts: Sequence[bytes] = ()
    unobserved: float = math.nan
    returned: bool = True
    numbers: Ids | None = None

    def without_decisions(self) -> RewardBatch:
        """The same without explored nodes."""
        return self._replace(decisions=blank_decisions(len(self.ids)))

    def rows(self, start: int, stop: int) -> RewardBatch:
        """Some rows."""
        return self._replace(
            keys=rows_of(self.keys, start, stop),
            ids=self.ids[start:stop],
            rewards=self.rewards[start:stop],
            decisions=self.decisions[start:stop],
            receipts=self.receipts[start:stop],
            numbers=None if self.numbers is None else self.numbers[start:stop],
        )

    def with_unobserved(self) -> Rewards:
        """The rewards, with `unobserved` for hits without one."""
        return np.where(np.isnan(self.rewards) & (self.ids != NO_ID), self.unobserved, self.rewards)


class InsertResult(NamedTuple):
    """What an insertion did.

    Attributes:
        done: the row behind the last one that is stored.
        evicted: (row, id) for each memory that was removed to make room, in order, before that row was stored.
        rebuild_due: a rebuild would delay readers: rebuild a copy, use it instead, and continue there from row `done`.
    """

    done: int
    evicted: list[tuple[int, int]]
    rebuild_due: bool


class ScoredHit(NamedTuple):
    """A hit with what contributes to its score.

    Attributes:
        id, score: the hit.
        contributions: by feature number; empty where the scorer has no such parts.
        components: by name, for scores that are sums of a few components.
    """

    id: int
    score: float
    contributions: Mapping[int, float]
    components: Mapping[str, float] = MappingProxyType({})


class PathReport(NamedTuple):
    """Where a query searches first.

    Attributes:
        steps: the path to the first leaf.
        leaf: the node number of that leaf.
        n_scored: how many memories of the leaf, or entries of lists, are compared with the key.
        searched_neighbours: whether the search goes on along links between neighbours.
    """

    steps: tuple[PathStep, ...]
    leaf: int
    n_scored: int
    searched_neighbours: bool = False


class Evictions(NamedTuple):
    """What an insertion of some ids would remove.

    Attributes:
        stored: ids of memories that are stored now: replaced, or removed for lack of capacity.
        unstored: positions in the batch of those that would be removed by later ones of the same batch.
    """

    stored: list[int]
    unstored: list[int]


def plan_evictions(
    ids: Ids, capacity: int | None, count: int, holds: Callable[[int], bool], by_use: Iterator[int]
) -> Evictions:
    """What an insertion of these ids removes from an index with `count` memories.

    Args:
        ids: (n,) the ids, inserted in order.
        capacity: how many memories there may be; None or 0 for any number.
        count: how many there are.
        holds: whether an id is stored.
        by_use: the stored ids, the least recently used first.
    """
    stored, unstored = [], []
    staying: dict[int, int] = {}
    gone: set[int] = set()
    for position, id in enumerate(ids.tolist()):
        if id in staying:
            unstored.append(staying.pop(id))
        elif id not in gone and holds(id):
            gone.add(id)
            stored.append(id)
        elif not capacity or count < capacity:
            count += 1
        elif (oldest := next((id for id in by_use if id not in gone), None)) is not None:
            gone.add(oldest)
            stored.append(oldest)
        else:
            unstored.append(staying.pop(next(iter(staying))))
        staying[id] = position
    return Evictions(stored, unstored)
