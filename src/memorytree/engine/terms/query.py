"""Preparing a query of term lists: its known terms, their weights, and which lists to read."""

from collections import namedtuple

import numpy as np

from memorytree.engine.arrays import NONE
from memorytree.engine.dispatch import row_of, term_weight
from memorytree.engine.hash_map import DIRECT_TABLE_RATIO, SMALLEST_TABLE, place_in
from memorytree.engine.heap import pop, push
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.terms.lists import LENGTH, NO_FEATURE, PEAK, TERMS, term_of

PreparedQuery = namedtuple("PreparedQuery", "table values direct terms squared_length learned_length")
"""A query in the form in which stored keys are compared with it.

table           int32 (size,), hash map of the query's terms (`hash_map.py`); values, float32 (size,), their weights, and 0
                in empty places, so that comparing needs no branch
direct          whether the table has a place for every term instead
terms           number of features of the query, known or not
squared_length  sum of squares of its weights, by term weights; learned_length the same by importances
"""


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
def choose_lists(tree, lists, terms, weights, beam):
    """Return (order, number): the query's terms in descending order of weight, and how many of their lists to read.

    The lists hold `reads` * log2 n entries in all and are at least as many as a memory has homes, both times the beam.
    `order` contains one more term, if there is one: the list that exploration may read instead.
    """
    costs, heap = blank(terms.shape[0] + 1, np.float64), blank(terms.shape[0] + 1, np.int64)
    for j in range(terms.shape[0]):
        push(costs, heap, j, -np.float64(abs(weights[j])) * term_weight(tree, lists, terms[j]), j)
    order = blank(terms.shape[0] + 1, np.int64)
    left = lists.settings.reads * np.log2(lists.counters[PEAK] + 2.0) * beam
    taken, number = 0, 0
    for size in range(terms.shape[0], 0, -1):
        _, j = pop(costs, heap, size)
        order[taken] = j
        taken += 1
        if left <= 0 and number >= lists.settings.homes * beam:
            break
        number = taken
        left -= lists.lists[terms[j], LENGTH]
    return order[:taken], number


@helper
def entries_in(lists, x, terms, order, number):
    """Return how many entries the first `number` lists of `order` hold; for a key without features the list of such keys."""
    entries = np.int64(0) if x[0].shape[0] else lists.lists[NO_FEATURE, LENGTH]
    for j in range(number):
        entries += lists.lists[terms[order[j]], LENGTH]
    return entries


@kernel
def entries_for(tree, lists, X):
    """Return how many entries a query for the first key of a batch reads."""
    x = row_of(tree, X, 0)
    terms, weights = known_terms(lists, x)
    order, number = choose_lists(tree, lists, terms, weights, 1)
    return entries_in(lists, x, terms, order, number)


@kernel
def weights_of(tree, lists, features):
    """Return the current term weights (float32) of features."""
    weights = blank(features.shape[0], np.float32)
    for j in range(features.shape[0]):
        term = term_of(lists, features[j])
        weights[j] = term_weight(tree, lists, NO_FEATURE if term == NONE else term)
    return weights
