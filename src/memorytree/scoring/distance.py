"""`scorer="distance"`: the nearest key fits best; the score is minus the Euclidean distance, the paper's unsupervised f."""

from collections import namedtuple

import numpy as np

from memorytree.engine import declared
from memorytree.engine.compile import body_for, fast_helper
from memorytree.engine.sparse import entries_of, place_in, place_of_term
from memorytree.engine.state import NONE

Distance = namedtuple("Distance", "learns")


def distance() -> Distance:
    """Distance has nothing to set."""
    return Distance(False)


@fast_helper
def squared_distance(matrix, row, x):
    total = np.float32(0)
    for j in range(x.shape[0]):
        difference = matrix[row, j] - x[j]
        total += difference * difference
    return total


@body_for(declared.dissimilarity, "dense", "distance")
def dense_dissimilarity(tree, slot, prepared):
    return np.float64(squared_distance(tree.keys, slot, prepared))


@body_for(declared.dissimilarities, "dense", "distance")
def dense_dissimilarities(tree, slots, count, prepared, found):
    keys = tree.keys
    for i in range(count):
        found[i] = squared_distance(keys, slots[i], prepared)


@body_for(declared.dissimilarity, "sparse", "distance")
def sparse_dissimilarity(tree, slot, prepared):
    table, values, terms, x_squared = prepared
    features, weights = tree.key_features, tree.key_weights
    first, last = tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1]
    matched = 0
    matched_squared = 0.0
    total = 0.0
    for j in range(first, last):
        weight = np.float64(weights[j])
        place = place_in(table, features[j])
        if table[place] == NONE:
            total += weight * weight
        else:
            value = np.float64(values[place])
            matched += 1
            matched_squared += value * value
            total += (value - weight) * (value - weight)
    # What x has and the key has not. Never rounded to nothing: only an equal key is at distance zero.
    if matched < terms:
        total += max(x_squared - matched_squared, 1e-300)
    return total


@body_for(declared.term_weight, "distance")
def term_weight(tree, lists, term):
    return lists.importance[term]


@body_for(declared.weighed_dissimilarity, "sparse", "distance")
def weighed_dissimilarity(tree, slot, prepared, lists):
    importance = lists.importance
    terms, weights = tree.key_features, tree.key_weights
    matched = 0
    matched_squared = 0.0
    total = 0.0
    for j in entries_of(tree, slot):
        term = np.uint32(terms[j])
        weight, factor = np.float64(weights[j]), np.float64(importance[term])
        place = place_of_term(prepared, term)
        value = np.float64(prepared.values[place])
        matched += prepared.table[place] != NONE
        matched_squared += factor * value * value
        total += factor * (value - weight) * (value - weight)
    # As above: what x has and the key has not, never rounded to nothing.
    if matched < prepared.terms:
        total += max(prepared.squared_length - matched_squared, 1e-300)
    return total


@body_for(declared.promise, "distance")
def promise(tree, overlap, squared_length):
    return 2.0 * overlap - squared_length


@body_for(declared.guess, "distance")
def guess(tree, promised, prepared):
    return prepared.squared_length - promised


@body_for(declared.score, "distance")
def score(tree, badness):
    return 0.0 - np.sqrt(max(badness, 0.0))  # what is estimated may be less than nothing
