"""Queries of term lists: reading lists, and scoring the most promising memories exactly."""

from collections import namedtuple

import numpy as np

from memorytree.engine import search
from memorytree.engine.arrays import MEMORIES, NONE, SLOT
from memorytree.engine.dispatch import partial_score, row_of, score, weighted_distance
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.rng import below, seeded, uniform
from memorytree.engine.search import AT_LEAF, BRANCH, GENERATION_OF_NODE, NODE
from memorytree.engine.terms.candidates import (
    Filter,
    Query,
    Sums,
    collect_candidates,
    exclude,
    new_shortlist,
    select_candidates,
)
from memorytree.engine.terms.lists import CALIBRATED, TERMS
from memorytree.engine.terms.query import (
    Effort,
    choose_lists,
    clear_table,
    cost_of_scoring,
    effort_for,
    fill_table,
    known_terms,
    prepare,
)
from memorytree.engine.terms.scoring import fill_with_newest, offer_estimate, relative_distance, scan, score_exactly

Room = namedtuple("Room", "sums shortlist best_rows best")
"""Where a query works: `Sums`, `Shortlist`, and the k best so far, rows, int64 (k,), and distances, float64 (k,)."""

MORE_READ, MORE_SCORED = 8, 2
"""A query whose nearest memories are unusually far away is repeated with so much less skipped and so much more scored:
effort was measured on keys that are not like it."""
SCAN_RATIO = 2
"""Allowed memories are scanned if that takes at most so many times as long as reading lists."""


@helper
def explore_list(tree, terms, chosen, decision, chance):
    """With probability `explore` replace one of several chosen lists by the next best, or leave it out if all are chosen.

    `chance` is (explore, draw); `decision`, int64 (4,), records the term as the explored leaf. Returns the lists to read.
    """
    order, number = chosen
    explore, draw = chance
    if number > 1 or order.shape[0] > number > 0:
        stream = seeded(tree.settings.seed, draw)
        if uniform(stream) < explore:
            swapped = below(stream, number)
            decision[BRANCH], decision[NODE], decision[GENERATION_OF_NODE] = AT_LEAF, terms[order[swapped]], 0
            number = min(number, order.shape[0] - 1)
            order[swapped] = order[number]
    return order, number


@helper
def rows_to_scan(tree, lists, allowed, filtered, recall, effort):
    """Decide which rows (int64) are compared with a query one by one.

    All that may be returned are scanned for the recall 1, or if they are few. Returns (whether to scan, rows).
    """
    memories = tree.counters[MEMORIES]
    if not filtered:
        rows = blank(memories if recall >= 1 else 0, np.int64)
        for row in range(rows.shape[0]):
            rows[row] = row
        return recall >= 1, rows
    each, reads = cost_of_scoring(tree), 0.0
    if lists.counters[CALIBRATED]:
        reads = np.float64(lists.reads[0])
    most = SCAN_RATIO * (effort.scored + reads / each)
    few = recall >= 1 or allowed.shape[0] <= most
    rows, count = blank(allowed.shape[0] if few else 0, np.int64), 0
    for j in range(rows.shape[0]):
        row = row_of_id(tree, allowed[j])
        if row != NONE:
            rows[count] = row
            count += 1
    return few, rows[:count]


@helper
def mask_of(tree, allowed):
    """Return the mask of allowed rows for a `Filter`."""
    mask = np.zeros(tree.counters[MEMORIES], np.uint8)
    for id in allowed:
        row = row_of_id(tree, id)
        if row != NONE:
            mask[row] = 1
    return mask


@helper
def shortlist_for(effort, k, memories):
    """Return an empty shortlist for an effort."""
    return new_shortlist(min(max(effort.scored, k), max(memories, 1)))


@helper
def read_and_rank(tree, lists, query, chosen, room, only, exact):
    """Read lists and rank the candidates found, exactly or by estimates; returns how many of the best are filled."""
    sums, shortlist, best_rows, best = room
    collected = collect_candidates(tree, lists, query, chosen, sums)
    exclude(tree, sums, only.excluded)
    filled, equal = select_candidates(tree, lists, query, collected, sums, only, shortlist)
    found = np.int64(0)
    if exact:
        found = score_exactly(tree, lists, query, shortlist.rows[:filled], best_rows, best, found)
        return score_exactly(tree, lists, query, sums.touched[:equal], best_rows, best, found)
    for j in range(filled):
        row, partial = shortlist.rows[j], shortlist.partial_scores[j]
        found = offer_estimate(tree, query, row, partial, best_rows, best, found)
    for j in range(equal):
        row = np.int64(sums.touched[j])
        partial = partial_score(tree, lists, row, collected[1] * query.norm)
        found = offer_estimate(tree, query, row, partial, best_rows, best, found)
    return found


