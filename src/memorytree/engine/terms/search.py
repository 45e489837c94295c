"""Queries of term lists: reading the lists of the heaviest terms, and scoring the most promising memories exactly."""

from collections import namedtuple

import numpy as np

from memorytree.engine import search
from memorytree.engine.arrays import MEMORIES, NEWEST, NONE, OLDER, SLOT
from memorytree.engine.dispatch import estimated_distance, partial_score, row_of, score, term_weight, weighted_distance
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.heap import push, replace_top
from memorytree.engine.jit import blank, helper, kernel, prefetch
from memorytree.engine.rng import below, seeded, uniform
from memorytree.engine.search import AT_LEAF, BRANCH, GENERATION_OF_NODE, NODE
from memorytree.engine.sparse import unsigned_range
from memorytree.engine.terms.lists import BEGIN, FLAGS, GONE, LENGTH, NO_FEATURE
from memorytree.engine.terms.query import choose_lists, entries_in, known_terms, prepare

Candidates = namedtuple("Candidates", "entries sums used")
"""The memories found in lists: a hash map from rows to partial dot products.

entries  int32 (size, 2): row and, through `sums`, the same memory as float32, its sum, so that both lie side by side
used     int32 (size,): the places of `entries` in use, in the order in which they were found
"""

Shortlist = namedtuple("Shortlist", "rows partial_scores")
"""The most promising candidates, to be scored exactly: rows, int64 (n,), and partial scores, float64 (n,)."""

ROW, SUM = 0, 1  # columns of `entries` and of `sums`
CLASSES = 256  # classes of partial scores into which candidates are sorted
ENTRIES_A_LINE = 16  # entries of four bytes in a cache line of 64
AHEAD = 8  # how many candidates in advance a key is prefetched


# ---- candidates


@helper
def prefetch_lists(lists, terms, order, number):
    """Start loading the lists that are read next; all their places are known before the first is read."""
    for j in range(number):
        begin = lists.lists[terms[order[j]], BEGIN]
        for entry in range(begin, begin + lists.lists[terms[order[j]], LENGTH], ENTRIES_A_LINE):
            prefetch(lists.members, entry)
            prefetch(lists.weights, entry)


@helper
def find_row(entries, row):
    """Return the place of a row in a table of candidates, or the empty place where it belongs, as an unsigned index."""
    last = np.uint64(entries.shape[0] - 1)
    place = np.uint64(row * 0x9E3779B1 >> 7) & last
    while entries[place, ROW] != row and entries[place, ROW] != NONE:
        place = (place + np.uint64(1)) & last
    return place


@helper
def add_list(lists, term, factor, candidates, found):
    """Add factor * weight to the sum of each memory in a list; returns how many candidates there are."""
    entries, sums, used = candidates
    begin = lists.lists[term, BEGIN]
    members, weights, lengths = lists.members, lists.weights, lists.lengths
    for entry in unsigned_range(begin, begin + lists.lists[term, LENGTH]):
        row = np.int64(members[entry] >> FLAGS)
        place = find_row(entries, row)
        if entries[place, ROW] == NONE:
            entries[place, ROW] = row
            sums[place, SUM] = factor * weights[entry]
            used[found] = place
            prefetch(lengths, row)
            found += 1
        else:
            sums[place, SUM] += factor * weights[entry]
    return found


@helper
def collect_candidates(tree, lists, query, chosen, candidates):
    """Read the chosen lists into the empty table of candidates, which is large enough; returns how many there are.

    query is (x, terms, weights), chosen the result of `choose_lists`.
    """
    x, terms, weights = query
    order, number = chosen
    found = 0
    prefetch_lists(lists, terms, order, number)
    for j in range(number):
        term = terms[order[j]]
        found = add_list(lists, term, term_weight(tree, lists, term) * weights[order[j]], candidates, found)
    if x[0].shape[0] == 0:
        found = add_list(lists, np.int64(NO_FEATURE), np.float32(0), candidates, found)
    return found


@helper
def exclude(tree, entries, excluded):
    """Mark the candidates with these ids as gone."""
    for id in excluded:
        row = row_of_id(tree, id)
        if row != NONE:
            place = find_row(entries, row)
            if entries[place, ROW] != NONE:
                entries[place, ROW] = GONE


