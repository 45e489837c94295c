"""How the tree changes: memories are placed, taken out, rerouted and swept; leaves split; subtrees are rebuilt."""

import numpy as np

from memorytree.engine.compile import blank, helper, kernel
from memorytree.engine.declared import copy_key, cut, leave_neighbours, move_key, same_key, step
from memorytree.engine.layout import (
    append,
    detach,
    free_node,
    free_row,
    give_extent,
    leaf_limit,
    move_row_to_end,
    new_leaf,
    put,
    row_of_id,
    take_extent,
)  # fmt: skip
from memorytree.engine.rng import below
from memorytree.engine.state import (
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

# A subtree this many times as large as when it was built is built anew.
OUTGROWN = 64


@helper
def gather(tree, top, order):
    """List the slots below a node from left to right, and let its descendants go; their extents are returned to be freed
    once their keys have been moved. The node itself becomes an empty leaf."""
    nodes = tree.nodes
    # No leaf is empty, so there are at most as many leaves as memories, and the stack never holds more than that.
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
def settle_leaf(tree, leaf, order, first, last):
    """Give a leaf the memories in slots order[first:last]."""
    start, room = take_extent(tree, last - first)
    for i in range(first, last):
        row = tree.slots[order[i]]
        move_key(tree, order[i], start + i - first)
        put(tree, leaf, start + i - first, row)
    nodes = tree.nodes
    nodes[leaf, START] = start
    nodes[leaf, ROOM] = room
    nodes[leaf, COUNT] = last - first


@helper
def part(order, first, last, sides):
    """Bring those that go left before those that go right, each in their old order."""
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
    """Whether the slots order[first:last] all hold the same key."""
    for i in range(first + 1, last):
        if not same_key(tree, order[first], order[i]):
            return False
    return True


@helper
def branch(tree, node, count):
    """Turn a leaf without memories into an internal node over two new leaves."""
    left, right = new_leaf(tree, node), new_leaf(tree, node)
    nodes = tree.nodes
    nodes[node, LEFT] = left
    nodes[node, RIGHT] = right
    nodes[node, COUNT] = count
    nodes[node, BUILT] = count
    return left, right


@kernel
def regrow(tree, top, settle):
    """Build the subtree below a node anew, top-down: a leaf that is too full is split (Algorithm 5, lines 3-7), an internal
    node is rebuilt. Keys are moved once, at the end."""
    limit = leaf_limit(tree)
    total = np.int64(tree.nodes[top, COUNT])
    order = blank(total, np.int64)
    sides = blank(total, np.bool_)
    extents = gather(tree, top, order)
    # A part that waits holds at least one memory.
    stack = blank((total + 1, 3), np.int64)
    stack[0, 0], stack[0, 1], stack[0, 2] = top, 0, total
    waiting = 1
    while waiting > 0:
        waiting -= 1
        node, first, last = stack[waiting, 0], stack[waiting, 1], stack[waiting, 2]
        tree.nodes[node, GENERATION] += 1
        tree.nodes[node, EQUAL] = 0
        if last - first > limit and cut(tree, node, order, first, last, sides, settle):
            middle = part(order, first, last, sides)
            left, right = branch(tree, node, last - first)
            stack[waiting, 0], stack[waiting, 1], stack[waiting, 2] = right, middle, last
            stack[waiting + 1, 0], stack[waiting + 1, 1], stack[waiting + 1, 2] = left, first, middle
            waiting += 2
        else:
            tree.nodes[node, EQUAL] = last - first > limit and all_equal(tree, order, first, last)
            settle_leaf(tree, node, order, first, last)
    for i in range(extents.shape[0]):
        give_extent(tree, extents[i, 0], extents[i, 1])


@helper
def is_too_full(tree, leaf):
    """Algorithm 5, line 2. A leaf of equal keys cannot be split; `append` notices when a different one arrives."""
    return tree.nodes[leaf, COUNT] > leaf_limit(tree) and not tree.nodes[leaf, EQUAL]


@helper
def place(tree, row, x):
    """Algorithm 4, Insert: down the tree, learning where the routing learns, and into a leaf. Returns the node that must be
    regrown now (a leaf that is too full, a subtree that is outgrown), or NONE."""
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
    append(tree, node, row, x)
    if outgrown == NONE and is_too_full(tree, node):
        return node
    return outgrown


@helper
def is_outgrown(tree, node, heavier):
    """Whether a subtree should be built anew, where the routing rebuilds.

    The scapegoat rule: the heavier side holds more than 3/4, and a quarter of the subtree is new since it was built (where
    equal keys forbid a better cut, a rebuild is thus still paid for by the changes before it). Or it has grown so much that
    its router, made from a handful of early memories, no longer speaks for what is below.
    """
    if not tree.routing.rebuilds:
        return False
    count, built = np.int64(tree.nodes[node, COUNT]), np.int64(tree.nodes[node, BUILT])
    return (4 * heavier > 3 * count and 4 * abs(count - built) >= built) or count > OUTGROWN * built


@helper
def highest_to_regrow(tree, node):
    """After a removal: the highest node above that is outgrown or fits into half a leaf, or NONE."""
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
    """Algorithm 6, Remove. Returns the node that must be regrown now, or NONE."""
    leave_neighbours(tree, row)
    lowest = detach(tree, row)
    free_row(tree, row)
    return highest_to_regrow(tree, lowest)


@helper
def lift_random(tree):
    """Algorithm 7, Reroute, lines 1-2: take a random memory out of the tree; (its row, its key)."""
    row = move_row_to_end(tree, below(tree.stream, tree.counters[MEMORIES]))
    x = copy_key(tree, tree.rows[row, SLOT])
    detach(tree, row)
    return row, x


@helper
def in_the_way(tree, id):
    """The memory that has to go before one with this id comes: the one that has the id, or at full capacity the one that was
    of no use for longest. NONE: there is room."""
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
    detach(tree, row)
    append(tree, leaf, row, x)
    node = np.int64(tree.nodes[leaf, PARENT])
    while node != NONE:
        tree.nodes[node, COUNT] += 1
        node = np.int64(tree.nodes[node, PARENT])
