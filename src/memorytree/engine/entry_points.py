"""Entry points: the kernels of trees that Python calls.

Each is compiled on its first use, so they are kept apart: a process that never explores, sweeps or removes does not wait for
these. Where a subtree must be rebuilt, a writing kernel stops and returns that node; the caller rebuilds it and calls again.
"""

import numpy as np

from memorytree.engine import building, dense, graph, linear, search, sparse, storage  # noqa: F401  (imports register the bodies of dispatched functions)
from memorytree.engine.arrays import (
    COUNT,
    GENERATION,
    LABEL,
    LEAF,
    LEFT,
    MEMORIES,
    NEXT_ID,
    NODES,
    NONE,
    RIGHT,
    ROOM,
    ROOMS,
    ROOT,
    SLOT,
    SLOTS,
    START,
)  # fmt: skip
from memorytree.engine.constants import ACTION, AT_NODE, BRANCH, GENERATION_OF_NODE, LINKED, NODE
from memorytree.engine.dispatch import (
    detach_keys,
    is_tuning_due,
    key_distance,
    learn_from_reward,
    link_row,
    load_key,
    move_detached_key,
    pop_random,
    prepare,
    record_key,
    row_of,
    score,
    search_tree,
    unlink_row,
)  # fmt: skip
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.rng import seeded, uniform
from memorytree.engine.routing import descend, margin

DONE, REBUILD, EVICT, COMPACT, TUNE = range(5)
"""What `insert_rows` returns: all rows are inserted, or what must be done before calling it again."""


@kernel
def score_rows(tree, X, ids, scores):
    """The scores of the memories ids[i] for row i; -inf for ids that are not stored."""
    for i in range(ids.shape[0]):
        prepared = prepare(tree, row_of(tree, X, i))
        for j in range(ids.shape[1]):
            row = row_of_id(tree, ids[i, j])
            scores[i, j] = -np.inf if row == NONE else score(tree, key_distance(tree, tree.rows[row, SLOT], prepared))


@helper
def needs_compaction(tree):
    """Whether the gaps between leaves make up a fifth of all slots as `TreeIndex` also decides."""
    return 4 * tree.counters[SLOTS] > 5 * tree.counters[ROOMS] + 4096


@kernel
def insert_rows(tree, X, ids, progress, last):
    """Insert rows up to last - 1; ids[i] is the id to take or NONE, and afterwards the id taken.

    progress[0] counts the steps done: for each row one insertion and d reroutes.

    Returns (DONE, NONE), or what must be done before calling again: (REBUILD, node), (EVICT, id), (COMPACT, NONE) or
    (TUNE, NONE). Compaction and tuning are requested between rows, so that a batch leaves every array as single insertions
    would.
    """
    steps = 1 + tree.settings.reroutes
    while progress[0] < last * steps:
        i = progress[0] // steps
        if progress[0] % steps == 0:
            if needs_compaction(tree):
                return COMPACT, np.int64(NONE)
            if is_tuning_due(tree):
                return TUNE, np.int64(NONE)
            if ids[i] == NONE:
                ids[i] = tree.counters[NEXT_ID]
            obstacle = building.blocking_id(tree, ids[i])
            if obstacle != NONE:
                return EVICT, obstacle
            tree.counters[NEXT_ID] = max(tree.counters[NEXT_ID], ids[i] + 1)
            row, x = storage.new_row(tree, ids[i]), row_of(tree, X, i)
            record_key(tree, x)
        else:
            row, x = pop_random(tree)
        node = building.place_row(tree, row, x)
        if progress[0] % steps == 0:
            link_row(tree, row)
        progress[0] += 1
        if node != NONE:
            return REBUILD, node
    return TUNE if is_tuning_due(tree) else DONE, np.int64(NONE)


@kernel
def reroute(tree, progress, times):
    """Algorithm 7 until progress[0] counts `times`. Returns NONE, or a node to rebuild before calling again."""
    while progress[0] < times and tree.counters[MEMORIES] > 0:
        progress[0] += 1
        row, x = building.pop_random(tree)
        node = building.place_row(tree, row, x)
        if node != NONE:
            return node
    return np.int64(NONE)


