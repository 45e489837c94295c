"""Queries: the leaves that fit a key, and the best memories in them (Algorithm 2, Query)."""

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import COUNT, GENERATION, LEFT, NONE, PARENT, RIGHT, ROOT, START
from memorytree.engine.constants import ACTION, AT_LEAF, AT_NODE, BRANCH, GENERATION_OF_NODE, NODE
from memorytree.engine.dispatch import key_bits, key_distance, router_norm, score
from memorytree.engine.heap import pop, push
from memorytree.engine.jit import blank, body_for, helper
from memorytree.engine.pool import lengthened
from memorytree.engine.rng import GAMMA, below, mix
from memorytree.engine.routing import descend, margin

FRONTIER = 256  # initial capacity of the heap of nodes still to be searched


@helper
def tie(seed, x_bits, id):
    """The rank of a memory among equal distances, the larger first: pseudo-random, and the same for every query."""
    return mix(x_bits ^ mix(np.uint64(seed) + GAMMA * np.uint64(id)))


@helper
def is_excluded(excluded, id):
    for other in excluded:
        if other == id:
            return True
    return False


@helper
def move_down(best_rows, best, place):
    """Move the memory before a place into it; the last one drops out."""
    if place < best.shape[0]:
        best[place], best_rows[place] = best[place - 1], best_rows[place - 1]


@helper
def offer_row(tree, row, x, distance, best_rows, best, found):
    """Insert one memory into the sorted list of the k best, if it is among them; returns the length of the list."""
    k = best.shape[0]
    if found == k and distance > best[k - 1]:
        return found
    place = found
    while place > 0 and distance < best[place - 1]:
        move_down(best_rows, best, place)
        place -= 1
    if place > 0 and distance == best[place - 1]:
        bits, row_ids = key_bits(tree, x), tree.row_ids
        mine = tie(tree.settings.seed, bits, row_ids[row])
        while (
            place > 0 and distance == best[place - 1] and mine > tie(tree.settings.seed, bits, row_ids[best_rows[place - 1]])
        ):
            move_down(best_rows, best, place)
            place -= 1
    if place == k:
        return found
    best[place] = distance
    best_rows[place] = row
    return min(found + 1, k)


@helper
def offer_leaf(tree, leaf, x, prepared, excluded, best, found):
    """Offer every memory of a leaf to the list of the k best, best = (rows, distances); returns the length of the list."""
    best_rows, best_distances = best
    k = best_distances.shape[0]
    start = np.int64(tree.nodes[leaf, START])
    for slot in range(start, start + tree.nodes[leaf, COUNT]):
        distance = key_distance(tree, slot, prepared)
        if found == k and distance > best_distances[k - 1]:
            continue
        row = tree.slots[slot]
        if excluded.shape[0] and is_excluded(excluded, tree.row_ids[row]):
            continue
        found = offer_row(tree, row, x, distance, best_rows, best_distances, found)
    return found


@helper
def down_from_top(tree, x, costs, frontier, size):
    """Pop the cheapest node and descend from it, pushing the sides not taken. Returns the leaf, or the node where the heap
    was full, its cost, and the size of the heap."""
    nodes = tree.nodes
    cost, node = pop(costs, frontier, size)
    size -= 1
    while nodes[node, LEFT] != NONE and size < costs.shape[0]:
        g = margin(tree, node, x)
        length = router_norm(tree, node)
        left, right = np.int64(nodes[node, LEFT]), np.int64(nodes[node, RIGHT])
        further = cost + (abs(np.float64(g)) / length if length > 0 else 0.0)
        push(costs, frontier, size, further, left if g > 0 else right)
        size += 1
        node = right if g > 0 else left
    return node, cost, size


@helper
def search_beam(tree, x, prepared, beam, excluded, best_rows, best):
    """Best-first: after the leaf of the path, the leaves behind the narrowest decisions on the way."""
    nodes = tree.nodes
    costs = blank(FRONTIER, np.float64)
    frontier = blank(FRONTIER, np.int64)
    costs[0] = 0.0
    frontier[0] = tree.counters[ROOT]
    size = 1
    visited = 0
    found = np.int64(0)
    while size > 0 and visited < beam:
        node, cost, size = down_from_top(tree, x, costs, frontier, size)
        if nodes[node, LEFT] != NONE:  # the heap was full: continue from this node, which is still the cheapest
            costs, frontier = lengthened(costs, 2 * size), lengthened(frontier, 2 * size)
            push(costs, frontier, size, cost, node)
            size += 1
            continue
        found = offer_leaf(tree, node, x, prepared, excluded, (best_rows, best), found)
        visited += 1
    return found


@body_for(dispatch.search_tree, "tree")
def search_tree(tree, x, prepared, beam, excluded, best_rows, best):
    return search_beam(tree, x, prepared, beam, excluded, best_rows, best)


@helper
def draw_from_leaf(tree, leaf, prepared, excluded, stream, best_rows, best):
    """Rand_k: random memories of a leaf."""
    count = np.int64(tree.nodes[leaf, COUNT])
    order = blank(count, np.int64)
    for i in range(count):
        order[i] = tree.nodes[leaf, START] + i
    found = 0
    for i in range(count):
        j = i + below(stream, count - i)
        order[i], order[j] = order[j], order[i]
        row = tree.slots[order[i]]
        if not is_excluded(excluded, tree.row_ids[row]):
            best_rows[found] = row
            best[found] = key_distance(tree, order[i], prepared)
            found += 1
        if found == best.shape[0]:
            break
    return found


@helper
def find_path(tree, x):
    """Algorithm 1, Path, from the root: (leaf, number of steps to it)."""
    nodes = tree.nodes
    node = tree.counters[ROOT]
    steps = 0
    while nodes[node, LEFT] != NONE:
        steps += 1
        node = np.int64(nodes[node, RIGHT] if margin(tree, node, x) > 0 else nodes[node, LEFT])
    return node, steps


@helper
def explore(tree, x, prepared, stream, excluded, best, decision):
    """Algorithm 2, lines 6-12: explore at a random node of the path or in its leaf; returns how many memories were found.

    The choice is written into `decision`, best = (rows, distances).
    """
    best_rows, best_distances = best
    leaf, steps = find_path(tree, x)
    chosen = below(stream, steps + 1)
    node = leaf
    for _ in range(steps - chosen):
        node = np.int64(tree.nodes[node, PARENT])
    decision[NODE], decision[GENERATION_OF_NODE] = node, tree.nodes[node, GENERATION]
    if chosen == steps:
        decision[BRANCH] = AT_LEAF
        return draw_from_leaf(tree, leaf, prepared, excluded, stream, best_rows, best_distances)
    right = below(stream, 2)
    decision[BRANCH], decision[ACTION] = AT_NODE, right
    leaf = descend(tree, x, np.int64(tree.nodes[node, RIGHT] if right else tree.nodes[node, LEFT]))
    return offer_leaf(tree, leaf, x, prepared, excluded, best, np.int64(0))


@helper
def report(tree, i, found, best_rows, best, ids, scores):
    """Write row i of the answer: ids padded with NONE, and scores, the larger the better, padded with -inf."""
    for j in range(best.shape[0]):
        if j < found:
            ids[i, j] = tree.row_ids[best_rows[j]]
            scores[i, j] = score(tree, best[j])
        else:
            ids[i, j] = NONE
            scores[i, j] = -np.inf
