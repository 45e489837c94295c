"""Preparing a query of term lists: its known terms, their weights, and which lists to read."""

from collections import namedtuple

import numpy as np

from memorytree.engine.arrays import MEMORIES, NONE, POOL_LIVE
from memorytree.engine.dispatch import row_of, term_weight
from memorytree.engine.hash_map import DIRECT_TABLE_RATIO, SMALLEST_TABLE, place_in
from memorytree.engine.heap import pop, push
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.terms.lists import CALIBRATED, LENGTH, NO_FEATURE, RANKS, SCORED, SKIPS, TERMS, term_of

PreparedQuery = namedtuple("PreparedQuery", "table values direct terms squared_length learned_length")
"""A query in the form in which stored keys are compared with it.

table           int32 (size,), hash map of the query's terms (`hash_map.py`); values, float32 (size,), their weights, and 0
                in empty places, so that comparing needs no branch
direct          whether the table has a place for every term instead
terms           number of features of the query, known or not
squared_length  sum of squares of its weights, by term weights; learned_length the same by importances
"""

Effort = namedtuple("Effort", "skipped entries scored exact")
"""How much a query reads and compares.

skipped  lists are left unread that hold at most this share of the squared length of the query's known terms; less where the
         query has more terms than keys have, as a key can then have only few of them
entries  no further list is read after so many entries
scored   so many candidates are scored exactly; if not `exact`, they are ranked by what the lists tell
"""

FIRST_SCORED = 64
"""Candidates that are scored for ten hits before lists have been calibrated; then all lists are read."""
MARGIN = 0.25
"""A recall is measured on a sample, so this part of what it may miss is aimed at in addition."""
COST_OF_SCORING = 60
"""Scoring a candidate takes as long as reading so many entries, and one more for every second term of its key."""


@helper
def known_terms(lists, x):
    """Return (terms, weights) of those features of a key that have terms."""
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
    """Return the prepared query of a key x with these known terms. Other features count only towards its length."""
    size = SMALLEST_TABLE
    while size < 16 * terms.shape[0]:
        size *= 2
    direct = lists.counters[TERMS] <= DIRECT_TABLE_RATIO * size
    if direct:
        size = lists.counters[TERMS]
    table, values = blank(size, np.int32), blank(size, np.float32)
    for place in range(size):
        table[place], values[place] = NONE, 0
    return fill_table(tree, lists, x, terms, weights, (table, values, direct))


@helper
def fill_table(tree, lists, x, terms, weights, empty):
    """Return the prepared query in an empty table, (table, values, direct) of `PreparedQuery`."""
    table, values, direct = empty
    squared_length, learned_length = 0.0, 0.0
    for j in range(terms.shape[0]):
        place = terms[j] if direct else place_in(table, terms[j])
        table[place], values[place] = terms[j], weights[j]
        squared_length += np.float64(term_weight(tree, lists, terms[j])) * weights[j] * weights[j]
        learned_length += np.float64(lists.importance[terms[j]]) * weights[j] * weights[j]
    # Unknown features come last, so that a key and its equal get bitwise the same length.
    if terms.shape[0] < x[0].shape[0]:
        unknown = np.float64(term_weight(tree, lists, NO_FEATURE))
        for j in range(x[0].shape[0]):
            if term_of(lists, x[0][j]) == NONE:
                squared_length += unknown * x[1][j] * x[1][j]
                learned_length += np.float64(x[1][j]) * x[1][j]
    return PreparedQuery(table, values, direct, x[0].shape[0], squared_length, learned_length)


@helper
def clear_table(prepared, terms):
    """Empty a table with a place for every term."""
    for term in terms:
        prepared.table[term], prepared.values[term] = NONE, 0


# ---- effort


@helper
def scored_for(scored, k):
    """Return how many candidates to score for k hits, where so many are scored for ten."""
    return k + (scored - RANKS) * (k + RANKS) // (2 * RANKS)


@helper
def cost_of_scoring(tree):
    """Return how many entries can be read while one candidate is scored."""
    return COST_OF_SCORING + tree.counters[POOL_LIVE] // max(2 * tree.counters[MEMORIES], 1)