@kernel
def replace_keys(tree, X, ids, progress):
    """Give memories new keys and place them by those, for row progress[0] on. Returns NONE, or a node to rebuild first."""
    while progress[0] < ids.shape[0]:
        i = progress[0]
        progress[0] += 1
        row = row_of_id(tree, ids[i])
        unlink_row(tree, row)
        storage.detach_row(tree, row)
        node = building.place_row(tree, row, row_of(tree, X, i))
        link_row(tree, row)
        if node != NONE:
            return node
    return np.int64(NONE)


@kernel
def fill(tree, X, ids):
    """Put rows into the root of an empty tree; `rebuild_subtree` then builds it top-down."""
    root = tree.counters[ROOT]
    for i in range(ids.shape[0]):
        if ids[i] == NONE:
            ids[i] = tree.counters[NEXT_ID]
        tree.counters[NEXT_ID] = max(tree.counters[NEXT_ID], ids[i] + 1)
        x = row_of(tree, X, i)
        record_key(tree, x)
        storage.append_row(tree, root, storage.new_row(tree, ids[i]), x)


@kernel
def set_labels(tree, ids, labels):
    """Give stored memories labels. Groups inferred from rewards (LINKED and up) never replace labels that were given."""
    for i in range(ids.shape[0]):
        row = row_of_id(tree, ids[i])
        if row != NONE and (labels[i] < LINKED or tree.rows[row, LABEL] == NONE or tree.rows[row, LABEL] >= LINKED):
            tree.rows[row, LABEL] = labels[i]


@kernel
def remove(tree, id):
    """Remove a memory. Returns (whether there was one, a node to rebuild or NONE)."""
    row = row_of_id(tree, id)
    if row == NONE:
        return False, np.int64(NONE)
    return True, building.remove_row(tree, row)


@kernel
def sweep(tree):
    """Move every memory to the leaf to which the present routers send it; returns the number moved."""
    moved = 0
    for row in range(tree.counters[MEMORIES]):
        leaf = descend(tree, load_key(tree, tree.rows[row, SLOT]), tree.counters[ROOT])
        if leaf != tree.rows[row, LEAF]:
            building.move_to_leaf(tree, row, leaf)
            moved += 1
    return moved


@kernel
def next_too_full(tree, node):
    """The first leaf from this node number on that is over its limit, or NONE."""
    for leaf in range(node, tree.counters[NODES]):
        if tree.nodes[leaf, LEFT] == NONE and tree.nodes[leaf, COUNT] > 0 and building.is_too_full(tree, leaf):
            return leaf
    return NONE


@kernel
def query_rows(tree, X, rows, excluded, answer):
    """Answer the queries of rows = (start, stop) from one leaf each.

    Args:
        X: a batch of keys.
        rows: the first row to answer and the one behind the last.
        excluded: (bounds, ids); ids[bounds[i] : bounds[i + 1]] are left out of row i.
        answer: (ids, scores) of shape (stop - start, k), which are filled.
    """
    (start, stop), (bounds, out), (ids, scores) = rows, excluded, answer
    best_rows, best = blank(ids.shape[1], np.int64), blank(ids.shape[1], np.float64)
    for i in range(start, stop):
        x = row_of(tree, X, i)
        leaf, _ = search.find_path(tree, x)
        left_out = out[bounds[i] : bounds[i + 1]]
        found = search.offer_leaf(tree, leaf, x, prepare(tree, x), left_out, (best_rows, best), np.int64(0))
        search.report(tree, i - start, found, best_rows, best, ids, scores)


@kernel
def beam_rows(tree, X, rows, excluded, answer, beam):
    """`query_rows` by a search of this breadth."""
    (start, stop), (bounds, out), (ids, scores) = rows, excluded, answer
    best_rows, best = blank(ids.shape[1], np.int64), blank(ids.shape[1], np.float64)
    for i in range(start, stop):
        x = row_of(tree, X, i)
        found = search_tree(tree, x, prepare(tree, x), beam, out[bounds[i] : bounds[i + 1]], best_rows, best)
        search.report(tree, i - start, found, best_rows, best, ids, scores)


