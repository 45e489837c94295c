"""Weights by label and feature: one exact open-addressing table for each label, all in one pool.

A row of the pool is a feature followed by the numbers that are kept for it; `words` and `numbers` are the same memory as
integers and as floats. Room is taken only for labels and features that occur together. A table that has outgrown its place
moves to the end of the pool, and the last one stays there. A table that has come near the number of all features
(`dimension`) gets a place for each of them instead, at its number: there is nothing to search then.
"""

import numpy as np

from memorytree.engine.arrays import NONE
from memorytree.engine.hash_map import DIRECT_TABLE_RATIO, find_from, spread
from memorytree.engine.jit import helper

FIRST, SIZE, USED = range(3)  # columns of `places`: where the table of a label lies
FEATURE = 0  # first column of `words`
SMALLEST_TABLE = 16
UNKNOWN = np.int64(2**62)  # the number of features where nobody knows


@helper
def room_for(places, label, more, dimension):
    """The most that `widen` may take from the pool."""
    size = 4 * (places[label, USED] + more + SMALLEST_TABLE)
    return max(size, 2 * dimension) if DIRECT_TABLE_RATIO * size >= dimension else size


@helper
def home_in(spreading, feature, size, dimension):
    """Where the search for a feature begins in a table; `spreading` is what `spread` made of it."""
    return np.int64(feature) if size >= dimension else spreading & (size - 1)


@helper
def find(words, first, size, feature, dimension):
    """The place of a feature in a table, or the empty place where it would go."""
    return find_from(home_in(spread(feature), feature, size, dimension), words, first, size, feature)


@helper
def widen(places, words, top, label, more, dimension):
    """Make sure that `more` features fit into a label's table with half of it staying empty; the caller saw to room."""
    old, old_size, used = places[label, FIRST], places[label, SIZE], places[label, USED]
    if 2 * (used + more) <= old_size or old_size >= dimension:
        return
    size = SMALLEST_TABLE
    while size < 2 * (used + more):
        size *= 2
    if DIRECT_TABLE_RATIO * size >= dimension:
        while size < dimension:
            size *= 2
    first = top[0]
    top[0] += size
    for place in range(first, first + size):
        words[place, FEATURE] = NONE
        for column in range(1, words.shape[1]):
            words[place, column] = 0
    for place in range(old, old + old_size):
        if words[place, FEATURE] != NONE:
            target = find(words, first, size, words[place, FEATURE], dimension)
            for column in range(words.shape[1]):
                words[target, column] = words[place, column]
    if old_size > 0 and old + old_size == first:  # it was the last: nothing is left behind
        for place in range(size):
            for column in range(words.shape[1]):
                words[old + place, column] = words[first + place, column]
        first = old
        top[0] = old + size
    places[label, FIRST], places[label, SIZE] = first, size


@helper
def place_of(places, words, label, feature, dimension):
    """The place of a feature in a label's table, made if it is not there; `widen` has seen to room."""
    place = find(words, places[label, FIRST], places[label, SIZE], feature, dimension)
    if words[place, FEATURE] == NONE:
        words[place, FEATURE] = feature
        places[label, USED] += 1
    return place
