"""What queries, rewards and inspections return."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from memorytree.packing import Value
from memorytree.receipts import Decision, Receipt

if TYPE_CHECKING:
    from memorytree.keys import AnyKeys

NO_ID = -1
"""Stands for no memory where an array needs a number."""


class Hit(NamedTuple):
    """A memory that fits a key.

    Attributes:
        id: its id.
        value: its value.
        score: how well it fits, the larger the better.
    """

    id: int
    value: Value
    score: float


class RewardResult(NamedTuple):
    """What a reward taught.

    Attributes:
        learned: updates of a scorer or a router.
        skipped: rewards that arrived too late, because the explored node has been removed.
        experiences: rewards that are remembered and change the answers to the same query at once.
    """

    learned: int
    skipped: int
    experiences: int = 0


class PastReward(NamedTuple):
    """A reward that is remembered.

    Attributes:
        id: identifies the reward, for `withdraw`; rewards are numbered in the order in which they were given.
        memory: the id of the memory.
        reward: in [0, 1].
        active: whether it counts; otherwise it was replaced by a later one, or withdrawn.
    """

    id: int
    memory: int
    reward: float
    active: bool


class QueryOrigin(NamedTuple):
    """The query that hits belong to, as far as learning needs it.

    Attributes:
        keys: the conversions of the tree's keys; None for a tree that was empty.
        encoded: the key, or the keys of a batch, encoded by `keys`.
        decisions: how the query, or each of a batch, was answered.
        inserted: as in `Receipt`.
    """

    keys: AnyKeys | None
    encoded: Any
    decisions: Any
    inserted: int = 0


class Hits(Sequence[Hit]):
    """The memories that fit a key, best first.

    Attributes:
        ids: (k,) int64.
        values: a list.
        scores: (k,) float32.

    Example:
        >>> from memorytree import MemoryTree
        >>> tree = MemoryTree(seed=0)
        >>> _ = tree.insert([0.0, 1.0], "up"), tree.insert([1.0, 0.0], "right")
        >>> hits = tree.query([0.1, 0.9], k=2)
        >>> hits.values
        ['up', 'right']
        >>> hits[0].id, round(hits[0].score, 3), hits.receipt.branch
        (0, -0.141, 'exploit')
    """

    __slots__ = ("ids", "origin", "scores", "values")

    def __init__(self, ids: NDArray[np.int64], values: list[Value], scores: NDArray[np.float32], origin: QueryOrigin):
        self.ids = ids
        self.values = values
        self.scores = scores
        self.origin = origin

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return Hit(self.ids.item(index), self.values[index], self.scores.item(index))

    def __iter__(self) -> Iterator[Hit]:
        return map(Hit, self.ids.tolist(), self.values, self.scores.tolist())

    def __repr__(self) -> str:
        return f"Hits({list(self)!r})"

    @property
    def receipt(self) -> Receipt:
        """What `reward` needs of this query, for later or for another process."""
        keys, encoded, decision, inserted = self.origin
        key = b"" if keys is None else keys.to_bytes(encoded)
        return Receipt(key, tuple(self.ids.tolist()), decision, inserted=inserted)


class HitMatrix(Sequence[Hits]):
    """The answers to a batch of queries; row i is `matrix[i]`, as `query` would have answered it.

    Attributes:
        ids: (n, k) int64, padded with -1.
        scores: (n, k) float32, padded with -inf.

    Example:
        >>> from memorytree import MemoryTree
        >>> tree = MemoryTree(seed=0)
        >>> _ = tree.insert_many([[0.0, 1.0], [1.0, 0.0]], ["up", "right"])
        >>> matrix = tree.query_many([[0.1, 0.9], [2.0, 0.0]])
        >>> matrix.ids.tolist(), matrix.values
        ([[0], [1]], [['up'], ['right']])
    """

    def __init__(
        self,
        ids: NDArray[np.int64],
        scores: NDArray[np.float32],
        get: Callable[[int], Value],
        origin: QueryOrigin,
    ):
        self.ids = ids
        self.scores = scores
        self.get = get
        self.origin = origin

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def values(self) -> list[list[Value]]:
        """The values, row by row, without padding; None for a memory that has been removed since the query."""
        return [[self.get(id) for id in row if id >= 0] for row in self.ids.tolist()]

    @overload
    def __getitem__(self, index: int) -> Hits: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hits]: ...
    def __getitem__(self, index: int | slice) -> Hits | list[Hits]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        found = int(np.count_nonzero(self.ids[i] >= 0))
        ids, scores = self.ids[i, :found], self.scores[i, :found]
        return Hits(ids, [self.get(id) for id in ids.tolist()], scores, self.row_origin(i))

    def row_origin(self, i: int) -> QueryOrigin:
        """The query of row i."""
        keys, encoded, decisions, inserted = self.origin
        decision = Decision(*decisions[i].tolist()) if len(decisions) else Decision()
        return QueryOrigin(keys, None if keys is None else keys.take(encoded, i), decision, inserted)

    def __repr__(self) -> str:
        return f"HitMatrix({self.ids.shape[0]} queries x {self.ids.shape[1]} hits)"


# ---- inspection


@dataclass(frozen=True)
class Level:
    """One level of internal nodes: their number, and the mean share of the heavier side (0.5 is even)."""

    nodes: int
    heavier_side: float


@dataclass(frozen=True)
class Stats:
    """Size, shape and memory use of a tree.

    Attributes:
        memories: the number of memories.
        leaves: leaves that hold them.
        leaf_limit: how many a leaf may hold now.
        largest_leaf: how many the fullest leaf holds (more than the limit only where keys are equal).
        depth: steps to the deepest leaf.
        average_depth: steps to a memory's leaf, on average over memories.
        levels: balance at each level from the root down.
        neighbours: links of a memory, on average (routing="graph" only).
        expected_recall: the part of the ten nearest that a query without options finds, measured on 64 stored keys.
        measured_at: the number of memories when it was measured.
        router_error: share of insertions for which a router predicted the wrong side (learning routers only).
        key_bytes: bytes of the keys.
        other_bytes: bytes of everything else that the index uses.
        spare_bytes: bytes allocated for growth. Python objects are not counted.
    """

    memories: int = 0
    leaves: int = 0
    leaf_limit: int = 8
    largest_leaf: int = 0
    depth: int = 0
    average_depth: float = 0.0
    levels: tuple[Level, ...] = ()
    neighbours: float | None = None
    expected_recall: float | None = None
    measured_at: int | None = None
    router_error: float | None = None
    key_bytes: int = 0
    other_bytes: int = 0
    spare_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Bytes that the index uses."""
        return self.key_bytes + self.other_bytes

    def with_bytes(self, key_bytes: int, used: int, allocated: int) -> Stats:
        """The same with these byte counts, `used` and `allocated` of everything, keys included."""
        return replace(self, key_bytes=key_bytes, other_bytes=used - key_bytes, spare_bytes=allocated - used)

    def __str__(self) -> str:
        lines = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "levels":
                value = " ".join(f"{level.heavier_side:.2f}" for level in value) or "-"
            elif isinstance(value, float):
                value = f"{value:.3f}"
            elif isinstance(value, int):
                value = f"{value:,}"
            name = {"levels": "heavier side by level"}.get(field.name, field.name.replace("_", " "))
            lines.append(f"{name:>22}  {'-' if value is None else value}")
        return "\n".join(lines)


