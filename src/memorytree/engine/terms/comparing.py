"""Comparing sparse keys with each other, by the weights of terms."""

import numpy as np

from memorytree.engine.arrays import NONE
from memorytree.engine.dispatch import row_of, term_weight
from memorytree.engine.jit import helper, kernel
from memorytree.engine.terms.lists import NO_FEATURE, term_of


@helper
def weight_of(tree, lists, feature):
    """Return the weight of a feature, whether or not a stored key has it."""
    term = term_of(lists, feature)
    return np.float64(term_weight(tree, lists, np.int64(NO_FEATURE) if term == NONE else term))


@kernel
def compare_keys(tree, lists, X, Y, gaps):
    """Write 1 - the weighted cosine of the first key of X and each key of Y to gaps (float32).

    Features of keys are in ascending order. The gap is 0 for equal keys, and 1 where one of them is all zeros.
    """
    features, weights = row_of(tree, X, 0)
    squared_length = 0.0
    for j in range(features.shape[0]):
        squared_length += weight_of(tree, lists, features[j]) * weights[j] * weights[j]
    for i in range(gaps.shape[0]):
        others, values = row_of(tree, Y, i)
        product, other_length, place = 0.0, 0.0, 0
        for j in range(others.shape[0]):
            weighted = weight_of(tree, lists, others[j]) * values[j]
            other_length += weighted * values[j]
            while place < features.shape[0] and features[place] < others[j]:
                place += 1
            if place < features.shape[0] and features[place] == others[j]:
                product += weighted * weights[place]
        both = np.sqrt(squared_length * other_length)
        gaps[i] = max(1.0 - product / both, 0.0) if both > 0 else 1.0
