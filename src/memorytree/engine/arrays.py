"""The state of one tree: flat arrays that every kernel reads and writes.

Four tables hold the structure:

nodes      int32 (nodes, 16): children, parent, count, and for a leaf its range of slots
slots      int32 (slots,): the row of the memory in each slot; the slots of a leaf are consecutive, and so are their keys
rows       int32 (memories, 5): slot, leaf, neighbours in the order of use, label. Rows have no holes (0 .. n - 1), so that a
           random memory is one random number; row_ids, int64 (memories,), holds the ids
ids        id_keys (int64) and id_rows (int32): an open-addressing map from ids to rows (`hash_map.py`)

The kind of keys decides how keys and routers are stored (`dense.py`, `sparse.py`). Full arrays are doubled by the kernels.
"""

from collections import namedtuple

import numpy as np
from numba.core import types
from numba.experimental import structref

from memorytree.engine.jit import BYTES_AT_ONCE, HANDLE_TYPE, kernel

# Columns of `nodes`. A leaf has LEFT = NONE. COUNT is the number of memories in the subtree; START and ROOM are the first
# slot of a leaf and its number of slots; BUILT is the count when the subtree was built; EQUAL marks a leaf of equal keys;
# MEAN is the version of the mean that the router was made with.
LEFT, RIGHT, PARENT, COUNT, START, ROOM, GENERATION, BUILT, UPDATES, MISTAKES, EQUAL, MEAN = range(12)
NODE_WIDTH = 16  # one cache line
NONE = -1  # no node, row, slot, id, label or feature

# Columns of `rows`: the slot and leaf of the memory, its neighbours in the order of last use, and its label or NONE.
SLOT, LEAF, OLDER, NEWER, LABEL, ROW_WIDTH = range(6)
LINKED = 2**30  # labels from here on are not given by users: they number groups of memories that were rewarded together

# Entries of `counters`. SLOTS are all slots up to the end, ROOMS those that belong to leaves; POOL and POOL_LIVE are the
# same for the key pool of sparse keys; VERSIONS counts the versions of the mean, INSERTED the keys in it.
(
    MEMORIES, ROOT, NODES, FREE_NODE, SLOTS, NEXT_ID, OLDEST, NEWEST,
    IDS, DIMENSION, POOL, POOL_LIVE, TABLES, VERSIONS, INSERTED, ROOMS,
) = range(16)  # fmt: skip

Settings = namedtuple("Settings", "leaf_factor reroutes capacity seed")
"""Constants of a tree; capacity 0 means no limit."""

COMMON = (
    "settings",
    "routing",
    "scorer",
    "counters",
    "stream",
    "nodes",
    "slots",
    "rows",
    "row_ids",
    "id_keys",
    "id_rows",
    "free",
)
DENSE = (*COMMON, "keys", "routers", "squares", "means", "total")
GRAPH = (*DENSE, "neighbours", "copies", "codes", "scaling", "graph")
SPARSE = (
    *COMMON, "spans", "key_features", "key_weights",
    "tables", "table_words", "table_squares", "offsets", "free_tables",
)  # fmt: skip
# Fields that are another view of an array above.
SPARSE_VIEWS = ("table_numbers",)

# The counter with the number of rows in use of an array; arrays that are not listed are in use completely.
USED = {
    "nodes": NODES, "routers": NODES, "squares": NODES, "tables": NODES, "offsets": NODES,
    "slots": SLOTS, "keys": SLOTS, "spans": SLOTS,
    "rows": MEMORIES, "row_ids": MEMORIES, "neighbours": MEMORIES, "copies": MEMORIES, "codes": MEMORIES,
    "key_features": POOL, "key_weights": POOL, "table_words": TABLES, "table_squares": TABLES,
}  # fmt: skip

