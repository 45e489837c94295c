"""Where things lie: nodes, the extents of slots that leaves own, and the map from ids to rows."""

import numpy as np

from memorytree.engine.compile import blank, helper
from memorytree.engine.declared import (
    drop_key,
    move_key,
    release_router,
    renumber_neighbours,
    reserve_keys,
    reserve_neighbours,
    reserve_routers,
    same_key,
    store_key,
)  # fmt: skip
from memorytree.engine.dense import grown, lengthened
from memorytree.engine.rng import mix
from memorytree.engine.state import (
    BUILT,
    COUNT,
    EQUAL,
    FREE_NODE,
    GENERATION,
    IDS,
    LABEL,
    LEAF,
    LEFT,
    MEAN,
    MEMORIES,
    MISTAKES,
    NEWER,
    NEWEST,
    NODES,
    NONE,
    OLDER,
    OLDEST,
    PARENT,
    RIGHT,
    ROOM,
    ROOMS,
    ROOT,
    SLOT,
    SLOTS,
    START,
    UPDATES,
)  # fmt: skip

# Extents come in multiples of 4 slots up to 192, then double.
STEP, FINE_CLASSES = 4, 48


@helper
def leaf_limit(tree):
    """max(8, ceil(c ln n)): how many memories a leaf may hold."""
    n = tree.counters[MEMORIES]
    return max(8, np.int64(np.ceil(tree.settings.leaf_factor * np.log(n)))) if n > 1 else 8


@helper
def extent_class(size):
    """The class of the smallest extent that holds this many slots."""
    if size <= STEP * FINE_CLASSES:
        return (size + STEP - 1) // STEP
    kind = FINE_CLASSES
    room = STEP * FINE_CLASSES
    while room < size:
        room *= 2
        kind += 1
    return kind


@helper
def extent_room(kind):
    """How many slots an extent of this class has."""
    return STEP * kind if kind <= FINE_CLASSES else (STEP * FINE_CLASSES) << (kind - FINE_CLASSES)


@helper
def give_extent(tree, start, room):
    """Return an extent; free extents of a class form a chain through their first slot."""
    if room:
        tree.counters[ROOMS] -= room
        kind = extent_class(room)
        tree.slots[start] = tree.free[kind]
        tree.free[kind] = start


@helper
def take_extent(tree, size):
    """A free extent with room for `size` memories: (first slot, room)."""
    kind = extent_class(size)
    room = extent_room(kind)
    tree.counters[ROOMS] += room
    start = np.int64(tree.free[kind])
    if start != NONE:
        tree.free[kind] = tree.slots[start]
        return start, room
    start = tree.counters[SLOTS]
    needed = start + room
    if needed > tree.slots.shape[0]:
        tree.slots = lengthened(tree.slots, max(2 * tree.slots.shape[0], needed))
        reserve_keys(tree)
    tree.counters[SLOTS] = needed
    return start, room


@helper
def put(tree, leaf, slot, row):
    """Note that a row lies in a slot of a leaf."""
    tree.slots[slot] = row
    tree.rows[row, SLOT] = slot
    tree.rows[row, LEAF] = leaf


@helper
def new_leaf(tree, parent):
    """An empty leaf without room."""
    counters = tree.counters
    node = counters[FREE_NODE]
    if node != NONE:
        counters[FREE_NODE] = tree.nodes[node, PARENT]
    else:
        node = counters[NODES]
        if node == tree.nodes.shape[0]:
            tree.nodes = grown(tree.nodes, 2 * node)
            reserve_routers(tree)
        counters[NODES] += 1
        tree.nodes[node, GENERATION] = 0
    nodes = tree.nodes
    for column in (COUNT, START, ROOM, BUILT, UPDATES, MISTAKES, EQUAL, MEAN):
        nodes[node, column] = 0
    nodes[node, LEFT] = NONE
    nodes[node, RIGHT] = NONE
    nodes[node, PARENT] = parent
    return node


@helper
def free_node(tree, node):
    """A node leaves the tree; its next bearer is another generation."""
    nodes = tree.nodes
    if nodes[node, LEFT] != NONE:
        release_router(tree, node)
    nodes[node, LEFT] = NONE
    nodes[node, COUNT] = 0
    nodes[node, ROOM] = 0
    nodes[node, GENERATION] += 1
    nodes[node, PARENT] = tree.counters[FREE_NODE]
    tree.counters[FREE_NODE] = node


