"""Queries with a filter or with expired memories. Filters are exact: if k memories match, the best k are returned."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from memorytree.arguments import IdSet
from memorytree.results import Explanation, Hit
from memorytree.store.columns import MetadataColumn
from memorytree.store.inputs import Key, Where, check_where
from memorytree.store.records import Records
from memorytree.store.results import StoreHitMatrix, StoreHits

if TYPE_CHECKING:
    from memorytree.store.state import StoreState


class CommonOptions(TypedDict, total=False):
    """Options of single queries and of batches, as `MemoryTree.query` takes them."""

    recall: float | None
    beam: int | None
    explore: float
    exploration_seed: int | None


class SingleQueryOptions(CommonOptions, total=False):
    """Options of a query; `exclude` are the ids to leave out."""

    exclude: Iterable[int] | None


class QueryOptions(CommonOptions, total=False):
    """Options of a batch of queries; `exclude` are the ids to leave out for each row."""

    exclude: Sequence[Iterable[int]] | np.ndarray | None


MOST_FILTERS = 64
"""So many filters are kept with the ids that match them."""


class Filter:
    """The places whose memories match a filter and have not expired."""

    def __init__(self, records: Records, where: Where | None, now: float):
        self._records, self._now = records, now
        self._fields: list[tuple[MetadataColumn, list[int]]] = []
        for name, accepted in check_where(where).items():
            column = records.columns.get(name, MetadataColumn())
            self._fields.append((column, column.codes_of(accepted)))

    def matches(self, places: np.ndarray) -> np.ndarray:
        """Whether the memory at each of some places matches."""
        matching = self._records.expires[places] > self._now
        for column, codes in self._fields:
            known = places < len(column.codes)
            matching &= known
            matching[known] &= np.isin(column.codes.array[places[known]], codes)
        return matching

    def places(self) -> np.ndarray:
        """All matching places, in order; found by the field that fewest memories match."""
        if self._fields:
            column, codes = min(self._fields, key=lambda field: sum(field[0].counts[code] for code in field[1]))
            candidates = column.places(codes)
        else:
            candidates = np.arange(len(self._records))
        candidates = candidates[self._records.alive[candidates]]
        return candidates[self.matches(candidates)]


def allowed_ids(state: StoreState, where: Where | None) -> IdSet:
    """The ids of the memories that match a filter and have not expired; kept until something changes."""
    now = time.time()
    name = repr(sorted((where or {}).items(), key=repr))
    kept = state.filters.get(name)
    if kept is None or now >= state.records.next_expiry:
        places = Filter(state.records, where, now).places()
        kept = IdSet(state.records.ids[places])
        if len(state.filters) >= MOST_FILTERS:
            state.filters.clear()
        state.filters[name] = kept
    return kept


def query_filtered(state: StoreState, x: object, k: int, where: Where | None, asked: SingleQueryOptions) -> StoreHits:
    """The best k of the memories that match a filter and have not expired."""
    with state.reading():
        return StoreHits(state, state.tree.query(x, k, allowed=allowed_ids(state, where), **asked))


def query_many_filtered(
    state: StoreState, X: Key, k: int, where: Where | None, threads: int, asked: QueryOptions
) -> StoreHitMatrix:
    """A batch of filtered queries."""
    with state.reading():
        found = state.tree.query_many(X, k, allowed=allowed_ids(state, where), threads=threads, **asked)
    return StoreHitMatrix.from_matrix(state, found)


def explain_present(state: StoreState, x: Key, k: int, beam: int | None) -> Explanation:
    """Why a query returns what it does, without memories that have expired."""
    now, explanation = time.time(), state.tree.explain(x, k, beam=beam)
    candidates = [
        replace(candidate, hit=Hit(id, state.records.value(place), score))
        for candidate in explanation.candidates
        for id, place, score in [candidate.hit]
        if state.records.expires[place] > now
    ]
    return replace(explanation, candidates=tuple(candidates))