@helper
def empty_candidates(tree, lists, candidates, found, scores):
    """Empty the table of candidates, and write those that are not gone, as rows, to the front of `used`.

    scores (float64) receives their partial scores. Returns (how many there are, their least, their largest score).
    """
    entries, sums, used = candidates
    there, least, most = 0, np.inf, -np.inf
    for u in range(found):
        place = used[u]
        row = np.int64(entries[place, ROW])
        entries[place, ROW] = NONE
        if row != GONE:
            partial = partial_score(tree, np.float64(sums[place, SUM]), np.float64(lists.lengths[row]))
            least, most = min(least, partial), max(most, partial)
            scores[there], used[there] = partial, row
            there += 1
    return there, least, most


@helper
def select_candidates(tree, lists, candidates, found, shortlist):
    """Copy the most promising candidates to the shortlist, as many as fit, and empty the table; returns how many.

    Candidates are counted in classes of equal width between the least and the largest partial score. The classes above the
    one in which the shortlist becomes full are copied completely, best class first: when candidates are scored in about the
    right order, most find their final place at once. Only within that one class a heap selects the best.
    """
    used, room = candidates.used, shortlist.rows.shape[0]
    scores = blank(found, np.float64)
    there, least, most = empty_candidates(tree, lists, candidates, found, scores)
    if there <= room:
        # Not slices: for their error message Numba compiles string formatting, a tenth of the time to the first answer.
        for u in range(there):
            shortlist.rows[u], shortlist.partial_scores[u] = used[u], scores[u]
        return there
    scale = (CLASSES - 1) / (most - least) if most - least > 1e-300 else 0.0
    counts = np.zeros(CLASSES, np.int64)
    for u in range(there):
        counts[np.int64((scores[u] - least) * scale)] += 1
    edge, left = CLASSES - 1, room - counts[CLASSES - 1]
    while left > 0:
        edge -= 1
        left -= counts[edge]
    first = 0  # place of each class above the edge, and then of the class at the edge
    for above in range(CLASSES - 1, edge, -1):
        counts[above], first = first, first + counts[above]
    filled = first
    heap, items = shortlist.partial_scores[first:], shortlist.rows[first:]
    for u in range(there):
        kind = np.int64((scores[u] - least) * scale)
        if kind > edge:
            shortlist.rows[counts[kind]], shortlist.partial_scores[counts[kind]] = used[u], scores[u]
            counts[kind] += 1
        elif kind == edge:
            if filled < room:
                push(heap, items, filled - first, scores[u], used[u])
                filled += 1
            elif scores[u] > heap[0]:
                replace_top(heap, items, filled - first, scores[u], used[u])
    return room


# ---- exact scores


@helper
def prefetch_spans(tree, rows, number):
    """Start loading where the keys of candidates are stored; all are known before the first is scored."""
    for j in range(number):
        prefetch(tree.rows, rows[j] * tree.rows.shape[1])
    for j in range(number):
        prefetch(tree.spans, np.int64(tree.rows[rows[j], SLOT]) * tree.spans.shape[1])
        prefetch(tree.row_ids, rows[j])


@helper
def prefetch_key(tree, row):
    """Start loading a key."""
    slot = tree.rows[row, SLOT]
    first, last = tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1] - 1
    for entry in range(first, last, ENTRIES_A_LINE):
        prefetch(tree.key_features, entry)
        prefetch(tree.key_weights, entry)
    prefetch(tree.key_features, last)  # a short key lies in two cache lines as often as in one
    prefetch(tree.key_weights, last)


@helper
def score_exactly(tree, lists, query, shortlist, number, best_rows, best):
    """Find the best of the shortlist by exact distances; query is (x, prepared). Returns how many places are filled."""
    x, prepared = query
    rows = shortlist.rows
    prefetch_spans(tree, rows, number)
    for j in range(min(AHEAD, number)):
        prefetch_key(tree, rows[j])
    found = np.int64(0)
    for j in range(number):
        if j + AHEAD < number:
            prefetch_key(tree, rows[j + AHEAD])
        distance = weighted_distance(tree, tree.rows[rows[j], SLOT], prepared, lists)
        if found < best.shape[0] or distance <= best[found - 1]:
            found = search.offer_row(tree, rows[j], x, distance, best_rows, best, found)
    return found


@helper
def rank_by_estimate(tree, query, shortlist, number, best_rows, best):
    """Find the best of the shortlist by estimated distances; query is (x, prepared). Returns how many places are filled."""
    x, prepared = query
    found = np.int64(0)
    for j in range(number):
        distance = estimated_distance(tree, shortlist.partial_scores[j], prepared)
        if found < best.shape[0] or distance <= best[found - 1]:
            found = search.offer_row(tree, shortlist.rows[j], x, distance, best_rows, best, found)
    return found


