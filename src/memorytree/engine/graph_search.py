"""The greedy search along the links of the neighbour graph (`engine/neighbours.py`).

A search starts with the memories of the leaf that the tree routes the key to, and of a few leaves behind the narrowest
decisions on the way, in case near memories lie in other parts of the tree. It then expands the best memories seen so far by
scanning their neighbours, until none of these is nearer. A tree alone must open many leaves, because near memories may lie
behind any cut on the way; links cross all of them.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import COUNT, EQUAL, LEAF, LEFT, NODES, NONE, ROOT, SLOT, START
from memorytree.engine.dispatch import key_distances
from memorytree.engine.hash_map import spread
from memorytree.engine.heap import insert_sorted
from memorytree.engine.jit import blank, body_for, helper, prefetch
from memorytree.engine.search import FRONTIER, down_from_top, is_excluded, offer_row, search_beam

# Beyond the candidates that are always expanded, one is only expanded if its distance is less than this times the k-th best.
MUCH = 1.5
# A search scans at most as many memories as the neighbours of all its candidates, and of this many more.
SPARE = 8
LINE = 16  # numbers of 4 bytes in a cache line
SOON = 4  # a candidate that enters among this many nearest is likely to be expanded soon

Query = namedtuple("Query", "x prepared excluded certain skipped")
"""A query: the key, what `prepare` made of it, the ids (int64) that must not be returned, how many of the nearest candidates
are expanded in any case, and a row that is not scanned in leaves (NONE: all are)."""

Best = namedtuple("Best", "rows distances")
"""The k best memories: rows (int64) and distances (float64), both (k,), nearest first."""

Batch = namedtuple("Batch", "rows slots distances")
"""The memories to scan next: rows and slots (int64), and their distances (float64), all (width,)."""

Candidates = namedtuple("Candidates", "rows distances")
"""The nearest memories so far: 2 * row, or 2 * row + 1 once expanded (int64), and ascending distances (float64), (beam,)."""

Workspace = namedtuple("Workspace", "seen batch candidates costs frontier leaves")
"""The arrays of one search:

seen                 int32, hash set of the rows scanned as neighbours
batch, candidates    `Batch` and `Candidates`; `scan_batch` receives these alone: an array as an argument is seven words on
                     the stack, and with all arrays of the workspace a search takes a fourth longer
