"""Candidates of a query of term lists: sums of partial products over the lists, and the most promising memories."""

from collections import namedtuple

import numpy as np

from memorytree.engine.arrays import MEMORIES, NONE
from memorytree.engine.dispatch import compares_lengths, partial_score, term_weight
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.heap import push, replace_top
from memorytree.engine.jit import blank, helper, prefetch
from memorytree.engine.search import is_excluded
from memorytree.engine.sparse import unsigned_range
from memorytree.engine.terms.lists import BEGIN, BLOCK, LARGEST_IMPACT, LEARNED, LENGTH, NO_FEATURE, impact_of

Query = namedtuple("Query", "x terms weights prepared norm")
"""A query: its key, its known terms and their weights, the `PreparedQuery`, and its length by term weights."""

Sums = namedtuple("Sums", "totals touched")
"""Scratch of a query, with room for every memory.

totals   float32 (memories,): partial products of the query and of keys of length one; 0 means that a memory was not found
touched  int32 (memories + 1,): the rows of the memories found
"""

Filter = namedtuple("Filter", "excluded allowed")
"""Which memories may be returned: excluded, int64 (n,), are ids that may not; allowed, uint8 (memories,), is 1 for rows that
may, or it is empty if all may."""

Shortlist = namedtuple("Shortlist", "rows partial_scores")
"""The most promising candidates, a heap with the least promising on top: rows, int64 (n,), partial scores, float64 (n,)."""

TINY = np.float32(1e-38)  # stands for a sum of 0 of a memory that was found
LINE = 16  # entries of four bytes in a cache line of 64
TOGETHER = 32  # candidates that are compared at once
PREFETCHED = 256  # entries of a list that are prefetched; the processor foresees further ones


@helper
def prefetch_lists(lists, terms, order, number):
    """Start loading the lists that are read next; all their places are known before the first is read."""
    for j in range(number):
        begin = lists.lists[terms[order[j]], BEGIN]
        last = begin + min(lists.lists[terms[order[j]], LENGTH], PREFETCHED)
        for entry in range(begin, last, LINE):
            prefetch(lists.members, entry)
        for entry in range(begin, last, 4 * LINE):
            prefetch(lists.impacts, entry)


@helper
def scaled(factor, impact):
    """Return factor * sign(impact) * impact^2."""
    size = np.float32(impact)
    return factor * (size * abs(size))


@helper
def add_list(lists, term, factor, sums, found):
    """Add the products of a term to the totals of the memories in its list; returns how many memories are found."""
    totals, touched = sums
    members, impacts, begin = lists.members, lists.impacts, lists.lists[term, BEGIN]
    count = np.uint64(found)
    for entry in unsigned_range(begin, begin + lists.lists[term, LENGTH]):
        row = np.uint32(members[entry])
        old = totals[row]
        total = old + scaled(factor, np.int32(impacts[entry]))
        touched[count] = row
        count += np.uint64(old == 0)
        totals[row] = total if total != 0 else TINY
    return np.int64(count)


@helper
def factor_of(tree, lists, query, j):
    """Return the factor of the impacts in the list of term j of a query."""
    if not query.norm > 0:
        return np.float32(0)
    weight = np.float64(term_weight(tree, lists, query.terms[j])) * query.weights[j]
    return np.float32(weight / query.norm / LARGEST_IMPACT**2)


@helper
def collect_candidates(tree, lists, query, chosen, sums):
    """Read the chosen lists, the result of `choose_lists`; returns (how many memories are found, the query's own total).

    The own total is that of a key equal to the query, bit by bit; NaN if no stored key can be equal.
    """
    order, number = chosen
    x, found, own = query.x, 0, np.float32(0)
    norm = 0.0
    for j in range(x[1].shape[0]):
        norm += np.float64(x[1][j]) * x[1][j]
    norm = np.sqrt(norm)
    prefetch_lists(lists, query.terms, order, number)
    for j in order[:number]:
        factor = factor_of(tree, lists, query, j)
        found = add_list(lists, query.terms[j], factor, sums, found)
        own += scaled(factor, np.int32(impact_of(query.weights[j], norm)))
        own = own if own != 0 else TINY
    if x[0].shape[0] == 0:
        found, own = add_list(lists, np.int64(NO_FEATURE), np.float32(0), sums, found), TINY
    return found, own if query.terms.shape[0] == x[0].shape[0] else np.float32(np.nan)


