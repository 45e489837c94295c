"""Memories that know their neighbours: a search that goes from one to the next.

Two memories that know each other both say so: a row of `neighbours` holds the numbers of a memory's neighbours, the nearest
first and NONE behind the last, a row of `reaches` how unlike they are. So whoever goes can be taken out of all lists that
name it, and what a search reads is never stale.

The tree says where to begin: with the memories of the leaf that the key is routed to, and of a few behind the narrowest
decisions, in case what is near lies apart from there. The best that were seen so far are then asked for their neighbours,
until these have nothing better to offer. A tree alone must open many leaves, because what is near may lie behind any of the
cuts on the way; neighbours know each other across all of them.
"""

import numpy as np

from memorytree.engine import declared
from memorytree.engine.compile import blank, body_for, helper, prefetch
from memorytree.engine.declared import dissimilarities, dissimilarity
from memorytree.engine.dense import grown
from memorytree.engine.search import FRONTIER, down_from_top, is_excluded, offer_row, search_beam
from memorytree.engine.state import COUNT, EQUAL, LEAF, LEFT, NODES, NONE, ROOT, SLOT, START

# A new memory looks for its neighbours from this many leaves and with so many in mind, and takes up with half as many as it
# may know at the most: the other half is for those who come later.
LEAVES, BEAM = 3, 16
# Who is so much nearer to one that was chosen already is left to that one.
NEARER = 1.5
# Nobody is given up who would be left with less than this part of what a memory may know.
LEAST = 4
# Beyond those that are sure to be asked, only those are that are less than so many times as unlike as the last of the best.
MUCH = 1.5
# A search looks at no more memories than those it keeps in mind, and so many more, may know.
SPARE = 8
SPREAD = 2654435761  # a product with it spreads row numbers over a table
LINE = 16  # numbers that are fetched together
SOON = 4  # who is among so many nearest is likely to be asked next


@body_for(declared.reserve_neighbours, "apart")
def reserve_nothing(tree):
    pass


@body_for(declared.meet_neighbours, "apart")
def meet_nobody(tree, row):
    pass


@body_for(declared.leave_neighbours, "apart")
def leave_nobody(tree, row):
    pass


@body_for(declared.renumber_neighbours, "apart")
def renumber_nothing(tree, row, new):
    pass


@body_for(declared.reserve_neighbours, "neighbourly")
def reserve_neighbours(tree):
    tree.neighbours = grown(tree.neighbours, tree.row_ids.shape[0])
    tree.reaches = grown(tree.reaches, tree.row_ids.shape[0])


@helper
def enter(neighbours, reaches, row, other, reach):
    """Note a neighbour in a list that has room for it."""
    place = neighbours.shape[1] - 1
    while place > 0 and neighbours[row, place - 1] == NONE:
        place -= 1
    while place > 0 and reaches[row, place - 1] > reach:
        neighbours[row, place] = neighbours[row, place - 1]
        reaches[row, place] = reaches[row, place - 1]
        place -= 1
    neighbours[row, place] = other
    reaches[row, place] = reach


@helper
def strike(neighbours, reaches, row, other):
    """Take a neighbour out of a list."""
    last = neighbours.shape[1] - 1
    place = 0
    while neighbours[row, place] != other:
        place += 1
    while place < last and neighbours[row, place] != NONE:
        neighbours[row, place] = neighbours[row, place + 1]
        reaches[row, place] = reaches[row, place + 1]
        place += 1
    neighbours[row, place] = NONE
    reaches[row, place] = 0


@helper
def introduce(neighbours, reaches, row, other, reach):
    """Two that have room for each other become neighbours."""
    enter(neighbours, reaches, row, other, reach)
    enter(neighbours, reaches, other, row, reach)