@helper
def is_unusual(tree, lists, query, best, filled):
    """Return whether the memories found are further from the query than the nearest of stored keys usually are."""
    rank = min(filled, lists.usual.shape[0]) - 1
    return rank >= 0 and relative_distance(tree, query, best[rank]) > lists.usual[rank]


@kernel
def query_rows(tree, lists, X, scratch, filters, output, options):
    """Answer rows first .. last - 1 of a batch; returns whether the scratch has a place for every term.

    The arguments are plain tuples, which Python passes faster than named ones (`docs/internals/numba.md`):

    scratch  (totals, touched) of `Sums`, totals being 0 before and after, and (table, values) of an empty `PreparedQuery`
             with a place for every term; if there are too few places, another table is used
    filters  (bounds, ids, allowed), int64: ids[bounds[i] : bounds[i + 1]] are not returned for row i, and if `filtered`,
             only ids in `allowed` are
    output   (ids, scores, decisions), int64, float32 and int64, a row for each row asked; decisions only if explore > 0
    options  (first, last, beam, recall, filtered, explore, draw): see `effort_for`; with probability `explore` one of the
             lists, at random, is replaced by the best that would not have been read, if there is one; row i uses the random
             numbers of draw + i
    """
    bounds, excluded, allowed = filters
    ids, scores, decisions = output
    first, last, beam, recall, filtered, explore, draw = options
    memories, sums = tree.counters[MEMORIES], Sums(scratch[0], scratch[1])
    table, values, fits = scratch[2], scratch[3], lists.counters[TERMS] <= scratch[2].shape[0]
    best_rows, best = blank(ids.shape[1], np.int64), blank(ids.shape[1], np.float64)
    effort = effort_for(tree, lists, beam, recall, ids.shape[1])
    scans, scanned = rows_to_scan(tree, lists, allowed, filtered, recall if beam == NONE else 0.0, effort)
    mask = mask_of(tree, allowed) if filtered and not scans else blank(0, np.uint8)
    if filtered:  # the best of fewer memories have less in common with the query
        effort = Effort(
            effort.skipped * np.sqrt(allowed.shape[0] / (memories + 1)), effort.entries, effort.scored, effort.exact
        )
    usual = Room(sums, shortlist_for(effort, ids.shape[1], memories), best_rows, best)
    more = Effort(effort.skipped / MORE_READ, effort.entries, effort.scored * MORE_SCORED, effort.exact)
    wide = Room(sums, shortlist_for(more, ids.shape[1], memories), best_rows, best)
    may_repeat = beam == NONE and not filtered and explore == 0 and lists.counters[CALIBRATED] > 0
    for i in range(first, last):
        x, only = row_of(tree, X, i), Filter(excluded[bounds[i] : bounds[i + 1]], mask)
        terms, weights = known_terms(lists, x)
        if fits:
            prepared = fill_table(tree, lists, x, terms, weights, (table, values, True))
        else:
            prepared = prepare(tree, lists, x, terms, weights)
        query = Query(x, terms, weights, prepared, np.sqrt(prepared.squared_length))
        if scans:
            filled = scan(tree, lists, query, scanned, only.excluded, best_rows, best)
        else:
            chosen = choose_lists(tree, lists, terms, weights, effort)
            if explore > 0:
                chosen = explore_list(tree, terms, chosen, decisions[i - first], (explore, draw + i))
            filled = read_and_rank(tree, lists, query, chosen, usual, only, effort.exact)
            if may_repeat and is_unusual(tree, lists, query, best, filled):
                chosen = choose_lists(tree, lists, terms, weights, more)
                filled = read_and_rank(tree, lists, query, chosen, wide, only, True)
            if filled < best.shape[0]:
                filled = fill_with_newest(tree, lists, query, only, best_rows, best, filled)
        search.report(tree, i - first, filled, best_rows, best, ids, scores)
        if fits:
            clear_table(prepared, terms)
    return fits


@kernel
def score_rows(tree, lists, X, ids, scores):
    """Score stored memories: scores[i, j] (float32) becomes the score of ids[i, j] for row i, -inf if it is not stored."""
    for i in range(ids.shape[0]):
        x = row_of(tree, X, i)
        terms, weights = known_terms(lists, x)
        prepared = prepare(tree, lists, x, terms, weights)
        for j in range(ids.shape[1]):
            row = row_of_id(tree, ids[i, j])
            scores[i, j] = -np.inf
            if row != NONE:
                scores[i, j] = score(tree, weighted_distance(tree, tree.rows[row, SLOT], prepared, lists))
