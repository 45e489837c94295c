"""The margin that insertion, query and sweep share, the descent by it, and cuts at the median margin."""

import numpy as np

from memorytree.engine.arrays import LEFT, NONE, RIGHT
from memorytree.engine.dispatch import linear, load_key, measure_router, set_threshold, threshold_of
from memorytree.engine.jit import blank, helper
from memorytree.engine.median import median_cut


@helper
def margin(tree, node, x):
    """Return g(x): keys go left where it is at most 0, right otherwise."""
    return linear(tree, node, x) - threshold_of(tree, node)


@helper
def descend(tree, x, node):
    """Return the leaf that x is routed to from a node (Algorithm 1, Path)."""
    nodes = tree.nodes
    while nodes[node, LEFT] != NONE:
        node = np.int64(nodes[node, RIGHT] if margin(tree, node, x) > 0 else nodes[node, LEFT])
    return node


@helper
def cut_at_median(tree, node, order, first, last, sides):
    """Set the threshold of a router whose weights are set so that it halves the memories in slots order[first:last].

    Writes whether the i-th memory goes right to sides[i]; returns False, with nothing changed, if all margins are equal.
    """
    sums = blank(last - first, np.float32)
    for i in range(first, last):
        sums[i - first] = linear(tree, node, load_key(tree, order[i]))
    found, threshold = median_cut(sums)
    if found:
        set_threshold(tree, node, threshold)
        measure_router(tree, node)
        for i in range(first, last):
            sides[i] = sums[i - first] > threshold
    return found
