"""Numbers that kernels and Python code share. This file does not import Numba."""

LINKED = 2**30  # labels from here on are not given by users: they number groups of memories that were rewarded together

# The branches of Algorithm 2: follow the routers, explore the other side of a node, or draw at random from a leaf.
EXPLOIT, AT_NODE, AT_LEAF = 0, 1, 2
# Columns of a decision, which is all that learning needs of how an answer came about: the branch, the node explored, the
# generation of that node, and the action (1: right).
BRANCH, NODE, GENERATION_OF_NODE, ACTION, DECISION_WIDTH = range(5)