@helper
def make_room(tree, leaf, room):
    """Move a leaf's memories into an extent with this much room."""
    nodes = tree.nodes
    old, old_room = np.int64(nodes[leaf, START]), np.int64(nodes[leaf, ROOM])
    start, new_room = take_extent(tree, room)
    for i in range(nodes[leaf, COUNT]):
        move_key(tree, old + i, start + i)
        put(tree, leaf, start + i, tree.slots[old + i])
    give_extent(tree, old, old_room)
    nodes[leaf, START] = start
    nodes[leaf, ROOM] = new_room


@helper
def append(tree, leaf, row, x):
    """Put a memory at the end of a leaf."""
    nodes = tree.nodes
    if nodes[leaf, COUNT] == nodes[leaf, ROOM]:
        make_room(tree, leaf, np.int64(nodes[leaf, COUNT]) + 1)
    slot = nodes[leaf, START] + nodes[leaf, COUNT]
    store_key(tree, slot, x)
    put(tree, leaf, slot, row)
    nodes[leaf, COUNT] += 1
    if nodes[leaf, EQUAL] and not same_key(tree, np.int64(nodes[leaf, START]), np.int64(slot)):
        nodes[leaf, EQUAL] = 0


@helper
def replace_child(tree, parent, old, new):
    """Let `new` stand where `old` stood (at the root where the parent is NONE)."""
    tree.nodes[new, PARENT] = parent
    if parent == NONE:
        tree.counters[ROOT] = new
    elif tree.nodes[parent, LEFT] == old:
        tree.nodes[parent, LEFT] = new
    else:
        tree.nodes[parent, RIGHT] = new


@helper
def detach(tree, row):
    """Algorithm 6, Remove, as far as the tree goes: the last memory of the leaf fills the gap, counts drop up to the root,
    and where a leaf is left empty its sibling moves up. Returns the lowest node that lost a memory and still stands."""
    nodes = tree.nodes
    leaf, slot = tree.rows[row, LEAF], tree.rows[row, SLOT]
    drop_key(tree, slot)
    last = nodes[leaf, START] + nodes[leaf, COUNT] - 1
    if slot != last:
        move_key(tree, last, slot)
        put(tree, leaf, slot, tree.slots[last])
    node = np.int64(leaf)
    while node != NONE:
        nodes[node, COUNT] -= 1
        node = np.int64(nodes[node, PARENT])
    parent = np.int64(nodes[leaf, PARENT])
    if nodes[leaf, COUNT] > 0 or parent == NONE:
        # Room that stays empty serves another leaf; two steps more than needed, so that it does not go to and fro. Where
        # room doubles, three quarters of it must stay empty.
        room, count = np.int64(nodes[leaf, ROOM]), np.int64(nodes[leaf, COUNT])
        if room > count + 2 * STEP and (room <= STEP * FINE_CLASSES or room >= 4 * count):
            make_room(tree, leaf, np.int64(nodes[leaf, COUNT]) + 1)
        return np.int64(leaf)
    sibling = nodes[parent, LEFT] + nodes[parent, RIGHT] - leaf
    grandparent = np.int64(nodes[parent, PARENT])
    replace_child(tree, grandparent, parent, sibling)
    give_extent(tree, np.int64(nodes[leaf, START]), np.int64(nodes[leaf, ROOM]))
    free_node(tree, leaf)
    free_node(tree, parent)
    return grandparent


@helper
def find_id(tree, id):
    """The place of an id in the map, or the empty place where it would go."""
    mask = tree.id_keys.shape[0] - 1
    place = np.int64(mix(np.uint64(id))) & mask
    while tree.id_keys[place] != id and tree.id_keys[place] != NONE:
        place = (place + 1) & mask
    return place


@helper
def row_of_id(tree, id):
    """The row of a memory, or NONE."""
    if id < 0:
        return np.int64(NONE)
    place = find_id(tree, id)
    return np.int64(tree.id_rows[place]) if tree.id_keys[place] == id else np.int64(NONE)


