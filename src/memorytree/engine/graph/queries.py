"""Entry points of the graph: queries."""

import numpy as np

from memorytree.engine.arrays import MEMORIES, NONE
from memorytree.engine.dispatch import row_of
from memorytree.engine.graph.copies import COPY, first_of
from memorytree.engine.graph.search import (
    ALLOWED,
    HAS_ALLOWED_COPY,
    Effort,
    find_among,
    find_nearest,
    make_query,
    offer_all,
)  # fmt: skip
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import blank, kernel
from memorytree.engine.search import report


@kernel
def graph_rows(tree, X, rows, filters, answer, effort):
    """Answer the queries of rows = (start, stop) by a search of the graph.

    Args:
        tree: the tree.
        X: a batch of keys.
        rows: the first row to answer and the one behind the last.
        filters: (bounds, ids, mask): ids[bounds[i] : bounds[i + 1]] are left out of row i; mask as from `mask_rows`, or no
            rows where all memories are allowed.
        answer: (ids, scores) of shape (stop - start, k), which are filled.
        effort: (candidates to keep, hits wanted, stretch), an `Effort`; or a stretch of 0: compare all memories.
    """
    (start, stop), (bounds, out, mask), (ids, scores) = rows, filters, answer
    pool, wanted, stretch = effort
    best = blank(ids.shape[1], np.int64), blank(ids.shape[1], np.float64)
    for i in range(start, stop):
        query = make_query(tree, row_of(tree, X, i), np.int64(NONE))
        own = out[bounds[i] : bounds[i + 1]], mask
        if stretch == 0:
            found = offer_all(tree, query, own, best)
        else:
            found = find_nearest(tree, query, Effort(pool, wanted, np.float32(stretch)), own, best)
        report(tree, i - start, found, best[0], best[1], ids, scores)


@kernel
def allowed_rows(tree, ids):
    """Return the rows (int64) of those of some ids that are stored."""
    rows = blank(ids.shape[0], np.int64)
    count = 0
    for id in ids:
        rows[count] = row_of_id(tree, id)
        count += rows[count] != NONE
    return rows[:count]


@kernel
def mask_rows(tree, rows):
    """Return the mask (uint8, by row) that allows some rows; one in the graph is marked for its copies as well."""
    mask = np.zeros(tree.counters[MEMORIES], np.uint8)
    for row in rows:
        mask[row] |= ALLOWED
        if tree.copies[row] == COPY:
            mask[first_of(tree, row)] |= HAS_ALLOWED_COPY
    return mask


@kernel
def rows_among(tree, X, rows, excluded, answer, allowed):
    """Answer the queries of rows = (start, stop) by a scan of the allowed rows (int64); else as `graph_rows`."""
    (start, stop), (bounds, out), (ids, scores) = rows, excluded, answer
    best = blank(ids.shape[1], np.int64), blank(ids.shape[1], np.float64)
    for i in range(start, stop):
        query = make_query(tree, row_of(tree, X, i), np.int64(NONE))
        found = find_among(tree, query, allowed, out[bounds[i] : bounds[i + 1]], best)
        report(tree, i - start, found, best[0], best[1], ids, scores)
