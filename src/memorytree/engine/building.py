"""Changes of the tree: placing, removing and moving memories, splitting leaves, rebuilding subtrees."""

import numpy as np

from memorytree.engine.arrays import (
    BUILT,
    COUNT,
    EQUAL,
    GENERATION,
    LEFT,
    MEMORIES,
    NONE,
    OLDEST,
    PARENT,
    RIGHT,
    ROOM,
    ROOT,
    SLOT,
    START,
)  # fmt: skip
from memorytree.engine.dispatch import copy_key, cut, move_key, put_first, same_key, step, unlink_row
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.rng import below
from memorytree.engine.storage import (
    allocate_extent,
    append_row,
    detach_row,
    free_extent,
    free_node,
    free_row,
    leaf_limit,
    move_row_to_end,
    new_leaf,
    set_slot,
)  # fmt: skip

# A subtree that has grown to this many times its size when it was built is rebuilt.
OUTGROWN = 64


@helper
def collect_slots(tree, top, order):
    """Write the slots below a node to `order` (int64, (n,)), from left to right, and free its descendants.

    The node itself becomes an empty leaf. Returns the extents (int64, (leaves, 2)) of the leaves, which are to be freed once
    the keys have been moved.
    """
    nodes = tree.nodes
    # No leaf is empty, so neither the leaves nor the nodes on the stack outnumber the memories.
    stack = blank(order.shape[0] + 1, np.int64)
    extents = blank((order.shape[0], 2), np.int64)
    stack[0] = top
    waiting, leaves, filled = 1, 0, 0
    while waiting > 0:
        waiting -= 1
        node = stack[waiting]
        if nodes[node, LEFT] != NONE:
            stack[waiting] = nodes[node, RIGHT]
            stack[waiting + 1] = nodes[node, LEFT]
            waiting += 2
        else:
            start = nodes[node, START]
            for slot in range(start, start + nodes[node, COUNT]):
                order[filled] = slot
                filled += 1
            extents[leaves, 0] = start
            extents[leaves, 1] = nodes[node, ROOM]
            leaves += 1
        if node != top:
            free_node(tree, node)
    nodes[top, LEFT] = NONE
    nodes[top, ROOM] = 0
    return extents[:leaves]


@helper
def fill_leaf(tree, leaf, order, first, last):
    """Move the memories in slots order[first:last] to a leaf without slots."""
    start, room = allocate_extent(tree, last - first)
    for i in range(first, last):
        row = tree.slots[order[i]]
        move_key(tree, order[i], start + i - first)
        set_slot(tree, leaf, start + i - first, row)
    nodes = tree.nodes
    nodes[leaf, START] = start
    nodes[leaf, ROOM] = room
    nodes[leaf, COUNT] = last - first


@helper
def partition(order, first, last, sides):
    """Reorder order[first:last] stably so that memories that go left come first; returns where those that go right begin."""
    right = blank(last - first, np.int64)
    lefts = first
    rights = 0
    for i in range(first, last):
        if sides[i]:
            right[rights] = order[i]
            rights += 1
        else:
            order[lefts] = order[i]
            lefts += 1
    for i in range(rights):
        order[lefts + i] = right[i]
    return lefts


@helper
def all_equal(tree, order, first, last):
    """Return whether the slots order[first:last] all hold the same key."""
    for i in range(first + 1, last):
        if not same_key(tree, order[first], order[i]):
            return False
    return True


@helper
def split_leaf(tree, node, count):
    """Turn a leaf without memories into an internal node over two new leaves; returns (left, right)."""
    left, right = new_leaf(tree, node), new_leaf(tree, node)
    nodes = tree.nodes
    nodes[node, LEFT] = left
    nodes[node, RIGHT] = right
    nodes[node, COUNT] = count
    nodes[node, BUILT] = count
    return left, right


