"""Posting lists with a limit: for each term the memories in which it weighs most.

A list holds at most `breadth` * log2 n entries and is a heap with the lightest on top, which makes way for a heavier one.
Lists are runs of one pool, in powers of two; runs given back are chained by size. Memories are known by their row in the
tree (a single leaf) that stores their keys, and those keys have terms, numbers without holes, for features.

Every memory stays within reach. The lists of its `homes` heaviest terms, in which the memory is, are its homes; a query for
the same key reads all of them. Where a heavier entry would drive a memory out of its last home, that entry is pinned: it
stays, and the list may grow by as many as are pinned in it. A memory that finds no home is pinned in the shortest of those
lists. Keys without terms share a list of their own, term 0.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numba.core import types
from numba.experimental import structref

from memorytree.engine import grow, kernels, layout, search
from memorytree.engine.compile import helper, kernel
from memorytree.engine.declared import load_key, promise, row_of, weighed_dissimilarity
from memorytree.engine.dense import grown, lengthened
from memorytree.engine.rng import below, mix, seeded, uniform
from memorytree.engine.search import AT_LEAF, BRANCH, EXPLOIT, EXPLORED, EXPLORED_GENERATION, STEPS
from memorytree.engine.sparse import SMALLEST_TABLE, class_of, find, place_in
from memorytree.engine.state import MEMORIES, NEWEST, NEXT_ID, NONE, OLDER, ROOT, SLOT

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
    "settings", "counters", "places", "names", "lists", "importance", "squares",
    "members", "weights", "homes", "lengths", "free", "gradient",
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
        lists.counters, lists.places, lists.names, lists.lists, lists.importance, lists.squares,
        lists.members, lists.weights, lists.homes, lists.lengths, lists.free,
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
        "members": np.empty(64, np.int32),
        "weights": np.empty(64, np.float32),
        "homes": np.zeros(64, np.int32),
        "lengths": np.zeros(64, np.float32),
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


@helper
def add_term(lists, feature):
    """A term for a new feature. Half of the map stays empty."""
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
        places = np.empty((2 * lists.places.shape[0], 2), np.int32)
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


# ---- memories in their lists


@helper
def limit(lists):
    """How many entries that are not pinned a list may hold."""
    return np.int64(lists.settings.breadth * np.log2(lists.counters[MOST] + 2.0))


@helper
def home_weight(lists, x):
    """How much a term must weigh, with its importance, to be among a memory's heaviest; all of them where it has few."""
    terms, weights = x
    homes = lists.settings.homes
    if terms.shape[0] <= homes:
        return np.float32(-1)
    heaviest = np.empty(homes, np.float32)
    filled = 0
    for j in range(terms.shape[0]):
        weight = abs(weights[j]) * lists.importance[terms[j]]
        if filled < homes:
            place = filled
            filled += 1
        elif weight > heaviest[homes - 1]:
            place = homes - 1
        else:
            continue
        while place > 0 and heaviest[place - 1] < weight:
            heaviest[place] = heaviest[place - 1]
            place -= 1
        heaviest[place] = weight
    return heaviest[homes - 1]


@helper
def admit(lists, term, row, weight, is_home, most):
    """Offer a memory to one list; whether it was let in."""
    length = lists.lists[term, LENGTH]
    while length >= most + lists.lists[term, PINS]:
        begin = lists.lists[term, BEGIN]
        lightest = lists.members[begin]
        if not abs(weight) > rank(lightest, lists.weights[begin]):
            return False
        if lightest & HOME and lists.homes[lightest >> FLAGS] == 1:
            # Its last home: it stays, and the next lightest is asked.
            lists.members[begin] = lightest | PINNED
            lists.lists[term, PINS] += 1
            sift_down(lists, begin, length, 0)
        else:
            lists.homes[lightest >> FLAGS] -= lightest & HOME
            lists.members[begin] = (row << FLAGS) + is_home
            lists.weights[begin] = weight
            sift_down(lists, begin, length, 0)
            return True
    add_entry(lists, term, (row << FLAGS) + is_home, weight)
    return True


