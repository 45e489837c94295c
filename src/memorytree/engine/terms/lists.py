"""Posting lists, as arrays: for each term all memories that have it, with a one-byte impact each.

counters    int64 (8,): see the constants below
places      int32 (size, 2): hash map from features to terms (`hash_map.py`)
names       int32 (terms,): the feature of each term
lists       int64 (terms, 3): BEGIN, ROOM and LENGTH of each list in the pool
importance  float32 (terms,): learned factor of each term; squares, float32 (terms,), holds Adagrad's sums
members     int32 (pool,): the rows of the memories in the lists; impacts, int8 (pool,): the term's impact there
norms       float32 (memories, 2): OWN, the length of a key, and LEARNED, its length with learned importances
given       int32 (memories,): number of terms of the key itself, without those that were added by expansion
free        int64 (RUN_CLASSES,): free runs of the pool (`pool.py`)
reads       float32 (SKIPS,): entries read by a query, by how much is skipped (`calibration.py`)
recalls     float32 (SKIPS, SCORED): the recall it reaches, by how much is skipped and how many candidates are scored
usual       float32 (RANKS,): how far the nearest memories of keys usually are at most, by rank; a query whose nearest are
            further away gets more effort (`search.py`)
shortest    float32 (blocks,): least LEARNED length in each block of rows; follows from `norms`
gradient    float32 (terms,): scratch, all zeros except during a step of learning

A list is a run of entries in one pool, in no particular order. Runs have four sizes between two powers of two. An impact i
stands for the weight sign(i) (i / 127)^2 in a key of length one; the square makes the relative error of small weights
smaller. Memories are rows of a tree with a single leaf, which stores their keys with terms (0 .. terms - 1) for features.
"""

import numpy as np
from numba.core import types
from numba.experimental import structref

from memorytree.engine.arrays import NONE
from memorytree.engine.hash_map import find
from memorytree.engine.jit import HANDLE_TYPE, blank, copy_run, helper, kernel
from memorytree.engine.pool import grown, lengthened, pop_free, push_free

# Entries of `counters`. POOL is the end of the pool, NEXT the row that `refresh` continues with, LESSONS the number of
# queries whose rewards changed importances; CALIBRATED and CALIBRATED_LESSONS are memories and lessons at the last
# calibration.
TERMS, ENTRIES, POOL, NEXT, LESSONS, CALIBRATED, CALIBRATED_LESSONS = range(7)
BEGIN, ROOM, LENGTH = range(3)  # columns of `lists`
FEATURE, TERM = range(2)  # columns of `places`, the map from a feature to its term
OWN, LEARNED = range(2)  # columns of `norms`
SMALLEST_RUN = 2
RUN_CLASSES = 128
BLOCK = 256  # rows in a block of `shortest`
NO_FEATURE = 0  # the term of keys without terms
LARGEST_IMPACT = 127
MAX_IMPORTANCE = 1e4  # its inverse is the least importance
SEARCHED_AT_ONCE = 64  # entries compared without a branch when a row is searched in a list

