"""`scorer="distance"`: compares by squared Euclidean distance; the score is minus its root, the paper's unsupervised f."""

from collections import namedtuple

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import NONE
from memorytree.engine.hash_map import place_in, place_of_term
from memorytree.engine.jit import body_for, fast_helper
from memorytree.engine.sparse import key_range
from memorytree.engine.terms.lists import LEARNED, OWN

Distance = namedtuple("Distance", "learns")


@fast_helper
def squared_distance(matrix, row, x):
    """Return the squared distance (float32) between a matrix row and x."""
    total = np.float32(0)
    for j in range(x.shape[0]):
        difference = matrix[row, j] - x[j]
        total += difference * difference
    return total


@body_for(dispatch.key_distance, "dense", "distance")
def dense_distance(tree, slot, prepared):
    return np.float64(squared_distance(tree.keys, slot, prepared))


@body_for(dispatch.key_distances, "dense", "distance")
def dense_distances(tree, slots, count, prepared, distances):
    keys = tree.keys
    for i in range(count):
        distances[i] = squared_distance(keys, slots[i], prepared)


@body_for(dispatch.key_distance, "sparse", "distance")
def sparse_distance(tree, slot, prepared):
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
    # The features that only x has. Never rounded to zero: only an equal key has the distance zero.
    if matched < terms:
        total += max(x_squared - matched_squared, 1e-300)
    return total


@body_for(dispatch.term_weight, "distance")
def term_weight(tree, lists, term):
    return lists.importance[term]


@body_for(dispatch.weighted_distance, "sparse", "distance")
def weighted_distance(tree, slot, prepared, lists):
    importance = lists.importance
    terms, weights = tree.key_features, tree.key_weights
    matched = 0
    matched_squared = 0.0
    total = 0.0
    for j in key_range(tree, slot):
        term = np.uint32(terms[j])
        weight, factor = np.float64(weights[j]), np.float64(importance[term])
        place = place_of_term(prepared, term)
        value = np.float64(prepared.values[place])
        matched += prepared.table[place] != NONE
        matched_squared += factor * value * value
        total += factor * (value - weight) * (value - weight)
    # As above, the features that only x has.
    if matched < prepared.terms:
        total += max(prepared.squared_length - matched_squared, 1e-300)
    return total


@body_for(dispatch.partial_score, "distance")
def partial_score(tree, lists, row, overlap):
    learned = np.float64(lists.norms[row, LEARNED])
    return 2.0 * overlap * lists.norms[row, OWN] - learned * learned


@body_for(dispatch.compares_lengths, "distance")
def compares_lengths(tree):
    return True


@body_for(dispatch.estimated_distance, "distance")
def estimated_distance(tree, partial, prepared):
    return prepared.squared_length - partial


@body_for(dispatch.score, "distance")
def score(tree, distance):
    return 0.0 - np.sqrt(max(distance, 0.0))  # an estimated distance may be negative