@helper
def offer(tree, lists, row):
    """Offer a memory that is in no list to those of all its terms."""
    x = load_key(tree, tree.rows[row, SLOT])
    terms, weights = x
    lists.homes[row] = 0
    length = 0.0
    most, least = limit(lists), home_weight(lists, x)
    shortest, pinned_weight = np.int64(NONE), np.float32(0)
    for j in range(terms.shape[0]):
        term = np.int64(terms[j])
        length += np.float64(lists.importance[term]) * weights[j] * weights[j]
        is_home = 1 if abs(weights[j]) * lists.importance[term] >= least else 0
        if admit(lists, term, row, weights[j], is_home, most):
            lists.homes[row] += is_home
        if is_home and (shortest == NONE or lists.lists[term, LENGTH] < lists.lists[shortest, LENGTH]):
            shortest, pinned_weight = term, weights[j]
    if terms.shape[0] == 0:
        shortest = np.int64(NO_FEATURE)
    if lists.homes[row] == 0:
        add_entry(lists, shortest, (row << FLAGS) + HOME + PINNED, pinned_weight)
        lists.homes[row] = 1
    lists.lengths[row] = length


@helper
def take_out(tree, lists, row):
    """Take a memory out of all lists."""
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(max(terms.shape[0], 1)):
        term = np.int64(terms[j]) if terms.shape[0] else np.int64(NO_FEATURE)
        place = place_in_list(lists, term, row)
        if place != NONE:
            drop_entry(lists, term, place)


@helper
def rename(tree, lists, row, new):
    """Let the lists know a memory by another row."""
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(max(terms.shape[0], 1)):
        term = np.int64(terms[j]) if terms.shape[0] else np.int64(NO_FEATURE)
        place = place_in_list(lists, term, row)
        if place != NONE:
            entry = lists.lists[term, BEGIN] + place
            lists.members[entry] = (new << FLAGS) + (lists.members[entry] & (HOME + PINNED))
    lists.homes[new] = lists.homes[row]
    lists.lengths[new] = lists.lengths[row]


@helper
def forget(tree, lists, row):
    """A memory goes; the last row takes its number."""
    take_out(tree, lists, row)
    last = tree.counters[MEMORIES] - 1
    if row != last:
        rename(tree, lists, last, row)
    layout.detach(tree, row)
    layout.free_row(tree, row)


@helper
def store(tree, lists, id, x):
    """Store a memory, its features as terms; returns its row."""
    features, weights = x
    terms = np.empty(features.shape[0], np.int32)
    for j in range(features.shape[0]):
        term = term_of(lists, features[j])
        terms[j] = add_term(lists, features[j]) if term == NONE else term
    tree.counters[NEXT_ID] = max(tree.counters[NEXT_ID], id + 1)
    row = layout.new_row(tree, id)
    layout.append(tree, tree.counters[ROOT], row, (terms, weights))
    if row >= lists.homes.shape[0]:
        lists.homes = lengthened(lists.homes, 2 * row)
        lists.lengths = lengthened(lists.lengths, 2 * row)
    lists.homes[row] = 0
    lists.counters[MOST] = max(lists.counters[MOST], row + 1)
    return row


# ---- doors that write


