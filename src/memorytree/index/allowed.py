"""Queries that may return some memories only, by scoring each of these."""

from __future__ import annotations

import numpy as np

from memorytree.index.base import NO_DECISIONS, Index, QueryRequest, QueryResult, blank_decisions, rows_of
from memorytree.results import NO_ID


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
