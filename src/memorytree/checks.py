"""Is a tree what it says it is? Run on files that are loaded, after every step of the tests, and by anyone who doubts."""

from __future__ import annotations

from typing import Any

import numpy as np

from memorytree.engine.arrays import (
    COUNT,
    FREE_NODE,
    IDS,
    LEAF,
    LEFT,
    MEMORIES,
    NEWER,
    NEWEST,
    NEXT_ID,
    NODES,
    NONE,
    OLDER,
    OLDEST,
    PARENT,
    POOL,
    RIGHT,
    ROOM,
    ROOMS,
    ROOT,
    SLOT,
    SLOTS,
    START,
    TABLES,
)  # fmt: skip
from memorytree.routing.terms import TermsCore, check_lists
from memorytree.scoring.valued import ValuedCore


def check_tree(tree: Any) -> None:
    """Raise ValueError, with the reason, if anything in a `MemoryTree` contradicts anything else.

    >>> from memorytree import MemoryTree
    >>> tree = MemoryTree(seed=0)
    >>> ids = [tree.insert([float(i)], i) for i in range(100)]
    >>> check_tree(tree)
    """
    if tree._core is None:
        _require(not len(tree), "values without an engine")
        return
    for part in tree._core.parts.values():
        arrays = part.arrays()
        check_arrays(arrays, part.sparse, part.routing.learns)
        ids = arrays["row_ids"][: len(part)].tolist()
        _require(set(ids) == set(tree._values), "values and memories do not have the same ids")
    by_keys = tree._core.base if isinstance(tree._core, ValuedCore) else tree._core
    if isinstance(by_keys, TermsCore):
        check_lists(by_keys)


def check_arrays(arrays: dict[str, np.ndarray], sparse: bool, learns: bool) -> None:
    """The same for the arrays of the engine."""
    counters, nodes = arrays["counters"], arrays["nodes"]
    n, used, slots_used = int(counters[MEMORIES]), int(counters[NODES]), int(counters[SLOTS])
    _require(0 < used <= len(nodes) and 0 <= slots_used <= len(arrays["slots"]), "more in use than there is room for")
    _require(0 <= n <= min(len(arrays["rows"]), len(arrays["row_ids"])), "more memories than rows")
    leaves = _check_nodes(nodes[:used], int(counters[ROOT]), int(counters[FREE_NODE]), n)
    _check_places(arrays, leaves, n, slots_used)
    _check_ids(arrays, n)
    _check_order_of_use(arrays, n)
    if sparse:
        _check_sparse(arrays, n, used)
    else:
        _require(len(arrays["keys"]) == len(arrays["slots"]), "as many keys as slots")
        _require(len(arrays["routers"]) == len(nodes), "as many routers as nodes")
        _require(not learns or len(arrays["squares"]) == len(nodes), "as many squares as nodes")
    if "neighbours" in arrays:
        neighbours, link_distances = arrays["neighbours"], arrays["link_distances"]
        _require(len(neighbours) == len(link_distances) == len(arrays["row_ids"]), "as many lists as rows")
        _check_neighbours(neighbours[:n], link_distances[:n])


def _require(truth: Any, what: str) -> None:
    if not truth:
        raise ValueError(f"the tree contradicts itself: {what}")


def _check_nodes(nodes: np.ndarray, root: int, free: int, n: int) -> np.ndarray:
    """Counts add up to the root, parents and children know each other, no leaf is empty. Returns the leaves."""
    used = len(nodes)
    _require(0 <= root < used and nodes[root, PARENT] == NONE, "the root is a node without a parent")
    _require(nodes[root, COUNT] == n, "the root counts all memories")
    level, leaves, seen = np.array([root]), [], 0
    while len(level):
        seen += len(level)
        _require(seen <= used, "no node stands in two places")
        is_leaf = nodes[level, LEFT] == NONE
        leaves.append(level[is_leaf])
        inner = level[~is_leaf]
        left, right = nodes[inner, LEFT], nodes[inner, RIGHT]
        both = np.concatenate([left, right])
        _require(np.all((both >= 0) & (both < used)), "children are nodes")
        _require(np.array_equal(nodes[both, PARENT], np.concatenate([inner, inner])), "children know their parent")
        _require(np.array_equal(nodes[left, COUNT] + nodes[right, COUNT], nodes[inner, COUNT]), "counts add up")
        level = both
    found = np.concatenate(leaves)
    _require(n == 0 or np.all(nodes[found, COUNT] > 0), "no leaf is empty")
    spare = 0
    while free != NONE:
        _require(0 <= free < used and spare < used, "the chain of free nodes ends")
        spare += 1
        free = int(nodes[free, PARENT])
    _require(seen + spare == used, "every node is in the tree or free")
    return found