@kernel
def insert_rows(tree, lists, X, ids, progress, last, removed, offering):
    """Insert rows from progress[0] up to last - 1; ids[i] is the id to take or NONE, and afterwards the id taken.

    Rows of `removed` become (row, id) of the memories that had to go; returns how many. Without `offering` the lists are
    left to `rebuild`.
    """
    gone = 0
    while progress[0] < last:
        i = progress[0]
        if ids[i] == NONE:
            ids[i] = tree.counters[NEXT_ID]
        obstacle = grow.in_the_way(tree, ids[i])
        if obstacle != NONE:
            forget(tree, lists, layout.row_of_id(tree, obstacle))
            removed[gone, 0], removed[gone, 1] = i, obstacle
            gone += 1
        row = store(tree, lists, ids[i], row_of(tree, X, i))
        if offering:
            offer(tree, lists, row)
        # After every row, so that a batch leaves what a loop would.
        if kernels.has_gaps(tree):
            kernels.close_gaps(tree)
        progress[0] += 1
    return gone


@kernel
def remove(tree, lists, id):
    """Remove a memory that is there."""
    forget(tree, lists, layout.row_of_id(tree, id))
    if kernels.has_gaps(tree):
        kernels.close_gaps(tree)


@kernel
def offer_again(tree, lists, times):
    """Take memories out of their lists and offer them again, in turn: fills what removals have left open."""
    for _ in range(times if tree.counters[MEMORIES] > 0 else 0):
        row = lists.counters[NEXT] % tree.counters[MEMORIES]
        take_out(tree, lists, row)
        offer(tree, lists, row)
        lists.counters[NEXT] = row + 1


@helper
def fingerprints(lists, memories):
    """For each memory a number that tells which lists it is in."""
    prints = np.zeros(memories, np.uint64)
    for term in range(lists.counters[TERMS]):
        begin = lists.lists[term, BEGIN]
        for entry in range(begin, begin + lists.lists[term, LENGTH]):
            prints[lists.members[entry] >> FLAGS] ^= mix(np.uint64(term + 1))
    return prints


@kernel
def rebuild(tree, lists):
    """Empty all lists and offer every memory, by today's importance of terms; returns how many are in other lists now."""
    memories = tree.counters[MEMORIES]
    before = fingerprints(lists, memories)
    for term in range(lists.counters[TERMS]):
        for column in range(lists.lists.shape[1]):
            lists.lists[term, column] = 0
    for kind in range(lists.free.shape[0]):
        lists.free[kind] = NONE
    lists.counters[POOL] = 0
    lists.counters[ENTRIES] = 0
    lists.counters[MOST] = memories
    for row in range(memories):
        offer(tree, lists, row)
    after = fingerprints(lists, memories)
    changed = 0
    for row in range(memories):
        changed += before[row] != after[row]
    return changed


# ---- answers

Prepared = namedtuple("Prepared", "table values terms squared_length")
"""A query: an open-addressing table from its terms to its weights (0 where there is none, so that comparing takes no
branch), how many features it has, and the sum of the squares of their weights by importance."""


@helper
def known_terms(lists, x):
    """Those features of a key that are terms, as terms, and their weights."""
    features, weights = x
    terms, values = np.empty(features.shape[0], np.int64), np.empty(features.shape[0], np.float32)
    known = 0
    for j in range(features.shape[0]):
        term = term_of(lists, features[j])
        if term != NONE:
            terms[known], values[known] = term, weights[j]
            known += 1
    return terms[:known], values[:known]


@helper
def prepare(lists, x, terms, weights):
    """A query in the form in which stored keys are compared with it. Features that are no terms count for its length."""
    size = SMALLEST_TABLE
    while size < 8 * terms.shape[0]:
        size *= 2
    table, values = np.empty(size, np.int32), np.empty(size, np.float32)
    for place in range(size):
        table[place], values[place] = NONE, 0
    squared_length = 0.0
    for j in range(terms.shape[0]):
        place = place_in(table, terms[j])
        table[place], values[place] = terms[j], weights[j]
        squared_length += np.float64(lists.importance[terms[j]]) * weights[j] * weights[j]
    # In this order a key and its equal come to the same length, bit by bit.
    if terms.shape[0] < x[0].shape[0]:
        for j in range(x[0].shape[0]):
            if term_of(lists, x[0][j]) == NONE:
                squared_length += np.float64(x[1][j]) * x[1][j]
    return Prepared(table, values, x[0].shape[0], squared_length)