@helper
def exclude(tree, sums, excluded):
    """Mark the candidates with these ids by a total of NaN."""
    for id in excluded:
        row = row_of_id(tree, id)
        if row != NONE and sums.totals[row] != 0:
            sums.totals[row] = np.nan


@helper
def new_shortlist(wanted):
    """Return an empty shortlist of the `wanted` most promising candidates."""
    return Shortlist(blank(wanted, np.int64), blank(wanted, np.float64))


@helper
def offer_candidate(shortlist, filled, row, score):
    """Add a candidate that is among the best; returns (places filled, score that others must exceed)."""
    rows, scores = shortlist
    if filled < rows.shape[0]:
        push(scores, rows, filled, score, row)
        filled += 1
    else:
        replace_top(scores, rows, filled, score, row)
    return filled, scores[0] if filled == rows.shape[0] else -np.inf


@helper
def take_partial_scores(tree, lists, query, collected, sums):
    """Return the partial scores (float64) of the candidates, and set all totals to 0; infinity if equal to the own total."""
    totals, touched = sums
    found, own = collected
    partial_scores = blank(found, np.float64)
    for u in unsigned_range(0, found):
        row = np.uint32(touched[u])
        total = totals[row]
        totals[row] = 0
        partial = partial_score(tree, lists, row, total * query.norm)
        partial_scores[u] = np.inf if total == own else partial
    return partial_scores


@helper
def any_above(values, first, last, least):
    """Return whether any of these values is above a bound; without a branch in the loop, so that it is vectorised."""
    above = 0
    for j in unsigned_range(first, last):
        above |= values[j] > least
    return above > 0


@helper
def select_candidates(tree, lists, query, collected, sums, only, shortlist):
    """Move the most promising candidates to the shortlist, and set all totals to 0.

    `collected` is the result of `collect_candidates`, `only` a `Filter`. Candidates with the query's own total, which may be
    equal to it, are written to the front of `touched` instead. Returns (places filled, how many may be equal).
    """
    partial_scores, touched = take_partial_scores(tree, lists, query, collected, sums), sums.touched
    filled, equal, least, found = 0, 0, -np.inf, partial_scores.shape[0]
    for first in range(0, found, TOGETHER):
        last = min(first + TOGETHER, found)
        if not any_above(partial_scores, first, last, least):
            continue
        for u in range(first, last):
            row = touched[u]
            if not partial_scores[u] > least or (only.allowed.shape[0] and not only.allowed[row]):
                continue
            if partial_scores[u] == np.inf:
                touched[equal] = row
                equal += 1
                continue
            filled, least = offer_candidate(shortlist, filled, np.int64(row), partial_scores[u])
    if compares_lengths(tree):
        filled = add_shortest(tree, lists, only, touched[:equal], shortlist, filled)
    return filled, equal


@helper
def add_shortest(tree, lists, only, equal, shortlist, filled):
    """Add the shortest keys to the shortlist, which may be nearest without a common term; returns how many are filled."""
    rows, scores = shortlist
    memories, norms = tree.counters[MEMORIES], lists.norms
    least = scores[0] if filled == rows.shape[0] else -np.inf
    for block in range((memories + BLOCK - 1) // BLOCK):
        nearest = np.float64(lists.shortest[block])
        if not -nearest * nearest > least:
            continue
        for row in range(block * BLOCK, min((block + 1) * BLOCK, memories)):
            length = np.float64(norms[row, LEARNED])
            if not -length * length > least or (only.allowed.shape[0] and not only.allowed[row]):
                continue
            if is_excluded(rows[:filled], row) or is_excluded(equal, row) or is_excluded(only.excluded, tree.row_ids[row]):
                continue
            filled, least = offer_candidate(shortlist, filled, row, -length * length)
    return filled
