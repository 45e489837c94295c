"""Queries with a filter or with expired memories. Filters are exact: if k memories match, the best k are returned."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from memorytree.arguments import check_exclusions, check_ids, check_int, count_keys
from memorytree.results import NO_ID, Explanation, Hit
from memorytree.store.columns import MetadataColumn
from memorytree.store.inputs import Key, Where, check_where
from memorytree.store.records import Records
from memorytree.store.results import StoreHitMatrix, StoreHits

if TYPE_CHECKING:
    from memorytree.store.state import StoreState

SCAN_BELOW = 1000
"""A filter that fewer memories match is answered by scoring each of them."""

MAX_BEAM = 64
"""The tree is queried with beams up to this one before all matching memories are scored."""


class Exploration(TypedDict, total=False):
    """What makes a query explore, as `MemoryTree.query` takes it."""

    explore: float
    exploration_seed: int | None


class CommonOptions(Exploration, total=False):
    """Options of single queries and of batches."""

    beam: int | None


class SingleQueryOptions(CommonOptions, total=False):
    """Options of a query; `exclude` are the ids to leave out."""

    exclude: Iterable[int] | None


class QueryOptions(CommonOptions, total=False):
    """Options of a batch of queries; `exclude` are the ids to leave out for each row."""

    exclude: Sequence[Iterable[int]] | np.ndarray | None


class Filter:
    """The places whose memories match a filter and have not expired.

    Attributes:
        at_most: no more memories than this match.
    """

    def __init__(self, records: Records, where: Where | None, now: float):
        self._records, self._now = records, now
        self._fields: list[tuple[MetadataColumn, list[int]]] = []
        self.at_most = math.inf
        for name, accepted in check_where(where).items():
            column = records.columns.get(name, MetadataColumn())
            codes = column.codes_of(accepted)
            self._fields.append((column, codes))
            self.at_most = min(self.at_most, sum(column.counts[code] for code in codes))

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


def query_filtered(state: StoreState, x: object, k: int, where: Where | None, asked: SingleQueryOptions) -> StoreHits:
    """The best k of the memories that match a filter and have not expired.

    The tree is queried with larger and larger beams until k of its hits match. Where few memories match, or no beam was
    enough, every matching memory is scored.
    """
    k = check_int("k", k, 1)
    beam = max(state.tree.check_beam(asked.get("beam")) or 1, 1)
    exclude = asked.get("exclude")
    excluded = None if exclude is None else check_ids("exclude", exclude).tolist()
    chance: Exploration = {"explore": asked.get("explore", 0.0), "exploration_seed": asked.get("exploration_seed")}
    with state.reading():
        wanted = Filter(state.records, where, time.time())
        while wanted.at_most >= SCAN_BELOW:
            # Twice as many hits as are needed if the matching memories lie anywhere.
            n = len(state.tree)
            width = 2 * beam * k * max(1, n // int(min(wanted.at_most, n) or 1))
            found = state.tree.query(x, max(1, min(width, n)), beam=beam, exclude=excluded, **chance)
            rank = np.cumsum(wanted.matches(np.array(found.values, np.int64)))
            if len(found) and rank[-1] >= k:
                chosen = np.flatnonzero((np.diff(rank, prepend=0) > 0) & (rank <= k))
                columns = (np.asarray(column)[chosen] for column in (found.ids, found.scores, found.values))
                ids, scores, places = columns
                return StoreHits(state, found, (ids, scores, places.tolist()))
            if beam >= MAX_BEAM:
                break
            beam = min(4 * beam, MAX_BEAM)
        return _scan(state, x, k, wanted.places(), excluded, chance)


def _scan(
    state: StoreState, x: object, k: int, places: np.ndarray, excluded: list[int] | None, chance: Exploration
) -> StoreHits:
    """The best k of the memories at some places."""
    source = state.tree.query(x, 1, **chance)  # checks the key, and holds it for the receipt
    ids = state.records.ids[places]
    if excluded:
        kept = ~np.isin(ids, excluded)
        places, ids = places[kept], ids[kept]
    scores = state.tree.score(x, ids)
    best = np.lexsort((ids, -scores))[:k]
    return StoreHits(state, source, (ids[best], scores[best], places[best].tolist()))


def query_many_filtered(state: StoreState, X: Key, k: int, where: Where | None, asked: QueryOptions) -> StoreHitMatrix:
    """A batch of filtered queries; row i explores with `exploration_seed` + i."""
    if unknown := asked.keys() - QueryOptions.__optional_keys__:
        raise TypeError(f"query_many() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    k, n = check_int("k", k, 1), count_keys(X)
    bounds, excluded = check_exclusions(asked.get("exclude"), n)
    seed = asked.get("exploration_seed")
    keys = X.tocsr() if hasattr(X, "tocsr") else X
    rows = []
    for i in range(n):
        row: SingleQueryOptions = {
            "explore": asked.get("explore", 0.0),
            "beam": asked.get("beam"),
            "exploration_seed": None if seed is None else seed + i,
            "exclude": [id for id in excluded[bounds[i] : bounds[i + 1]] if id != NO_ID],
        }
        rows.append(query_filtered(state, keys[i], k, where, row))
    return StoreHitMatrix.from_rows(rows, k)


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