@helper
def add_id(tree, id, row):
    """Map an id to its row; half of the map stays empty."""
    if 2 * (tree.counters[IDS] + 1) > tree.id_keys.shape[0]:
        keys, rows = tree.id_keys, tree.id_rows
        tree.id_keys = blank(2 * keys.shape[0], np.int64)
        tree.id_rows = blank(2 * keys.shape[0], np.int32)
        for place in range(tree.id_keys.shape[0]):
            tree.id_keys[place] = NONE
        for old in range(keys.shape[0]):
            if keys[old] != NONE:
                place = find_id(tree, keys[old])
                tree.id_keys[place] = keys[old]
                tree.id_rows[place] = rows[old]
    place = find_id(tree, id)
    tree.id_keys[place] = id
    tree.id_rows[place] = row
    tree.counters[IDS] += 1


@helper
def drop_id(tree, id):
    """Take an id out of the map and close the gap behind it."""
    mask = tree.id_keys.shape[0] - 1
    gap = find_id(tree, id)
    place = gap
    while True:
        place = (place + 1) & mask
        other = tree.id_keys[place]
        if other == NONE:
            break
        wanted = np.int64(mix(np.uint64(other))) & mask
        # It may fill the gap only if its search does not begin behind the gap.
        if (place - wanted) & mask >= (place - gap) & mask:
            tree.id_keys[gap] = other
            tree.id_rows[gap] = tree.id_rows[place]
            gap = place
    tree.id_keys[gap] = NONE
    tree.counters[IDS] -= 1


@helper
def unlink(tree, row):
    """Take a row out of the order of use."""
    older, newer = tree.rows[row, OLDER], tree.rows[row, NEWER]
    if older == NONE:
        tree.counters[OLDEST] = newer
    else:
        tree.rows[older, NEWER] = newer
    if newer == NONE:
        tree.counters[NEWEST] = older
    else:
        tree.rows[newer, OLDER] = older


@helper
def link_newest(tree, row):
    """Put a row at the fresh end of the order of use."""
    newest = tree.counters[NEWEST]
    tree.rows[row, OLDER] = newest
    tree.rows[row, NEWER] = NONE
    if newest == NONE:
        tree.counters[OLDEST] = row
    else:
        tree.rows[newest, NEWER] = row
    tree.counters[NEWEST] = row


@helper
def refresh(tree, id):
    """A memory was of use: it is the last to be forgotten."""
    row = row_of_id(tree, id)
    if row != NONE:
        unlink(tree, row)
        link_newest(tree, row)


@helper
def reserve_row(tree):
    """Room for one more row."""
    row = tree.counters[MEMORIES]
    if row == tree.row_ids.shape[0]:
        tree.row_ids = lengthened(tree.row_ids, 2 * row)
        tree.rows = grown(tree.rows, 2 * row)
        reserve_neighbours(tree)
    return row


@helper
def new_row(tree, id):
    """A row for a new memory, at the end."""
    row = reserve_row(tree)
    tree.row_ids[row] = id
    tree.rows[row, LABEL] = NONE
    add_id(tree, id, row)
    link_newest(tree, row)
    tree.counters[MEMORIES] += 1
    return row


@helper
def renumber(tree, row, new):
    """Let the memory in a row be known by another row number."""
    rows = tree.rows
    older, newer = rows[row, OLDER], rows[row, NEWER]
    for column in range(rows.shape[1]):
        rows[new, column] = rows[row, column]
    tree.row_ids[new] = tree.row_ids[row]
    tree.slots[rows[new, SLOT]] = new
    tree.id_rows[find_id(tree, tree.row_ids[new])] = new
    renumber_neighbours(tree, row, new)
    if older == NONE:
        tree.counters[OLDEST] = new
    else:
        rows[older, NEWER] = new
    if newer == NONE:
        tree.counters[NEWEST] = new
    else:
        rows[newer, OLDER] = new


@helper
def free_row(tree, row):
    """A memory has gone; the last row takes its number."""
    unlink(tree, row)
    drop_id(tree, tree.row_ids[row])
    tree.counters[MEMORIES] -= 1
    last = tree.counters[MEMORIES]
    if row != last:
        renumber(tree, last, row)


@helper
def move_row_to_end(tree, row):
    """What freeing a row and taking a new one for the same memory comes to: it changes places with the last row."""
    last = tree.counters[MEMORIES] - 1
    if row != last:
        spare = reserve_row(tree)
        renumber(tree, row, spare)
        renumber(tree, last, row)
        renumber(tree, spare, last)
    return last
