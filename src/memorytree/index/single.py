"""TreeIndex: one tree, driven through the kernels of the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np

from memorytree.engine import arrays as engine_arrays
from memorytree.engine import building, entry_points
from memorytree.engine.arrays import (
    COUNT,
    DIMENSION,
    LABEL,
    LEFT,
    MEMORIES,
    NEWER,
    NODES,
    NONE,
    OLDEST,
    POOL_LIVE,
    RIGHT,
    ROOMS,
    ROOT,
    SLOT,
    SLOTS,
    USED,
    Settings,
)  # fmt: skip
from memorytree.engine.routers.paper import Paper
from memorytree.engine.routers.principal import Principal
from memorytree.engine.scorers.cosine import Cosine
from memorytree.engine.scorers.distance import Distance
from memorytree.engine.scorers.tfidf import Tfidf
from memorytree.index import contributions, validation
from memorytree.index.base import (
    NO_DECISIONS,
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
    SparseBatch,
    blank_decisions,
    plan_evictions,
    query_allowed,
    under,
    with_prefix,
)  # fmt: skip
from memorytree.index.shape import shape_of
from memorytree.learning.linear import LinearWeights
from memorytree.results import OutlineNode, PathStep, RewardResult, Stats

EngineRouting = Paper | Principal
FixedEngineScorer = Distance | Cosine | Tfidf
EngineScorer = FixedEngineScorer | LinearWeights

ALL_ROWS = slice(None)
LONG_REBUILD = 16384
"""Rebuilding more memories than this, and than a sixteenth of the tree, is left to the caller."""


class TreeIndex(Index):
    """A tree over dense or sparse keys.

    Args:
        sparse: whether keys are sparse.
        dimension: features of a dense key.
        settings: numbers that never change.
        routing: the engine's options of the routing.
        scorer: the engine's options of the scorer, or weights that learn.
    """

    def __init__(self, sparse: bool, dimension: int, settings: Settings, routing: EngineRouting, scorer: EngineScorer):
        self.sparse, self.settings, self.routing = sparse, settings, routing
        self.linear = scorer if isinstance(scorer, LinearWeights) else None
        self.scorer = scorer
        self.groups_rewards = bool(routing.rebuilds)
        self._due = NONE  # the node whose rebuild was left to the caller
        self._reroutes_left = 0  # of the last row that was inserted
        self.load_arrays(engine_arrays.empty(sparse, dimension, settings, routing))

    def load_arrays(self, arrays: dict[str, Array]) -> None:
        """Use these arrays as the tree; takes ownership."""
        self.counters = arrays["counters"]
        scorer = self.scorer if self.linear is None else self.linear.product
        self.tree = engine_arrays.make(self.sparse, self.settings, self.routing, scorer, arrays)

    def __len__(self) -> int:
        return int(self.counters[MEMORIES])

    @property
    def dimension(self) -> int:
        """Features of a dense key."""
        return int(self.counters[DIMENSION])

    def arrays(self) -> dict[str, Array]:
        """Views of all arrays, valid until the next write."""
        return engine_arrays.arrays_of(self.tree)

    def arrays_in_use(self) -> dict[str, Array]:
        """Views of the arrays without spare capacity."""
        used = {name: int(self.counters[counter]) for name, counter in USED.items()}
        return {name: array[: used.get(name)] for name, array in self.arrays().items()}

    def stored_ids(self) -> Ids:
        return self.arrays()["row_ids"][: len(self)]

    def slots(self, rows: slice | Ids = ALL_ROWS) -> Array:
        """Where the keys of rows are stored."""
        return self.arrays()["rows"][: len(self), SLOT][rows]

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        steps = 1 + self.settings.reroutes
        progress = np.array([start * steps - self._reroutes_left])
        evicted: list[tuple[int, int]] = []
        while True:
            action, which = entry_points.insert_rows(self.tree, keys, ids, progress, stop)
            if action == entry_points.DONE:
                break
            if action == entry_points.REBUILD:
                if self._leave_to_caller(which):
                    break
            elif action == entry_points.COMPACT:
                entry_points.compact(self.tree)
            elif action == entry_points.TUNE:
                self._tune()
            else:
                evicted.append((progress.item() // steps, which))
                if self.remove(which):
                    break
        done = -(-progress.item() // steps)
        self._reroutes_left = done * steps - progress.item()
        if self._due == NONE:
            self._compact()
        return InsertResult(done, evicted, self._due != NONE)

    def _leave_to_caller(self, node: int) -> bool:
        """Rebuild a subtree now, or note it for `rebuild` if that takes long."""
        if len(self) >= LONG_REBUILD and int(self.arrays()["nodes"][node, COUNT]) > max(LONG_REBUILD, len(self) // 16):
            self._due = node
            return True
        building.rebuild_subtree(self.tree, node, False)
        return False

    def _tune(self) -> None:
        """Do what an insertion reports as due; trees without a graph have nothing to tune."""

    def _compact(self) -> None:
        """Move leaves together once a fifth of all slots lies between them, so that the changes before it pay for it."""
        if 4 * self.counters.item(SLOTS) > 5 * self.counters.item(ROOMS) + 4096:
            entry_points.compact(self.tree)

    def rebuild(self) -> None:
        if self._due != NONE:
            building.rebuild_subtree(self.tree, self._due, False)
            self._due = NONE

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        entry_points.fill(self.tree, keys, ids)
        if labels is not None:
            self.set_labels(ids, labels)
        building.rebuild_subtree(self.tree, self.counters[ROOT], True)

    def remove(self, id: int) -> bool:
        _, node = entry_points.remove(self.tree, id)
        self._compact()
        return node != NONE and self._leave_to_caller(int(node))

    def replace_keys(self, keys: KeyBatch, ids: Ids) -> None:
        """Give memories that are stored new keys, and place them by these."""
        progress = np.zeros(1, np.int64)
        while (node := entry_points.replace_keys(self.tree, keys, ids, progress)) != NONE:
            building.rebuild_subtree(self.tree, node, False)
        self._compact()

    def set_labels(self, ids: Ids, labels: Ids) -> None:
        entry_points.set_labels(self.tree, ids, labels)

    def reward(self, batch: RewardBatch) -> RewardResult:
        learned = 0
        if self.linear is not None:
            learned = self.linear.learn(self.tree, batch.keys, batch.ids, batch.rewards)
        routers = self._reward_routers(batch)
        return RewardResult(learned + routers.learned, routers.skipped)

    def mark_used(self, batch: RewardBatch) -> None:
        self._reward_routers(batch.without_decisions())

    def _reward_routers(self, batch: RewardBatch) -> RewardResult:
        """Let routers learn where they explored, and mark memories as used."""
        counts, progress = np.zeros(2, np.int64), np.zeros(1, np.int64)
        rows = batch.keys, batch.decisions, batch.ids, batch.rewards
        while (node := entry_points.reward_rows(self.tree, *rows, progress, counts)) != NONE:
            building.rebuild_subtree(self.tree, node, False)
        self._compact()
        return RewardResult(*counts.tolist())

    def refit(self, passes: int) -> None:
        if not len(self):
            return
        if self.routing.rebuilds:
            building.rebuild_subtree(self.tree, self.counters[ROOT], True)
        else:
            self.reroute(passes * len(self))
            self.sweep()

    def sweep(self) -> int:
        moved = entry_points.sweep(self.tree)
        node = 0
        while (node := entry_points.next_too_full(self.tree, node)) != NONE:
            building.rebuild_subtree(self.tree, node, True)
            node += 1
        self._compact()
        return int(moved)

    def reroute(self, times: int) -> None:
        progress = np.zeros(1, np.int64)
        while (node := entry_points.reroute(self.tree, progress, times)) != NONE:
            building.rebuild_subtree(self.tree, node, False)
        self._compact()

    # ---- reading

    def query(self, request: QueryRequest) -> QueryResult:
        if request.allowed is not None:
            return query_allowed(self, request)
        n, k = request.stop - request.start, request.k
        ids, scores = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
        rows, excluded, answer = (request.start, request.stop), tuple(request.excluded), (ids, scores)
        decisions = NO_DECISIONS
        if request.explore > 0:
            decisions = blank_decisions(n)
            exploration = request.breadth, float(request.explore), request.draw
            entry_points.explore_rows(self.tree, request.keys, rows, excluded, answer, decisions, exploration)
        elif request.breadth > 1:
            entry_points.beam_rows(self.tree, request.keys, rows, excluded, answer, request.breadth)
        else:
            entry_points.query_rows(self.tree, request.keys, rows, excluded, answer)
        return QueryResult(ids, scores, decisions)

    def score(self, keys: KeyBatch, ids: Ids) -> Scores:
        scores = np.empty(ids.shape, np.float32)
        entry_points.score_rows(self.tree, keys, ids, scores)
        return scores

    def holds(self, id: int) -> bool:
        """Whether a memory with this id is stored."""
        return bool(entry_points.locate(self.tree, id)[1] != NONE)

    def slot(self, id: int) -> int:
        """Where the key of a memory is stored."""
        return int(entry_points.locate(self.tree, id)[1])

    def key(self, id: int) -> KeyBatch:
        slot, arrays = self.slot(id), self.arrays()
        if not self.sparse:
            return arrays["keys"][slot : slot + 1].copy()
        return _span(arrays, slot)

    @property
    def top_score(self) -> float | None:
        return None if self.linear is not None else 0.0 if type(self.scorer).__name__ == "Distance" else 1.0

    def keys_of(self, ids: Ids) -> KeyBatch:
        if self.sparse:
            keys: SparseBatch = entry_points.copy_sparse_keys(self.tree, ids)
            return keys
        rows = np.empty((len(ids), self.dimension), np.float32)
        entry_points.copy_keys(self.tree, ids, rows)
        return rows

    def label(self, id: int) -> int:
        arrays, slot = self.arrays(), self.slot(id)
        return int(arrays["rows"][arrays["slots"][slot], LABEL])

    def plan_evictions(self, ids: Ids) -> Evictions:
        return plan_evictions(ids, self.settings.capacity, len(self), self.holds, self._by_use())

    def _by_use(self) -> Iterator[int]:
        """The ids, the least recently used first, one at a time."""
        arrays = self.arrays()
        row = int(arrays["counters"][OLDEST])
        while row != NONE:
            yield int(arrays["row_ids"][row])
            row = int(arrays["rows"][row, NEWER])

    def path(self, request: QueryRequest) -> PathReport:
        nodes = self.arrays()["nodes"]
        node, steps = int(self.counters[ROOT]), []
        while True:
            margin, child = entry_points.step_margin(self.tree, node, request.keys)
            if child == NONE:
                break
            left, right = nodes[node, LEFT], nodes[node, RIGHT]
            side = "right" if child == right else "left"
            steps.append(PathStep(node, margin, side, int(nodes[left, COUNT]), int(nodes[right, COUNT])))
            node = int(child)
        return PathReport(tuple(steps), node, int(nodes[node, COUNT]))

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        if self.linear is not None:
            return contributions.without_parts(found)
        by_angle = type(self.scorer).__name__ == "Cosine"
        return contributions.of_features(request.keys, found, self.key, by_angle)

    def leaf_sizes(self) -> tuple[int, int]:
        nodes = self.arrays()["nodes"][: self.counters[NODES]]
        return int(entry_points.leaf_limit(self.tree)), int(nodes[nodes[:, LEFT] == NONE, COUNT].max())

    def stats(self) -> Stats:
        arrays = self.arrays()
        stats = shape_of(arrays["nodes"], int(self.counters[ROOT]))
        n = len(self)
        used = sum(array.nbytes for array in self.arrays_in_use().values())
        allocated = sum(array.nbytes for array in arrays.values())
        if self.linear is not None:
            used += sum(array.nbytes for array in self.linear.state_dict().values())
            allocated += self.linear.nbytes
        key_bytes = 8 * int(self.counters[POOL_LIVE]) if self.sparse else 4 * self.dimension * n
        stats = replace(
            stats, memories=n, leaves=stats.leaves if n else 0, leaf_limit=int(entry_points.leaf_limit(self.tree))
        )
        return stats.with_bytes(key_bytes, used, allocated)

    def outline(self, depth: int) -> OutlineNode:
        nodes = self.arrays()["nodes"]

        def outlined(node: int, level: int) -> OutlineNode:
            left, right, count = (int(nodes[node, column]) for column in (LEFT, RIGHT, COUNT))
            if left == NONE:
                return OutlineNode(node, count, True, 1.0)
            heavier = max(int(nodes[left, COUNT]), int(nodes[right, COUNT])) / count
            children = (outlined(left, level + 1), outlined(right, level + 1)) if level < depth else ()
            return OutlineNode(node, count, False, heavier, children)

        return outlined(int(self.counters[ROOT]), 0)

    # ---- state

    def copy(self) -> Self:
        twin = copy(self)
        twin.linear = None if self.linear is None else self.linear.copy()
        twin.load_arrays({name: array.copy() for name, array in self.arrays().items()})
        return twin

    def state_dict(self) -> dict[str, Array]:
        arrays = {name: array.copy() for name, array in self.arrays_in_use().items()}
        validation.blank_unused(arrays)
        if self.linear is not None:
            arrays |= with_prefix("scorer", self.linear.state_dict())
        return arrays

    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        if self.linear is not None:
            self.linear.load_state_dict(under("scorer", state))
        blank = engine_arrays.empty(self.sparse, self.dimension, self.settings, self.routing)
        self.load_arrays(validation.with_capacity(blank, state, self.routing.learns))
        if not trusted:
            self.check()

    def check(self) -> None:
        validation.check_arrays(self.arrays(), self.sparse, self.routing.learns)


def _span(arrays: Mapping[str, Array], slot: int) -> SparseBatch:
    """The sparse key in a slot as a batch of one."""
    first, count = arrays["spans"][slot].tolist()
    span = slice(first, first + count)
    return np.array([0, count]), arrays["key_features"][span].copy(), arrays["key_weights"][span].copy()


def insert_all(index: Index, keys: KeyBatch, ids: Ids, start: int, stop: int) -> list[tuple[int, int]]:
    """Insert rows and do every rebuild at once; the memories evicted, as in `InsertResult`."""
    evicted: list[tuple[int, int]] = []
    while True:
        result = index.insert(keys, ids, start, stop)
        evicted += result.evicted
        if not result.rebuild_due:
            return evicted
        index.rebuild()
        start = result.done


def remove_now(index: Index, id: int) -> None:
    """Remove a memory and do the rebuild that this makes due."""
    if index.remove(id):
        index.rebuild()