@dataclass(frozen=True)
class PathStep:
    """One decision on the path of a query.

    Attributes:
        node: the number of the node.
        margin: the output of its router; right where it is above 0.
        side: "left" or "right".
        left, right: how many memories are on each side.
    """

    node: int
    margin: float
    side: str
    left: int
    right: int


@dataclass(frozen=True)
class ExplainedHit:
    """A hit with the largest contributions to its score.

    Attributes:
        hit: the memory.
        parts: (feature or component, contribution), the largest first.
    """

    hit: Hit
    parts: tuple[tuple[str | int, float], ...]


@dataclass(frozen=True)
class Explanation:
    """Why a query returns what it does.

    Attributes:
        steps: the path to the first leaf.
        leaf: the number of that leaf.
        n_scored: how many memories of the leaf, or entries of term lists, were compared with the key.
        candidates: the hits, best first.
        searched_neighbours: whether the search went on from the leaf along links between neighbours.
    """

    steps: tuple[PathStep, ...] = ()
    leaf: int = 0
    n_scored: int = 0
    candidates: tuple[ExplainedHit, ...] = ()
    searched_neighbours: bool = False

    def __str__(self) -> str:
        lines = ["path:"]
        for step in self.steps:
            lines.append(
                f"  node {step.node:<6} margin {step.margin:+.4g} -> {step.side:<5} ({step.left:,} | {step.right:,})"
            )
        onward = ", then along links between neighbours" if self.searched_neighbours else ""
        lines.append(f"  leaf {self.leaf}: {self.n_scored} memories compared{onward}")
        lines.append("best hits:")
        for candidate in self.candidates:
            parts = ", ".join(f"{name}: {part:+.3g}" for name, part in candidate.parts)
            lines.append(f"  {candidate.hit.score:+.4f}  id {candidate.hit.id}  {candidate.hit.value!r}  [{parts}]")
        return "\n".join(lines)


@dataclass(frozen=True)
class OutlineNode:
    """A node of a tree, with its children as far down as the outline goes.

    Attributes:
        number: the number of the node.
        memories: the memories below it.
        is_leaf: whether it is a leaf.
        heavier_side: the share of the heavier side; 1 for a leaf.
        children: the left and the right one; none at a leaf or at the end of the outline.
    """

    number: int
    memories: int
    is_leaf: bool
    heavier_side: float
    children: tuple[OutlineNode, ...] = ()


@dataclass(frozen=True)
class OutlineTerms:
    """The terms of term lists, those of most memories first.

    Attributes:
        features: (t,) the numbers of the features.
        memories: (t,) how many memories have each.
        importance: (t,) what rewards have learned; 1 is neutral.
    """

    features: NDArray[np.int32]
    memories: NDArray[np.int32]
    importance: NDArray[np.float32]


Outline = OutlineNode | OutlineTerms
