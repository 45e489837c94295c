"""Weights by label and feature: one exact open-addressing table for each label, all in one pool.

A row of the pool is a feature followed by the numbers that are kept for it; `words` and `numbers` are the same memory as
integers and as floats. Room is taken only for labels and features that occur together. A table that has outgrown its place
moves to the end of the pool; what it leaves behind is a fraction of what it takes.
"""

from memorytree.engine.compile import helper
from memorytree.engine.sparse import find
from memorytree.engine.state import NONE

FIRST, SIZE, USED = range(3)  # columns of `places`: where the table of a label lies
FEATURE = 0  # first column of `words`
SMALLEST_TABLE = 16


@helper
def room_for(places, label, more):
    """The most that `widen` may take from the pool."""
    return 4 * (places[label, USED] + more + SMALLEST_TABLE)


@helper
def widen(places, words, top, label, more):
    """Make sure that `more` features fit into a label's table with a third of it staying empty; the caller saw to room."""
    old, old_size, used = places[label, FIRST], places[label, SIZE], places[label, USED]
    if 3 * (used + more) <= 2 * old_size:
        return
    size = SMALLEST_TABLE
    while 2 * size < 3 * (used + more):
        size *= 2
    first = top[0]
    top[0] += size
    for place in range(first, first + size):
        words[place, FEATURE] = NONE
        for column in range(1, words.shape[1]):
            words[place, column] = 0
    for place in range(old, old + old_size):
        if words[place, FEATURE] != NONE:
            target = find(words, first, size, words[place, FEATURE])
            for column in range(words.shape[1]):
                words[target, column] = words[place, column]
    places[label, FIRST], places[label, SIZE] = first, size


@helper
def place_of(places, words, label, feature):
    """The place of a feature in a label's table, made if it is not there; `widen` has seen to room."""
    place = find(words, places[label, FIRST], places[label, SIZE], feature)
    if words[place, FEATURE] == NONE:
        words[place, FEATURE] = feature
        places[label, USED] += 1
    return place