@helper
def choose_lists(lists, terms, weights, beam):
    """The heaviest terms of a query, by weight and importance, whose lists are to be read: (order, how many of them).

    As many as hold `reads` * log2 n entries, times the beam; and no fewer than a memory's homes, however long those are.
    One more follows in the order, if there is one: the list that exploration may take instead.
    """
    costs, order = np.empty(terms.shape[0] + 1, np.float64), np.empty(terms.shape[0] + 1, np.int64)
    for j in range(terms.shape[0]):
        search.push(costs, order, j, -np.float64(abs(weights[j])) * lists.importance[terms[j]], j)
    chosen = np.empty(terms.shape[0] + 1, np.int64)
    left = lists.settings.reads * np.log2(lists.counters[MOST] + 2.0) * beam
    taken, number = 0, 0
    for size in range(terms.shape[0], 0, -1):
        _, j = search.pop(costs, order, size)
        chosen[taken] = j
        taken += 1
        if left <= 0 and number >= lists.settings.homes * beam:
            break
        number = taken
        left -= lists.lists[terms[j], LENGTH]
    return chosen[:taken], number


@helper
def entries_in(lists, x, terms, order, number):
    """How many entries the lists hold that a query is to read."""
    entries = np.int64(0) if x[0].shape[0] else lists.lists[NO_FEATURE, LENGTH]
    for j in range(number):
        entries += lists.lists[terms[order[j]], LENGTH]
    return entries


@kernel
def entries_for(tree, lists, X):
    """The same for the first key of a batch."""
    x = row_of(tree, X, 0)
    terms, weights = known_terms(lists, x)
    order, number = choose_lists(lists, terms, weights, 1)
    return entries_in(lists, x, terms, order, number)


@helper
def hash_of(row, size):
    return (row * 0x9E3779B1 >> 7) & (size - 1)


@helper
def find_row(rows, row):
    """The place of a row in a table of candidates, or the empty place where it would go."""
    place = hash_of(row, rows.shape[0])
    while rows[place] != row and rows[place] != NONE:
        place = (place + 1) & (rows.shape[0] - 1)
    return place


@helper
def add_list(lists, term, factor, rows, sums, used, found):
    """Add what a term contributes to the score of each memory in its list; returns how many candidates there are."""
    begin = lists.lists[term, BEGIN]
    members, weights = lists.members, lists.weights
    for entry in range(begin, begin + lists.lists[term, LENGTH]):
        row = np.int64(members[entry] >> FLAGS)
        place = find_row(rows, row)
        if rows[place] == NONE:
            rows[place] = row
            sums[place] = 0
            used[found] = place
            found += 1
        sums[place] += factor * weights[entry]
    return found


@helper
def select(tree, lists, rows, sums, used, found, promises, candidates):
    """The most promising candidates, as many as `promises` has room for, and an empty table; returns how many."""
    filled = 0
    for u in range(found):
        row = np.int64(rows[used[u]])
        rows[used[u]] = NONE
        if row == GONE:
            continue
        hope = promise(tree, np.float64(sums[used[u]]), np.float64(lists.lengths[row]))
        if filled < promises.shape[0]:
            search.push(promises, candidates, filled, hope, row)
            filled += 1
        elif hope > promises[0]:
            search.replace_top(promises, candidates, filled, hope, row)
    return filled


@helper
def fill_up(tree, lists, x, prepared, excluded, best_rows, best, found):
    """Where too few memories share a term with the query, those used last complete the answer."""
    row = tree.counters[NEWEST]
    while row != NONE and found < best.shape[0]:
        there = False
        for j in range(found):
            there = there or best_rows[j] == row
        if not there and not search.is_excluded(excluded, tree.row_ids[row]):
            badness = weighed_dissimilarity(tree, tree.rows[row, SLOT], prepared, lists.importance)
            found = search.offer_row(tree, row, x, badness, best_rows, best, found)
        row = np.int64(tree.rows[row, OLDER])
    return found


