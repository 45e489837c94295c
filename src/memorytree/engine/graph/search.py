"""The search along the links of the graph.

A search starts with the memories of the leaf that the tree routes the key to, and expands the nearest candidate that is left
by looking at its neighbours, until the nearest one left is much further away than the worst of the hits that are wanted.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import (
    COUNT,
    DIMENSION,
    EQUAL,
    LEFT,
    MEMORIES,
    NODES,
    NONE,
    PARENT,
    RERANKED,
    RIGHT,
    SLOT,
    START,
)
from memorytree.engine.dispatch import key_distance
from memorytree.engine.graph.candidates import EXPANDED, distance_in, insert_candidate, is_new, pack, row_in
from memorytree.engine.graph.codes import (
    Query,
    distance_to,
    encode,
    is_coded,
    largest_in_query,
    prefetch_code,
    prefetch_key,
    prefetch_links,
)  # fmt: skip
from memorytree.engine.graph.copies import COPY, FIRST, companions, is_companion
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import blank, body_for, helper, prefetch
from memorytree.engine.routing import descend
from memorytree.engine.search import find_path, is_excluded, offer_row, search_beam

STARTS = 64  # a search starts with at most so many memories
CERTAIN = 12  # so many candidates are expanded in any case
VISITED, MANY_VISITED = 2**12, 2**14  # places of the table of visited rows: of a narrow search, and of a wide one
AHEAD = 8  # rows of a scan whose codes are loaded in advance
FEWEST_RERANKED = 10  # however few hits are asked for, as many candidates are compared by their keys as for so many

Workspace = namedtuple("Workspace", "pool hits visited batch")
"""The arrays of one search:

