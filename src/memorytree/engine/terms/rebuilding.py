"""Building all term lists at once."""

import numpy as np

from memorytree.engine import entry_points
from memorytree.engine.arrays import MEMORIES, NONE, SLOT
from memorytree.engine.dispatch import load_key
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.rng import mix
from memorytree.engine.sparse import reserve_key_pool
from memorytree.engine.terms.admission import home_weight, is_home, limit, pin, store_next
from memorytree.engine.terms.lists import (
    BEGIN,
    ENTRIES,
    FLAGS,
    HOME,
    LENGTH,
    PEAK,
    POOL,
    ROOM,
    SMALLEST_RUN,
    TERMS,
    allocate_run,
    sift_entry_down,
)


@kernel
def fill(tree, lists, X, ids):
    """Store all rows of a batch in an empty tree, without entering them in lists; ids as in `store_next`."""
    reserve_key_pool(tree, X[0][ids.shape[0]] - X[0][0], 0)
    for i in range(ids.shape[0]):
        store_next(tree, lists, X, ids, i)
        if entry_points.needs_compaction(tree):
            entry_points.compact(tree)


@helper
def fingerprints(lists, memories):
    """Return for each memory a hash (uint64) of the lists that it is in."""
    prints = np.zeros(memories, np.uint64)
    for term in range(lists.counters[TERMS]):
        begin = lists.lists[term, BEGIN]
        for entry in range(begin, begin + lists.lists[term, LENGTH]):
            prints[lists.members[entry] >> FLAGS] ^= mix(np.uint64(term + 1))
    return prints


@helper
def group_by_term(tree, lists):
    """Return all entries grouped by term: (where each term begins, members, weights). Sets the lengths of memories."""
    starts = np.zeros(lists.counters[TERMS] + 1, np.int64)
    for term in range(lists.counters[TERMS]):
        starts[term + 1] = starts[term] + lists.documents[term]
    ends = starts.copy()
    members, weights = blank(starts[-1], np.int32), blank(starts[-1], np.float32)
    for row in range(tree.counters[MEMORIES]):
        x = load_key(tree, tree.rows[row, SLOT])
        least, length = home_weight(tree, lists, x), 0.0
        for j in range(x[0].shape[0]):
            term, weight = x[0][j], x[1][j]
            length += np.float64(lists.importance[term]) * weight * weight
            home = HOME if is_home(tree, lists, x, j, least) else 0
            members[ends[term]], weights[ends[term]] = (row << FLAGS) + home, weight
            ends[term] += 1
        lists.lengths[row], lists.homes[row] = length, 0
    return starts, members, weights


@helper
def run_for(length):
    """Return the size of a run for this many entries."""
    room = SMALLEST_RUN
    while room < length:
        room *= 2
    return room


@helper
def keep_heaviest(lists, term, members, weights, most):
    """Fill the empty list of a term with the `most` heaviest of these entries; of equal ones with the first."""
    n, room, more = weights.shape[0], run_for(min(weights.shape[0], most)), 0
    if n == 0:
        return
    least, left = np.float32(-1), most
    if n > most:
        least = np.partition(np.abs(weights), n - most)[n - most]
        for j in range(n):
            left -= abs(weights[j]) > least
    begin = allocate_run(lists, room)
    for j in range(n):
        heavier = abs(weights[j]) > least
        if heavier or (abs(weights[j]) == least and left > 0):
            left -= not heavier
            lists.members[begin + more], lists.weights[begin + more] = members[j], weights[j]
            lists.homes[members[j] >> FLAGS] += members[j] & HOME
            more += 1
    lists.lists[term, BEGIN], lists.lists[term, ROOM], lists.lists[term, LENGTH] = begin, room, more
    lists.counters[ENTRIES] += more
    for j in range(more // 2 - 1, -1, -1):
        sift_entry_down(lists, begin, more, j)


@kernel
def rebuild(tree, lists):
    """Rebuild all lists with the current importances; returns how many memories are in other lists than before.

    Works term by term, so that every entry is written once.
    """
    memories = tree.counters[MEMORIES]
    before = fingerprints(lists, memories)
    for term in range(lists.counters[TERMS]):
        for column in range(lists.lists.shape[1]):
            lists.lists[term, column] = 0
    for kind in range(lists.free.shape[0]):
        lists.free[kind] = NONE
    lists.counters[POOL] = 0
    lists.counters[ENTRIES] = 0
    lists.counters[PEAK] = memories
    most = limit(lists)
    starts, members, weights = group_by_term(tree, lists)
    room = 0
    for term in range(lists.counters[TERMS]):
        room += run_for(min(lists.documents[term], most))
    if room > lists.members.shape[0]:
        lists.members, lists.weights = blank(room, np.int32), blank(room, np.float32)
    for term in range(lists.counters[TERMS]):
        first, last = starts[term], starts[term + 1]
        keep_heaviest(lists, term, members[first:last], weights[first:last], most)
    for row in range(memories):
        if lists.homes[row] == 0:
            pin(tree, lists, row)
    after = fingerprints(lists, memories)
    changed = 0
    for row in range(memories):
        changed += before[row] != after[row]
    return changed