@kernel
def query_rows(tree, lists, X, first, last, bounds, excluded, ids, scores, traces, beam, explore, draw):
    """Answer rows first .. last - 1: read the lists of the heaviest terms, score the most promising candidates exactly.

    With probability `explore` one of the lists, at random, gives way to the heaviest that would not have been read; the
    trace says so as a leaf explored, and which term it was.
    """
    memories = tree.counters[MEMORIES]
    beam = min(beam, memories + 1)
    best_rows, best = np.empty(ids.shape[1], np.int64), np.empty(ids.shape[1], np.float64)
    room = min(max(lists.settings.scored * beam, ids.shape[1]), max(memories, 1))
    promises, candidates = np.empty(room, np.float64), np.empty(room, np.int64)
    rows, sums, used = np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.int64)
    for i in range(first, last):
        x = row_of(tree, X, i)
        terms, weights = known_terms(lists, x)
        prepared = prepare(lists, x, terms, weights)
        order, number = choose_lists(lists, terms, weights, beam)
        if traces.shape[0]:
            traces[i, BRANCH], traces[i, STEPS] = EXPLOIT, 0
        if explore > 0 and order.shape[0] > number:
            stream = seeded(tree.settings.seed, draw + i)
            if uniform(stream) < explore:
                swapped = below(stream, number)
                if traces.shape[0]:
                    traces[i, BRANCH], traces[i, EXPLORED], traces[i, EXPLORED_GENERATION] = (
                        AT_LEAF,
                        terms[order[swapped]],
                        0,
                    )
                order[swapped] = order[number]
        entries = min(entries_in(lists, x, terms, order, number), memories) + 1
        if 2 * entries > rows.shape[0]:
            size = 1024
            while size < 2 * entries:
                size *= 2
            rows, sums, used = np.full(size, NONE, np.int32), np.empty(size, np.float32), np.empty(size, np.int64)
        found = 0
        for j in range(number):
            term = terms[order[j]]
            found = add_list(lists, term, lists.importance[term] * weights[order[j]], rows, sums, used, found)
        if x[0].shape[0] == 0:
            found = add_list(lists, np.int64(NO_FEATURE), np.float32(0), rows, sums, used, found)
        out = excluded[bounds[i] : bounds[i + 1]]
        for id in out:
            row = layout.row_of_id(tree, id)
            if row != NONE:
                place = find_row(rows, row)
                if rows[place] != NONE:
                    rows[place] = GONE
        promising = select(tree, lists, rows, sums, used, found, promises, candidates)
        found = np.int64(0)
        for j in range(promising):
            badness = weighed_dissimilarity(tree, tree.rows[candidates[j], SLOT], prepared, lists.importance)
            found = search.offer_row(tree, candidates[j], x, badness, best_rows, best, found)
        if found < best.shape[0]:
            found = fill_up(tree, lists, x, prepared, out, best_rows, best, found)
        search.report(tree, i, found, best_rows, best, ids, scores, traces)


# ---- learning


@helper
def cosine_of(tree, lists, slot, prepared):
    """(cosine, squared length) of a stored key, by importance."""
    terms, weights = load_key(tree, slot)
    product, squared_length = 0.0, 0.0
    for j in range(terms.shape[0]):
        weight = np.float64(lists.importance[terms[j]]) * weights[j]
        squared_length += weight * weights[j]
        product += weight * prepared.values[place_in(prepared.table, terms[j])]
    lengths = np.sqrt(squared_length * prepared.squared_length)
    return product / lengths if lengths > 0 else 0.0, squared_length


