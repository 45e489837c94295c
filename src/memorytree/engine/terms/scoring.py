"""Exact scores of candidates of term lists."""

import numpy as np

from memorytree.engine import search
from memorytree.engine.arrays import NEWEST, NONE, OLDER, SLOT
from memorytree.engine.dispatch import estimated_distance, weighted_distance
from memorytree.engine.jit import helper, prefetch
from memorytree.engine.terms.candidates import LINE

AHEAD = 8  # how many candidates in advance a key is prefetched


@helper
def prefetch_spans(tree, rows):
    """Start loading where the keys of candidates are stored; all are known before the first is scored."""
    for row in rows:
        prefetch(tree.rows, np.int64(row) * tree.rows.shape[1])
    for row in rows:
        prefetch(tree.spans, np.int64(tree.rows[row, SLOT]) * tree.spans.shape[1])
        prefetch(tree.row_ids, np.int64(row))


@helper
def prefetch_key(tree, row):
    """Start loading a key."""
    slot = tree.rows[row, SLOT]
    first, last = tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1] - 1
    for entry in range(first, last, LINE):
        prefetch(tree.key_features, entry)
        prefetch(tree.key_weights, entry)
    prefetch(tree.key_features, last)  # a short key lies in two cache lines as often as in one
    prefetch(tree.key_weights, last)


@helper
def score_exactly(tree, lists, query, rows, best_rows, best, found):
    """Offer memories, by their exact distances, to the best so far; returns how many places are filled."""
    number = rows.shape[0]
    prefetch_spans(tree, rows)
    for j in range(min(AHEAD, number)):
        prefetch_key(tree, rows[j])
    for j in range(number):
        if j + AHEAD < number:
            prefetch_key(tree, rows[j + AHEAD])
        distance = weighted_distance(tree, tree.rows[rows[j], SLOT], query.prepared, lists)
        if found < best.shape[0] or distance <= best[found - 1]:
            found = search.offer_row(tree, np.int64(rows[j]), query.x, distance, best_rows, best, found)
    return found


@helper
def relative_distance(tree, query, distance):
    """Return a distance in parts of that of a key without common terms."""
    nothing = estimated_distance(tree, 0.0, query.prepared)
    return np.float32(distance / nothing) if nothing > 0 else np.float32(0)


@helper
def scan(tree, lists, query, rows, excluded, best_rows, best):
    """Find the best of these memories by exact distances; returns how many places are filled."""
    found = np.int64(0)
    for j in range(rows.shape[0]):
        if j + AHEAD < rows.shape[0]:
            prefetch_key(tree, rows[j + AHEAD])
        distance = weighted_distance(tree, tree.rows[rows[j], SLOT], query.prepared, lists)
        if (found < best.shape[0] or distance <= best[found - 1]) and not search.is_excluded(
            excluded, tree.row_ids[rows[j]]
        ):
            found = search.offer_row(tree, rows[j], query.x, distance, best_rows, best, found)
    return found


@helper
def offer_estimate(tree, query, row, partial, best_rows, best, found):
    """Offer a memory to the best so far by the distance that its partial score stands for."""
    distance = estimated_distance(tree, partial, query.prepared)
    if found < best.shape[0] or distance <= best[found - 1]:
        found = search.offer_row(tree, row, query.x, distance, best_rows, best, found)
    return found


@helper
def fill_with_newest(tree, lists, query, only, best_rows, best, found):
    """Fill the other places with the most recently used memories; returns how many are filled."""
    row = tree.counters[NEWEST]
    while row != NONE and found < best.shape[0]:
        there = only.allowed.shape[0] > 0 and not only.allowed[row]
        for j in range(found):
            there = there or best_rows[j] == row
        if not there and not search.is_excluded(only.excluded, tree.row_ids[row]):
            distance = weighted_distance(tree, tree.rows[row, SLOT], query.prepared, lists)
            found = search.offer_row(tree, row, query.x, distance, best_rows, best, found)
        row = np.int64(tree.rows[row, OLDER])
    return found
