"""Tuning: how keys are coded, and how much effort a search needs, both measured on stored keys.

A sample of the memories is asked for their nearest neighbours, each without itself, and the answers are compared with those
of a scan. Insertions report when this is due (`is_tuning_due`), so that the state depends on the writes alone.
"""

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import (
    CUT_OFF,
    DIMENSION,
    EQUAL,
    LEAF,
    LINKED_SINCE,
    MEMORIES,
    NONE,
    RECALLS,
    RERANKED,
    SLOT,
    START,
    STRETCHES,
    TUNED_AT,
)  # fmt: skip
from memorytree.engine.dispatch import key_distance, same_key
from memorytree.engine.graph.candidates import distance_in, row_in
from memorytree.engine.graph.codes import LARGEST, encode
from memorytree.engine.graph.copies import COPY, FIRST, first_of
from memorytree.engine.graph.links import link_near
from memorytree.engine.graph.search import (
    CERTAIN,
    MANY_VISITED,
    Goal,
    expand,
    make_query,
    make_workspace,
    next_to_expand,
    rounding,
    scan_rows,
    start_search,
    with_equals,
)  # fmt: skip
from memorytree.engine.jit import blank, body_for, helper, kernel

HITS = 10  # the recall that is measured is that of so many hits
FEWEST = 256  # insertions before the first tuning
POOL = 1024  # candidates that a search by default keeps
# Codes are replaced early if more than this part of their numbers was cut off; when they are chosen it is .0005.
MUCH_CUT_OFF = 0.004


@body_for(dispatch.is_tuning_due, "tree")
def is_never_due(tree):
    return False


@body_for(dispatch.is_tuning_due, "graph")
def is_tuning_due(tree):
    graph = tree.graph
    since = graph[LINKED_SINCE]
    if since >= max(FEWEST, graph[TUNED_AT]):
        return True
    is_cut_off = graph[CUT_OFF] > MUCH_CUT_OFF * since * tree.counters[DIMENSION]
    return is_cut_off and 16 * since > tree.counters[MEMORIES]


@helper
def keep_smallest(smallest, value):
    """Insert a value into an ascending array if it is smaller than the last, which drops out."""
    place = smallest.shape[0] - 1
    if not value < smallest[place]:
        return
    while place > 0 and smallest[place - 1] > value:
        smallest[place] = smallest[place - 1]
        place -= 1
    smallest[place] = value


@kernel
def nearest_distances(tree, sample, distances):
    """Fill `distances` (float64, (sample, HITS)) with those from each sampled row to the nearest others in the graph."""
    distances[:] = np.inf
    for row in range(tree.counters[MEMORIES]):
        if tree.copies[row] == COPY:
            continue
        slot = tree.rows[row, SLOT]
        for i in range(sample.shape[0]):
            if sample[i] != row:
                keep_smallest(distances[i], key_distance(tree, slot, tree.keys[tree.rows[sample[i], SLOT]]))


@kernel
def encode_all(tree, codes):
    """Write the codes of all memories to a matrix (int8, (rows, width)) and use it."""
    for row in range(tree.counters[MEMORIES]):
        encode(tree, tree.keys[tree.rows[row, SLOT]], codes, row, LARGEST)
    tree.codes = codes


@kernel
def code_recalls(tree, sample, distances, counts):
    """Return the recall of a scan by codes whose first counts[j] candidates are compared by their keys, for each j.

    Args:
        tree: the tree, which has codes.
        sample: int64, rows.
        distances: float64 (sample, HITS), from `nearest_distances`.
        counts: int64, ascending.
    """
    rows = blank(tree.counters[MEMORIES], np.int64)
    n = 0
    for row in range(tree.counters[MEMORIES]):
        rows[n] = row
        n += tree.copies[row] != COPY
    found = np.zeros(counts.shape[0])
    candidates = blank(counts[-1] + 1, np.uint64)
    for i in range(sample.shape[0]):
        x = tree.keys[tree.rows[sample[i], SLOT]]
        size = scan_rows(tree, make_query(tree, x, np.int64(NONE)), rows[:n], candidates)
        place = 0
        for c in range(size):
            row = row_in(candidates[c])
            if row == sample[i]:
                continue
            if key_distance(tree, tree.rows[row, SLOT], x) <= distances[i, HITS - 1]:
                for j in range(counts.shape[0]):
                    found[j] += place < counts[j]
            place += 1
    return found / (sample.shape[0] * HITS)