@helper
def has_room(neighbours, reaches, row, reach):
    """Whether a memory has room for one more at this reach; the furthest that can do without it may have to go for that."""
    last = neighbours.shape[1] - 1
    if neighbours[row, last] == NONE:
        return True
    place = last
    while place >= 0 and reaches[row, place] >= reach:
        other = np.int64(neighbours[row, place])
        if neighbours[other, (last + 1) // LEAST] != NONE:
            strike(neighbours, reaches, row, other)
            strike(neighbours, reaches, other, row)
            return True
        place -= 1
    return False


@helper
def is_new(table, row):
    """Note a row in a table that has room; False if it is there already."""
    mask = table.shape[0] - 1
    place = (row * SPREAD >> 20) & mask
    while table[place] != NONE:
        if table[place] == row:
            return False
        place = (place + 1) & mask
    table[place] = row
    return True


@helper
def keep_in_mind(reaches, rows, size, reach, row):
    """Put a memory among the nearest, in order; the furthest gives way if there is no room. Returns its place."""
    place = size if size < rows.shape[0] else rows.shape[0] - 1
    while place > 0 and reaches[place - 1] > reach:
        reaches[place] = reaches[place - 1]
        rows[place] = rows[place - 1]
        place -= 1
    reaches[place] = reach
    rows[place] = 2 * row
    return place


@helper
def fetch(keys, slot):
    """Ask for a key that is going to be read."""
    start = slot * keys.shape[1]
    end = start + min(keys.shape[1], 8 * LINE)
    while start < end:  # a range with a step would cost a division
        prefetch(keys, start)
        start += 2 * LINE  # lines are fetched in pairs


@helper
def fetch_neighbours(neighbours, row):
    """Ask for a list that is likely to be read soon."""
    start = row * neighbours.shape[1]
    prefetch(neighbours, start)
    prefetch(neighbours, start + LINE)


@helper
def room_for(width, kept, leaves):
    """What a search writes to that keeps so many in mind: a table of those seen, half of which stays empty; those that wait
    to be looked at, their slots, and how unlike they are; a heap of nodes; leaves; those kept in mind, and how unlike they
    are. Three blocks of memory, as each takes time to get."""
    size = 256
    while size < 2 * width * (kept + SPARE):
        size *= 2
    table = blank(size, np.int32)
    whole = blank(2 * width + FRONTIER + leaves + kept, np.int64)
    real = blank(width + FRONTIER + kept, np.float64)
    waiting, slots, frontier = whole[:width], whole[width : 2 * width], whole[2 * width : 2 * width + FRONTIER]
    opened, rows = whole[2 * width + FRONTIER : 2 * width + FRONTIER + leaves], whole[2 * width + FRONTIER + leaves :]
    gaps, costs, reaches = real[:width], real[width : width + FRONTIER], real[width + FRONTIER :]
    return table, waiting, slots, gaps, costs, frontier, opened, rows, reaches


@helper
def furthest(reaches, size, sure, best, found):
    """How far somebody may be who is worth keeping in mind: who is further will never be asked, nor be among the best."""
    beam, k = reaches.shape[0], best.shape[0]
    if found < k or size < sure:
        return np.inf
    limit = reaches[beam - 1] if size == beam else np.inf
    if k == 0:
        return limit
    return min(limit, max(reaches[sure - 1], MUCH * best[k - 1], best[k - 1]))  # which rounding may put below 0


@helper
def consider(tree, x, prepared, room, count, sure, excluded, size, best_rows, best, found):
    """Look at those that wait. Returns how many are kept in mind, how many places are filled, and the foremost place that
    somebody took among those kept."""
    _, waiting, slots, gaps, _, _, _, rows, reaches = room
    beam, k = rows.shape[0], best.shape[0]
    dissimilarities(tree, slots, count, prepared, gaps)
    foremost = beam
    limit = furthest(reaches, size, sure, best, found)
    for j in range(count):
        reach, row = gaps[j], waiting[j]
        if reach > limit:
            continue
        if (found < k or (k > 0 and reach <= best[k - 1])) and not is_excluded(excluded, tree.row_ids[row]):
            found = offer_row(tree, row, x, reach, best_rows, best, found)
        place = keep_in_mind(reaches, rows, size, reach, row)
        size = min(size + 1, beam)
        limit = furthest(reaches, size, sure, best, found)
        if place < foremost + SOON:
            fetch_neighbours(tree.neighbours, row)
        foremost = min(foremost, place)
    return size, found, foremost


@helper
def leaves_for(beam):
    """In how many leaves a search begins: two for a beam of 8, and one more each time it is four times as wide."""
    leaves = 1
    while beam >= 8:
        beam //= 4
        leaves += 1
    return leaves


@helper
def is_opened(leaves, opened, leaf):
    for i in range(opened):
        if leaves[i] == leaf:
            return True
    return False


@helper
def look_around(tree, x, prepared, besides, sure, excluded, room, best_rows, best):
    """Find what is near x, beginning with the memories of the likeliest leaves, but for row `besides`.

    The nearest are kept in mind in the last two arrays of `room`, as 2 * row, or 2 * row + 1 once it was asked for its
    neighbours. So many are `sure` to be asked, the others only if they are not much further than the last of the k best. Of
    all that were seen, those that are not excluded compete for the k best places. Returns how many are kept, and how many
    places are filled.
    """
    neighbours, keys, places = tree.neighbours, tree.keys, tree.rows
    table, waiting, slots, _, costs, frontier, leaves, rows, reaches = room
    width, k = waiting.shape[0], best.shape[0]
    for j in range(table.shape[0]):
        table[j] = NONE
    size, found = np.int64(0), np.int64(0)
    costs[0], frontier[0], heap, opened = 0.0, tree.counters[ROOT], np.int64(1), 0
    while heap > 0 and opened < leaves.shape[0]:
        leaf, _, heap = down_from_top(tree, x, costs, frontier, heap)
        if tree.nodes[leaf, LEFT] != NONE:  # no room for more nodes: enough
            break
        leaves[opened] = leaf
        opened += 1
        slot = np.int64(tree.nodes[leaf, START])
        end = slot + tree.nodes[leaf, COUNT]
        if besides != NONE and tree.nodes[leaf, EQUAL]:  # who comes to any number of equals need not see them all
            end = min(end, slot + width)
        while slot < end:
            count = 0
            while count < width and slot < end:
                row = np.int64(tree.slots[slot])
                slots[count], waiting[count] = slot, row
                count += row != besides
                slot += 1
            size, found, _ = consider(tree, x, prepared, room, count, sure, excluded, size, best_rows, best, found)
    at = seen = np.int64(0)
    while at < size and seen < width * (rows.shape[0] + SPARE):
        if rows[at] & 1:
            at += 1
            continue
        if at >= sure and found == k and reaches[at] > MUCH * best[k - 1]:
            break
        asked = rows[at] >> 1
        rows[at] |= 1
        count = 0
        for j in range(width):
            row = np.int64(neighbours[asked, j])
            if row == NONE:
                break
            if is_new(table, row):
                seen += 1
                if not is_opened(leaves, opened, places[row, LEAF]):  # or it was looked at before
                    slot = np.int64(places[row, SLOT])
                    fetch(keys, slot)
                    slots[count], waiting[count] = slot, row
                    count += 1
        size, found, foremost = consider(tree, x, prepared, room, count, sure, excluded, size, best_rows, best, found)
        at = min(at + 1, foremost)
    return size, found


@body_for(declared.meet_neighbours, "neighbourly")
def meet_neighbours(tree, row):
    x = tree.keys[tree.rows[row, SLOT]]
    room = room_for(tree.neighbours.shape[1], BEAM, LEAVES)
    nobody, nothing = room[1][:0], room[3][:0]
    size, _ = look_around(tree, x, x, row, BEAM, nobody, room, nobody, nothing)
    choose_neighbours(tree, row, room, size)


@helper
def choose_neighbours(tree, row, room, size):
    """Take up with those of the nearest that lie in different directions."""
    neighbours, reaches, keys = tree.neighbours, tree.reaches, tree.keys
    _, _, slots, _, _, _, _, rows, near = room
    width = neighbours.shape[1]
    for i in range(size):
        rows[i] >>= 1
        fetch_neighbours(reaches, rows[i])
    chosen, met = 0, 0
    for i in range(size):
        other, reach = rows[i], np.float32(near[i])
        slot = np.int64(tree.rows[other, SLOT])
        aim = keys[slot]
        apart = chosen == 0 or near[0] > 0  # who is a copy of somebody is found where that one is
        for j in range(chosen):
            if NEARER * dissimilarity(tree, slots[j], aim) <= reach:
                apart = False
                break
        if apart:
            slots[chosen] = slot
            chosen += 1
            # The nearest is met in any case, or the memory might be known to nobody; but nobody is given up for a copy.
            copied = reach <= 0 and neighbours[other, width - 1] != NONE
            if not copied and has_room(neighbours, reaches, other, reach if chosen > 1 else np.float32(-np.inf)):
                enter(neighbours, reaches, other, row, reach)
                neighbours[row, met], reaches[row, met] = other, reach
                met += 1
            if 2 * chosen >= width:
                break
    for j in range(met, width):
        neighbours[row, j], reaches[row, j] = NONE, 0


@helper
def knows(neighbours, row, other):
    for j in range(neighbours.shape[1]):
        if neighbours[row, j] == other:
            return True
    return False


@body_for(declared.leave_neighbours, "neighbourly")
def leave_neighbours(tree, row):
    neighbours, reaches = tree.neighbours, tree.reaches
    width = neighbours.shape[1]
    left = blank(width, np.int64)
    count = 0
    while count < width and neighbours[row, count] != NONE:
        left[count] = neighbours[row, count]
        strike(neighbours, reaches, left[count], row)
        count += 1
    for j in range(count):
        neighbours[row, j], reaches[row, j] = NONE, 0
    # Each takes up with the nearest of the others that it does not know yet.
    for i in range(count):
        one = left[i]
        if neighbours[one, width - 1] != NONE:
            continue
        aim = tree.keys[tree.rows[one, SLOT]]
        nearest, least = NONE, np.inf
        for j in range(count):
            other = left[j]
            if other == one or neighbours[other, width - 1] != NONE or knows(neighbours, one, other):
                continue
            reach = dissimilarity(tree, tree.rows[other, SLOT], aim)
            if reach < least:
                nearest, least = other, reach
        if nearest != NONE:
            introduce(neighbours, reaches, one, nearest, np.float32(least))


@body_for(declared.renumber_neighbours, "neighbourly")
def renumber_neighbours(tree, row, new):
    neighbours, reaches = tree.neighbours, tree.reaches
    for j in range(neighbours.shape[1]):
        other = np.int64(neighbours[row, j])
        neighbours[new, j], reaches[new, j] = other, reaches[row, j]
        if other != NONE:
            place = 0
            while neighbours[other, place] != row:
                place += 1
            neighbours[other, place] = new


@body_for(declared.seek, "neighbourly")
def seek(tree, x, prepared, beam, excluded, best_rows, best):
    if beam > tree.counters[NODES] // 2:  # as many as there are leaves: look into each
        return search_beam(tree, x, prepared, beam, excluded, best_rows, best)
    room = room_for(tree.neighbours.shape[1], 2 * beam, leaves_for(beam))
    _, found = look_around(tree, x, prepared, NONE, (beam + 1) // 2, excluded, room, best_rows, best)
    return found
