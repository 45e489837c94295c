"""The neighbour graph: links between dense memories that are near each other.

Links are symmetric. A row of `neighbours` (int32, (memories, width)) holds the rows of a memory's neighbours, nearest first
and NONE behind the last; a row of `link_distances` (float32, same shape) holds their distances. A removed memory is thus
deleted from every list that names it, and a search (`engine/graph_search.py`) never reads outdated links.
"""

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import NONE, SLOT
from memorytree.engine.dispatch import key_distance
from memorytree.engine.graph_search import Best, Query, greedy_search, make_workspace, prefetch_list
from memorytree.engine.heap import insert_sorted
from memorytree.engine.jit import blank, body_for, helper
from memorytree.engine.pool import grown

# A new memory is linked after a search that opens this many leaves and keeps this many candidates. It gets at most half as
# many links as a list holds; the other half is for later memories.
LEAVES, BEAM = 3, 16
# A candidate is not linked if its distance, divided by this, is larger than its distance to one that was linked already.
NEARER = 1.5
# An edge is never evicted from a memory whose list would then be less than 1 / LEAST full.
LEAST = 4


@body_for(dispatch.reserve_neighbours, "tree")
def reserve_nothing(tree):
    pass


@body_for(dispatch.link_row, "tree")
def link_nothing(tree, row):
    pass


@body_for(dispatch.unlink_row, "tree")
def unlink_nothing(tree, row):
    pass


@body_for(dispatch.renumber_neighbours, "tree")
def renumber_nothing(tree, row, new):
    pass


@body_for(dispatch.reserve_neighbours, "graph")
def reserve_neighbours(tree):
    tree.neighbours = grown(tree.neighbours, tree.row_ids.shape[0])
    tree.link_distances = grown(tree.link_distances, tree.row_ids.shape[0])


# ---- edges


@helper
def add_half_edge(neighbours, link_distances, row, other, distance):
    """Insert a neighbour into a list that has room for it."""
    size = neighbours.shape[1] - 1
    while size > 0 and neighbours[row, size - 1] == NONE:
        size -= 1
    insert_sorted(link_distances[row], neighbours[row], size, distance, other)


@helper
def remove_half_edge(neighbours, link_distances, row, other):
    """Remove a neighbour from a list."""
    last = neighbours.shape[1] - 1
    place = 0
    while neighbours[row, place] != other:
        place += 1
    while place < last and neighbours[row, place] != NONE:
        neighbours[row, place] = neighbours[row, place + 1]
        link_distances[row, place] = link_distances[row, place + 1]
        place += 1
    neighbours[row, place] = NONE
    link_distances[row, place] = 0


@helper
def add_edge(neighbours, link_distances, row, other, distance):
    """Link two memories whose lists have room."""
    add_half_edge(neighbours, link_distances, row, other, distance)
    add_half_edge(neighbours, link_distances, other, row, distance)


@helper
def remove_edge(neighbours, link_distances, row, other):
    """Remove the link between two memories."""
    remove_half_edge(neighbours, link_distances, row, other)
    remove_half_edge(neighbours, link_distances, other, row)


@helper
def reserve_edge(neighbours, link_distances, row, distance):
    """Return whether a list has room for a neighbour at this distance, after evicting a further one where necessary.

    The furthest neighbour that keeps enough links of its own is evicted.
    """
    last = neighbours.shape[1] - 1
    if neighbours[row, last] == NONE:
        return True
    place = last
    while place >= 0 and link_distances[row, place] >= distance:
        other = np.int64(neighbours[row, place])
        if neighbours[other, (last + 1) // LEAST] != NONE:
            remove_edge(neighbours, link_distances, row, other)
            return True
        place -= 1
    return False


@helper
def is_linked(neighbours, row, other):
    """Return whether two memories are linked."""
    for j in range(neighbours.shape[1]):
        if neighbours[row, j] == other:
            return True
    return False


# ---- changes of the graph


@body_for(dispatch.link_row, "graph")
def link_row(tree, row):
    x = tree.keys[tree.rows[row, SLOT]]
    work = make_workspace(tree.neighbours.shape[1], BEAM, LEAVES)
    no_rows, no_distances = work.batch.rows[:0], work.batch.distances[:0]
    size, _ = greedy_search(tree, Query(x, x, no_rows, np.int64(BEAM), row), work, Best(no_rows, no_distances))
    link_candidates(tree, row, work, size)


@helper
def link_candidates(tree, row, work, size):
    """Link a memory to those of its nearest candidates that lie in different directions."""
    neighbours, link_distances, keys = tree.neighbours, tree.link_distances, tree.keys
    candidates, distances, slots = work.candidates.rows, work.candidates.distances, work.batch.slots
    width = neighbours.shape[1]
    for i in range(size):
        candidates[i] >>= 1
        prefetch_list(link_distances, candidates[i])
    chosen, linked = 0, 0
    for i in range(size):
        other, distance = candidates[i], np.float32(distances[i])
        slot = np.int64(tree.rows[other, SLOT])
        key = keys[slot]
        is_apart = chosen == 0 or distances[0] > 0  # a copy of a stored key is found through that key
        for j in range(chosen):
            if NEARER * key_distance(tree, slots[j], key) <= distance:
                is_apart = False
                break
        if is_apart:
            slots[chosen] = slot
            chosen += 1
            # The nearest is always linked, or no search might reach the memory; but never evict an edge to link a copy.
            is_full_copy = distance <= 0 and neighbours[other, width - 1] != NONE
            needed = distance if chosen > 1 else np.float32(-np.inf)
            if not is_full_copy and reserve_edge(neighbours, link_distances, other, needed):
                add_half_edge(neighbours, link_distances, other, row, distance)
                neighbours[row, linked], link_distances[row, linked] = other, distance
                linked += 1
            if 2 * chosen >= width:
                break
    for j in range(linked, width):
        neighbours[row, j], link_distances[row, j] = NONE, 0


@body_for(dispatch.unlink_row, "graph")
def unlink_row(tree, row):
    neighbours, link_distances = tree.neighbours, tree.link_distances
    width = neighbours.shape[1]
    left = blank(width, np.int64)
    count = 0
    while count < width and neighbours[row, count] != NONE:
        left[count] = neighbours[row, count]
        remove_half_edge(neighbours, link_distances, left[count], row)
        count += 1
    for j in range(count):
        neighbours[row, j], link_distances[row, j] = NONE, 0
    # Link each former neighbour to the nearest of the others that it is not linked to yet.
    for i in range(count):
        one = left[i]
        if neighbours[one, width - 1] != NONE:
            continue
        key = tree.keys[tree.rows[one, SLOT]]
        nearest, least = NONE, np.inf
        for j in range(count):
            other = left[j]
            if other == one or neighbours[other, width - 1] != NONE or is_linked(neighbours, one, other):
                continue
            distance = key_distance(tree, tree.rows[other, SLOT], key)
            if distance < least:
                nearest, least = other, distance
        if nearest != NONE:
            add_edge(neighbours, link_distances, one, nearest, np.float32(least))


@body_for(dispatch.renumber_neighbours, "graph")
def renumber_neighbours(tree, row, new):
    neighbours, link_distances = tree.neighbours, tree.link_distances
    for j in range(neighbours.shape[1]):
        other = np.int64(neighbours[row, j])
        neighbours[new, j], link_distances[new, j] = other, link_distances[row, j]
        if other != NONE:
            place = 0
            while neighbours[other, place] != row:
                place += 1
            neighbours[other, place] = new