@helper
def effort_for(tree, lists, beam, recall, k):
    """Return the least effort that is expected to reach this recall, or that of a beam unless it is NONE.

    A beam multiplies how much is read and scored. With the beam 0 as much is read as with 1, and nothing is scored.
    """
    memories = tree.counters[MEMORIES]
    if beam != NONE:
        breadth = min(max(beam, 1), memories + 1)
        return Effort(
            0.0, lists.settings.reads * np.log2(memories + 2.0) * breadth, lists.settings.scored * breadth, beam > 0
        )
    skip, scored, least = 0.0, FIRST_SCORED, np.inf
    if lists.counters[CALIBRATED]:
        each, wanted = cost_of_scoring(tree), recall + MARGIN * (1 - recall)
        scored = SCORED[-1]
        for i in range(len(SKIPS)):
            for j in range(len(SCORED)):
                cost = lists.reads[i] + each * SCORED[j]
                if lists.recalls[i, j] >= wanted and cost < least:
                    skip, scored, least = SKIPS[i], SCORED[j], cost
    return Effort(skip, np.inf, scored_for(scored, k), True)


@kernel
def expected_effort(tree, lists, recall):
    """Return the effort for ten hits at this recall: (share skipped, candidates scored)."""
    effort = effort_for(tree, lists, NONE, recall, RANKS)
    return effort.skipped, effort.scored


# ---- lists


@helper
def choose_lists(tree, lists, terms, weights, effort):
    """Return (order, number): the query's terms, and how many of their lists to read.

    A list is worth reading for its term's part in the squared length of the query, which bounds what it can add to scores,
    divided by the number of its entries. `order` has the best first. It contains one more term than is read, if there is
    one: the list that exploration may read instead.
    """
    costs, heap = blank(terms.shape[0] + 1, np.float64), blank(terms.shape[0] + 1, np.int64)
    energy, left = blank(terms.shape[0], np.float64), 0.0
    for j in range(terms.shape[0]):
        energy[j] = np.float64(term_weight(tree, lists, terms[j])) * weights[j] * weights[j]
        left += energy[j]
        push(costs, heap, j, -energy[j] / max(lists.lists[terms[j], LENGTH], 1), j)
    order = blank(terms.shape[0] + 1, np.int64)
    keys_terms = np.float64(tree.counters[POOL_LIVE]) / max(tree.counters[MEMORIES], 1)
    most_left, entries, number = effort.skipped * left * min(keys_terms / max(terms.shape[0], 1), 1.0), 0, 0
    for taken in range(terms.shape[0]):
        _, j = pop(costs, heap, terms.shape[0] - taken)
        order[taken] = j
        # Without anything to skip every list is read, whatever rounding leaves over.
        if entries >= effort.entries or (effort.skipped > 0 and left <= most_left):
            return order[: taken + 1], number
        number += 1
        entries += lists.lists[terms[j], LENGTH]
        left -= energy[j]
    return order[: terms.shape[0]], number


@helper
def entries_in(lists, x, terms, order, number):
    """Return how many entries the first `number` lists of `order` hold; for a key without features the list of such keys."""
    entries = np.int64(0) if x[0].shape[0] else lists.lists[NO_FEATURE, LENGTH]
    for j in range(number):
        entries += lists.lists[terms[order[j]], LENGTH]
    return entries


@kernel
def entries_for(tree, lists, X, beam, recall):
    """Return how many entries a query for the first key of a batch reads."""
    x = row_of(tree, X, 0)
    terms, weights = known_terms(lists, x)
    order, number = choose_lists(tree, lists, terms, weights, effort_for(tree, lists, beam, recall, RANKS))
    return entries_in(lists, x, terms, order, number)


@kernel
def terms_of(lists, features):
    """Return the terms (int64) of features, NONE where a feature has none."""
    terms = blank(features.shape[0], np.int64)
    for j in range(features.shape[0]):
        terms[j] = term_of(lists, features[j])
    return terms


@kernel
def weights_of(tree, lists, features):
    """Return the current term weights (float32) of features."""
    weights = blank(features.shape[0], np.float32)
    for j in range(features.shape[0]):
        term = term_of(lists, features[j])
        weights[j] = term_weight(tree, lists, NO_FEATURE if term == NONE else term)
    return weights
