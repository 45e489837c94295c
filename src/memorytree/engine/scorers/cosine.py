"""`scorer="cosine"`: the distance is 1 - cosine, the score the cosine; the cosine with a key of zeros is 0."""

from collections import namedtuple

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import NONE
from memorytree.engine.dense import dot, squared_norm
from memorytree.engine.hash_map import place_in, place_of_term
from memorytree.engine.jit import body_for, helper
from memorytree.engine.sparse import key_range
from memorytree.engine.terms.lists import LEARNED, LESSONS, OWN

Cosine = namedtuple("Cosine", "learns")


@helper
def squared_length(x):
    """Return the sum of squares (float64) of a dense key."""
    total = 0.0
    for j in range(x.shape[0]):
        total += np.float64(x[j]) * x[j]
    return total


@helper
def cosine_distance(keys, slot, x, x_squared):
    """Return 1 - the cosine of the key in a slot and x."""
    lengths = np.sqrt(x_squared * squared_norm(keys, slot, x.shape[0]))
    return 1.0 - dot(keys, slot, x) / lengths if lengths != 0 else 1.0


@body_for(dispatch.key_distance, "dense", "cosine")
def dense_distance(tree, slot, prepared):
    return cosine_distance(tree.keys, slot, prepared, squared_length(prepared))


@body_for(dispatch.key_distances, "dense", "cosine")
def dense_distances(tree, slots, count, prepared, distances):
    keys, x_squared = tree.keys, squared_length(prepared)
    for i in range(count):
        distances[i] = cosine_distance(keys, slots[i], prepared, x_squared)


@body_for(dispatch.key_distance, "sparse", "cosine")
def sparse_distance(tree, slot, prepared):
    table, values, _, x_squared = prepared
    features, weights = tree.key_features, tree.key_weights
    first, last = tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1]
    key_squared = 0.0
    product = 0.0
    for j in range(first, last):
        weight = np.float64(weights[j])
        place = place_in(table, features[j])
        key_squared += weight * weight
        if table[place] != NONE:
            product += weight * values[place]
    lengths = np.sqrt(x_squared * key_squared)
    return 1.0 - product / lengths if lengths > 0 else 1.0


@body_for(dispatch.term_weight, "cosine")
def term_weight(tree, lists, term):
    return lists.importance[term]


@body_for(dispatch.weighted_distance, "sparse", "cosine")
def weighted_distance(tree, slot, prepared, lists):
    importance, values = lists.importance, prepared.values
    terms, weights = tree.key_features, tree.key_weights
    key_squared = 0.0
    product = 0.0
    if lists.counters[LESSONS] == 0:  # all importances are 1
        for j in key_range(tree, slot):
            weight = np.float64(weights[j])
            key_squared += weight * weights[j]
            product += weight * values[place_of_term(prepared, np.uint32(terms[j]))]
    else:
        for j in key_range(tree, slot):
            term = np.uint32(terms[j])
            weight = np.float64(importance[term]) * weights[j]
            key_squared += weight * weights[j]
            product += weight * values[place_of_term(prepared, term)]
    lengths = np.sqrt(prepared.squared_length * key_squared)
    # Never below 0: rounding must not put another key before an equal one.
    return max(1.0 - product / lengths, 0.0) if lengths > 0 else 1.0


@body_for(dispatch.partial_score, "cosine")
def partial_score(tree, lists, row, overlap):
    if lists.counters[LESSONS] == 0:  # both lengths are equal
        return np.float64(overlap)
    learned = np.float64(lists.norms[row, LEARNED])
    return overlap * lists.norms[row, OWN] / learned if learned > 0 else 0.0


@body_for(dispatch.compares_lengths, "cosine")
def compares_lengths(tree):
    return False


@body_for(dispatch.estimated_distance, "cosine")
def estimated_distance(tree, partial, prepared):
    return 1.0 - partial / np.sqrt(prepared.squared_length) if prepared.squared_length > 0 else 1.0


@body_for(dispatch.score, "cosine")
def score(tree, distance):
    return 1.0 - distance