@helper
def add_gradient(tree, lists, slot, prepared, pull, cosine, squared_length):
    """Add `pull` times the derivative of a memory's cosine by the logarithm of each term's importance.

    With u and v the two keys at length one it is u v - cosine (u^2 + v^2) / 2; the part of u^2 is added by the caller.
    """
    terms, weights = load_key(tree, slot)
    if not squared_length * prepared.squared_length > 0:
        return
    across, along = pull / np.sqrt(squared_length * prepared.squared_length), pull * cosine / (2 * squared_length)
    for j in range(terms.shape[0]):
        weight = np.float64(lists.importance[terms[j]]) * weights[j]
        other = prepared.values[place_in(prepared.table, terms[j])]
        lists.gradient[terms[j]] += weight * (across * other - along * weights[j])


@helper
def step_terms(lists, terms):
    """One step of Adagrad on the logarithm of each of these terms' importance; the gradient is used up."""
    for j in range(terms.shape[0]):
        term = terms[j]
        g = lists.gradient[term]
        if g != 0:
            lists.gradient[term] = 0
            lists.squares[term] += g * g
            change = np.exp(-lists.settings.rate * g / np.sqrt(lists.squares[term] + 1e-2))
            lists.importance[term] = min(max(lists.importance[term] * change, 1 / FURTHEST), FURTHEST)


@kernel
def learn_rows(tree, lists, X, ids, rewards, first, last):
    """Learn the importance of terms from the rewards of queries first .. last - 1 (NaN: none observed).

    With p the softmax of the cosines (times `temperature`) of the memories that were returned, and t the part of it that was
    rewarded, the gradient of each cosine is p - t. Rewarded memories become the last to be forgotten. Returns from how many
    queries anything was learned: not where no memory was rewarded, nor where all were alike.
    """
    k = ids.shape[1]
    slots, given = np.empty(k, np.int64), np.empty(k, np.float64)
    cosines, lengths, pulls = np.empty(k, np.float64), np.empty(k, np.float64), np.empty(k, np.float64)
    learned = 0
    for i in range(first, last):
        n, lowest, highest = 0, 1.0, 0.0
        for j in range(k):
            row = layout.row_of_id(tree, ids[i, j])
            if row == NONE or np.isnan(rewards[i, j]):
                continue
            if rewards[i, j] > 0:
                layout.refresh(tree, ids[i, j])
            slots[n], given[n] = tree.rows[row, SLOT], rewards[i, j]
            lowest, highest = min(lowest, given[n]), max(highest, given[n])
            n += 1
        if lowest >= highest:
            continue
        x = row_of(tree, X, i)
        terms, weights = known_terms(lists, x)
        prepared = prepare(lists, x, terms, weights)
        best = -np.inf
        for j in range(n):
            cosines[j], lengths[j] = cosine_of(tree, lists, slots[j], prepared)
            best = max(best, cosines[j])
        total, earned = 0.0, 0.0
        for j in range(n):
            pulls[j] = np.exp(lists.settings.temperature * (cosines[j] - best))
            total += pulls[j]
            earned += given[j] * pulls[j]
        if earned <= 0:
            continue
        strongest, own = 0.0, 0.0
        for j in range(n):
            pulls[j] = lists.settings.temperature * (pulls[j] / total - given[j] * pulls[j] / earned)
            strongest = max(strongest, abs(pulls[j]))
            own += pulls[j] * cosines[j]
        if strongest < 1e-6 or not prepared.squared_length > 0:
            continue
        for j in range(n):
            add_gradient(tree, lists, slots[j], prepared, pulls[j], cosines[j], lengths[j])
        for j in range(terms.shape[0]):
            weight = np.float64(lists.importance[terms[j]]) * weights[j] * weights[j]
            lists.gradient[terms[j]] -= own * weight / (2 * prepared.squared_length)
        step_terms(lists, terms)
        for j in range(n):
            step_terms(lists, load_key(tree, slots[j])[0])
        lists.counters[LESSONS] += 1
        learned += 1
    return learned
