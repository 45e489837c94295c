"""The state of one tree: a handful of flat arrays that every kernel reads and writes.

Four tables hold the structure:

nodes      one row a node: children, parent, count, and for a leaf where its memories lie
slots      the places in leaves; the slots of a leaf are neighbours, and so are the keys in them
rows       one row a memory, without holes (row 0 .. n - 1), so that a random memory is one random number
ids        an open-addressing map from a memory's id to its row

Keys and routers are stored by kind (`dense.py`, `sparse.py`). All arrays grow by doubling inside the kernels.
"""

from collections import namedtuple
from typing import Any

import numpy as np
from numba.core import types
from numba.experimental import structref

from memorytree.engine.compile import kernel

# Columns of `nodes`. A leaf has LEFT = NONE; COUNT is the number of memories below, for a leaf those in it.
LEFT, RIGHT, PARENT, COUNT, START, ROOM, GENERATION, BUILT, UPDATES, MISTAKES, EQUAL, MEAN = range(12)
NODE_WIDTH = 16  # one cache line
NONE = -1

# Columns of `rows`: where the memory lies, its neighbours in the order of last use, and its label's number or NONE.
SLOT, LEAF, OLDER, NEWER, LABEL, ROW_WIDTH = range(6)
LINKED = 2**30  # numbers from here on are no labels but groups of memories that were rewarded together

# Entries of `counters`.
(
    MEMORIES, ROOT, NODES, FREE_NODE, SLOTS, NEXT_ID, OLDEST, NEWEST,
    IDS, DIMENSION, POOL, POOL_LIVE, TABLES, VERSIONS, INSERTED, ROOMS,
) = range(16)  # fmt: skip

Settings = namedtuple("Settings", "leaf_factor reroutes capacity seed")
"""What never changes during a tree's life; capacity 0 means no limit."""

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
NEIGHBOURLY = (*DENSE, "neighbours", "reaches")
SPARSE = (
    *COMMON, "spans", "key_features", "key_weights",
    "tables", "table_words", "table_squares", "offsets", "free_tables",
)  # fmt: skip
# Fields that are another view of an array above.
SPARSE_VIEWS = ("table_numbers",)

# Which counter tells how much of an array is in use; the others are in use as a whole.
USED = {
    "nodes": NODES, "routers": NODES, "squares": NODES, "tables": NODES, "offsets": NODES,
    "slots": SLOTS, "keys": SLOTS, "spans": SLOTS,
    "rows": MEMORIES, "row_ids": MEMORIES, "neighbours": MEMORIES, "reaches": MEMORIES,
    "key_features": POOL, "key_weights": POOL, "table_words": TABLES, "table_squares": TABLES,
}  # fmt: skip

EXTENT_CLASSES = 80
TABLE_CLASSES = 40
MEAN_VERSIONS = 48


class TreeType(types.StructRef):
    """Numba's type of a tree; `kinds` is what `body_for` chooses by."""

    keys_kind, company = "", "apart"

    @property
    def kinds(self) -> tuple[str, str, str, str]:
        """Kind of keys, whether memories know their neighbours, name of the routing, name of the scorer."""
        fields = dict(self._fields)
        routing, scorer = fields["routing"].instance_class, fields["scorer"].instance_class
        return self.keys_kind, self.company, routing.__name__.lower(), scorer.__name__.lower()


@structref.register
class DenseType(TreeType):
    """A tree with dense keys."""

    keys_kind = "dense"


@structref.register
class NeighbourlyType(DenseType):
    """The same with memories that know their neighbours."""

    company = "neighbourly"


@structref.register
class SparseType(TreeType):
    """A tree with sparse keys."""

    keys_kind = "sparse"


class DenseTree(structref.StructRefProxy):
    """Handle of a tree with dense keys, to pass to kernels."""

    __slots__ = ()
    # Numba asks for this on every call of a kernel; the slot itself answers faster than the property around it.
    _numba_type_ = structref.StructRefProxy._type


class NeighbourlyTree(structref.StructRefProxy):
    """Handle of a tree with dense keys and neighbours, to pass to kernels."""

    __slots__ = ()
    _numba_type_ = structref.StructRefProxy._type