SKIPS = (0.0, 0.005, 0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.14, 0.2, 0.3)
"""The shares of a query's squared length that calibration leaves unread."""
SCORED = (20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""The numbers of candidates for ten hits that calibration compares."""

RANKS = 10
"""Calibration measures the ten nearest."""

FIELDS = (
    "settings", "counters", "places", "names", "lists", "importance", "squares",
    "members", "impacts", "norms", "given", "free", "reads", "recalls", "usual", "shortest", "gradient",
)  # fmt: skip
ARRAYS = FIELDS[1:-2]  # without settings, what follows from other arrays, and scratch


@structref.register
class ListsType(types.StructRef):
    """Numba type of the lists."""


class Lists(structref.StructRefProxy):
    """Handle of the lists, an argument of kernels."""

    __slots__ = ()
    _numba_type_ = HANDLE_TYPE


structref.define_boxing(ListsType, Lists)
structref.define_constructor(Lists, ListsType, FIELDS)


@kernel
def _make(*values):
    return Lists(*values)


@kernel
def _arrays_of(lists):
    return (
        lists.counters, lists.places, lists.names, lists.lists, lists.importance, lists.squares,
        lists.members, lists.impacts, lists.norms, lists.given, lists.free, lists.reads, lists.recalls, lists.usual,
    )  # fmt: skip


def make(settings: object, arrays: dict[str, np.ndarray]) -> Lists:
    """Make lists over these arrays, which they then own; `settings` are the options `Terms`."""
    shortest = arrays["norms"][:, LEARNED].reshape(-1, BLOCK).min(axis=1)
    scratch = np.zeros(len(arrays["names"]), np.float32)
    return _make(settings, *(arrays[name] for name in ARRAYS), shortest, scratch)


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
        "lists": np.zeros((32, 3), np.int64),
        "importance": np.ones(32, np.float32),
        "squares": np.zeros(32, np.float32),
        "members": np.empty(64, np.int32),
        "impacts": np.empty(64, np.int8),
        # Lengths of rows that are not in use are infinite, so that `shortest` ignores them.
        "norms": np.full((BLOCK, 2), np.inf, np.float32),
        "given": np.zeros(BLOCK, np.int32),
        "free": np.full(RUN_CLASSES, NONE, np.int64),
        "reads": np.zeros(len(SKIPS), np.float32),
        "recalls": np.zeros((len(SKIPS), len(SCORED)), np.float32),
        "usual": np.full(RANKS, np.inf, np.float32),
    }


def run_sizes() -> np.ndarray:
    """Return the sizes of runs (int64) by size class; class 0 is not used."""
    classes = np.arange(RUN_CLASSES)
    kinds = np.maximum(classes - 5, 0) // 4
    return (classes - 4 * kinds) * (SMALLEST_RUN << kinds)


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
        lists.gradient = np.zeros(2 * term, np.float32)
    lists.names[term] = feature
    for column in range(lists.lists.shape[1]):
        lists.lists[term, column] = 0
    lists.importance[term] = 1
    lists.squares[term] = 0
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


# ---- impacts


@helper
def impact_of(weight, norm):
    """Return the impact (int8) of a term with this weight in a key of this length."""
    size = np.int64(np.rint(LARGEST_IMPACT * np.sqrt(abs(np.float64(weight)) / norm))) if norm > 0 else 0
    size = min(size, LARGEST_IMPACT)
    return np.int8(size if weight >= 0 else -size)


# ---- the pool


@helper
def run_step(size):
    """Return the difference between the sizes of runs around this one."""
    step = SMALLEST_RUN
    while 8 * step <= size:
        step *= 2
    return step


@helper
def run_for(size):
    """Return the size of the smallest run with room for so many entries."""
    step = run_step(size)
    return (size + step - 1) // step * step


@helper
def run_class(room):
    """Return the size class of a run."""
    step, kind = run_step(room), 0
    while SMALLEST_RUN << kind < step:
        kind += 1
    return 4 * kind + room // step


@helper
def allocate_run(lists, room):
    """Return the beginning of a run of this size: a free one, or a new one at the end of the pool."""
    begin = pop_free(lists.free, run_class(room), lists.members, SMALLEST_RUN)
    if begin != NONE:
        return begin
    begin = lists.counters[POOL]
    size = lists.members.shape[0]
    if begin + room > size:
        while begin + room > size:
            size *= 2
        lists.members = lengthened(lists.members, size)
        lists.impacts = lengthened(lists.impacts, size)
    lists.counters[POOL] += room
    return begin


@helper
def free_run(lists, begin, room):
    """Return a run to the free ones of its size."""
    push_free(lists.free, run_class(room), lists.members, SMALLEST_RUN, begin)


@helper
def resize_list(lists, term, room):
    """Move a list to a run of this size; an empty list has none."""
    begin, old = lists.lists[term, BEGIN], lists.lists[term, ROOM]
    target = allocate_run(lists, room) if room else 0
    copy_run(lists.members, target, lists.members, begin, lists.lists[term, LENGTH])
    copy_run(lists.impacts, target, lists.impacts, begin, lists.lists[term, LENGTH])
    if old:
        free_run(lists, begin, old)
    lists.lists[term, BEGIN] = target
    lists.lists[term, ROOM] = room


# ---- entries


@helper
def add_entry(lists, term, row, impact):
    """Append a memory to a list."""
    length, room = lists.lists[term, LENGTH], lists.lists[term, ROOM]
    if length == room:
        resize_list(lists, term, run_for(length + 1))
    entry = lists.lists[term, BEGIN] + length
    lists.members[entry] = row
    lists.impacts[entry] = impact
    lists.lists[term, LENGTH] = length + 1
    lists.counters[ENTRIES] += 1


@helper
def find_entry(lists, term, row):
    """Return the place in the pool of a memory that is in a list.

    The newest entries are compared first, many at once, as the last row is looked for whenever a memory is removed.
    """
    members, begin = lists.members, lists.lists[term, BEGIN]
    last = begin + lists.lists[term, LENGTH]
    while last - begin > SEARCHED_AT_ONCE:
        there = 0
        for entry in range(np.uint64(last - SEARCHED_AT_ONCE), np.uint64(last)):
            there |= members[entry] == row
        if there:
            break
        last -= SEARCHED_AT_ONCE
    entry = last - 1
    while members[entry] != row:
        entry -= 1
    return entry


@helper
def remove_entry(lists, term, row):
    """Remove a memory from a list that it is in; the last entry takes its place."""
    entry, length = find_entry(lists, term, row), lists.lists[term, LENGTH] - 1
    last, room = lists.lists[term, BEGIN] + length, lists.lists[term, ROOM]
    lists.members[entry], lists.impacts[entry] = lists.members[last], lists.impacts[last]
    lists.lists[term, LENGTH] = length
    lists.counters[ENTRIES] -= 1
    if 2 * length <= room:
        smaller = run_for(length + length // 4) if length else 0  # so that it is not moved back at the next insertion
        if smaller < room:
            resize_list(lists, term, smaller)


# ---- lengths of keys


@helper
def set_norms(lists, row, own, learned):
    """Set the lengths of a key."""
    if row >= lists.norms.shape[0]:
        size = 2 * lists.norms.shape[0]
        norms, shortest = np.full((size, 2), np.inf, np.float32), np.full(size // BLOCK, np.inf, np.float32)
        copy_run(norms, 0, lists.norms, 0, size)
        copy_run(shortest, 0, lists.shortest, 0, lists.shortest.shape[0])
        lists.norms, lists.shortest = norms, shortest
        lists.given = lengthened(lists.given, size)
    grows = learned > lists.norms[row, LEARNED]
    lists.norms[row, OWN] = own
    lists.norms[row, LEARNED] = learned
    block = row // BLOCK
    lists.shortest[block] = min(lists.shortest[block], lists.norms[row, LEARNED])
    if grows:
        least = np.float32(np.inf)
        for other in range(block * BLOCK, (block + 1) * BLOCK):
            least = min(least, lists.norms[other, LEARNED])
        lists.shortest[block] = least
