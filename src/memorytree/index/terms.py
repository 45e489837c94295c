"""TermIndex, `routing="terms"`: sparse keys are found through lists of memories by term.

A list holds every memory that has its term. A query leaves the lists unread that cost most and tell least, sums one-byte
impacts over the others, and scores the most promising memories exactly. How much that is for a recall is measured on stored
keys when memories double (`engine/terms/calibration.py`), and `stats` tells it. A query that shares terms with too few
memories is completed by those used last.

Each term has an importance, initially 1. All scorers compare keys as if every weight had been multiplied by the root of its
term's importance, so a key always ranks itself highest. Importances learn from the rewards of the hits of a query by the
softmax of their cosines, under every scorer. Lists store impacts of the original weights, which importances multiply when
they are read; the lengths of keys follow what was learned.

With `expansion` a memory also learns terms beside those of its key: the terms of queries for which it was rewarded. They
decay where it is returned for them without a reward.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import replace
from itertools import chain
from typing import Self

import numpy as np

from memorytree.config import TermLists
from memorytree.engine.arrays import NONE, Settings
from memorytree.engine.scorers.distance import Distance
from memorytree.engine.terms import admission, calibration, learning, query, search
from memorytree.engine.terms import lists as postings
from memorytree.engine.terms.lists import NO_FEATURE
from memorytree.index import contributions, term_validation
from memorytree.index.base import (
    NO_IDS,
    Array,
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
    SparseBatch,
    blank_decisions,
    under,
    with_prefix,
)  # fmt: skip
from memorytree.index.evictions import Evictions
from memorytree.index.key_table import KeyTable
from memorytree.index.single import FixedEngineScorer
from memorytree.index.term_validation import OF_ROWS, USED
from memorytree.index.validation import require
from memorytree.results import OutlineTerms, RewardResult, Stats

Terms = namedtuple("Terms", "reads scored temperature rate expansion")
"""The options as the engine takes them."""
DEFAULT_RECALL = 0.99
"""The recall on stored keys that queries aim at by default; other keys may be found a little less."""


NO_SCRATCH: tuple[Array, ...] = (np.empty(0, np.float32),)


class TermIndex(Index):
    """Term lists over a table of keys, whose features are terms: numbers without gaps."""

    min_beam: int = 0
    sparse = True

    def __init__(self, settings: Settings, options: TermLists, scorer: FixedEngineScorer):
        self.options = options
        self.terms = Terms(
            float(options.reads), int(options.scored),
            float(options.temperature), float(options.rate), float(options.expansion),
        )  # fmt: skip
        self.keys = KeyTable(True, 0, settings, scorer)
        self.lists = postings.make(self.terms, postings.empty())
        self.scratches: list[tuple[Array, ...]] = []  # of queries that have ended, for the next ones

    def __len__(self) -> int:
        return len(self.keys)

    def _list_arrays(self) -> dict[str, Array]:
        return postings.arrays_of(self.lists)

    @property
    def n_terms(self) -> int:
        """The number of terms; the first one stands for keys without any."""
        return int(self._list_arrays()["counters"][postings.TERMS])

    def project(self, keys: KeyBatch) -> SparseBatch:
        """The keys with terms for features, without features that no memory has."""
        assert isinstance(keys, tuple)
        return postings.to_terms(self.lists, keys, 0, len(keys[0]) - 1)

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        evicted = np.empty((stop - start, 2), np.int64)
        progress = np.array([start])
        removed: list[tuple[int, int]] = []
        while progress[0] < stop:
            count, due = admission.insert_rows(self.keys.tree, self.lists, keys, ids, progress, stop, evicted)
            removed += map(tuple, evicted[:count].tolist())
            self._calibrate(due)
        return InsertResult(stop, removed, False)

    def _calibrate(self, due: bool) -> None:
        if due:
            calibration.calibrate(self.keys.tree, self.lists)

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        self.insert(keys, ids, 0, len(ids))

    def remove(self, id: int) -> bool:
        self._calibrate(admission.remove(self.keys.tree, self.lists, id))
        return False

    def set_labels(self, ids: Ids, labels: Ids) -> None:
        """Store labels; lists do not depend on them."""
        self.keys.set_labels(ids, labels)

    def reward(self, batch: RewardBatch) -> RewardResult:
        if not self.options.expansion:
            return RewardResult(self._learn(batch), 0)
        learned = 0
        # Query by query, so that a batch and a loop leave the same state.
        for i in range(len(batch.ids)):
            row = batch.rows(i, i + 1)
            self._learn(row)
            # Of every query from which importances learn.
            learned += admission.expand_rows(self.keys.tree, self.lists, row.keys, row.ids, row.rewards)
        return RewardResult(int(learned), 0)

    def _learn(self, batch: RewardBatch) -> int:
        """Learn importances; from how many queries."""
        progress, learned = np.array([0]), 0
        while progress[0] < len(batch.ids):
            more, due = learning.learn_rows(self.keys.tree, self.lists, batch.keys, batch.ids, batch.rewards, progress)
            learned += int(more)
            self._calibrate(due)
        return learned

    def load_importance(self, features: Array, importance: Matrix, squares: Matrix, lessons: int) -> None:
        """Take over what another index has learned.

        Args:
            features: (m,) int32, features of stored keys; others are ignored.
            importance: (m,) float32, their importances.
            squares: (m,) float32, the sums of Adagrad.
            lessons: the number of queries whose rewards changed importances.
        """
        terms = query.terms_of(self.lists, features)
        known, arrays = terms != NONE, self._list_arrays()
        arrays["importance"][terms[known]], arrays["squares"][terms[known]] = importance[known], squares[known]
        arrays["counters"][postings.LESSONS] = lessons
        self.sweep()

    def rebuild(self) -> None:
        """Nothing is ever due."""

    def refit(self, passes: int) -> None:
        """Apply what was learned to all memories; importances learn from rewards only."""
        self.sweep()

    def sweep(self) -> int:
        """Compute the lengths of all keys by the present importances; no memory is ever in a wrong list."""
        self.reroute(len(self))
        return 0

    def reroute(self, times: int) -> None:
        """Compute the lengths of so many keys by the present importances, in turn."""
        admission.refresh(self.keys.tree, self.lists, times)

    # ---- reading

    def stored_ids(self) -> Ids:
        return self.keys.stored_ids()

    def query(self, request: QueryRequest) -> QueryResult:
        n, k = request.stop - request.start, request.k
        ids, scores = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
        decisions = blank_decisions(n if request.explore > 0 else 0)
        filtered = request.allowed is not None
        filters = *request.excluded, request.allowed if filtered else NO_IDS
        chance = float(request.explore), request.draw
        options = request.start, request.stop, *self._effort(request), filtered, *chance
        scratch = self._take_scratch()
        output = ids, scores, decisions
        if search.query_rows(self.keys.tree, self.lists, request.keys, scratch, filters, output, options):
            self.scratches.append(scratch)
        return QueryResult(ids, scores, decisions)

    def _effort(self, request: QueryRequest) -> tuple[int, float]:
        """The beam, NONE for the default effort, and the recall to aim at."""
        recall = DEFAULT_RECALL if request.recall is None else float(request.recall)
        return NONE if request.beam is None else request.beam, recall

    def _take_scratch(self) -> tuple[Array, ...]:
        """Scratch of a query with room for every memory: see `search.query_rows`."""
        try:
            scratch = self.scratches.pop()
        except IndexError:
            scratch = NO_SCRATCH
        if len(scratch[0]) >= max(len(self), 1):
            return scratch
        size = len(self.keys.arrays()["row_ids"])
        terms = len(self._list_arrays()["names"])
        table = np.full(terms, NONE, np.int32), np.zeros(terms, np.float32)
        return np.zeros(size, np.float32), np.empty(size + 1, np.int32), *table

    def score(self, keys: KeyBatch, ids: Ids) -> Scores:
        scores = np.empty(ids.shape, np.float32)
        search.score_rows(self.keys.tree, self.lists, keys, ids, scores)
        return scores

    def key(self, id: int) -> KeyBatch:
        _, terms, weights = self._stored(id)
        count = int(self._list_arrays()["given"][self._row(id)])
        return np.array([0, count]), terms[:count], weights[:count]

    def _row(self, id: int) -> int:
        arrays = self.keys.arrays()
        return int(arrays["slots"][self.keys.slot(id)])

    def _stored(self, id: int) -> SparseBatch:
        """The key of a memory with the terms that it has learned, as a batch of one."""
        key = self.keys.key(id)
        assert isinstance(key, tuple)
        bounds, terms, weights = key
        return bounds, self._list_arrays()["names"][terms], weights

    def weights(self, features: Array) -> Array:
        """The weights of features: what was learned of them, and how rare they are if the scorer uses that."""
        return query.weights_of(self.keys.tree, self.lists, features)

    def label(self, id: int) -> int:
        return self.keys.label(id)

    def plan_evictions(self, ids: Ids) -> Evictions:
        return self.keys.plan_evictions(ids)

    def path(self, request: QueryRequest) -> PathReport:
        entries = int(query.entries_for(self.keys.tree, self.lists, request.keys, *self._effort(request)))
        return PathReport((), self.keys.path(request).leaf, entries)

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        by_angle = not isinstance(self.keys.scorer, Distance)
        row = contributions.weighted(request.keys, self.weights)
        return contributions.of_features(
            row, found, lambda id: contributions.weighted(self._stored(id), self.weights), by_angle
        )

    def leaf_sizes(self) -> tuple[int, int]:
        """Lists are not limited by leaves."""
        return 2**62, 2**62

    def stats(self) -> Stats:
        keys, arrays = self._with_measurements(self.keys.stats()), self._list_arrays()
        used = sum(array.nbytes for array in self._lists_in_use().values()) + arrays["places"].nbytes
        allocated = sum(array.nbytes for array in (*arrays.values(), *chain.from_iterable(self.scratches)))
        return keys.with_bytes(keys.key_bytes, keys.bytes + used, keys.bytes + keys.spare_bytes + allocated)

    def _with_measurements(self, stats: Stats) -> Stats:
        """The same with what the last calibration says of queries without options."""
        arrays = self._list_arrays()
        memories = int(arrays["counters"][postings.CALIBRATED])
        if not memories:
            return stats
        share, scored = query.expected_effort(self.keys.tree, self.lists, DEFAULT_RECALL)
        at = postings.SKIPS.index(share)
        recall = arrays["recalls"][at, postings.SCORED.index(scored)]
        return replace(
            stats,
            expected_recall=float(recall),
            measured_at=memories,
            entries_read=float(arrays["reads"][at]),
            unread_share=float(share),
        )

    def outline(self, depth: int) -> OutlineTerms:
        arrays = self._list_arrays()
        documents = arrays["lists"][: self.n_terms, postings.LENGTH].copy()
        documents[NO_FEATURE] = 0
        order = np.argsort(-documents, kind="stable")
        order = order[documents[order] > 0]
        return OutlineTerms(arrays["names"][order], documents[order], arrays["importance"][order])

    # ---- state

    def copy(self) -> Self:
        twin = self.copy_for_rebuild()
        twin.keys = self.keys.copy()
        return twin

    def copy_for_rebuild(self) -> Self:
        """A copy with lists of its own; the keys are shared, as what rebuilds do does not change them."""
        twin = type(self).__new__(type(self))
        twin.options, twin.terms, twin.keys, twin.scratches = self.options, self.terms, self.keys, []
        twin.lists = postings.make(self.terms, {name: array.copy() for name, array in self._list_arrays().items()})
        return twin

    def _lists_in_use(self) -> dict[str, Array]:
        arrays = self._list_arrays()
        counters = arrays["counters"]
        used = {name: int(counters[counter]) for name, counter in USED.items()} | dict.fromkeys(OF_ROWS, len(self))
        return {name: array[: used.get(name)] for name, array in arrays.items() if name != "places"}

    def state_dict(self) -> dict[str, Array]:
        lists = {name: array.copy() for name, array in self._lists_in_use().items()}
        term_validation.blank_unused(lists)
        return with_prefix("keys", self.keys.state_dict()) | with_prefix("lists", lists)

    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        lists = under("lists", state)
        self.keys.load_state_dict(under("keys", state), trusted=trusted)
        arrays: dict[str, Array] = {}
        for name, template in postings.empty().items():
            if name == "places":
                continue
            array = lists[name]
            if array.dtype != template.dtype or array.ndim != template.ndim or array.shape[1:] != template.shape[1:]:
                raise ValueError(f"{name} of the lists has the wrong shape or type")
            length = len(self) if name in OF_ROWS else int(lists["counters"][USED[name]]) if name in USED else len(template)
            require(len(array) == length, f"{name} of the lists has {length} rows, not {len(array)}")
            # Capacity doubles, so it must not be zero; rows come in whole blocks.
            spare = -length % len(template) if name in OF_ROWS and length else max(len(template) - length, 0)
            arrays[name] = np.concatenate([array, template[len(template) - spare :]])
        arrays["places"] = postings.build_map(arrays["names"][: len(lists["names"])])
        self.lists = postings.make(self.terms, arrays)
        if not trusted:
            self.check()

    def check(self) -> None:
        self.keys.check()
        term_validation.check_lists(self._list_arrays(), self.keys.arrays(), len(self))
