"""Changes of the graph: linking, unlinking and renumbering memories.

neighbours, int32 (rows, width), holds the rows of each memory's neighbours, NONE behind the last. Links are symmetric, so a
removed memory is deleted from every list that names it.

A new memory is linked to near memories that lie in different directions: one is left out if it is nearer to a neighbour that
was chosen before than to the new memory (occlusion). Where a list is full, the same rule decides which link is given up.
"""

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import CUT_OFF, LINKED_SINCE, NONE, SLOT
from memorytree.engine.graph.candidates import EXPANDED, distance_in, insert_candidate, pack, row_in
from memorytree.engine.graph.codes import LARGEST, distance_between, encode, is_coded, prefetch_code
from memorytree.engine.graph.copies import COPY, FIRST, mark_copy, successor_of
from memorytree.engine.graph.search import VISITED, WITHOUT_END, Goal, make_query, make_workspace, search_graph
from memorytree.engine.jit import blank, body_for, helper
from memorytree.engine.pool import grown, lengthened

SEARCHED = 64  # candidates of the search that finds the neighbours of a new memory
LEAST = 4  # a memory keeps so many links if it can
# Occlusion is applied twice: then what is left out is looked at again with this factor on the distance between neighbours.
LENIENT = np.float32(1.2)


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
    room = tree.row_ids.shape[0]
    tree.neighbours = grown(tree.neighbours, room)
    tree.copies = lengthened(tree.copies, room)
    if is_coded(tree):
        tree.codes = grown(tree.codes, room)


# ---- lists


@helper
def degree(neighbours, row):
    """Return the number of neighbours of a row."""
    size = neighbours.shape[1]
    while size > 0 and neighbours[row, size - 1] == NONE:
        size -= 1
    return size


@helper
def has_room(neighbours, row):
    """Return whether a list has room for a neighbour."""
    return neighbours[row, neighbours.shape[1] - 1] == NONE


@helper
def is_linked(neighbours, row, other):
    """Return whether two rows are linked."""
    for j in range(neighbours.shape[1]):
        if neighbours[row, j] == other:
            return True
    return False


@helper
def add_link(neighbours, row, other):
    """Link two rows whose lists have room."""
    neighbours[row, degree(neighbours, row)] = other
    neighbours[other, degree(neighbours, other)] = row


@helper
def drop_neighbour(neighbours, row, other):
    """Remove a neighbour from a list; the last one takes its place."""
    last = degree(neighbours, row) - 1
    place = last
    while neighbours[row, place] != other:
        place -= 1
    neighbours[row, place] = neighbours[row, last]
    neighbours[row, last] = NONE


# ---- which neighbours


@helper
def update_occlusion(tree, candidates, size, gaps, chosen):
    """Take into account that a row was chosen: gaps[i] becomes the distance from candidate i to the nearest chosen row.

    It is not kept up to date for candidates that are out of the question.
    """
    for i in range(size):
        candidate = candidates[i]
        if not candidate & EXPANDED and LENIENT * gaps[i] > distance_in(candidate):
            gaps[i] = min(gaps[i], distance_between(tree, chosen, row_in(candidate)))


@helper
def choose_neighbours(tree, candidates, size, chosen, count):
    """Add rows of a candidate list that lie in different directions to those chosen already, while there is room.

    Args:
        tree: the tree.
        candidates: a candidate list with `size` entries; those that are chosen are marked as expanded.
        size: the number of candidates.
        chosen: int64, receives the rows.
        count: how many are chosen already.

    Returns:
        How many are chosen now.
    """
    gaps = blank(size, np.float32)
    gaps[:] = np.inf
    for i in range(size):
        prefetch_code(tree, row_in(candidates[i]))
    for j in range(count):
        update_occlusion(tree, candidates, size, gaps, chosen[j])
    for factor in (np.float32(1), LENIENT):
        for i in range(size):
            if count == chosen.shape[0]:
                break
            candidate = candidates[i]
            if not candidate & EXPANDED and factor * gaps[i] > distance_in(candidate):
                chosen[count] = row_in(candidate)
                candidates[i] |= EXPANDED
                update_occlusion(tree, candidates, size, gaps, chosen[count])
                count += 1
    return count


@helper
def make_room(tree, full, row):
    """Choose anew which links of a row with a full list to keep if `row` is to be linked to it; returns whether it is.

    A neighbour that has few links keeps this one.
    """
    neighbours = tree.neighbours
    width = neighbours.shape[1]
    candidates, chosen = blank(width + 1, np.uint64), blank(width, np.int64)
    size, count = np.int64(0), np.int64(0)
    for j in range(width):
        prefetch_code(tree, np.int64(neighbours[full, j]))
    for j in range(width + 1):
        other = np.int64(row) if j == width else np.int64(neighbours[full, j])
        if other != row and neighbours[other, LEAST] == NONE:
            chosen[count] = other
            count += 1
        else:
            size, _ = insert_candidate(candidates, size, pack(distance_between(tree, other, full), other))
    count = choose_neighbours(tree, candidates, size, chosen, count)
    is_chosen = False
    for i in range(size):
        if not candidates[i] & EXPANDED:
            other = row_in(candidates[i])
            if other != row:
                drop_neighbour(neighbours, other, full)
        elif row_in(candidates[i]) == row:
            is_chosen = True
    kept = 0
    for j in range(count):
        if chosen[j] != row:
            neighbours[full, kept] = chosen[j]
            kept += 1
    for j in range(kept, width):
        neighbours[full, j] = NONE
    return is_chosen