@helper
def part_found(tree, query, pool, size, furthest):
    """Return which part of the nearest memories, those up to a distance, is among the best candidates of a search."""
    found = 0
    for i in range(with_equals(pool, np.int64(tree.graph[RERANKED] * HITS), size)):
        found += key_distance(tree, tree.rows[row_in(pool[i]), SLOT], query.x) <= furthest
    return min(found, HITS) / HITS


@helper
def add_recalls(tree, query, furthest, work, recalls):
    """Add the recall of a search with each effort to `recalls`.

    A search with less effort is the beginning of one with more: it ends when the next candidate is too far away. So one
    search is made, until it has found everything.
    """
    goal = Goal(np.int64(HITS), np.int64(CERTAIN), np.float32(STRETCHES[-1]), rounding(tree))
    nothing = blank(0, np.uint8)
    sizes = start_search(tree, query, goal, nothing, work)
    at = next_to_expand(work.pool, np.int64(0), sizes[0])
    effort, part = 0, 0.0
    while effort < len(STRETCHES) and part < 1:
        is_over = at == sizes[0]
        if is_over or (at >= CERTAIN and sizes[0] >= HITS):
            ratio = np.inf if is_over else distance_in(work.pool[at]) / (distance_in(work.pool[HITS - 1]) + goal.slack)
            if ratio > STRETCHES[effort]:
                part = part_found(tree, query, work.pool, sizes[0], furthest)
                while effort < len(STRETCHES) and ratio > STRETCHES[effort]:
                    recalls[effort] += part
                    effort += 1
        if not is_over:
            sizes, foremost = expand(tree, query, goal, nothing, work, at, sizes)
            at = next_to_expand(work.pool, min(at + 1, foremost), sizes[0])
    recalls[effort:] += part


@kernel
def measure_efforts(tree, sample, distances):
    """Measure the recall of a search with each effort, and keep it in `graph`; `distances` as from `nearest_distances`."""
    work = make_workspace(tree, POOL, 0, MANY_VISITED)
    recalls = np.zeros(len(STRETCHES))
    for i in range(sample.shape[0]):
        query = make_query(tree, tree.keys[tree.rows[sample[i], SLOT]], sample[i])
        add_recalls(tree, query, distances[i, HITS - 1], work, recalls)
    for j in range(len(STRETCHES)):
        tree.graph[RECALLS + j] = recalls[j] / sample.shape[0]


@kernel
def link_again(tree):
    """Link all memories anew, in order of their rows, as if they were inserted again."""
    n = tree.counters[MEMORIES]
    tree.neighbours[:n] = NONE
    copies = tree.copies[:n].copy()
    tree.copies[:n] = COPY  # no search finds a memory before it is linked
    for row in range(n):
        tree.copies[row] = copies[row]
        if copies[row] != COPY:
            link_near(tree, row, tree.keys[tree.rows[row, SLOT]])


@kernel
def without_codes(tree, codes):
    """Compare keys by themselves from now on; `codes` is a matrix without rows."""
    tree.codes = codes


@kernel
def finish_tuning(tree, reranked):
    """Note that the graph is tuned, and how many candidates for each hit are compared by their keys."""
    graph = tree.graph
    graph[TUNED_AT], graph[LINKED_SINCE], graph[CUT_OFF], graph[RERANKED] = tree.counters[MEMORIES], 0, 0, reranked


@kernel
def are_copies_in_place(tree):
    """Return whether every copy has its key in the graph, and leaves of equal keys begin with the memory in the graph."""
    for row in range(tree.counters[MEMORIES]):
        leaf = np.int64(tree.rows[row, LEAF])
        start = np.int64(tree.nodes[leaf, START])
        if tree.nodes[leaf, EQUAL] and not same_key(tree, start, np.int64(tree.rows[row, SLOT])):
            return False
        if tree.nodes[leaf, EQUAL] and tree.copies[tree.slots[start]] == COPY:
            return False
        if tree.copies[row] == COPY:
            first = first_of(tree, row)
            if first == NONE or tree.copies[first] != FIRST:
                return False
    return True