class SparseTree(structref.StructRefProxy):
    """Handle of a tree with sparse keys, to pass to kernels."""

    __slots__ = ()
    _numba_type_ = structref.StructRefProxy._type


structref.define_boxing(DenseType, DenseTree)
structref.define_boxing(NeighbourlyType, NeighbourlyTree)
structref.define_boxing(SparseType, SparseTree)
structref.define_constructor(DenseTree, DenseType, DENSE)
structref.define_constructor(NeighbourlyTree, NeighbourlyType, NEIGHBOURLY)
structref.define_constructor(SparseTree, SparseType, SPARSE + SPARSE_VIEWS)


@kernel
def _make_dense(*values):
    return DenseTree(*values)


@kernel
def _make_neighbourly(*values):
    return NeighbourlyTree(*values)


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
def _neighbours_of(tree):
    return tree.neighbours, tree.reaches


@kernel
def _arrays_of_sparse(tree):
    return (
        tree.counters, tree.stream, tree.nodes, tree.slots, tree.rows, tree.row_ids, tree.id_keys, tree.id_rows, tree.free,
        tree.spans, tree.key_features, tree.key_weights,
        tree.tables, tree.table_words, tree.table_squares, tree.offsets, tree.free_tables,
    )  # fmt: skip


def room_for_neighbours(routing: Any) -> int:
    """How many neighbours a memory may know; 0 where memories are found by the tree alone."""
    return getattr(routing, "neighbours", 0)


def make(sparse: bool, settings: Settings, routing: Any, scorer: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A tree over these arrays (which it then owns)."""
    names = SPARSE if sparse else NEIGHBOURLY if room_for_neighbours(routing) else DENSE
    values = (settings, routing, scorer, *(arrays[name] for name in names[3:]))
    if room_for_neighbours(routing):
        return _make_neighbourly(*values)
    if sparse:
        return _make_sparse(*values, arrays["table_words"].view(np.float32))
    return _make_dense(*values)


def arrays_of(tree: Any) -> dict[str, np.ndarray]:
    """The tree's arrays by name, as views: valid until the tree is written to."""
    if isinstance(tree, SparseTree):
        return dict(zip(SPARSE[3:], _arrays_of_sparse(tree), strict=True))
    arrays = dict(zip(DENSE[3:], _arrays_of_dense(tree), strict=True))
    if isinstance(tree, NeighbourlyTree):
        arrays["neighbours"], arrays["reaches"] = _neighbours_of(tree)
    return arrays


def empty(sparse: bool, dimension: int, settings: Settings, routing: Any) -> dict[str, np.ndarray]:
    """The arrays of a tree that holds nothing: one empty leaf, the root."""
    counters = np.zeros(16, np.int64)
    counters[[FREE_NODE, OLDEST, NEWEST]] = NONE
    counters[[NODES, VERSIONS, DIMENSION]] = 1, 1, dimension
    nodes = np.zeros((8, NODE_WIDTH), np.int32)
    nodes[0, [LEFT, RIGHT, PARENT]] = NONE
    learns = routing.learns
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
    if sparse:
        arrays |= {
            "spans": np.empty((64, 2), np.int64),
            "key_features": np.empty(1024, np.int32),
            "key_weights": np.empty(1024, np.float32),
            "tables": np.zeros((8, 3), np.int64),
            "table_words": np.empty((1024, 2), np.int32),
            "table_squares": np.empty(1024, np.float32),
            "offsets": np.zeros((8, 4), np.float32),
            "free_tables": np.full(TABLE_CLASSES, NONE, np.int64),
        }
    else:
        arrays |= {
            "keys": np.empty((64, dimension), np.float32),
            "routers": np.zeros((8, dimension + 3), np.float32),
            "squares": np.zeros((8 if learns else 1, dimension + 1), np.float32),
            "means": np.zeros((MEAN_VERSIONS, dimension), np.float32),
            "total": np.zeros(dimension, np.float64),
        }
    if width := room_for_neighbours(routing):
        arrays |= {
            "neighbours": np.empty((64, width), np.int32),
            "reaches": np.empty((64, width), np.float32),
        }
    return arrays
