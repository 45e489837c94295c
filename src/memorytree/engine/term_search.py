"""Lists by term at work: how a query reads them."""

from collections import namedtuple

import numpy as np

from memorytree.engine import layout, search
from memorytree.engine.compile import blank, helper, kernel, prefetch
from memorytree.engine.declared import guess, promise, row_of, score, term_weight, weighed_dissimilarity
from memorytree.engine.lists import (
    BEGIN,
    FLAGS,
    GONE,
    LENGTH,
    MOST,
    NO_FEATURE,
    TERMS,
    term_of,
)
from memorytree.engine.rng import below, seeded, uniform
from memorytree.engine.search import AT_LEAF, BRANCH, GENERATION_OF_NODE, NODE
from memorytree.engine.sparse import NEAR, SMALLEST_TABLE, entries, place_in
from memorytree.engine.state import MEMORIES, NEWEST, NONE, OLDER, SLOT

Prepared = namedtuple("Prepared", "table values direct terms squared_length learned_length")
"""A query: an open-addressing table from its terms to its weights (0 where there is none, so that comparing takes no
branch), whether it has a place for every term instead, how many features the query has, and the sum of the squares of their
weights by what terms count, and by importance."""


@helper
def known_terms(lists, x):
    """Those features of a key that are terms, as terms, and their weights."""
    features, weights = x
    terms, values = blank(features.shape[0], np.int64), blank(features.shape[0], np.float32)
    known = 0
    for j in range(features.shape[0]):
        term = term_of(lists, features[j])
        if term != NONE:
            terms[known], values[known] = term, weights[j]
            known += 1
    return terms[:known], values[:known]


@helper
def prepare(tree, lists, x, terms, weights):
    """A query in the form in which stored keys are compared with it. Features that are no terms count for its length."""
    size = SMALLEST_TABLE
    while size < 16 * terms.shape[0]:
        size *= 2
    direct = lists.counters[TERMS] <= NEAR * size
    if direct:
        size = lists.counters[TERMS]
    table, values = blank(size, np.int32), blank(size, np.float32)
    for place in range(size):
        table[place], values[place] = NONE, 0
    squared_length, learned_length = 0.0, 0.0
    for j in range(terms.shape[0]):
        place = terms[j] if direct else place_in(table, terms[j])
        table[place], values[place] = terms[j], weights[j]
        squared_length += np.float64(term_weight(tree, lists, terms[j])) * weights[j] * weights[j]
        learned_length += np.float64(lists.importance[terms[j]]) * weights[j] * weights[j]
    # In this order a key and its equal come to the same length, bit by bit.
    if terms.shape[0] < x[0].shape[0]:
        unknown = np.float64(term_weight(tree, lists, NO_FEATURE))
        for j in range(x[0].shape[0]):
            if term_of(lists, x[0][j]) == NONE:
                squared_length += unknown * x[1][j] * x[1][j]
                learned_length += np.float64(x[1][j]) * x[1][j]
    return Prepared(table, values, direct, x[0].shape[0], squared_length, learned_length)


@helper
def choose_lists(tree, lists, terms, weights, beam):
    """The heaviest terms of a query, by weight and importance, whose lists are to be read: (order, how many of them).

    As many as hold `reads` * log2 n entries, times the beam; and no fewer than a memory's homes, however long those are.
    One more follows in the order, if there is one: the list that exploration may take instead.
    """
    costs, order = blank(terms.shape[0] + 1, np.float64), blank(terms.shape[0] + 1, np.int64)
    for j in range(terms.shape[0]):
        search.push(costs, order, j, -np.float64(abs(weights[j])) * term_weight(tree, lists, terms[j]), j)
    chosen = blank(terms.shape[0] + 1, np.int64)
    left = lists.settings.reads * np.log2(lists.counters[MOST] + 2.0) * beam
    taken, number = 0, 0
    for size in range(terms.shape[0], 0, -1):
        _, j = search.pop(costs, order, size)
        chosen[taken] = j
        taken += 1
        if left <= 0 and number >= lists.settings.homes * beam:
            break
        number = taken
        left -= lists.lists[terms[j], LENGTH]
    return chosen[:taken], number


@helper
def entries_in(lists, x, terms, order, number):
    """How many entries the lists hold that a query is to read."""
    entries = np.int64(0) if x[0].shape[0] else lists.lists[NO_FEATURE, LENGTH]
    for j in range(number):
        entries += lists.lists[terms[order[j]], LENGTH]
    return entries


@kernel
def entries_for(tree, lists, X):
    """The same for the first key of a batch."""
    x = row_of(tree, X, 0)
    terms, weights = known_terms(lists, x)
    order, number = choose_lists(tree, lists, terms, weights, 1)
    return entries_in(lists, x, terms, order, number)


