"""The shape of a tree, from its nodes."""

from __future__ import annotations

import numpy as np

from memorytree.engine.arrays import COUNT, LEFT, MISTAKES, NONE, RIGHT, UPDATES
from memorytree.index.base import Array
from memorytree.results import Level, Stats


def shape_of(nodes: Array, root: int) -> Stats:
    """Depth, leaves and balance of the tree below a root, level by level."""
    level = np.array([root])
    levels, depth, steps, leaves, largest = [], 0, 0, 0, 0
    updates = mistakes = 0
    while True:
        is_leaf = nodes[level, LEFT] == NONE
        here, inner = level[is_leaf], level[~is_leaf]
        leaves += len(here)
        largest = max(largest, int(nodes[here, COUNT].max(initial=0)))
        steps += depth * int(nodes[here, COUNT].sum())
        if not len(inner):
            break
        updates += int(nodes[inner, UPDATES].sum(dtype=np.int64))
        mistakes += int(nodes[inner, MISTAKES].sum(dtype=np.int64))
        left, right = nodes[inner, LEFT], nodes[inner, RIGHT]
        heavier = np.maximum(nodes[left, COUNT], nodes[right, COUNT]) / nodes[inner, COUNT]
        levels.append(Level(len(inner), float(heavier.mean())))
        level = np.concatenate([left, right])
        depth += 1
    n = int(nodes[root, COUNT])
    return Stats(
        leaves=leaves,
        largest_leaf=largest,
        depth=depth,
        average_depth=steps / n if n else 0.0,
        levels=tuple(levels),
        router_error=mistakes / updates if updates else None,
    )