@kernel
def explore_rows(tree, X, rows, excluded, answer, decisions, exploration):
    """`query_rows` with exploration = (beam, epsilon, draw), Algorithm 2; row i uses the random stream of draw + i.

    `decisions` has a row for each answer, filled with EXPLOIT and NONE.
    """
    (start, stop), (bounds, out), (ids, scores), (beam, epsilon, draw) = rows, excluded, answer, exploration
    best_rows, best = blank(ids.shape[1], np.int64), blank(ids.shape[1], np.float64)
    for i in range(start, stop):
        x = row_of(tree, X, i)
        left_out = out[bounds[i] : bounds[i + 1]]
        stream = seeded(tree.settings.seed, draw + i)
        prepared = prepare(tree, x)
        if uniform(stream) >= epsilon:
            found = search_tree(tree, x, prepared, beam, left_out, best_rows, best)
        else:
            found = search.explore(tree, x, prepared, stream, left_out, (best_rows, best), decisions[i - start])
        search.report(tree, i - start, found, best_rows, best, ids, scores)


@kernel
def reward_rows(tree, X, decisions, ids, rewards, progress, counts):
    """Learn from the rewards of queries (NaN: not observed): for each query lines 1-7 of Algorithm 3 for every rewarded hit,
    then d reroutes. progress[0] counts the steps done; counts gains (learned, skipped because the node has been removed).

    Returns NONE, or a node to rebuild before calling again.
    """
    steps = 1 + tree.settings.reroutes
    while progress[0] < ids.shape[0] * steps:
        i = progress[0] // steps
        now = progress[0] % steps
        progress[0] += 1
        if now == 0:
            for j in range(ids.shape[1]):
                if ids[i, j] == NONE or np.isnan(rewards[i, j]):
                    continue
                if rewards[i, j] > 0:
                    storage.mark_used(tree, ids[i, j])
                if decisions[i, BRANCH] == AT_NODE:
                    node, generation = decisions[i, NODE], decisions[i, GENERATION_OF_NODE]
                    right = decisions[i, ACTION] == 1
                    alive = 0 <= node < tree.counters[NODES] and tree.nodes[node, GENERATION] == generation
                    if not alive or tree.nodes[node, LEFT] == NONE:
                        counts[1] += 1
                    elif learn_from_reward(tree, node, row_of(tree, X, i), right, 0.5, rewards[i, j]):
                        counts[0] += 1
        elif tree.counters[MEMORIES] > 0:
            row, x = pop_random(tree)
            node = building.place_row(tree, row, x)
            if node != NONE:
                return node
    return np.int64(NONE)


@kernel
def compact(tree):
    """Move all leaves together, so that no free slots lie between them."""
    counters, nodes = tree.counters, tree.nodes
    old_slots, old_keys = tree.slots, detach_keys(tree)
    tree.slots = blank(old_slots.shape[0], np.int32)
    end = 0
    for leaf in range(counters[NODES]):
        if nodes[leaf, LEFT] == NONE and nodes[leaf, ROOM] > 0:
            for i in range(nodes[leaf, COUNT]):
                move_detached_key(tree, old_keys, nodes[leaf, START] + i, end + i)
                storage.set_slot(tree, leaf, end + i, old_slots[nodes[leaf, START] + i])
            nodes[leaf, START] = end
            end += nodes[leaf, ROOM]
    counters[SLOTS] = end
    for kind in range(tree.free.shape[0]):
        tree.free[kind] = NONE


@kernel
def locate(tree, id):
    """(leaf, slot) of a memory, or (NONE, NONE)."""
    row = row_of_id(tree, id)
    if row == NONE:
        return np.int64(NONE), np.int64(NONE)
    return np.int64(tree.rows[row, LEAF]), np.int64(tree.rows[row, SLOT])


@kernel
def step_margin(tree, node, X):
    """The margin at a node for the first key of a batch, and the child to which it routes; (0, NONE) at a leaf."""
    if tree.nodes[node, LEFT] == NONE:
        return np.float64(0), np.int64(NONE)
    g = np.float64(margin(tree, node, row_of(tree, X, 0)))
    return g, np.int64(tree.nodes[node, RIGHT] if g > 0 else tree.nodes[node, LEFT])


@kernel
def leaf_limit(tree):
    """How many memories a leaf may hold now."""
    return storage.leaf_limit(tree)