@kernel
def weights_of(tree, lists, features):
    """How much features count today."""
    weights = blank(features.shape[0], np.float32)
    for j in range(features.shape[0]):
        term = term_of(lists, features[j])
        weights[j] = term_weight(tree, lists, NO_FEATURE if term == NONE else term)
    return weights


# Into how many classes candidates are sorted by what they promise.
CLASSES = 256
ENTRIES_A_LINE = 16  # four bytes each, in a cache line of 64
AHEAD = 8  # how many candidates before its turn a key is fetched


@helper
def fetch_lists(lists, terms, order, number):
    """Have lists at hand: each lies elsewhere, but all are known before the first is read."""
    for j in range(number):
        begin = lists.lists[terms[order[j]], BEGIN]
        for entry in range(begin, begin + lists.lists[terms[order[j]], LENGTH], ENTRIES_A_LINE):
            prefetch(lists.members, entry)
            prefetch(lists.weights, entry)


ROW, SUM = 0, 1  # of a place in a table of candidates, so that both lie side by side; the sum is a number of 32 bits


@helper
def find_row(rows, row):
    """The place of a row in a table of candidates, or the empty place where it would go."""
    last = np.uint64(rows.shape[0] - 1)
    place = np.uint64(row * 0x9E3779B1 >> 7) & last
    while rows[place, ROW] != row and rows[place, ROW] != NONE:
        place = (place + np.uint64(1)) & last
    return place


@helper
def add_list(lists, term, factor, rows, sums, used, found):
    """Add what a term contributes to the score of each memory in its list; returns how many candidates there are."""
    begin = lists.lists[term, BEGIN]
    members, weights, lengths = lists.members, lists.weights, lists.lengths
    for entry in entries(begin, begin + lists.lists[term, LENGTH]):
        row = np.int64(members[entry] >> FLAGS)
        place = find_row(rows, row)
        if rows[place, ROW] == NONE:
            rows[place, ROW] = row
            sums[place, SUM] = factor * weights[entry]
            used[found] = place
            prefetch(lengths, row)
            found += 1
        else:
            sums[place, SUM] += factor * weights[entry]
    return found


@helper
def select(tree, lists, rows, sums, used, found, promises, candidates):
    """The most promising candidates, as many as there is room for, with what they promise, and an empty table; returns how
    many.

    Candidates are counted by classes of equal width between the least and the most promising. The classes above the one at
    which the room runs out are taken whole, the best class first: what is scored in about the right order finds its place
    among the best at once. Only within that one class the best are picked by a heap.
    """
    lengths, room = lists.lengths, promises.shape[0]
    hopes, there = blank(found, np.float64), 0
    least, most = np.inf, -np.inf
    for u in range(found):
        place = np.uint32(used[u])
        row = np.int64(rows[place, ROW])
        rows[place, ROW] = NONE
        if row != GONE:
            hope = promise(tree, np.float64(sums[place, SUM]), np.float64(lengths[np.uint64(row)]))
            least, most = min(least, hope), max(most, hope)
            hopes[there], used[there] = hope, row
            there += 1
    if there <= room:
        candidates[:there], promises[:there] = used[:there], hopes[:there]
        return there
    scale = (CLASSES - 1) / (most - least) if most - least > 1e-300 else 0.0
    counts = np.zeros(CLASSES, np.int64)
    for u in range(there):
        counts[np.uint64((hopes[u] - least) * scale)] += 1
    edge, left = CLASSES - 1, room - counts[CLASSES - 1]
    while left > 0:
        edge -= 1
        left -= counts[edge]
    first = 0  # of each class above, and then of that one
    for above in range(CLASSES - 1, edge, -1):
        counts[above], first = first, first + counts[above]
    filled = first
    heap, members = promises[first:], candidates[first:]
    for u in range(there):
        kind = np.int64((hopes[u] - least) * scale)
        if kind > edge:
            candidates[counts[kind]], promises[counts[kind]] = used[u], hopes[u]
            counts[kind] += 1
        elif kind == edge:
            if filled < room:
                search.push(heap, members, filled - first, hopes[u], used[u])
                filled += 1
            elif hopes[u] > heap[0]:
                search.replace_top(heap, members, filled - first, hopes[u], used[u])
    return room


@helper
def fetch_spans(tree, candidates, number):
    """Have at hand where the keys of candidates lie: each elsewhere, but all are known before the first is scored."""
    for j in range(number):
        prefetch(tree.rows, candidates[j] * tree.rows.shape[1])
    for j in range(number):
        prefetch(tree.spans, np.int64(tree.rows[candidates[j], SLOT]) * tree.spans.shape[1])
        prefetch(tree.row_ids, candidates[j])


@helper
def fetch_key(tree, row):
    """Have a key at hand, all of its cache lines."""
    slot = tree.rows[row, SLOT]
    first, last = tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1] - 1
    for entry in range(first, last, ENTRIES_A_LINE):
        prefetch(tree.key_features, entry)
        prefetch(tree.key_weights, entry)
    prefetch(tree.key_features, last)  # a short key lies in two cache lines as often as in one
    prefetch(tree.key_weights, last)


