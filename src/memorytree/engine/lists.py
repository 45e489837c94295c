"""Posting lists with a limit, as arrays: for each term the memories in which it weighs most.

A list is a heap with the lightest entry on top, which makes way for a heavier one. Lists are runs of one pool, in powers of
two; runs given back are chained by size. Memories are known by their row in the tree (a single leaf) that stores their keys,
and those keys have terms, numbers without holes, for features.
"""

from typing import Any

import numpy as np
from numba.core import types
from numba.experimental import structref

from memorytree.engine.compile import blank, helper, kernel
from memorytree.engine.dense import grown, lengthened
from memorytree.engine.sparse import class_of, find
from memorytree.engine.state import NONE

# Entries of `counters`; MOST is the largest number of memories since the lists were last built, from which their limit
# follows, so that it never falls below what they hold; NEXT is the row that `offer_again` begins with.
TERMS, MOST, ENTRIES, POOL, NEXT, LESSONS = range(6)
# Columns of `lists`.
BEGIN, ROOM, LENGTH, PINS = range(4)
# Columns of `places`, the map from a feature to its term.
FEATURE, TERM = range(2)
# Flags of an entry, below its row.
HOME, PINNED, FLAGS = 1, 2, 2
SMALLEST_RUN = 2
RUN_CLASSES = 40
NO_FEATURE = 0  # the term of keys without terms
GONE = -2
# A term may come to weigh this much more or less than at first.
FURTHEST = 1e4

FIELDS = (
    "settings", "counters", "places", "names", "lists", "importance", "squares", "documents",
    "members", "weights", "homes", "lengths", "given", "free", "gradient",
)  # fmt: skip
ARRAYS = FIELDS[1:-1]  # the last is scratch: all zeros whenever nobody learns


@structref.register
class ListsType(types.StructRef):
    """Numba's type of the lists."""


class Lists(structref.StructRefProxy):
    """Handle of the lists, to pass to kernels."""

    __slots__ = ()
    _numba_type_ = structref.StructRefProxy._type


structref.define_boxing(ListsType, Lists)
structref.define_constructor(Lists, ListsType, FIELDS)


@kernel
def _make(*values):
    return Lists(*values)


@kernel
def _arrays_of(lists):
    return (
        lists.counters, lists.places, lists.names, lists.lists, lists.importance, lists.squares, lists.documents,
        lists.members, lists.weights, lists.homes, lists.lengths, lists.given, lists.free,
    )  # fmt: skip