pool      uint64, the nearest candidates
hits      uint64, the nearest candidates that are allowed; no places where all are
visited   uint32, the table of `is_new`
batch     int64 (width,), the neighbours to look at next
"""

Goal = namedtuple("Goal", "wanted certain stretch slack")
"""When a search ends: the squared distances of the candidates left are more than `stretch` times that of the `wanted`-th best,
which is taken to be larger by `slack`, after at least `certain` expansions."""

Effort = namedtuple("Effort", "pool wanted stretch")
"""How far a query searches: candidates that it keeps, and `wanted` and `stretch` of its goal; a query that asks for more hits
keeps and wants more."""

WITHOUT_END = np.float32(3e38)
"""The stretch of a search that expands all candidates that it keeps."""
WIDE, WIDE_BEAM = 1.25, 96
"""A search that visits many rows has at least this stretch, or without end keeps more candidates than this."""
ALLOWED, HAS_ALLOWED_COPY = np.uint8(1), np.uint8(2)
"""Bits of a mask by row."""


@helper
def make_query(tree, x, skipped):
    """Return the query for a key."""
    width = tree.codes.shape[1]
    code = blank((1, width), np.int16)
    if is_coded(tree):
        encode(tree, x, code, 0, largest_in_query(width))
    return Query(x, code, skipped)


@helper
def rounding(tree):
    """Return three times what rounding to codes adds to a squared distance on average."""
    return np.float32(0.5 * tree.counters[DIMENSION] if is_coded(tree) else 0)


@helper
def make_workspace(tree, pool, hits, visited):
    """Return the arrays of a search with room for so many candidates, allowed candidates and visited rows."""
    return Workspace(
        blank(pool, np.uint64), blank(hits, np.uint64), blank(visited, np.uint32), blank(tree.neighbours.shape[1], np.int64)
    )


@helper
def collect_starts(tree, query, batch):
    """Fill the batch with rows of the leaf that a query is routed to, or else of others; returns how many."""
    nodes = tree.nodes
    node, _ = find_path(tree, query.x)
    count = collect_leaf(tree, query, node, batch)
    while count == 0 and nodes[node, PARENT] != NONE:
        parent = np.int64(nodes[node, PARENT])
        other = np.int64(nodes[parent, LEFT] + nodes[parent, RIGHT] - node)
        count = collect_leaf(tree, query, descend(tree, query.x, other), batch)
        node = parent
    row = np.int64(0)
    while count == 0 and row < tree.counters[MEMORIES]:
        if tree.copies[row] != COPY and row != query.skipped:
            batch[0] = row
            count = 1
        row += 1
    return count


@helper
def collect_leaf(tree, query, leaf, batch):
    """Fill the batch with rows of a leaf; returns how many."""
    start = np.int64(tree.nodes[leaf, START])
    end = start + min(np.int64(tree.nodes[leaf, COUNT]), 1 if tree.nodes[leaf, EQUAL] else batch.shape[0])
    count = 0
    for slot in range(start, end):
        row = np.int64(tree.slots[slot])
        if tree.copies[row] != COPY and row != query.skipped:
            prefetch_code(tree, row)
            batch[count] = row
            count += 1
    return count


@helper
def collect_neighbours(tree, visited, row, batch):
    """Fill the batch with the neighbours of a row that were not visited yet; returns how many."""
    neighbours = tree.neighbours
    count = 0
    for j in range(neighbours.shape[1]):
        other = np.int64(neighbours[row, j])
        if other == NONE:
            break
        if is_new(visited, other):
            prefetch_code(tree, other)
            batch[count] = other
            count += 1
    return count


@helper
def furthest_of_use(goal, pool, size, hits, found):
    """Return the distance above which a candidate is neither expanded nor a hit."""
    if size < max(goal.certain, goal.wanted):
        return np.float32(np.inf)
    limit = distance_in(pool[goal.certain - 1])
    if hits.shape[0] == 0:
        return max(limit, goal.stretch * (distance_in(pool[goal.wanted - 1]) + goal.slack))
    if found < goal.wanted:
        return np.float32(np.inf)
    return max(limit, goal.stretch * (distance_in(hits[goal.wanted - 1]) + goal.slack))


@helper
def offer_batch(tree, query, goal, mask, work, count, sizes):
    """Add the rows of the batch to the candidates; sizes = (in the pool, in the hits).

    Returns the new sizes and the foremost place in the pool that one of them took.
    """
    pool, hits = work.pool, work.hits
    size, found = sizes
    foremost = np.int64(pool.shape[0])
    limit = furthest_of_use(goal, pool, size, hits, found)
    for i in range(count):
        row = work.batch[i]
        distance = distance_to(tree, row, query)
        if distance > limit or row == query.skipped:
            continue
        candidate = pack(distance, row)
        size, place = insert_candidate(pool, size, candidate)
        foremost = min(foremost, place)
        if hits.shape[0] > 0 and mask[row]:
            found, _ = insert_candidate(hits, found, candidate)
    return (size, found), foremost


@helper
def start_search(tree, query, goal, mask, work):
    """Begin with the memories of the leaf that the tree routes the query to; returns (size of the pool, of the hits)."""
    work.visited[:] = 0
    starts = blank(STARTS, np.int64)
    count = collect_starts(tree, query, starts)
    for i in range(count):
        is_new(work.visited, starts[i])
    first = Workspace(work.pool, work.hits, work.visited, starts)
    sizes, _ = offer_batch(tree, query, goal, mask, first, count, (np.int64(0), np.int64(0)))
    return sizes


@helper
def next_to_expand(pool, at, size):
    """Return the first place from `at` on whose candidate was not expanded, or `size`."""
    while at < size and pool[at] & EXPANDED:
        at += 1
    return at


@helper
def expand(tree, query, goal, mask, work, at, sizes):
    """Look at the neighbours of the candidate at a place of the pool; returns what `offer_batch` returns."""
    pool = work.pool
    row = row_in(pool[at])
    pool[at] |= EXPANDED
    count = collect_neighbours(tree, work.visited, row, work.batch)
    if at + 1 < sizes[0]:
        prefetch_links(tree.neighbours, row_in(pool[at + 1]))  # most likely the next to be expanded
    return offer_batch(tree, query, goal, mask, work, count, sizes)


@helper
def search_graph(tree, query, goal, mask, work):
    """Find the memories nearest to a query; returns how many places of the pool and of the hits are filled.

    Args:
        tree: the tree.
        query: a `Query`.
        goal: a `Goal`.
        mask: uint8 (rows,), not 0 for rows that are allowed; not read if the workspace has no places for hits.
        work: a `Workspace`; its pool and hits receive the candidates.
    """
    sizes = start_search(tree, query, goal, mask, work)
    at = next_to_expand(work.pool, np.int64(0), sizes[0])
    while at < sizes[0]:
        if at >= goal.certain and distance_in(work.pool[at]) > furthest_of_use(
            goal, work.pool, sizes[0], work.hits, sizes[1]
        ):
            break
        sizes, foremost = expand(tree, query, goal, mask, work, at, sizes)
        at = next_to_expand(work.pool, min(at + 1, foremost), sizes[0])
    return sizes


@helper
def scan_rows(tree, query, rows, candidates):
    """Find the nearest of some rows (int64), by their codes; returns how many candidates there are."""
    size = np.int64(0)
    for i in range(rows.shape[0]):
        if i + AHEAD < rows.shape[0]:
            prefetch_code(tree, rows[i + AHEAD])
        distance = distance_to(tree, rows[i], query)
        if size < candidates.shape[0] or distance <= distance_in(candidates[size - 1]):
            size, _ = insert_candidate(candidates, size, pack(distance, rows[i]))
    return size


@helper
def is_hit(tree, row, filters):
    """Return whether the memory in a row may be returned; filters = (excluded ids, mask)."""
    excluded, mask = filters
    if mask.shape[0] > 0 and not mask[row] & ALLOWED:
        return False
    return excluded.shape[0] == 0 or not is_excluded(excluded, tree.row_ids[row])


@helper
def offer_if_hit(tree, query, row, filters, best, found):
    """Compare the memory in a row by its key, and offer it to best = (rows, distances); returns how many there are."""
    if not is_hit(tree, row, filters):
        return found
    distance = key_distance(tree, tree.rows[row, SLOT], query.x)
    return offer_row(tree, row, query.x, distance, best[0], best[1], found)


@helper
def offer_copies(tree, query, row, filters, best, found):
    """Offer the copies of a row of the graph to the best; returns how many there are."""
    if tree.copies[row] == FIRST:
        first, end = companions(tree, row)
        for slot in range(first, end):
            if is_companion(tree, row, slot):
                found = offer_if_hit(tree, query, np.int64(tree.slots[slot]), filters, best, found)
    return found


@helper
def offer_candidates(tree, query, candidates, size, filters, best):
    """Compare the first candidates by their keys; best = (rows, distances) receives the best; returns how many there are."""
    found = np.int64(0)
    for i in range(size):
        prefetch(tree.rows, row_in(candidates[i]) * tree.rows.shape[1])
    for i in range(size):
        row = row_in(candidates[i])
        prefetch_key(tree, np.int64(tree.rows[row, SLOT]))
        prefetch(tree.row_ids, row)
    for i in range(size):
        found = offer_if_hit(tree, query, row_in(candidates[i]), filters, best, found)
        found = offer_copies(tree, query, row_in(candidates[i]), filters, best, found)
    return found


@helper
def with_equals(candidates, count, size):
    """Return the number of the first candidates, and of those behind them that are as near as the last."""
    if count >= size:
        return size
    last = distance_in(candidates[count - 1])
    while count < size and distance_in(candidates[count]) == last:
        count += 1
    return count


@helper
def offer_all(tree, query, filters, best):
    """Offer every memory to the best; returns how many there are."""
    found = np.int64(0)
    for row in range(tree.counters[MEMORIES]):
        found = offer_if_hit(tree, query, row, filters, best, found)
    return found


@helper
def find_among(tree, query, rows, excluded, best):
    """Find those of some rows (int64) that are nearest to a query; returns how many places of `best` are filled."""
    filters = excluded, blank(0, np.uint8)
    found = np.int64(0)
    room = np.int64(tree.graph[RERANKED] * (best[0].shape[0] + excluded.shape[0]))
    if not is_coded(tree) or rows.shape[0] <= room:
        for row in rows:
            found = offer_if_hit(tree, query, row, filters, best, found)
        return found
    candidates = blank(room, np.uint64)
    for i in range(scan_rows(tree, query, rows, candidates)):
        found = offer_if_hit(tree, query, row_in(candidates[i]), filters, best, found)
    return found


@helper
def count_stored(tree, ids):
    """Return how many of some ids are stored."""
    count = np.int64(0)
    for id in ids:
        count += row_of_id(tree, id) != NONE
    return count


@helper
def find_nearest(tree, query, effort, filters, best):
    """Find the memories nearest to a query; returns how many places of best = (rows, distances) are filled.

    Args:
        tree: the tree.
        query: a `Query`.
        effort: an `Effort`.
        filters: (ids that are left out, mask by row of `mask_rows` or no rows).
        best: rows (int64) and distances (float64), both (k,), nearest first.
    """
    excluded, mask = filters
    k = best[0].shape[0]
    hits = k + excluded.shape[0]
    wanted = max(hits, effort.wanted)
    room = max(effort.pool, wanted)
    reranked = min(np.int64(max(tree.graph[RERANKED], 1)) * max(wanted, FEWEST_RERANKED), room)
    is_wide = mask.shape[0] > 0 or effort.stretch >= WIDE if effort.stretch < WITHOUT_END else effort.pool > WIDE_BEAM
    work = make_workspace(tree, room, reranked if mask.shape[0] > 0 else 0, MANY_VISITED if is_wide else VISITED)
    size, found = search_graph(tree, query, Goal(wanted, min(CERTAIN, room), effort.stretch, rounding(tree)), mask, work)
    if mask.shape[0] > 0:
        found = offer_candidates(tree, query, work.hits, found, filters, best)
    else:
        found = offer_candidates(tree, query, work.pool, with_equals(work.pool, reranked, size), filters, best)
    if found < k and found + count_stored(tree, excluded) < tree.counters[MEMORIES]:
        return offer_all(tree, query, filters, best)  # parts of the graph are not linked, or not enough are allowed
    return found


@body_for(dispatch.search_tree, "graph")
def search_tree(tree, x, prepared, beam, excluded, best_rows, best):
    if beam > tree.counters[NODES] // 2:  # as many as there are leaves: open every leaf
        return search_beam(tree, x, prepared, beam, excluded, best_rows, best)
    query = make_query(tree, x, np.int64(NONE))
    effort = Effort(np.int64(beam), np.int64(1), WITHOUT_END)
    return find_nearest(tree, query, effort, (excluded, blank(0, np.uint8)), (best_rows, best))
