"""Storage of nodes, leaves and rows: leaves own extents of slots, rows are numbered without holes."""

import numpy as np

from memorytree.engine.arrays import (
    BUILT,
    COUNT,
    EQUAL,
    FREE_NODE,
    GENERATION,
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
from memorytree.engine.dispatch import (
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
from memorytree.engine.hash_map import add_id, find_id, remove_id, row_of_id
from memorytree.engine.jit import helper
from memorytree.engine.pool import (
    FINE_CLASSES,
    STEP,
    extent_class,
    extent_room,
    grown,
    lengthened,
    pop_free,
    push_free,
)  # fmt: skip


@helper
def leaf_limit(tree):
    """Return max(8, ceil(c ln n)): how many memories a leaf may hold."""
    n = tree.counters[MEMORIES]
    return max(8, np.int64(np.ceil(tree.settings.leaf_factor * np.log(n)))) if n > 1 else 8


@helper
def free_extent(tree, start, room):
    """Return an extent to the free ones of its class."""
    if room:
        tree.counters[ROOMS] -= room
        push_free(tree.free, extent_class(room), tree.slots, 1, start)


@helper
def allocate_extent(tree, size):
    """Return (first slot, number of slots) of an extent with room for `size` memories."""
    kind = extent_class(size)
    room = extent_room(kind)
    tree.counters[ROOMS] += room
    start = pop_free(tree.free, kind, tree.slots, 1)
    if start != NONE:
        return start, room
    start = tree.counters[SLOTS]
    needed = start + room
    if needed > tree.slots.shape[0]:
        tree.slots = lengthened(tree.slots, max(2 * tree.slots.shape[0], needed))
        reserve_keys(tree)
    tree.counters[SLOTS] = needed
    return start, room


@helper
def set_slot(tree, leaf, slot, row):
    """Assign a slot of a leaf to a row."""
    tree.slots[slot] = row
    tree.rows[row, SLOT] = slot
    tree.rows[row, LEAF] = leaf


@helper
def new_leaf(tree, parent):
    """Return the number of a new, empty leaf without slots."""
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
    """Free the number of a node; the next node with this number has another generation."""
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
def resize_leaf(tree, leaf, room):
    """Move a leaf's memories to an extent with this many slots."""
    nodes = tree.nodes
    old, old_room = np.int64(nodes[leaf, START]), np.int64(nodes[leaf, ROOM])
    start, new_room = allocate_extent(tree, room)
    for i in range(nodes[leaf, COUNT]):
        move_key(tree, old + i, start + i)
        set_slot(tree, leaf, start + i, tree.slots[old + i])
    free_extent(tree, old, old_room)
    nodes[leaf, START] = start
    nodes[leaf, ROOM] = new_room


@helper
def append_row(tree, leaf, row, x):
    """Append a memory with key x to a leaf."""
    nodes = tree.nodes
    if nodes[leaf, COUNT] == nodes[leaf, ROOM]:
        resize_leaf(tree, leaf, np.int64(nodes[leaf, COUNT]) + 1)
    slot = nodes[leaf, START] + nodes[leaf, COUNT]
    store_key(tree, slot, x)
    set_slot(tree, leaf, slot, row)
    nodes[leaf, COUNT] += 1
    if nodes[leaf, EQUAL] and not same_key(tree, np.int64(nodes[leaf, START]), np.int64(slot)):
        nodes[leaf, EQUAL] = 0


@helper
def replace_child(tree, parent, old, new):
    """Replace a child of a node, or the root where the parent is NONE."""
    tree.nodes[new, PARENT] = parent
    if parent == NONE:
        tree.counters[ROOT] = new
    elif tree.nodes[parent, LEFT] == old:
        tree.nodes[parent, LEFT] = new
    else:
        tree.nodes[parent, RIGHT] = new


@helper
def detach_row(tree, row):
    """Take a memory out of its leaf (Algorithm 6, Remove); its row stays.

    The last memory of the leaf moves into the gap, and counts drop by one up to the root. If the leaf becomes empty, its
    sibling replaces the parent. Returns the lowest remaining node above the memory, or NONE.
    """
    nodes = tree.nodes
    leaf, slot = tree.rows[row, LEAF], tree.rows[row, SLOT]
    drop_key(tree, slot)
    last = nodes[leaf, START] + nodes[leaf, COUNT] - 1
    if slot != last:
        move_key(tree, last, slot)
        set_slot(tree, leaf, slot, tree.slots[last])
    node = np.int64(leaf)
    while node != NONE:
        nodes[node, COUNT] -= 1
        node = np.int64(nodes[node, PARENT])
    parent = np.int64(nodes[leaf, PARENT])
    if nodes[leaf, COUNT] > 0 or parent == NONE:
        # Release empty slots, but only from two steps more than needed, so that a leaf that shrinks and grows again is not
        # moved each time. Where extents double in size, three quarters must be empty.
        room, count = np.int64(nodes[leaf, ROOM]), np.int64(nodes[leaf, COUNT])
        if room > count + 2 * STEP and (room <= STEP * FINE_CLASSES or room >= 4 * count):
            resize_leaf(tree, leaf, np.int64(nodes[leaf, COUNT]) + 1)
        return np.int64(leaf)
    sibling = nodes[parent, LEFT] + nodes[parent, RIGHT] - leaf
    grandparent = np.int64(nodes[parent, PARENT])
    replace_child(tree, grandparent, parent, sibling)
    free_extent(tree, np.int64(nodes[leaf, START]), np.int64(nodes[leaf, ROOM]))
    free_node(tree, leaf)
    free_node(tree, parent)
    return grandparent


@helper
def remove_from_use_order(tree, row):
    """Remove a row from the linked list that orders memories by last use."""
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
def append_to_use_order(tree, row):
    """Append a row to the linked list of memories by last use, as the newest."""
    newest = tree.counters[NEWEST]
    tree.rows[row, OLDER] = newest
    tree.rows[row, NEWER] = NONE
    if newest == NONE:
        tree.counters[OLDEST] = row
    else:
        tree.rows[newest, NEWER] = row
    tree.counters[NEWEST] = row


@helper
def mark_used(tree, id):
    """Mark a memory as used last, so that it is evicted last; ids that are not stored are ignored."""
    row = row_of_id(tree, id)
    if row != NONE:
        remove_from_use_order(tree, row)
        append_to_use_order(tree, row)


@helper
def reserve_row(tree):
    """Return the number of the next row, for which there is room afterwards."""
    row = tree.counters[MEMORIES]
    if row == tree.row_ids.shape[0]:
        tree.row_ids = lengthened(tree.row_ids, 2 * row)
        tree.rows = grown(tree.rows, 2 * row)
        reserve_neighbours(tree)
    return row


@helper
def new_row(tree, id):
    """Return a new row at the end for a memory with this id."""
    row = reserve_row(tree)
    tree.row_ids[row] = id
    tree.rows[row, LABEL] = NONE
    add_id(tree, id, row)
    append_to_use_order(tree, row)
    tree.counters[MEMORIES] += 1
    return row


@helper
def renumber_row(tree, row, new):
    """Move a memory to another row number, which is free."""
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
    """Free the row of a removed memory; the last row takes its number."""
    remove_from_use_order(tree, row)
    remove_id(tree, tree.row_ids[row])
    tree.counters[MEMORIES] -= 1
    last = tree.counters[MEMORIES]
    if row != last:
        renumber_row(tree, last, row)


@helper
def move_row_to_end(tree, row):
    """Swap a row with the last one, as if it had been freed and created anew; returns its new number."""
    last = tree.counters[MEMORIES] - 1
    if row != last:
        spare = reserve_row(tree)
        renumber_row(tree, row, spare)
        renumber_row(tree, last, row)
        renumber_row(tree, spare, last)
    return last