def _check_places(arrays: dict[str, np.ndarray], leaves: np.ndarray, n: int, slots_used: int) -> None:
    """Every memory lies in exactly one leaf, and both sides agree on where. No two extents overlap."""
    nodes, rows, slots = arrays["nodes"], arrays["rows"][:n], arrays["slots"]
    start, count, room = (nodes[leaves, column].astype(np.int64) for column in (START, COUNT, ROOM))
    _require(np.all((count <= room) & (start >= 0) & (start + room <= slots_used)), "leaves fit into their room")
    _require(room.sum() == arrays["counters"][ROOMS], "the room of all leaves is known")
    order = np.argsort(start, kind="stable")
    order = order[room[order] > 0]
    _require(np.all(start[order][1:] >= (start + room)[order][:-1]), "the room of two leaves does not overlap")
    _require(np.all((rows[:, SLOT] >= 0) & (rows[:, SLOT] < slots_used)), "memories lie in slots")
    _require(np.array_equal(slots[rows[:, SLOT]], np.arange(n)), "slots know their memories")
    _require(np.all((rows[:, LEAF] >= 0) & (rows[:, LEAF] < len(nodes))), "memories lie in leaves")
    offset = rows[:, SLOT] - nodes[rows[:, LEAF], START]
    _require(np.all((offset >= 0) & (offset < nodes[rows[:, LEAF], COUNT])), "memories lie within their leaves")
    _require(
        np.array_equal(np.sort(np.unique(rows[:, LEAF])), np.sort(leaves[count > 0])),
        "memories lie in leaves of the tree",
    )


def _check_ids(arrays: dict[str, np.ndarray], n: int) -> None:
    """The map knows the row of every id, and nothing else."""
    keys, rows, ids = arrays["id_keys"], arrays["id_rows"], arrays["row_ids"][:n]
    taken = keys != NONE
    _require(len(keys) == len(rows) and len(keys) & (len(keys) - 1) == 0, "the map of ids is well formed")
    _require(np.count_nonzero(taken) == n == arrays["counters"][IDS], "the map knows every id")
    _require(np.all((rows[taken] >= 0) & (rows[taken] < n)), "the map leads to memories")
    _require(np.array_equal(ids[rows[taken]], keys[taken]), "the map leads to the right memories")
    _require(n == 0 or (ids.min() >= 0 and ids.max() < arrays["counters"][NEXT_ID]), "ids are in range")


def _check_order_of_use(arrays: dict[str, np.ndarray], n: int) -> None:
    """The list from the longest unused memory to the latest runs through all, both ways."""
    counters, rows = arrays["counters"], arrays["rows"]
    older, newer = rows[:n, OLDER], rows[:n, NEWER]
    for ends, there, back, end in ((OLDEST, newer, older, NEWEST), (NEWEST, older, newer, OLDEST)):
        _require((counters[ends] == NONE) == (n == 0), "the order of use has ends")
        if n:
            _require(0 <= counters[ends] < n and back[counters[ends]] == NONE, "the order of use begins where it should")
            linked = np.flatnonzero(there != NONE)
            _require(len(linked) == n - 1 and there[counters[end]] == NONE, "the order of use ends where it should")
            _require(np.all((there[linked] >= 0) & (there[linked] < n)), "the order of use leads to memories")
            _require(np.array_equal(back[there[linked]], linked), "the order of use is the same both ways")


def _check_neighbours(neighbours: np.ndarray, link_distances: np.ndarray) -> None:
    """Neighbours know each other, at the same reach; lists begin with the nearest and have no gaps."""
    n, known = len(neighbours), neighbours != NONE
    _require(np.all((neighbours >= NONE) & (neighbours < n)), "neighbours are memories")
    _require(np.all(known[:, :-1] >= known[:, 1:]), "lists of neighbours have no gaps")
    _require(np.all(~known[:, 1:] | (link_distances[:, :-1] <= link_distances[:, 1:])), "the nearest neighbour comes first")
    rows, places = np.nonzero(known)
    others, lengths = neighbours[rows, places].astype(np.int64), link_distances[rows, places]
    _require(np.all(rows != others), "nobody is a neighbour of itself")
    there, back = np.lexsort((others, rows)), np.lexsort((rows, others))
    pairs = rows[there] * n + others[there]
    _require(np.all(pairs[1:] > pairs[:-1]), "nobody is a neighbour twice")
    _require(
        np.array_equal(pairs, others[back] * n + rows[back]) and np.array_equal(lengths[there], lengths[back]),
        "neighbours know each other",
    )


def _check_sparse(arrays: dict[str, np.ndarray], n: int, used: int) -> None:
    """Keys and router tables lie within their pools."""
    counters = arrays["counters"]
    _require(len(arrays["spans"]) == len(arrays["slots"]), "as many spans as slots")
    _require(len(arrays["tables"]) == len(arrays["offsets"]) == len(arrays["nodes"]), "as many tables as nodes")
    spans = arrays["spans"][arrays["rows"][:n, SLOT]]
    _require(counters[POOL] <= min(len(arrays["key_features"]), len(arrays["key_weights"])), "keys fit into the pool")
    _require(np.all((spans >= 0) & (spans.sum(axis=1, keepdims=True) <= counters[POOL])), "keys lie in the pool")
    tables = arrays["tables"][:used]
    _require(counters[TABLES] <= min(len(arrays["table_words"]), len(arrays["table_squares"])), "tables fit into the pool")
    sizes = tables[:, 1]
    _require(np.all((tables >= 0).all(axis=1) & (sizes & (sizes - 1) == 0)), "tables are well formed")
    _require(np.all((tables[:, 0] + sizes <= counters[TABLES]) & (3 * tables[:, 2] <= 2 * sizes)), "tables lie in the pool")