# Entries of `graph`: the number of memories when the graph was tuned, the insertions since then, how many numbers of their
# codes were cut off, how many candidates are compared by their keys for each hit, and the recall measured with each of
# STRETCHES (0: not measured yet).
TUNED_AT, LINKED_SINCE, CUT_OFF, RERANKED, RECALLS = range(5)
STRETCHES = (1.02, 1.05, 1.075, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.4, 1.5, 1.6, 1.8, 2.1, 2.5, 3.0)
"""The efforts of a search: by which factor the squared distance of a memory that is expanded may exceed that of the worst
hit that is wanted."""
CACHE_LINE = 64  # bytes

EXTENT_CLASSES = 80
TABLE_CLASSES = 40
MEAN_VERSIONS = 48


class TreeType(types.StructRef):
    """Numba type of a tree; `kinds` is what `body_for` selects by."""

    keys_kind, search_kind = "", "tree"

    @property
    def kinds(self) -> tuple[str, str, str, str]:
        """Kind of keys, kind of search, name of the routing, name of the scorer."""
        fields = self.field_dict
        routing, scorer = fields["routing"].instance_class, fields["scorer"].instance_class
        return self.keys_kind, self.search_kind, routing.__name__.lower(), scorer.__name__.lower()


@structref.register
class DenseType(TreeType):
    """Numba type of a tree with dense keys."""

    keys_kind = "dense"


@structref.register
class GraphType(DenseType):
    """Numba type of a tree with dense keys and a neighbour graph."""

    search_kind = "graph"


@structref.register
class SparseType(TreeType):
    """Numba type of a tree with sparse keys."""

    keys_kind = "sparse"


class DenseTree(structref.StructRefProxy):
    """Handle of a tree with dense keys, an argument of kernels."""

    __slots__ = ()
    _numba_type_ = HANDLE_TYPE


class GraphTree(structref.StructRefProxy):
    """Handle of a tree with dense keys and a neighbour graph, an argument of kernels."""

    __slots__ = ()
    _numba_type_ = HANDLE_TYPE


class SparseTree(structref.StructRefProxy):
    """Handle of a tree with sparse keys, an argument of kernels."""

    __slots__ = ()
    _numba_type_ = HANDLE_TYPE


structref.define_boxing(DenseType, DenseTree)
structref.define_boxing(GraphType, GraphTree)
structref.define_boxing(SparseType, SparseTree)
structref.define_constructor(DenseTree, DenseType, DENSE)
structref.define_constructor(GraphTree, GraphType, GRAPH)
structref.define_constructor(SparseTree, SparseType, SPARSE + SPARSE_VIEWS)

TreeHandle = DenseTree | GraphTree | SparseTree


@kernel
def _make_dense(*values):
    return DenseTree(*values)


@kernel
def _make_graph(*values):
    return GraphTree(*values)


@kernel
def _make_sparse(*values):
    return SparseTree(*values)


@kernel
def _arrays_of_dense(tree):
    return (
        tree.counters, tree.stream, tree.nodes, tree.slots, tree.rows, tree.row_ids, tree.id_keys, tree.id_rows, tree.free,
        tree.keys, tree.routers, tree.squares, tree.means, tree.total,
    )  # fmt: skip


@kernel
def _links_of(tree):
    return tree.neighbours, tree.copies, tree.codes, tree.scaling, tree.graph


@kernel
def _arrays_of_sparse(tree):
    return (
        tree.counters, tree.stream, tree.nodes, tree.slots, tree.rows, tree.row_ids, tree.id_keys, tree.id_rows, tree.free,
        tree.spans, tree.key_features, tree.key_weights,
        tree.tables, tree.table_words, tree.table_squares, tree.offsets, tree.free_tables,
    )  # fmt: skip


def max_neighbours(routing: object) -> int:
    """Return the maximal number of neighbours of a memory; 0 where the tree alone is searched."""
    return getattr(routing, "neighbours", 0)


