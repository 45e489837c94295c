"""GraphIndex: a tree over dense keys whose queries follow the links of a graph of near neighbours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from memorytree.engine import building
from memorytree.engine.arrays import (
    NODES,
    NONE,
    RECALLS,
    ROOT,
    STRETCHES,
    TUNED_AT,
    Settings,
    code_width,
    max_neighbours,
)  # fmt: skip
from memorytree.engine.graph import queries, tuning
from memorytree.engine.graph.codes import LARGEST
from memorytree.engine.graph.copies import COPY
from memorytree.engine.graph.search import WITHOUT_END
from memorytree.engine.scorers.cosine import Cosine
from memorytree.index import graph_validation, validation
from memorytree.index.base import (
    NO_DECISIONS,
    Array,
    Ids,
    InsertResult,
    KeyBatch,
    PathReport,
    QueryRequest,
    QueryResult,
    blank_decisions,
    n_rows,
)  # fmt: skip
from memorytree.index.single import EngineRouting, EngineScorer, TreeIndex, insert_all
from memorytree.results import Stats

SAMPLE = 64
"""The memories by which the recall of a search is measured."""
RECALL = 0.99
"""The recall that a query aims at unless it says otherwise."""
BEFORE_TUNING = 1.6
"""The effort while there are few memories."""
SCALED_BY = 2**20
"""The scaling of codes is chosen by so many numbers of keys."""
PART_WITHIN = 0.9995
"""The part of these numbers that is not cut off."""
RERANKS = (2, 4, 8)
"""Candidates that are compared by their keys for each hit: the first of these with which codes lose next to nothing."""
BY_CODES = 0.997
"""The recall that a scan by codes must reach; otherwise keys are compared by themselves."""
ALLOWED_SCAN, FEW_ALLOWED = 2**12, 64
"""Allowed memories are scanned where there are at most so many, or more than so many times as many that are not allowed;
otherwise links are followed."""
FILTERED_POOL = 2**12
"""Candidates that a search with a filter keeps."""
MOST_CODED = 2**14
"""Longer keys are not coded: sums of squared differences of codes must fit into 31 bits."""
ALL = np.empty(0, np.uint8)
"""The mask of queries without a filter."""


class GraphIndex(TreeIndex):
    """A principal tree with links between near memories.

    How keys are coded and how far a query searches are chosen by measurements on stored keys, as the memory grows.
    """

    def __init__(self, sparse: bool, dimension: int, settings: Settings, routing: EngineRouting, scorer: EngineScorer):
        super().__init__(sparse, dimension, settings, routing, scorer)
        self._mask: tuple[Ids, Ids, Array] | None = None  # the last ids that were allowed, their rows and mask

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        self._mask = None
        return super().insert(keys, ids, start, stop)

    def remove(self, id: int) -> bool:
        self._mask = None
        return super().remove(id)

    def build(self, keys: KeyBatch, ids: Ids, labels: Ids | None) -> None:
        # Links are made as memories arrive, while those that are stored lie close together.
        insert_all(self, keys, ids, 0, n_rows(keys))
        if labels is not None:
            self.set_labels(ids, labels)
        building.rebuild_subtree(self.tree, self.counters[ROOT], True)

    def _tune(self) -> None:
        """Choose codes and effort by measurements on stored keys."""
        rows = np.flatnonzero(self.arrays()["copies"][: len(self)] != COPY)
        sample = rows[np.arange(SAMPLE) * len(rows) // SAMPLE]
        distances = np.empty((SAMPLE, tuning.HITS))
        tuning.nearest_distances(self.tree, sample, distances)
        had_codes = len(self.arrays()["codes"]) > 0
        reranked = self._choose_codes(sample, distances)
        tuning.finish_tuning(self.tree, reranked or RERANKS[0])
        if not reranked:
            tuning.without_codes(self.tree, self._no_codes())
            self.arrays()["scaling"][-1] = 0
            if had_codes:
                tuning.link_again(self.tree)
        tuning.measure_efforts(self.tree, sample, distances)

    def _no_codes(self) -> Array:
        return np.empty((0, code_width(self.dimension)), np.int8)

    def _choose_codes(self, sample: Ids, distances: Array) -> int:
        """Code all keys anew; how many candidates must then be compared by their keys for each hit, 0 if too many."""
        if self.dimension > MOST_CODED:
            return 0
        self.arrays()["scaling"][:] = self._scaling()
        self._encode()
        counts = np.array(RERANKS) * tuning.HITS
        recalls = tuning.code_recalls(self.tree, sample, distances, counts)
        return next((times for times, recall in zip(RERANKS, recalls, strict=True) if recall >= BY_CODES), 0)

    def _encode(self) -> None:
        """Use the codes of all keys."""
        tuning.encode_all(self.tree, np.empty((len(self.arrays()["row_ids"]), code_width(self.dimension)), np.int8))

    def _scaling(self) -> Array:
        """The centre of the stored keys, and the factor by which nearly all their numbers become codes."""
        n = len(self)
        count = max(1, min(n, SCALED_BY // self.dimension))
        keys = self.arrays()["keys"][self.slots(np.arange(count) * n // count)].astype(np.float64)
        if isinstance(self.scorer, Cosine):
            lengths = np.linalg.norm(keys, axis=1, keepdims=True)
            keys = np.divide(keys, lengths, out=np.zeros_like(keys), where=lengths > 0)
        centre = keys.mean(axis=0).astype(np.float32)
        spread = np.quantile(np.abs(keys - centre), PART_WITHIN)
        factor = np.float32(LARGEST / spread) if spread > LARGEST / np.finfo(np.float32).max else np.float32(1)
        return np.append(centre, factor)

    # ---- reading

    def query(self, request: QueryRequest) -> QueryResult:
        if request.explore > 0 and request.allowed is None:
            return super().query(request)
        n, k = request.stop - request.start, request.k
        ids, scores = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
        rows, answer, mask = (request.start, request.stop), (ids, scores), ALL
        decisions = blank_decisions(n) if request.explore > 0 else NO_DECISIONS
        if request.allowed is not None:
            allowed, mask = self._allowed(request.allowed)
            if not len(mask):
                queries.rows_among(self.tree, request.keys, rows, tuple(request.excluded), answer, allowed)
                return QueryResult(ids, scores, decisions)
        filters = (*request.excluded, mask)
        queries.graph_rows(self.tree, request.keys, rows, filters, answer, self._effort(request, len(mask)))
        return QueryResult(ids, scores, decisions)

    def _effort(self, request: QueryRequest, filtered: int) -> tuple[int, int, float]:
        """What `graph_rows` takes as effort."""
        if request.beam is not None:
            everything = request.beam > self.counters.item(NODES) // 2
            return request.beam, 1, 0.0 if everything else float(WITHOUT_END)
        target = RECALL if request.recall is None else request.recall
        pool = FILTERED_POOL if filtered else tuning.POOL
        return pool, tuning.HITS, self.stretch(target)

    def stretch(self, recall: float) -> float:
        """The least effort that was measured to reach a recall, otherwise the largest; 0 for all memories."""
        if recall >= 1:
            return 0.0
        measured = self.arrays()["graph"][RECALLS:]
        if not measured[0]:
            return BEFORE_TUNING
        return STRETCHES[min(int(np.searchsorted(measured, recall)), len(STRETCHES) - 1)]

    def _allowed(self, ids: Ids) -> tuple[Ids, Array]:
        """The rows of allowed ids, and their mask where links are to be followed; kept until the next write."""
        kept = self._mask
        if kept is None or kept[0] is not ids:
            rows = queries.allowed_rows(self.tree, ids)
            few = len(rows) <= ALLOWED_SCAN or FEW_ALLOWED * len(rows) < len(self)
            self._mask = kept = ids, rows, ALL if few else queries.mask_rows(self.tree, rows)
        return kept[1], kept[2]

    def stats(self) -> Stats:
        stats = super().stats()
        measured = self.arrays()["graph"]
        links = float((self.arrays()["neighbours"][: len(self)] != NONE).sum() / max(len(self), 1))
        if not measured[RECALLS]:
            return replace(stats, neighbours=links)
        place = min(int(np.searchsorted(measured[RECALLS:], RECALL)), len(STRETCHES) - 1)
        return replace(
            stats, neighbours=links, expected_recall=float(measured[RECALLS + place]), measured_at=int(measured[TUNED_AT])
        )

    def path(self, request: QueryRequest) -> PathReport:
        report = super().path(request)
        return report._replace(searched_neighbours=len(report.steps) > 0)

    # ---- state

    def state_dict(self) -> dict[str, Array]:
        state = super().state_dict()
        del state["codes"]  # made anew from the keys and the scaling
        return state

    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        self._mask = None
        codes = np.zeros((len(state.get("row_ids", ())), code_width(self.dimension)), np.int8)
        super().load_state_dict({**state, "codes": codes}, trusted=trusted)
        if self.arrays()["scaling"][-1] != 0:
            self._encode()
        else:
            tuning.without_codes(self.tree, self._no_codes())

    def check(self) -> None:
        super().check()
        arrays, n = self.arrays(), len(self)
        graph_validation.check_graph(arrays, n)
        validation.require(tuning.are_copies_in_place(self.tree), "copies lie beside the memory with their key in the graph")


def make_tree(sparse: bool, dimension: int, settings: Settings, routing: EngineRouting, scorer: EngineScorer) -> TreeIndex:
    """One tree, with a graph if its routing has one."""
    kind = GraphIndex if max_neighbours(routing) else TreeIndex
    return kind(sparse, dimension, settings, routing, scorer)