# ---- changes of the graph


@body_for(dispatch.link_row, "graph")
def link_row(tree, row):
    neighbours = tree.neighbours
    for j in range(neighbours.shape[1]):
        neighbours[row, j] = NONE
    x = tree.keys[tree.rows[row, SLOT]]
    tree.graph[LINKED_SINCE] += 1
    if is_coded(tree):
        tree.graph[CUT_OFF] += encode(tree, x, tree.codes, row, LARGEST)
    if not mark_copy(tree, row):
        link_near(tree, row, x)


@helper
def link_near(tree, row, x):
    """Link a row with key x to its nearest candidates that lie in different directions."""
    neighbours = tree.neighbours
    work = make_workspace(tree, SEARCHED, 0, VISITED)
    goal = Goal(np.int64(1), np.int64(1), WITHOUT_END, np.float32(0))
    size, _ = search_graph(tree, make_query(tree, x, row), goal, tree.copies, work)
    candidates = work.pool
    for i in range(size):
        candidates[i] &= ~EXPANDED
    chosen = blank(neighbours.shape[1] // 2, np.int64)
    for j in range(choose_neighbours(tree, candidates, size, chosen, np.int64(0))):
        other = chosen[j]
        if is_linked(neighbours, row, other) or not has_room(neighbours, row):
            continue  # where all are linked anew, others were linked to this row before
        if has_room(neighbours, other) or make_room(tree, other, row):
            add_link(neighbours, row, other)
    link_at_least(tree, row, candidates, size)


@helper
def link_at_least(tree, row, candidates, size):
    """Link a row that has few neighbours to the nearest candidates whose lists have room."""
    neighbours = tree.neighbours
    for i in range(size):
        if neighbours[row, LEAST - 1] != NONE:
            break
        other = row_in(candidates[i])
        if has_room(neighbours, other) and not is_linked(neighbours, row, other):
            add_link(neighbours, row, other)


@body_for(dispatch.unlink_row, "graph")
def unlink_row(tree, row):
    neighbours = tree.neighbours
    if tree.copies[row] == COPY:
        return
    successor = successor_of(tree, row)
    if successor != NONE:
        tree.copies[successor] = FIRST
        move_links(tree, row, successor)
        for j in range(neighbours.shape[1]):
            neighbours[row, j] = NONE
        return
    former = blank(neighbours.shape[1], np.int64)
    count = degree(neighbours, row)
    for j in range(count):
        former[j] = neighbours[row, j]
        drop_neighbour(neighbours, former[j], row)
        neighbours[row, j] = NONE
        prefetch_code(tree, former[j])
    link_around_gap(tree, former[:count])


@helper
def link_around_gap(tree, rows):
    """Link the former neighbours of a removed memory to each other where no other neighbour lies between them."""
    neighbours = tree.neighbours
    width = neighbours.shape[1]
    candidates, chosen = blank(rows.shape[0], np.uint64), blank(width, np.int64)
    for row in rows:
        if not has_room(neighbours, row):
            continue
        size = np.int64(0)
        for other in rows:
            if other != row and has_room(neighbours, other) and not is_linked(neighbours, row, other):
                size, _ = insert_candidate(candidates, size, pack(distance_between(tree, other, row), other))
        before = np.int64(degree(neighbours, row))
        for j in range(before):
            chosen[j] = neighbours[row, j]
        for j in range(before, choose_neighbours(tree, candidates, size, chosen, before)):
            add_link(neighbours, row, chosen[j])
        link_at_least(tree, row, candidates, size)


@helper
def move_links(tree, row, new):
    """Give the links of a row to another row, which has none."""
    neighbours = tree.neighbours
    for j in range(neighbours.shape[1]):
        other = np.int64(neighbours[row, j])
        neighbours[new, j] = other
        if other != NONE:
            place = 0
            while neighbours[other, place] != row:
                place += 1
            neighbours[other, place] = new


@body_for(dispatch.renumber_neighbours, "graph")
def renumber_neighbours(tree, row, new):
    move_links(tree, row, new)
    tree.copies[new] = tree.copies[row]
    if is_coded(tree):
        codes = tree.codes
        for j in range(codes.shape[1]):
            codes[new, j] = codes[row, j]