def code_width(dimension: int) -> int:
    """Return the bytes of the code of a key."""
    return -(-dimension // BYTES_AT_ONCE) * BYTES_AT_ONCE


def make(sparse: bool, settings: Settings, routing: object, scorer: object, arrays: dict[str, np.ndarray]) -> TreeHandle:
    """Make a tree over these arrays, which it then owns.

    Args:
        sparse: whether keys are sparse.
        settings: constants of the tree.
        routing: options of the routing, a named tuple whose class name selects bodies.
        scorer: options of the scorer, likewise.
        arrays: the arrays by name, as from `empty` or `arrays_of`.
    """
    names = SPARSE if sparse else GRAPH if max_neighbours(routing) else DENSE
    values = (settings, routing, scorer, *(arrays[name] for name in names[3:]))
    if max_neighbours(routing):
        return _make_graph(*values)
    if sparse:
        return _make_sparse(*values, arrays["table_words"].view(np.float32))
    return _make_dense(*values)


def arrays_of(tree: TreeHandle) -> dict[str, np.ndarray]:
    """Return the tree's arrays by name, as views that are valid until the tree is written to."""
    if isinstance(tree, SparseTree):
        return dict(zip(SPARSE[3:], _arrays_of_sparse(tree), strict=True))
    arrays = dict(zip(DENSE[3:], _arrays_of_dense(tree), strict=True))
    if isinstance(tree, GraphTree):
        arrays |= zip(GRAPH[len(DENSE) :], _links_of(tree), strict=True)
    return arrays


def empty(sparse: bool, dimension: int, settings: Settings, routing: object) -> dict[str, np.ndarray]:
    """Return the arrays of an empty tree: the root is an empty leaf."""
    counters = np.zeros(16, np.int64)
    counters[[FREE_NODE, OLDEST, NEWEST]] = NONE
    counters[[NODES, VERSIONS, DIMENSION]] = 1, 1, dimension
    nodes = np.zeros((8, NODE_WIDTH), np.int32)
    nodes[0, [LEFT, RIGHT, PARENT]] = NONE
    arrays = {
        "counters": counters,
        "stream": np.array([settings.seed], np.uint64),
        "nodes": nodes,
        "slots": np.empty(64, np.int32),
        "rows": np.empty((64, ROW_WIDTH), np.int32),
        "row_ids": np.empty(64, np.int64),
        "id_keys": np.full(128, NONE, np.int64),
        "id_rows": np.empty(128, np.int32),
        "free": np.full(EXTENT_CLASSES, NONE, np.int32),
    }
    arrays |= _empty_sparse() if sparse else _empty_dense(dimension, routing.learns)
    if width := max_neighbours(routing):
        arrays |= {
            "neighbours": np.empty((64, width), np.int32),
            "copies": np.empty(64, np.uint8),
            "codes": np.empty((0, code_width(dimension)), np.int8),
            "scaling": np.zeros(dimension + 1, np.float32),
            "graph": np.zeros(RECALLS + len(STRETCHES)),
        }
    return arrays


def _empty_dense(dimension: int, learns: bool) -> dict[str, np.ndarray]:
    """Return the arrays for dense keys and their routers."""
    return {
        "keys": np.empty((64, dimension), np.float32),
        "routers": np.zeros((8, dimension + 3), np.float32),
        "squares": np.zeros((8 if learns else 1, dimension + 1), np.float32),
        "means": np.zeros((MEAN_VERSIONS, dimension), np.float32),
        "total": np.zeros(dimension, np.float64),
    }


def _empty_sparse() -> dict[str, np.ndarray]:
    """Return the arrays for sparse keys and their routers."""
    return {
        "spans": np.empty((64, 2), np.int64),
        "key_features": np.empty(1024, np.int32),
        "key_weights": np.empty(1024, np.float32),
        "tables": np.zeros((8, 3), np.int64),
        "table_words": np.empty((1024, 2), np.int32),
        "table_squares": np.empty(1024, np.float32),
        "offsets": np.zeros((8, 4), np.float32),
        "free_tables": np.full(TABLE_CLASSES, NONE, np.int64),
    }
