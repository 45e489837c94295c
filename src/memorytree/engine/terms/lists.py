"""Posting lists of limited length, as arrays: for each term the memories in which it weighs most.

counters    int64 (8,): see the constants below
places      int32 (size, 2): hash map from features to terms (`hash_map.py`)
names       int32 (terms,): the feature of each term
lists       int64 (terms, 4): BEGIN, ROOM and LENGTH of each list in the pool, and its number of pinned entries
importance  float32 (terms,): learned factor of each term; squares, float32 (terms,), holds Adagrad's sums
documents   int32 (terms,): number of memories that have the term
members     int32 (pool,): entries of the lists, (row << FLAGS) + flags; weights, float32 (pool,): the term's weight there
homes       int32 (memories,): number of lists that are homes of a memory and that it is in
lengths     float32 (memories,): sum of squares of a key, with learned importances
given       int32 (memories,): number of terms of the key itself, without those that were added by expansion
free        int64 (RUN_CLASSES,): free runs of the pool (`pool.py`)
gradient    float32 (terms,): scratch, all zeros except during a step of learning

A list is a heap with the lightest entry on top, which a heavier one replaces. Lists are runs of a power of two of entries in
one pool. Memories are rows of a tree with a single leaf, which stores their keys with terms (0 .. terms - 1) for features.
"""

import numpy as np
from numba.core import types
from numba.experimental import structref

from memorytree.engine.arrays import NONE
from memorytree.engine.hash_map import find
from memorytree.engine.heap import sift_down, sift_up
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.pool import grown, lengthened, pop_free, push_free, size_class

# Entries of `counters`. PEAK is the largest number of memories since the lists were last built; the limit of lists follows
# from it, so that it never falls below their length. POOL is the end of the pool, NEXT the row that `reoffer` begins with,
# LEARNED the number of queries whose rewards changed importances.
TERMS, PEAK, ENTRIES, POOL, NEXT, LEARNED = range(6)
# Columns of `lists`. Pinned entries are never replaced.
BEGIN, ROOM, LENGTH, PINS = range(4)
# Columns of `places`, the map from a feature to its term.
FEATURE, TERM = range(2)
# Flags of an entry, in the bits below its row.
HOME, PINNED, FLAGS = 1, 2, 2
SMALLEST_RUN = 2
RUN_CLASSES = 40
NO_FEATURE = 0  # the term of keys without terms
GONE = -2  # marks excluded candidates of a query
MAX_IMPORTANCE = 1e4  # its inverse is the least importance

FIELDS = (
    "settings", "counters", "places", "names", "lists", "importance", "squares", "documents",
    "members", "weights", "homes", "lengths", "given", "free", "gradient",
)  # fmt: skip
ARRAYS = FIELDS[1:-1]  # without settings and scratch


@structref.register
class ListsType(types.StructRef):
    """Numba type of the lists."""


class Lists(structref.StructRefProxy):
    """Handle of the lists, an argument of kernels."""

    __slots__ = ()


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


def make(settings: object, arrays: dict[str, np.ndarray]) -> Lists:
    """Make lists over these arrays, which they then own; `settings` are the options `Terms`."""
    return _make(settings, *(arrays[name] for name in ARRAYS), np.zeros(len(arrays["names"]), np.float32))


def arrays_of(lists: Lists) -> dict[str, np.ndarray]:
    """Return the arrays by name, as views that are valid until the lists are written to."""
    return dict(zip(ARRAYS, _arrays_of(lists), strict=True))


def empty() -> dict[str, np.ndarray]:
    """Return the arrays of empty lists; the only term is that of keys without terms."""
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
        "given": np.zeros(64, np.int32),
        "free": np.full(RUN_CLASSES, NONE, np.int64),
    }


def build_map(names: np.ndarray) -> np.ndarray:
    """Return the map from features to terms, where names[term] is the feature of a term."""
    size = 64
    while size < 2 * len(names):
        size *= 2
    places = np.full((size, 2), NONE, np.int32)
    _insert_terms(places, names, len(names))
    return places


# ---- terms