@helper
def fill_up(tree, lists, x, prepared, excluded, best_rows, best, found):
    """Where too few memories share a term with the query, those used last complete the answer."""
    row = tree.counters[NEWEST]
    while row != NONE and found < best.shape[0]:
        there = False
        for j in range(found):
            there = there or best_rows[j] == row
        if not there and not search.is_excluded(excluded, tree.row_ids[row]):
            badness = weighed_dissimilarity(tree, tree.rows[row, SLOT], prepared, lists)
            found = search.offer_row(tree, row, x, badness, best_rows, best, found)
        row = np.int64(tree.rows[row, OLDER])
    return found


@kernel
def query_rows(tree, lists, X, request, excluded, answer, decisions):
    """Answer rows first .. last - 1: read the lists of the heaviest terms, score the most promising candidates exactly. If
    the beam is 0, as much is read as if it were 1, and scores are what candidates promise.

    With probability `explore` one of the lists, at random, gives way to the heaviest that would not have been read; the
    trace says so as a leaf explored, and which term it was.
    """
    (first, last, beam, explore, draw), (bounds, left_out), (ids, scores) = request, excluded, answer
    memories, exact = tree.counters[MEMORIES], beam > 0
    beam = max(min(beam, memories + 1), 1)
    best_rows, best = blank(ids.shape[1], np.int64), blank(ids.shape[1], np.float64)
    room = min(max(lists.settings.scored * beam, ids.shape[1]), max(memories, 1))
    promises, candidates = blank(room, np.float64), blank(room, np.int64)
    rows, used = blank((0, 2), np.int32), blank(0, np.int32)
    sums = rows.view(np.float32)
    for i in range(first, last):
        x = row_of(tree, X, i)
        terms, weights = known_terms(lists, x)
        prepared = prepare(tree, lists, x, terms, weights)
        order, number = choose_lists(tree, lists, terms, weights, beam)
        if explore > 0 and order.shape[0] > number:
            stream = seeded(tree.settings.seed, draw + i)
            if uniform(stream) < explore:
                swapped = below(stream, number)
                decision = decisions[i - first]
                decision[BRANCH], decision[NODE], decision[GENERATION_OF_NODE] = AT_LEAF, terms[order[swapped]], 0
                order[swapped] = order[number]
        entries = min(entries_in(lists, x, terms, order, number), memories) + 1
        if 2 * entries > rows.shape[0]:
            size = 1024
            while size < 2 * entries:
                size *= 2
            rows, used = np.full((size, 2), NONE, np.int32), blank(size, np.int32)
            sums = rows.view(np.float32)
        found = 0
        fetch_lists(lists, terms, order, number)
        for j in range(number):
            term = terms[order[j]]
            found = add_list(lists, term, term_weight(tree, lists, term) * weights[order[j]], rows, sums, used, found)
        if x[0].shape[0] == 0:
            found = add_list(lists, np.int64(NO_FEATURE), np.float32(0), rows, sums, used, found)
        out = left_out[bounds[i] : bounds[i + 1]]
        for id in out:
            row = layout.row_of_id(tree, id)
            if row != NONE:
                place = find_row(rows, row)
                if rows[place, ROW] != NONE:
                    rows[place, ROW] = GONE
        promising = select(tree, lists, rows, sums, used, found, promises, candidates)
        if exact:
            fetch_spans(tree, candidates, promising)
            for j in range(min(AHEAD, promising)):
                fetch_key(tree, candidates[j])
        found = np.int64(0)
        for j in range(promising):
            if exact:
                if j + AHEAD < promising:
                    fetch_key(tree, candidates[j + AHEAD])
                badness = weighed_dissimilarity(tree, tree.rows[candidates[j], SLOT], prepared, lists)
            else:
                badness = guess(tree, promises[j], prepared)
            if found < best.shape[0] or badness <= best[found - 1]:
                found = search.offer_row(tree, candidates[j], x, badness, best_rows, best, found)
        if found < best.shape[0]:
            found = fill_up(tree, lists, x, prepared, out, best_rows, best, found)
        search.report(tree, i - first, found, best_rows, best, ids, scores)


@kernel
def score_rows(tree, lists, X, ids, scores):
    """The scores of the memories ids[i] for row i; -inf for ids that are not stored."""
    for i in range(ids.shape[0]):
        x = row_of(tree, X, i)
        terms, weights = known_terms(lists, x)
        prepared = prepare(tree, lists, x, terms, weights)
        for j in range(ids.shape[1]):
            row = layout.row_of_id(tree, ids[i, j])
            scores[i, j] = -np.inf
            if row != NONE:
                badness = weighed_dissimilarity(tree, tree.rows[row, SLOT], prepared, lists)
                scores[i, j] = score(tree, badness)
