"""Calibration: how much a query must read and score for a recall, measured on stored keys.

At each doubling of the memories, or of the lessons of importances, a sample of the stored keys is asked for the ten nearest
memories beside each, once by all lists, and then by the lists that remain when the shares `SKIPS` are left unread. The
tables `reads` and `recalls` say how many entries that takes, and which part of the ten nearest is among the candidates that
would be scored. `effort_for` in `query.py` chooses by them.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine.arrays import MEMORIES, SLOT
from memorytree.engine.dispatch import compares_lengths, load_key, partial_score
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.rng import GAMMA, mix
from memorytree.engine.terms.candidates import (
    Filter,
    Query,
    Sums,
    add_list,
    collect_candidates,
    factor_of,
    new_shortlist,
    select_candidates,
)
from memorytree.engine.terms.lists import CALIBRATED, CALIBRATED_LESSONS, LEARNED, LENGTH, LESSONS, RANKS, SCORED, SKIPS
from memorytree.engine.terms.query import Effort, choose_lists, prepare
from memorytree.engine.terms.scoring import relative_distance, score_exactly

FEW_SAMPLES, MANY_SAMPLES, MANY_MEMORIES = 64, 128, 2**14
"""How many stored keys are asked; many from this number of memories on."""
UNUSUAL = 32
"""One in so many samples is further from its nearest memories than `usual`."""
FIRST_CALIBRATION = 1024
FIRST_LESSONS = 256
CONSIDERED = 512
"""The ten nearest are chosen among so many candidates."""

Truth = namedtuple("Truth", "rows estimates ranks lengths")
"""The nearest memories of a key: rows, int64 (n,), partial scores, float64 (n,), and how many others score better.

