"""How the tree answers: the leaves that fit a key, and the best memories in them (Algorithm 2, Query)."""

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import COUNT, GENERATION, LEAF, LEFT, NONE, PARENT, RIGHT, ROOT, START
from memorytree.engine.dispatch import key_bits, key_distance, router_norm, score
from memorytree.engine.heap import pop, push
from memorytree.engine.jit import blank, body_for, helper
from memorytree.engine.pool import lengthened
from memorytree.engine.rng import GAMMA, below, mix
from memorytree.engine.routing import descend, margin

# What a query did: it followed the routers, explored the other side of a node, or drew at random from a leaf.
EXPLOIT, AT_NODE, AT_LEAF = 0, 1, 2
# A trace says how an answer came about: [branch, explored node, its generation, action (1 = right), k, number of hits,
# number of steps], then (leaf, generation) of each of the k hits, then (node, generation) of each step, as far as there is
# room.
BRANCH, EXPLORED, EXPLORED_GENERATION, ACTION, WANTED, HITS, STEPS, PLACES = range(8)
FRONTIER = 256  # nodes that a search may keep in mind before it needs more room


@helper
def tie(seed, x_bits, id):
    """Among equals the larger one comes first: as good as random, and the same every time."""
    return mix(x_bits ^ mix(np.uint64(seed) + GAMMA * np.uint64(id)))


@helper
def is_excluded(excluded, id):
    for other in excluded:
        if other == id:
            return True
    return False


@helper
def move_down(best_rows, best, place):
    """Let the memory before a place have it; the last one of all drops out."""
    if place < best.shape[0]:
        best[place], best_rows[place] = best[place - 1], best_rows[place - 1]


@helper
def offer_row(tree, row, x, badness, best_rows, best, found):
    """Let one memory compete for the k best places, kept sorted; returns how many places are filled."""
    k = best.shape[0]
    if found == k and badness > best[k - 1]:
        return found
    place = found
    while place > 0 and badness < best[place - 1]:
        move_down(best_rows, best, place)
        place -= 1
    if place > 0 and badness == best[place - 1]:
        bits, row_ids = key_bits(tree, x), tree.row_ids
        mine = tie(tree.settings.seed, bits, row_ids[row])
        while (
            place > 0 and badness == best[place - 1] and mine > tie(tree.settings.seed, bits, row_ids[best_rows[place - 1]])
        ):
            move_down(best_rows, best, place)
            place -= 1
    if place == k:
        return found
    best[place] = badness
    best_rows[place] = row
    return min(found + 1, k)


@helper
def offer_leaf(tree, leaf, x, prepared, excluded, best_rows, best, found):
    """Let the memories of a leaf compete for the k best places; returns how many places are filled."""
    k = best.shape[0]
    start = np.int64(tree.nodes[leaf, START])
    for slot in range(start, start + tree.nodes[leaf, COUNT]):
        badness = key_distance(tree, slot, prepared)
        if found == k and badness > best[k - 1]:
            continue
        row = tree.slots[slot]
        if excluded.shape[0] and is_excluded(excluded, tree.row_ids[row]):
            continue
        found = offer_row(tree, row, x, badness, best_rows, best, found)
    return found


@helper
def down_from_top(tree, x, costs, frontier, size):
    """Take the top off a heap of nodes and follow the routers down from it, the other sides going into the heap. Returns the
    leaf, or the node where there was no more room, what it costs to be there, and the size of the heap."""
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
        if nodes[node, LEFT] != NONE:  # no room: the rest of the way comes next, as nothing is nearer
            costs, frontier = lengthened(costs, 2 * size), lengthened(frontier, 2 * size)
            push(costs, frontier, size, cost, node)
            size += 1
            continue
        found = offer_leaf(tree, node, x, prepared, excluded, best_rows, best, found)
        visited += 1
    return found


@body_for(dispatch.search_tree, "tree")
def search_tree(tree, x, prepared, beam, excluded, best_rows, best, i, traces):
    if traces.shape[0]:
        follow(tree, x, i, traces, PLACES + 2 * best.shape[0])
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
def follow(tree, x, i, traces, at):
    """Algorithm 1, Path, from the root; the steps are written into row i of `traces` from column `at` on, if it has rows."""
    nodes = tree.nodes
    node = tree.counters[ROOT]
    steps = 0
    while nodes[node, LEFT] != NONE:
        if traces.shape[0] and at + 2 * steps + 1 < traces.shape[1]:
            traces[i, at + 2 * steps] = node
            traces[i, at + 2 * steps + 1] = nodes[node, GENERATION]
        steps += 1
        node = np.int64(nodes[node, RIGHT] if margin(tree, node, x) > 0 else nodes[node, LEFT])
    if traces.shape[0]:
        traces[i, BRANCH] = EXPLOIT
        traces[i, STEPS] = steps
    return node, steps


@helper
def explore_from(tree, x, prepared, leaf, steps, stream, excluded, best_rows, best, i, traces):
    """Algorithm 2, lines 6-12: explore at a random node of the path or in its leaf; returns how many memories were found."""
    chosen = below(stream, steps + 1)
    node = leaf
    for _ in range(steps - chosen):
        node = np.int64(tree.nodes[node, PARENT])
    traces[i, EXPLORED], traces[i, EXPLORED_GENERATION] = node, tree.nodes[node, GENERATION]
    if chosen == steps:
        traces[i, BRANCH] = AT_LEAF
        return draw_from_leaf(tree, leaf, prepared, excluded, stream, best_rows, best)
    right = below(stream, 2)
    traces[i, BRANCH], traces[i, ACTION] = AT_NODE, right
    leaf = descend(tree, x, np.int64(tree.nodes[node, RIGHT] if right else tree.nodes[node, LEFT]))
    return offer_leaf(tree, leaf, x, prepared, excluded, best_rows, best, np.int64(0))


@helper
def report(tree, i, found, best_rows, best, ids, scores, traces):
    """Write down the answer to query i: ids padded with NONE, scores (the larger the better), and where the hits lie."""
    for j in range(best.shape[0]):
        if j < found:
            ids[i, j] = tree.row_ids[best_rows[j]]
            scores[i, j] = score(tree, best[j])
        else:
            ids[i, j] = NONE
            scores[i, j] = -np.inf
    if traces.shape[0]:
        traces[i, WANTED], traces[i, HITS] = best.shape[0], found
        for j in range(found):
            leaf = tree.rows[best_rows[j], LEAF]
            traces[i, PLACES + 2 * j] = leaf
            traces[i, PLACES + 2 * j + 1] = tree.nodes[leaf, GENERATION]