@helper
def fill_with_newest(tree, lists, query, excluded, best_rows, best, found):
    """Fill the other places with the most recently used memories; query is (x, prepared). Returns how many are filled."""
    x, prepared = query
    row = tree.counters[NEWEST]
    while row != NONE and found < best.shape[0]:
        there = False
        for j in range(found):
            there = there or best_rows[j] == row
        if not there and not search.is_excluded(excluded, tree.row_ids[row]):
            distance = weighted_distance(tree, tree.rows[row, SLOT], prepared, lists)
            found = search.offer_row(tree, row, x, distance, best_rows, best, found)
        row = np.int64(tree.rows[row, OLDER])
    return found


# ---- entry points


@helper
def explore_list(tree, terms, chosen, decision, chance):
    """With probability `explore` replace one of the chosen lists by the next heaviest one; chance is (explore, draw).

    `decision`, int64 (4,), records the term as the explored leaf.
    """
    order, number = chosen
    explore, draw = chance
    if order.shape[0] > number:
        stream = seeded(tree.settings.seed, draw)
        if uniform(stream) < explore:
            swapped = below(stream, number)
            decision[BRANCH], decision[NODE], decision[GENERATION_OF_NODE] = AT_LEAF, terms[order[swapped]], 0
            order[swapped] = order[number]


@helper
def table_size(entries):
    """Return the size of a table of candidates for this many entries; at least half of it stays empty."""
    size = 1024
    while size < 2 * entries:
        size *= 2
    return size


@kernel
def query_rows(tree, lists, X, rows, exclusions, output, options):
    """Answer rows first .. last - 1 of a batch.

    The arguments are plain tuples, which Python passes faster than named ones (`docs/internals/numba.md`):

    rows        (first, last)
    exclusions  (bounds, ids), int64: ids[bounds[i] : bounds[i + 1]] are not returned for row i
    output      (ids, scores, decisions), int64, float32 and int64, a row for each row asked; decisions only if explore > 0
    options     (beam, explore, draw): the beam multiplies how much is read and scored; with the beam 0 as much is read as
                with 1, and scores are estimates. With probability `explore` one of the lists, at random, is replaced by the
                heaviest that would not have been read; row i uses the random numbers of draw + i.
    """
    first, last = rows
    bounds, excluded = exclusions
    ids, scores, decisions = output
    beam, explore, draw = options
    memories, exact = tree.counters[MEMORIES], beam > 0
    beam = max(min(beam, memories + 1), 1)
    best_rows, best = blank(ids.shape[1], np.int64), blank(ids.shape[1], np.float64)
    room = min(max(lists.settings.scored * beam, ids.shape[1]), max(memories, 1))
    shortlist = Shortlist(blank(room, np.int64), blank(room, np.float64))
    entries, used = blank((0, 2), np.int32), blank(0, np.int32)
    for i in range(first, last):
        x = row_of(tree, X, i)
        terms, weights = known_terms(lists, x)
        prepared = prepare(tree, lists, x, terms, weights)
        chosen = choose_lists(tree, lists, terms, weights, beam)
        if explore > 0:
            explore_list(tree, terms, chosen, decisions[i - first], (explore, draw + i))
        most = min(entries_in(lists, x, terms, chosen[0], chosen[1]), memories) + 1
        if 2 * most > entries.shape[0]:
            size = table_size(most)
            entries, used = np.full((size, 2), NONE, np.int32), blank(size, np.int32)
        candidates = Candidates(entries, entries.view(np.float32), used)
        found = collect_candidates(tree, lists, (x, terms, weights), chosen, candidates)
        out = excluded[bounds[i] : bounds[i + 1]]
        exclude(tree, entries, out)
        number = select_candidates(tree, lists, candidates, found, shortlist)
        if exact:
            filled = score_exactly(tree, lists, (x, prepared), shortlist, number, best_rows, best)
        else:
            filled = rank_by_estimate(tree, (x, prepared), shortlist, number, best_rows, best)
        if filled < best.shape[0]:
            filled = fill_with_newest(tree, lists, (x, prepared), out, best_rows, best, filled)
        search.report(tree, i - first, filled, best_rows, best, ids, scores)


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
