"""TermIndex, `routing="terms"`: sparse keys are found through lists of memories by term.

A query reads the lists of its heaviest terms and scores the most promising memories in them exactly. Each list is limited to
the c log n memories in which its term has the largest weight, so a query takes logarithmic time. Every memory stays in the
list of at least one of its heaviest terms (`engine/terms`), which makes a list longer than its limit only where many
memories share the same few terms. A query that shares terms with too few memories is completed by those used last.

Each term has an importance, initially 1. All scorers compare keys as if every weight had been multiplied by the root of its
term's importance, so a key always ranks itself highest. Importances learn from the rewards of the hits of a query by the
softmax of their cosines, under every scorer. Lists store the original weights; only the choice of the heaviest terms depends
on what was learned.

With `expansion` a memory also learns terms beside those of its key: the terms of queries for which it was rewarded. They
decay where it is returned for them without a reward.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Self

import numpy as np

from memorytree.config import TermLists
from memorytree.engine.arrays import Settings
from memorytree.engine.terms import admission, comparing, learning, query, rebuilding, search
from memorytree.engine.terms import lists as postings
from memorytree.engine.terms.lists import NO_FEATURE
from memorytree.index import contributions, term_validation
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
    SparseBatch,
    blank_decisions,
    n_rows,
    query_allowed,
    rows_of,
    under,
    with_prefix,
)  # fmt: skip
from memorytree.index.key_table import KeyTable
from memorytree.index.single import FixedEngineScorer
from memorytree.index.term_validation import OF_ROWS, USED
from memorytree.index.validation import require
from memorytree.results import OutlineTerms, RewardResult, Stats

Terms = namedtuple("Terms", "breadth reads scored homes temperature rate expansion")
"""The options as the engine takes them."""


class TermIndex(Index):
    """Term lists over a table of keys, whose features are terms: numbers without gaps."""

    sparse = True

    def __init__(self, settings: Settings, options: TermLists, scorer: FixedEngineScorer):
        self.options = options
        self.terms = Terms(
            float(options.breadth), float(options.reads), int(options.scored), int(options.homes),
            float(options.temperature), float(options.rate), float(options.expansion),
        )  # fmt: skip
        self.keys = KeyTable(True, 0, settings, scorer)
        self.lists = postings.make(self.terms, postings.empty())

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def min_beam(self) -> int:
        return 0

    @property
    def top_score(self) -> float:
        return self.keys.top_score or 0.0

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
        count = admission.insert_rows(self.keys.tree, self.lists, keys, ids, progress, stop, evicted)
        return InsertResult(stop, list(map(tuple, evicted[:count].tolist())), False)

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        rebuilding.fill(self.keys.tree, self.lists, keys, ids)
        rebuilding.rebuild(self.keys.tree, self.lists)

    def remove(self, id: int) -> bool:
        admission.remove(self.keys.tree, self.lists, id)
        return False

    def set_labels(self, ids: Ids, labels: Ids) -> None:
        """Store labels; lists do not depend on them."""
        self.keys.set_labels(ids, labels)

    def reward(self, batch: RewardBatch) -> RewardResult:
        tree, learned = self.keys.tree, 0
        rows = batch.keys, batch.ids, batch.rewards, batch.unobserved
        if not self.options.expansion:
            return RewardResult(int(learning.learn_rows(tree, self.lists, *rows)), 0)
        # Query by query, so that a batch and a loop leave the same state.
        for i in range(len(batch.ids)):
            row = rows_of(batch.keys, i, i + 1), batch.ids[i : i + 1], batch.rewards[i : i + 1]
            learning.learn_rows(tree, self.lists, *row, batch.unobserved)
            learned += admission.expand_rows(tree, self.lists, *row)  # of every query from which importances learn
        return RewardResult(int(learned), 0)

    def mark_used(self, batch: RewardBatch) -> None:
        self.keys.mark_used(batch)

    def reset_learning(self) -> None:
        """Make all importances 1 again; terms that memories have learned stay."""
        arrays = self._list_arrays()
        arrays["importance"][:], arrays["squares"][:] = 1, 0
        self.sweep()

    def rebuild(self) -> None:
        """Nothing is ever due."""

    def refit(self, passes: int) -> None:
        """Rebuild all lists; importances learn from rewards only."""
        self.sweep()

    def sweep(self) -> int:
        """Rebuild all lists; the number of memories that are in other lists than before."""
        return int(rebuilding.rebuild(self.keys.tree, self.lists))

    def reroute(self, times: int) -> None:
        """Offer so many memories to their lists again, in turn."""
        admission.reoffer(self.keys.tree, self.lists, times)

    # ---- reading

    def stored_ids(self) -> Ids:
        return self.keys.stored_ids()

    def query(self, request: QueryRequest) -> QueryResult:
        if request.allowed is not None:
            return query_allowed(self, request)
        n, k = request.stop - request.start, request.k
        ids, scores = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
        decisions = blank_decisions(n if request.explore > 0 else 0)
        rows, excluded = (request.start, request.stop), tuple(request.excluded)
        options = request.breadth, float(request.explore), request.draw
        search.query_rows(self.keys.tree, self.lists, request.keys, rows, excluded, (ids, scores, decisions), options)
        return QueryResult(ids, scores, decisions)

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

    @property
    def learns_to_compare(self) -> bool:
        return True

    def key_gaps(self, key: KeyBatch, others: KeyBatch) -> Scores:
        """By the cosine of keys weighted by what was learned and, if the scorer uses it, by rarity."""
        gaps = np.empty(n_rows(others), np.float32)
        comparing.compare_keys(self.keys.tree, self.lists, key, others, gaps)
        return gaps

    def keys_of(self, ids: Ids) -> KeyBatch:
        """The keys, with the terms that memories have learned."""
        keys = self.keys.keys_of(ids)
        assert isinstance(keys, tuple)
        bounds, terms, weights = keys
        return bounds, self._list_arrays()["names"][terms], weights

    def label(self, id: int) -> int:
        return self.keys.label(id)

    def plan_evictions(self, ids: Ids) -> Evictions:
        return self.keys.plan_evictions(ids)

    def path(self, request: QueryRequest) -> PathReport:
        entries = int(query.entries_for(self.keys.tree, self.lists, request.keys))
        return PathReport((), self.keys.path(request).leaf, entries)

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        by_angle = type(self.keys.scorer).__name__ != "Distance"
        row = contributions.weighted(request.keys, self.weights)
        return contributions.of_features(
            row, found, lambda id: contributions.weighted(self._stored(id), self.weights), by_angle
        )

    def leaf_sizes(self) -> tuple[int, int]:
        """Lists are not limited by leaves."""
        return 2**62, 2**62

    def stats(self) -> Stats:
        keys, arrays = self.keys.stats(), self._list_arrays()
        used = sum(array.nbytes for array in self._lists_in_use().values()) + arrays["places"].nbytes
        allocated = sum(array.nbytes for array in arrays.values())
        return keys.with_bytes(keys.key_bytes, keys.bytes + used, keys.bytes + keys.spare_bytes + allocated)

    def outline(self, depth: int) -> OutlineTerms:
        arrays = self._list_arrays()
        documents = arrays["documents"][: self.n_terms].copy()
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
        """A copy with lists of its own; the keys are shared, as rebuilding lists does not change them."""
        twin = type(self).__new__(type(self))
        twin.options, twin.terms, twin.keys = self.options, self.terms, self.keys
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
            # Capacity doubles, so it must not be zero.
            arrays[name] = np.concatenate([array, template[len(array) :]])
        arrays["places"] = postings.build_map(arrays["names"][: len(lists["names"])])
        self.lists = postings.make(self.terms, arrays)
        if not trusted:
            self.check()

    def check(self) -> None:
        self.keys.check()
        term_validation.check_lists(self._list_arrays(), self.keys.arrays(), len(self), self.options.breadth)
