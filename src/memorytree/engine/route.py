"""Following routers: the one margin that insertion, query and sweep all share."""

import numpy as np

from memorytree.engine.compile import helper
from memorytree.engine.declared import linear, threshold_of
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