costs, frontier      float64 and int64 (FRONTIER,), heap of nodes to descend from
leaves               int64, the leaves that were opened
"""


@helper
def add_seen(seen, row):
    """Add a row to a hash set that has room; returns False if it was there already.

    With `place_in`, which has signed indices and one test more, a search takes 4 % longer.
    """
    last = np.uint64(seen.shape[0] - 1)
    place = np.uint64(spread(row)) & last
    while seen[place] != NONE:
        if seen[place] == row:
            return False
        place = (place + np.uint64(1)) & last
    seen[place] = row
    return True


@helper
def prefetch_key(keys, slot):
    """Start loading a key."""
    start = slot * keys.shape[1]
    end = start + min(keys.shape[1], 8 * LINE)
    while start < end:  # a range with a step would cost a division
        prefetch(keys, start)
        start += 2 * LINE  # lines are fetched in pairs


@helper
def prefetch_list(matrix, row):
    """Start loading a row of `neighbours` or `link_distances`."""
    start = row * matrix.shape[1]
    prefetch(matrix, start)
    prefetch(matrix, start + LINE)


@helper
def make_workspace(width, beam, leaves):
    """Return the arrays of a search that keeps `beam` candidates, where lists have this width.

    They are parts of three blocks of memory, as each allocation takes time. The hash set stays at least half empty.
    """
    size = 256
    while size < 2 * width * (beam + SPARE):
        size *= 2
    seen = blank(size, np.int32)
    whole = blank(2 * width + FRONTIER + leaves + beam, np.int64)
    real = blank(width + FRONTIER + beam, np.float64)
    nodes = 2 * width
    return Workspace(
        seen,
        Batch(whole[:width], whole[width:nodes], real[:width]),
        Candidates(whole[nodes + FRONTIER + leaves :], real[width + FRONTIER :]),
        real[width : width + FRONTIER],
        whole[nodes : nodes + FRONTIER],
        whole[nodes + FRONTIER : nodes + FRONTIER + leaves],
    )


@helper
def distance_bound(distances, best, certain, size, found):
    """Return the distance above which a memory will neither be expanded nor be among the k best."""
    beam, k = distances.shape[0], best.shape[0]
    if found < k or size < certain:
        return np.inf
    limit = distances[beam - 1] if size == beam else np.inf
    if k == 0:
        return limit
    return min(limit, max(distances[certain - 1], MUCH * best[k - 1], best[k - 1]))  # rounding may put best below 0


@helper
def scan_batch(tree, query, batch, candidates, best, count, state):
    """Compare the first `count` memories of the batch with the query; `state` is (candidates kept, places of `best` filled).

    Returns the new state and the foremost place that one of them took among the candidates.
    """
    distances, certain = candidates.distances, query.certain
    size, found = state
    beam, k = distances.shape[0], best.distances.shape[0]
    key_distances(tree, batch.slots, count, query.prepared, batch.distances)
    foremost = beam
    limit = distance_bound(distances, best.distances, certain, size, found)
    for j in range(count):
        distance, row = batch.distances[j], batch.rows[j]
        if distance > limit:
            continue
        is_better = found < k or (k > 0 and distance <= best.distances[k - 1])
        if is_better and not is_excluded(query.excluded, tree.row_ids[row]):
            found = offer_row(tree, row, query.x, distance, best.rows, best.distances, found)
        place = insert_sorted(distances, candidates.rows, size, distance, 2 * row)
        size = min(size + 1, beam)
        limit = distance_bound(distances, best.distances, certain, size, found)
        if place < foremost + SOON:
            prefetch_list(tree.neighbours, row)
        foremost = min(foremost, place)
    return (size, found), foremost


@helper
def leaves_for(beam):
    """Return how many leaves a search opens: two for a beam of 8, and one more each time it is four times as wide."""
    leaves = 1
    while beam >= 8:
        beam //= 4
        leaves += 1
    return leaves


@helper
def is_opened(leaves, opened, leaf):
    """Return whether a leaf is one of the first `opened` entries of `leaves`."""
    for i in range(opened):
        if leaves[i] == leaf:
            return True
    return False


@helper
def scan_leaf(tree, query, work, best, leaf, state):
    """Scan the memories of a leaf; returns the new state."""
    batch, slots = work.batch.rows, work.batch.slots
    width = batch.shape[0]
    slot = np.int64(tree.nodes[leaf, START])
    end = slot + tree.nodes[leaf, COUNT]
    if query.skipped != NONE and tree.nodes[leaf, EQUAL]:  # of any number of equal keys a new memory needs only a few
        end = min(end, slot + width)
    while slot < end:
        count = 0
        while count < width and slot < end:
            row = np.int64(tree.slots[slot])
            slots[count], batch[count] = slot, row
            count += row != query.skipped
            slot += 1
        state, _ = scan_batch(tree, query, work.batch, work.candidates, best, count, state)
    return state


@helper
def scan_leaves(tree, query, work, best):
    """Open the leaves at which a search starts; returns the state and how many were opened."""
    state = (np.int64(0), np.int64(0))
    work.costs[0], work.frontier[0], size, opened = 0.0, tree.counters[ROOT], np.int64(1), 0
    while size > 0 and opened < work.leaves.shape[0]:
        leaf, _, size = down_from_top(tree, query.x, work.costs, work.frontier, size)
        if tree.nodes[leaf, LEFT] != NONE:  # the heap is full
            break
        work.leaves[opened] = leaf
        opened += 1
        state = scan_leaf(tree, query, work, best, leaf, state)
    return state, opened


@helper
def collect_neighbours(tree, work, row, opened):
    """Fill the batch with those neighbours of a memory that were not scanned yet; returns (how many, how many are new).

    Memories of opened leaves are new to the hash set but were scanned before.
    """
    neighbours, places, keys = tree.neighbours, tree.rows, tree.keys
    count, new = 0, np.int64(0)
    for j in range(neighbours.shape[1]):
        other = np.int64(neighbours[row, j])
        if other == NONE:
            break
        if add_seen(work.seen, other):
            new += 1
            if not is_opened(work.leaves, opened, places[other, LEAF]):
                slot = np.int64(places[other, SLOT])
                prefetch_key(keys, slot)
                work.batch.slots[count], work.batch.rows[count] = slot, other
                count += 1
    return count, new


@helper
def greedy_search(tree, query, work, best):
    """Find the memories nearest to a key.

    Starts from the likeliest leaves and expands candidates, nearest first: the first `certain` of them in any case, others
    only if their distance is less than MUCH times the k-th best. Fills `best` with those that are not excluded, and leaves
    the candidates in `work`. Returns (candidates kept, places of `best` filled).
    """
    seen, candidates, distances = work.seen, work.candidates.rows, work.candidates.distances
    width, k = work.batch.rows.shape[0], best.distances.shape[0]
    for j in range(seen.shape[0]):
        seen[j] = NONE
    state, opened = scan_leaves(tree, query, work, best)
    at = scanned = np.int64(0)
    while at < state[0] and scanned < width * (candidates.shape[0] + SPARE):
        if candidates[at] & 1:
            at += 1
            continue
        if at >= query.certain and state[1] == k and distances[at] > MUCH * best.distances[k - 1]:
            break
        row = candidates[at] >> 1
        candidates[at] |= 1
        count, new = collect_neighbours(tree, work, row, opened)
        scanned += new
        state, foremost = scan_batch(tree, query, work.batch, work.candidates, best, count, state)
        at = min(at + 1, foremost)
    return state


@body_for(dispatch.search_tree, "graph")
def search_tree(tree, x, prepared, beam, excluded, best_rows, best):
    if beam > tree.counters[NODES] // 2:  # as many as there are leaves: open every leaf
        return search_beam(tree, x, prepared, beam, excluded, best_rows, best)
    work = make_workspace(tree.neighbours.shape[1], 2 * beam, leaves_for(beam))
    query = Query(x, prepared, excluded, (beam + 1) // 2, np.int64(NONE))
    _, found = greedy_search(tree, query, work, Best(best_rows, best))
    return found
