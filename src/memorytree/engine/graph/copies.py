"""Memories with equal keys: the graph contains one of them, and a search finds the others through it.

Routers send equal keys to the same leaf, so the others are its companions there. copies, uint8 (rows,), says for each row
whether it is the ONLY one with its key, the FIRST of several (or of what were several), which is in the graph, or a COPY. In
a leaf that holds equal keys alone the first slot holds the FIRST.
"""

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import COUNT, EQUAL, LEAF, NONE, SLOT, START
from memorytree.engine.dispatch import same_key
from memorytree.engine.jit import body_for, helper

ONLY, FIRST, COPY = 0, 1, 2


@helper
def first_of(tree, row):
    """Return the row in the graph whose key equals that of a row, or NONE if there is no other one with this key."""
    leaf, slot = np.int64(tree.rows[row, LEAF]), np.int64(tree.rows[row, SLOT])
    start = np.int64(tree.nodes[leaf, START])
    for other in range(start, start + tree.nodes[leaf, COUNT]):
        if other != slot and tree.copies[tree.slots[other]] != COPY and same_key(tree, slot, other):
            return np.int64(tree.slots[other])
    return np.int64(NONE)


@helper
def mark_copy(tree, row):
    """Mark a new row as ONLY or COPY; returns whether it is a copy."""
    first = first_of(tree, row)
    if first == NONE:
        tree.copies[row] = ONLY
        return False
    tree.copies[row], tree.copies[first] = COPY, FIRST
    return True


@helper
def successor_of(tree, row):
    """Return the copy that is to take the place of a row in the graph, or NONE."""
    if tree.copies[row] != FIRST:
        return np.int64(NONE)
    leaf, slot = np.int64(tree.rows[row, LEAF]), np.int64(tree.rows[row, SLOT])
    start = np.int64(tree.nodes[leaf, START])
    # From the last slot on: the memory there is moved to the slot of the removed one.
    for other in range(start + tree.nodes[leaf, COUNT] - 1, start - 1, -1):
        if other != slot and same_key(tree, slot, other):
            return np.int64(tree.slots[other])
    return np.int64(NONE)


@body_for(dispatch.put_first, "tree")
def keep_order(tree, order, first, last):
    pass


@body_for(dispatch.put_first, "graph")
def put_first(tree, order, first, last):
    for i in range(first, last):
        if tree.copies[tree.slots[order[i]]] != COPY:
            order[first], order[i] = order[i], order[first]
            return


@helper
def companions(tree, row):
    """Return the range (first slot, slot behind the last) where the copies of a FIRST row lie."""
    leaf = np.int64(tree.rows[row, LEAF])
    start = np.int64(tree.nodes[leaf, START])
    return start, start + np.int64(tree.nodes[leaf, COUNT])


@helper
def is_companion(tree, row, slot):
    """Return whether the memory in a slot of the same leaf is a copy of a FIRST row."""
    if tree.copies[tree.slots[slot]] != COPY:
        return False
    leaf = tree.rows[row, LEAF]
    return tree.nodes[leaf, EQUAL] or same_key(tree, np.int64(tree.rows[row, SLOT]), slot)
