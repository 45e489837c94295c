"""Validation of the arrays of one tree, and their form in files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from memorytree.engine.arrays import (
    COUNT,
    FREE_NODE,
    IDS,
    LEAF,
    LEFT,
    MEAN,
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
    USED,
)  # fmt: skip
from memorytree.index.base import Array

GROWING = ("id_keys", "id_rows")
"""Arrays that building without a counter of what is in use; others without one have a fixed length."""


def with_capacity(blank: Mapping[str, Array], stored: Mapping[str, Array], learns: bool) -> dict[str, Array]:
    """The arrays of a state with at least the capacity of an empty tree.

    Args:
        blank: the arrays of an empty tree of the same kind.
        stored: the arrays of the state.
        learns: whether routers learn.

    Raises:
        ValueError: an array is missing, or has the wrong length, shape or type.
    """
    missing = [name for name in blank if name not in stored]
    if missing:
        raise ValueError(f"these arrays are missing: {', '.join(missing)}")
    counters = stored["counters"]
    if counters.shape != blank["counters"].shape or counters.dtype != blank["counters"].dtype:
        raise ValueError("the counters have the wrong shape or type")
    arrays = {}
    for name, template in blank.items():
        array = stored[name]
        length = len(template)
        if name in GROWING:
            length = max(len(array), length)
        elif name in USED and (name != "squares" or learns):
            length = int(counters[USED[name]])
        if len(array) != length:
            raise ValueError(f"{name} has {len(array)} rows instead of {length}")
        if array.dtype != template.dtype or array.shape[1:] != template.shape[1:]:
            raise ValueError(f"{name} is {array.dtype} {array.shape}, not {template.dtype} {template.shape}")
        if len(array) < len(template):
            array = np.concatenate([array, template[len(array) :]])
        arrays[name] = np.require(array, requirements=["C", "W"])
    return arrays


def blank_unused(arrays: Mapping[str, Array]) -> None:
    """Set what is not in use to zero, so that equal trees have equal states and removed memories leave no trace."""
    nodes, slots = arrays["nodes"], arrays["rows"][:, SLOT]
    nodes[:, MEAN + 1 :] = 0
    leaf = nodes[:, LEFT] == NONE
    nodes[leaf, MEAN] = 0
    free_slot = np.ones(len(arrays["slots"]), bool)
    free_slot[slots] = False
    arrays["slots"][free_slot & ~_in_free_chains(arrays["free"], arrays["slots"])] = 0
    arrays["id_rows"][arrays["id_keys"] == NONE] = 0
    for name in ("keys", "spans"):
        if name in arrays:
            arrays[name][free_slot] = 0
    for name in ("routers", "squares", "offsets"):
        if name in arrays and len(arrays[name]) == len(nodes):
            arrays[name][leaf] = 0
    if "spans" in arrays:
        edges = np.zeros(len(arrays["key_weights"]) + 1, np.int64)
        starts, lengths = arrays["spans"][slots].T
        np.add.at(edges, starts, 1)
        np.add.at(edges, starts + lengths, -1)
        unused = np.cumsum(edges)[:-1] == 0
        arrays["key_features"][unused] = 0
        arrays["key_weights"][unused] = 0
        empty = arrays["table_words"][:, 0] == NONE
        arrays["table_words"][empty, 1] = 0
        arrays["table_squares"][empty] = 0


def _in_free_chains(heads: Array, links: Array) -> Array:
    """Which slots hold a link of a chain of free extents."""
    marked = np.zeros(len(links), bool)
    for start in heads.tolist():
        while start != NONE:
            marked[start] = True
            start = int(links[start])
    return marked


def check_arrays(arrays: dict[str, Array], sparse: bool, learns: bool) -> None:
    """Raise ValueError, with the reason, if the arrays of a tree contradict each other.

    Gaps, to be closed with the validation of hostile files: values of keys and routers, chains of free extents and tables,
    dtypes of arrays that no operation reads, and sums that could wrap.
    """
    counters, nodes = arrays["counters"], arrays["nodes"]
    n, used, slots_used = int(counters[MEMORIES]), int(counters[NODES]), int(counters[SLOTS])
    require(0 < used <= len(nodes) and 0 <= slots_used <= len(arrays["slots"]), "more in use than there is room for")
    require(0 <= n <= min(len(arrays["rows"]), len(arrays["row_ids"])), "more memories than rows")
    leaves = _check_nodes(nodes[:used], int(counters[ROOT]), int(counters[FREE_NODE]), n)
    _check_places(arrays, leaves, n, slots_used)
    _check_ids(arrays, n)
    _check_order_of_use(arrays, n)
    if sparse:
        _check_sparse(arrays, n, used)
    else:
        require(len(arrays["keys"]) == len(arrays["slots"]), "as many keys as slots")
        require(len(arrays["routers"]) == len(nodes), "as many routers as nodes")
        require(not learns or len(arrays["squares"]) == len(nodes), "as many squares as nodes")


def require(holds: object, what: str) -> None:
    """Raise ValueError unless a condition holds."""
    if not holds:
        raise ValueError(f"contradictory state: {what}")


def _check_nodes(nodes: Array, root: int, free: int, n: int) -> Array:
    """Counts add up to the root, links between parents and children are mutual, no leaf is empty. Returns the leaves."""
    used = len(nodes)
    require(0 <= root < used and nodes[root, PARENT] == NONE, "the root is a node without a parent")
    require(nodes[root, COUNT] == n, "the root counts all memories")
    level, leaves, seen = np.array([root]), [], 0
    while len(level):
        seen += len(level)
        require(seen <= used, "no node stands in two places")
        is_leaf = nodes[level, LEFT] == NONE
        leaves.append(level[is_leaf])
        inner = level[~is_leaf]
        left, right = nodes[inner, LEFT], nodes[inner, RIGHT]
        both = np.concatenate([left, right])
        require(np.all((both >= 0) & (both < used)), "children are nodes")
        require(np.array_equal(nodes[both, PARENT], np.concatenate([inner, inner])), "children link to their parent")
        require(np.array_equal(nodes[left, COUNT] + nodes[right, COUNT], nodes[inner, COUNT]), "counts add up")
        level = both
    found = np.concatenate(leaves)
    require(n == 0 or np.all(nodes[found, COUNT] > 0), "no leaf is empty")
    spare = 0
    while free != NONE:
        require(0 <= free < used and spare < used, "the chain of free nodes ends")
        spare += 1
        free = int(nodes[free, PARENT])
    require(seen + spare == used, "every node is in the tree or free")
    return found


def _check_places(arrays: dict[str, Array], leaves: Array, n: int, slots_used: int) -> None:
    """Every memory lies in exactly one leaf, and both sides agree on where. No two extents overlap."""
    nodes, rows, slots = arrays["nodes"], arrays["rows"][:n], arrays["slots"]
    start, count, room = (nodes[leaves, column].astype(np.int64) for column in (START, COUNT, ROOM))
    require(np.all((count <= room) & (start >= 0) & (start + room <= slots_used)), "leaves fit into their room")
    require(room.sum() == arrays["counters"][ROOMS], "the room of all leaves is counted")
    order = np.argsort(start, kind="stable")
    order = order[room[order] > 0]
    require(np.all(start[order][1:] >= (start + room)[order][:-1]), "the room of two leaves does not overlap")
    require(np.all((rows[:, SLOT] >= 0) & (rows[:, SLOT] < slots_used)), "memories lie in slots")
    require(np.array_equal(slots[rows[:, SLOT]], np.arange(n)), "slots link to their memories")
    require(np.all((rows[:, LEAF] >= 0) & (rows[:, LEAF] < len(nodes))), "memories lie in leaves")
    offset = rows[:, SLOT] - nodes[rows[:, LEAF], START]
    require(np.all((offset >= 0) & (offset < nodes[rows[:, LEAF], COUNT])), "memories lie within their leaves")
    require(
        np.array_equal(np.sort(np.unique(rows[:, LEAF])), np.sort(leaves[count > 0])),
        "memories lie in leaves of the tree",
    )


def _check_ids(arrays: dict[str, Array], n: int) -> None:
    """The map contains the row of every id, and nothing else."""
    keys, rows, ids = arrays["id_keys"], arrays["id_rows"], arrays["row_ids"][:n]
    taken = keys != NONE
    require(len(keys) == len(rows) and len(keys) & (len(keys) - 1) == 0, "the map of ids is well formed")
    require(np.count_nonzero(taken) == n == arrays["counters"][IDS], "the map contains every id")
    require(np.all((rows[taken] >= 0) & (rows[taken] < n)), "the map leads to memories")
    require(np.array_equal(ids[rows[taken]], keys[taken]), "the map leads to the right memories")
    require(n == 0 or (ids.min() >= 0 and ids.max() < arrays["counters"][NEXT_ID]), "ids are in range")


def _check_order_of_use(arrays: dict[str, Array], n: int) -> None:
    """The list from the longest unused memory to the latest runs through all, both ways."""
    counters, rows = arrays["counters"], arrays["rows"]
    older, newer = rows[:n, OLDER], rows[:n, NEWER]
    for ends, there, back, end in ((OLDEST, newer, older, NEWEST), (NEWEST, older, newer, OLDEST)):
        require((counters[ends] == NONE) == (n == 0), "the order of use has ends")
        if n:
            require(0 <= counters[ends] < n and back[counters[ends]] == NONE, "the order of use begins where it should")
            linked = np.flatnonzero(there != NONE)
            require(len(linked) == n - 1 and there[counters[end]] == NONE, "the order of use ends where it should")
            require(np.all((there[linked] >= 0) & (there[linked] < n)), "the order of use leads to memories")
            require(np.array_equal(back[there[linked]], linked), "the order of use is the same both ways")


def _check_sparse(arrays: dict[str, Array], n: int, used: int) -> None:
    """Keys and router tables lie within their pools."""
    counters = arrays["counters"]
    require(len(arrays["spans"]) == len(arrays["slots"]), "as many spans as slots")
    require(len(arrays["tables"]) == len(arrays["offsets"]) == len(arrays["nodes"]), "as many tables as nodes")
    spans = arrays["spans"][arrays["rows"][:n, SLOT]]
    require(counters[POOL] <= min(len(arrays["key_features"]), len(arrays["key_weights"])), "keys fit into the pool")
    require(np.all((spans >= 0) & (spans.sum(axis=1, keepdims=True) <= counters[POOL])), "keys lie in the pool")
    tables = arrays["tables"][:used]
    require(counters[TABLES] <= min(len(arrays["table_words"]), len(arrays["table_squares"])), "tables fit into the pool")
    sizes = tables[:, 1]
    require(np.all((tables >= 0).all(axis=1) & (sizes & (sizes - 1) == 0)), "tables are well formed")
    require(np.all((tables[:, 0] + sizes <= counters[TABLES]) & (3 * tables[:, 2] <= 2 * sizes)), "tables lie in the pool")