def make(settings: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Lists over these arrays (which they then own)."""
    return _make(settings, *(arrays[name] for name in ARRAYS), np.zeros(len(arrays["names"]), np.float32))


def arrays_of(lists: Any) -> dict[str, np.ndarray]:
    """The arrays by name, as views: valid until the lists are written to."""
    return dict(zip(ARRAYS, _arrays_of(lists), strict=True))


def empty() -> dict[str, np.ndarray]:
    """The arrays of lists that hold nothing: the one of keys without terms."""
    counters = np.zeros(8, np.int64)
    counters[TERMS] = 1
    return {
        "counters": counters,
        "places": np.full((64, 2), NONE, np.int32),
        "names": np.full(32, NONE, np.int32),
        "lists": np.zeros((32, 4), np.int64),
        "importance": np.ones(32, np.float32),
        "squares": np.zeros(32, np.float32),
        "documents": np.zeros(32, np.int32),
        "members": np.empty(64, np.int32),
        "weights": np.empty(64, np.float32),
        "homes": np.zeros(64, np.int32),
        "lengths": np.zeros(64, np.float32),
        "given": np.zeros(64, np.int32),  # how many terms of a key are not learned
        "free": np.full(RUN_CLASSES, NONE, np.int64),
    }


def map_of(names: np.ndarray) -> np.ndarray:
    """The map from features to terms, for terms of these names."""
    size = 64
    while size < 2 * len(names):
        size *= 2
    places = np.full((size, 2), NONE, np.int32)
    _fill_map(places, names, len(names))
    return places


# ---- terms


@helper
def fill_map(places, names, terms):
    for term in range(1, terms):
        place = find(places, 0, places.shape[0], names[term])
        places[place, FEATURE], places[place, TERM] = names[term], term


@kernel
def _fill_map(places, names, terms):
    fill_map(places, names, terms)


@helper
def term_of(lists, feature):
    """The term of a feature, or NONE if no key stored so far had it. Negative features were never stored."""
    if feature < 0:
        return np.int64(NONE)
    return np.int64(lists.places[find(lists.places, 0, lists.places.shape[0], feature), TERM])


@kernel
def in_terms(lists, X, first, last):
    """Rows first .. last - 1 with terms for features, and nothing of those that are none."""
    bounds, features, weights = X
    most = bounds[last] - bounds[first]
    kept, terms, values = blank(last - first + 1, np.int64), blank(most, np.int32), blank(most, np.float32)
    n = kept[0] = 0
    for i in range(first, last):
        for j in range(bounds[i], bounds[i + 1]):
            term = term_of(lists, features[j])
            if term != NONE:
                terms[n], values[n] = term, weights[j]
                n += 1
        kept[i - first + 1] = n
    return kept, terms[:n], values[:n]


@helper
def add_term(lists, feature):
    """A term for a new feature. Half of the map stays empty."""
    term = lists.counters[TERMS]
    if term == lists.names.shape[0]:
        lists.names = lengthened(lists.names, 2 * term)
        lists.lists = grown(lists.lists, 2 * term)
        lists.importance = lengthened(lists.importance, 2 * term)
        lists.squares = lengthened(lists.squares, 2 * term)
        lists.documents = lengthened(lists.documents, 2 * term)
        lists.gradient = np.zeros(2 * term, np.float32)
    lists.names[term] = feature
    for column in range(lists.lists.shape[1]):
        lists.lists[term, column] = 0
    lists.importance[term] = 1
    lists.squares[term] = 0
    lists.documents[term] = 0
    lists.counters[TERMS] += 1
    if 2 * lists.counters[TERMS] > lists.places.shape[0]:
        places = blank((2 * lists.places.shape[0], 2), np.int32)
        for place in range(places.shape[0]):
            places[place, FEATURE] = NONE
            places[place, TERM] = NONE
        fill_map(places, lists.names, lists.counters[TERMS])
        lists.places = places
    else:
        place = find(lists.places, 0, lists.places.shape[0], feature)
        lists.places[place, FEATURE], lists.places[place, TERM] = feature, term
    return term


# ---- the pool


@helper
def take_run(lists, room):
    """The beginning of a run of this size (a power of two): one given back earlier, or a new one."""
    kind = class_of(room)
    begin = lists.free[kind]
    if begin != NONE:
        link = np.int64(lists.members[begin])
        lists.free[kind] = link if link == NONE else link * SMALLEST_RUN
        return begin
    begin = lists.counters[POOL]
    size = lists.members.shape[0]
    if begin + room > size:
        while begin + room > size:
            size *= 2
        lists.members = lengthened(lists.members, size)
        lists.weights = lengthened(lists.weights, size)
    lists.counters[POOL] += room
    return begin


@helper
def give_run(lists, begin, room):
    """Return a run; the free ones of a size form a chain through their first entry (in units of the smallest run)."""
    kind = class_of(room)
    link = lists.free[kind]
    lists.members[begin] = link if link == NONE else link // SMALLEST_RUN
    lists.free[kind] = begin


@helper
def make_room(lists, term):
    """See to room for one more entry."""
    begin, room, length = lists.lists[term, BEGIN], lists.lists[term, ROOM], lists.lists[term, LENGTH]
    if length < room:
        return
    larger = max(2 * room, SMALLEST_RUN)
    target = take_run(lists, larger)
    for j in range(length):
        lists.members[target + j] = lists.members[begin + j]
        lists.weights[target + j] = lists.weights[begin + j]
    if room:
        give_run(lists, begin, room)
    lists.lists[term, BEGIN] = target
    lists.lists[term, ROOM] = larger


# ---- one list: a heap


@helper
def rank(member, weight):
    """What the heap is ordered by: pinned entries never come to the top while there are others."""
    return np.inf if member & PINNED else np.float64(abs(weight))


@helper
def swap(lists, a, b):
    lists.members[a], lists.members[b] = lists.members[b], lists.members[a]
    lists.weights[a], lists.weights[b] = lists.weights[b], lists.weights[a]


@helper
def sift_down(lists, begin, length, j):
    while 2 * j + 1 < length:
        child = 2 * j + 1
        lightest = rank(lists.members[begin + child], lists.weights[begin + child])
        if child + 1 < length:
            other = rank(lists.members[begin + child + 1], lists.weights[begin + child + 1])
            if other < lightest:
                child, lightest = child + 1, other
        if lightest >= rank(lists.members[begin + j], lists.weights[begin + j]):
            return
        swap(lists, begin + j, begin + child)
        j = child


@helper
def sift_up(lists, begin, j):
    mine = rank(lists.members[begin + j], lists.weights[begin + j])
    while j > 0:
        parent = (j - 1) // 2
        if rank(lists.members[begin + parent], lists.weights[begin + parent]) <= mine:
            return
        swap(lists, begin + j, begin + parent)
        j = parent


@helper
def add_entry(lists, term, member, weight):
    make_room(lists, term)
    begin, length = lists.lists[term, BEGIN], lists.lists[term, LENGTH]
    lists.members[begin + length] = member
    lists.weights[begin + length] = weight
    lists.lists[term, LENGTH] += 1
    lists.lists[term, PINS] += (member & PINNED) // PINNED
    lists.counters[ENTRIES] += 1
    sift_up(lists, begin, length)


@helper
def drop_entry(lists, term, j):
    """The last entry takes the place of the one that goes; an empty list gives its room back."""
    begin, last = lists.lists[term, BEGIN], lists.lists[term, LENGTH] - 1
    lists.lists[term, LENGTH] = last
    lists.lists[term, PINS] -= (lists.members[begin + j] & PINNED) // PINNED
    lists.counters[ENTRIES] -= 1
    if j < last:
        swap(lists, begin + j, begin + last)
        sift_up(lists, begin, j)
        sift_down(lists, begin, last, j)
    if last == 0:
        give_run(lists, begin, lists.lists[term, ROOM])
        lists.lists[term, ROOM] = 0


@helper
def place_in_list(lists, term, row):
    """Where in a list a memory is, or NONE."""
    begin = lists.lists[term, BEGIN]
    for j in range(lists.lists[term, LENGTH]):
        if lists.members[begin + j] >> FLAGS == row:
            return j
    return NONE