@kernel
def rebuild_subtree(tree, top, settle):
    """Rebuild the subtree below a node top-down; a leaf that is too full is split (Algorithm 5, lines 3-7).

    With `settle` every memory goes to the leaf that the finished routers choose. Keys are moved once, at the end.
    """
    limit = leaf_limit(tree)
    total = np.int64(tree.nodes[top, COUNT])
    order = blank(total, np.int64)
    sides = blank(total, np.bool_)
    extents = collect_slots(tree, top, order)
    # Every entry of the stack, (node, first, last), has at least one memory.
    stack = blank((total + 1, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = top, 0, total
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node, first, last = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
        tree.nodes[node, GENERATION] += 1
        tree.nodes[node, EQUAL] = 0
        if last - first > limit and cut(tree, node, order, first, last, sides, settle):
            middle = partition(order, first, last, sides)
            left, right = split_leaf(tree, node, last - first)
            stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = right, middle, last
            stack[waiting + 1, 0], stack[waiting + 1, 1], stack[waiting + 1, 2] = left, first, middle
            waiting += 2
        else:
            tree.nodes[node, EQUAL] = last - first > limit and all_equal(tree, order, first, last)
            if tree.nodes[node, EQUAL]:
                put_first(tree, order, first, last)
            fill_leaf(tree, node, order, first, last)
    for i in range(extents.shape[0]):
        free_extent(tree, extents[i, 0], extents[i, 1])


@helper
def is_too_full(tree, leaf):
    """Return whether a leaf must be split (Algorithm 5, line 2); one of equal keys cannot be (`append_row` clears EQUAL)."""
    return tree.nodes[leaf, COUNT] > leaf_limit(tree) and not tree.nodes[leaf, EQUAL]


@helper
def place_row(tree, row, x):
    """Route a memory with key x to a leaf, training routers on the way where the routing learns (Algorithm 4, Insert).

    Returns the node that must be rebuilt now (a leaf that is too full or the highest outgrown subtree), or NONE.
    """
    nodes = tree.nodes
    node = tree.counters[ROOT]
    outgrown = np.int64(NONE)
    while nodes[node, LEFT] != NONE:
        left, right = np.int64(nodes[node, LEFT]), np.int64(nodes[node, RIGHT])
        child = right if step(tree, node, x, nodes[left, COUNT], nodes[right, COUNT]) else left
        nodes[node, COUNT] += 1
        if outgrown == NONE and is_outgrown(tree, node, np.int64(nodes[child, COUNT]) + 1):
            outgrown = node
        node = child
    append_row(tree, node, row, x)
    if outgrown == NONE and is_too_full(tree, node):
        return node
    return outgrown


@helper
def is_outgrown(tree, node, heavier):
    """Return whether a subtree must be rebuilt, given the count of its heavier child.

    The scapegoat rule: the heavier child holds more than 3/4 and the count has changed by a quarter since the subtree was
    built, so that the changes pay for the rebuild even where equal keys prevent a better cut. A subtree is also rebuilt when
    it has grown OUTGROWN-fold, because its router was made from a small sample of early memories.
    """
    if not tree.routing.rebuilds:
        return False
    count, built = np.int64(tree.nodes[node, COUNT]), np.int64(tree.nodes[node, BUILT])
    return (4 * heavier > 3 * count and 4 * abs(count - built) >= built) or count > OUTGROWN * built


@helper
def highest_to_rebuild(tree, node):
    """Return the highest node, from this one up, that is outgrown or fits into half a leaf after a removal, or NONE."""
    worst = np.int64(NONE)
    if not tree.routing.rebuilds:
        return worst
    nodes = tree.nodes
    half = leaf_limit(tree) // 2
    while node != NONE:
        if nodes[node, LEFT] != NONE:
            count, left = np.int64(nodes[node, COUNT]), np.int64(nodes[nodes[node, LEFT], COUNT])
            if count <= half or is_outgrown(tree, node, max(left, count - left)):
                worst = node
        node = np.int64(nodes[node, PARENT])
    return worst


@helper
def remove_row(tree, row):
    """Remove a memory (Algorithm 6, Remove); returns the node that must be rebuilt now, or NONE."""
    unlink_row(tree, row)
    lowest = detach_row(tree, row)
    free_row(tree, row)
    return highest_to_rebuild(tree, lowest)


@helper
def pop_random(tree):
    """Take a random memory out of the tree (Algorithm 7, Reroute, lines 1-2); returns (its row, its key)."""
    row = move_row_to_end(tree, below(tree.stream, tree.counters[MEMORIES]))
    x = copy_key(tree, tree.rows[row, SLOT])
    detach_row(tree, row)
    return row, x


@helper
def blocking_id(tree, id):
    """Return the id of the memory to remove before one with this id is inserted, or NONE.

    That is the memory with the same id, or at full capacity the least recently used one.
    """
    counters = tree.counters
    if row_of_id(tree, id) != NONE:
        return id
    if tree.settings.capacity > 0 and counters[MEMORIES] >= tree.settings.capacity:
        return tree.row_ids[counters[OLDEST]]
    return np.int64(NONE)


@helper
def move_to_leaf(tree, row, leaf):
    """Move a memory to another leaf."""
    x = copy_key(tree, tree.rows[row, SLOT])
    detach_row(tree, row)
    append_row(tree, leaf, row, x)
    node = np.int64(tree.nodes[leaf, PARENT])
    while node != NONE:
        tree.nodes[node, COUNT] += 1
        node = np.int64(tree.nodes[node, PARENT])
