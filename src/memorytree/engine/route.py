"""Routers at work: the one margin that insertion, query and sweep all share, and the cut at its median."""

import numpy as np

from memorytree.engine.compile import blank, helper
from memorytree.engine.declared import linear, load_key, measure_router, set_threshold, threshold_of
from memorytree.engine.median import median_cut
from memorytree.engine.state import LEFT, NONE, RIGHT


@helper
def margin(tree, node, x):
    """g(x): left where it is at most 0, right otherwise."""
    return linear(tree, node, x) - threshold_of(tree, node)


@helper
def descend(tree, x, node):
    """Algorithm 1, Path: the leaf that x is routed to from a node."""
    nodes = tree.nodes
    while nodes[node, LEFT] != NONE:
        node = np.int64(nodes[node, RIGHT] if margin(tree, node, x) > 0 else nodes[node, LEFT])
    return node


@helper
def cut_at_median(tree, node, order, first, last, sides):
    """Choose the threshold of a router that has its direction, and so the sides; False: it tells no two members apart."""
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