`lengths` are those of all keys in ascending order, float32 (memories,), if keys without common terms may be nearest."""


@helper
def calibration_due(tree, lists):
    """Return whether memories or lessons have doubled since the last calibration, or a quarter of the memories is left."""
    memories, counters = tree.counters[MEMORIES], lists.counters
    last, lessons = counters[CALIBRATED], counters[CALIBRATED_LESSONS]
    if memories < FIRST_CALIBRATION:
        return False
    return memories >= 2 * last or 4 * memories <= last or counters[LESSONS] >= max(2 * lessons, FIRST_LESSONS)


@helper
def nearest(tree, lists, query, order, row, sums):
    """Return the rows (int64) and distances of the ten nearest memories of a stored key beside itself, by all lists."""
    collected = collect_candidates(tree, lists, query, (order, order.shape[0]), sums)
    shortlist = new_shortlist(CONSIDERED)
    only = Filter(tree.row_ids[row : row + 1], blank(0, np.uint8))
    sums.totals[row] = np.nan
    filled, equal = select_candidates(tree, lists, query, collected, sums, only, shortlist)
    best_rows, best = blank(RANKS, np.int64), blank(RANKS, np.float64)
    found = score_exactly(tree, lists, query, shortlist.rows[:filled], best_rows, best, 0)
    found = score_exactly(tree, lists, query, sums.touched[:equal], best_rows, best, found)
    return best_rows[:found], best[:found]


@helper
def estimate(tree, lists, query, row, total):
    """Return the partial score of a memory with this total; -inf where it would not become a candidate."""
    return partial_score(tree, lists, row, total * query.norm) if total != 0 or compares_lengths(tree) else -np.inf


@helper
def number_shorter(truth, partial):
    """Return how many keys are so short that they would score better without a common term."""
    if truth.lengths.shape[0] == 0 or partial >= 0:
        return np.int64(0)
    return np.int64(np.searchsorted(truth.lengths, np.float32(np.sqrt(-partial))))


@helper
def rank_nearest(tree, lists, query, own, truth, sums, found):
    """Count for each of the nearest memories how many others score better; equal keys are always scored."""
    totals, touched = sums
    least = np.inf
    for j in range(truth.rows.shape[0]):
        total = totals[truth.rows[j]]
        truth.estimates[j] = np.inf if total == own else estimate(tree, lists, query, truth.rows[j], total)
        truth.ranks[j] = number_shorter(truth, truth.estimates[j]) if truth.estimates[j] > -np.inf else 2**30
        least = min(least, truth.estimates[j])
    for u in range(found):
        row = np.int64(touched[u])
        partial, length = estimate(tree, lists, query, row, totals[row]), np.float64(lists.norms[row, LEARNED])
        if max(partial, -length * length if truth.lengths.shape[0] else -np.inf) > least:
            for j in range(truth.rows.shape[0]):
                counted = truth.lengths.shape[0] > 0 and -length * length > truth.estimates[j]
                truth.ranks[j] += np.int64(partial > truth.estimates[j]) - np.int64(counted)


@helper
def sample(tree, lists, row, sums, lengths, distances):
    """Add the measurements of one stored key to `reads` and `recalls`; returns how many nearest memories it has.

    distances, float32 (RANKS,), receives how far they are.
    """
    x = load_key(tree, tree.rows[row, SLOT])
    terms = x[0].astype(np.int64)
    prepared = prepare(tree, lists, x, terms, x[1])
    query = Query(x, terms, x[1], prepared, np.sqrt(prepared.squared_length))
    order, _ = choose_lists(tree, lists, terms, x[1], Effort(0.0, np.inf, 0, False))
    rows, best = nearest(tree, lists, query, order, row, sums)
    for j in range(rows.shape[0]):
        distances[j] = relative_distance(tree, query, best[j])
    truth = Truth(rows, blank(rows.shape[0], np.float64), blank(rows.shape[0], np.int64), lengths)
    found, entries, own, taken = 0, 0, np.float32(0), 0
    for i in range(len(SKIPS) - 1, -1, -1):
        _, number = choose_lists(tree, lists, terms, x[1], Effort(SKIPS[i], np.inf, 0, False))
        for j in order[taken:number]:
            found = add_list(lists, terms[j], factor_of(tree, lists, query, j), sums, found)
            entries += lists.lists[terms[j], LENGTH]
        if number > taken or i == len(SKIPS) - 1:
            kept = sums.totals[row]
            own, sums.totals[row] = kept, np.nan if kept != 0 else np.float32(0)
            rank_nearest(tree, lists, query, own, truth, sums, found)
            sums.totals[row] = kept
        taken = number
        lists.reads[i] += entries
        for j in range(rows.shape[0]):
            for place in range(len(SCORED)):
                lists.recalls[i, place] += truth.ranks[j] < SCORED[place]
    for u in range(found):
        sums.totals[sums.touched[u]] = 0
    return rows.shape[0]


@kernel
def calibrate(tree, lists):
    """Measure `reads` and `recalls`."""
    memories = tree.counters[MEMORIES]
    lists.counters[CALIBRATED], lists.counters[CALIBRATED_LESSONS] = memories, lists.counters[LESSONS]
    lists.reads[:], lists.recalls[:] = 0, 0
    sums = Sums(np.zeros(memories, np.float32), blank(memories + 1, np.int32))
    lengths = np.sort(lists.norms[: memories if compares_lengths(tree) else 0, LEARNED])
    samples = MANY_SAMPLES if memories >= MANY_MEMORIES else FEW_SAMPLES
    distances, nearest_found = np.full((samples, RANKS), np.inf, np.float32), 0
    for i in range(samples):
        row = np.int64(mix(np.uint64(tree.settings.seed) + GAMMA * np.uint64(i)) % np.uint64(memories))
        nearest_found += sample(tree, lists, row, sums, lengths, distances[i])
    for j in range(RANKS):
        lists.usual[j] = np.sort(distances[:, j])[samples - 1 - samples // UNUSUAL]
    for i in range(len(SKIPS)):
        lists.reads[i] /= samples
        for place in range(len(SCORED)):
            lists.recalls[i, place] = lists.recalls[i, place] / nearest_found if nearest_found else 1