@helper
def insert_terms(places, names, terms):
    """Insert the terms 1 .. terms - 1 into an empty map."""
    for term in range(1, terms):
        place = find(places, 0, places.shape[0], names[term])
        places[place, FEATURE], places[place, TERM] = names[term], term


@kernel
def _insert_terms(places, names, terms):
    insert_terms(places, names, terms)


@helper
def term_of(lists, feature):
    """Return the term of a feature, or NONE if no stored key has had it. Negative features are never stored."""
    if feature < 0:
        return np.int64(NONE)
    return np.int64(lists.places[find(lists.places, 0, lists.places.shape[0], feature), TERM])


@kernel
def to_terms(lists, X, first, last):
    """Return rows first .. last - 1 as a batch with terms for features; features without a term are left out."""
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
    """Return a new term for a feature. At least half of the map stays empty."""
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
        insert_terms(places, lists.names, lists.counters[TERMS])
        lists.places = places
    else:
        place = find(lists.places, 0, lists.places.shape[0], feature)
        lists.places[place, FEATURE], lists.places[place, TERM] = feature, term
    return term


# ---- the pool


@helper
def allocate_run(lists, room):
    """Return the beginning of a run of this size (a power of two): a free one, or a new one at the end of the pool."""
    begin = pop_free(lists.free, size_class(room), lists.members, SMALLEST_RUN)
    if begin != NONE:
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
def free_run(lists, begin, room):
    """Return a run to the free ones of its size."""
    push_free(lists.free, size_class(room), lists.members, SMALLEST_RUN, begin)


@helper
def reserve_entry(lists, term):
    """Make room for one more entry in a list."""
    begin, room, length = lists.lists[term, BEGIN], lists.lists[term, ROOM], lists.lists[term, LENGTH]
    if length < room:
        return
    larger = max(2 * room, SMALLEST_RUN)
    target = allocate_run(lists, larger)
    for j in range(length):
        lists.members[target + j] = lists.members[begin + j]
        lists.weights[target + j] = lists.weights[begin + j]
    if room:
        free_run(lists, begin, room)
    lists.lists[term, BEGIN] = target
    lists.lists[term, ROOM] = larger


# ---- one list: a heap


@helper
def entry_cost(weight, member):
    """Return what the heap is ordered by; pinned entries never come to the top while there are others."""
    return np.inf if member & PINNED else np.float64(abs(weight))


@helper
def sift_entry_down(lists, begin, length, place):
    """Restore the heap of a list after entry `place` became heavier."""
    sift_down(entry_cost, lists.weights, lists.members, begin, length, place)


@helper
def add_entry(lists, term, member, weight):
    """Add an entry to a list, whatever its limit."""
    reserve_entry(lists, term)
    begin, length = lists.lists[term, BEGIN], lists.lists[term, LENGTH]
    lists.members[begin + length] = member
    lists.weights[begin + length] = weight
    lists.lists[term, LENGTH] += 1
    lists.lists[term, PINS] += (member & PINNED) // PINNED
    lists.counters[ENTRIES] += 1
    sift_up(entry_cost, lists.weights, lists.members, begin, length)


@helper
def remove_entry(lists, term, j):
    """Remove entry j of a list; the last entry takes its place, and an empty list returns its run."""
    begin, last = lists.lists[term, BEGIN], lists.lists[term, LENGTH] - 1
    lists.lists[term, LENGTH] = last
    lists.lists[term, PINS] -= (lists.members[begin + j] & PINNED) // PINNED
    lists.counters[ENTRIES] -= 1
    if j < last:
        lists.members[begin + j], lists.weights[begin + j] = lists.members[begin + last], lists.weights[begin + last]
        sift_up(entry_cost, lists.weights, lists.members, begin, j)
        sift_entry_down(lists, begin, last, j)
    if last == 0:
        free_run(lists, begin, lists.lists[term, ROOM])
        lists.lists[term, ROOM] = 0


@helper
def find_entry(lists, term, row):
    """Return the index of a memory in a list, or NONE."""
    begin = lists.lists[term, BEGIN]
    for j in range(lists.lists[term, LENGTH]):
        if lists.members[begin + j] >> FLAGS == row:
            return j
    return NONE
