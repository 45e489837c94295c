"""What a query returns: hits, and the receipt by which a reward finds its way back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, overload

import numpy as np

from memorytree.engine.search import (
    ACTION,
    AT_NODE,
    BRANCH,
    EXPLOIT,
    EXPLORED,
    EXPLORED_GENERATION,
    PLACES,
    STEPS,
    WANTED,
)  # fmt: skip
from memorytree.errors import InvalidReceipt

BRANCHES = ("exploit", "node", "leaf")
"""Algorithm 2's three ways: routers followed to the end, one node explored, random memories of the leaf."""


class Hit(NamedTuple):
    """One memory that fits: its id, its value, and its score (the larger the better)."""

    id: int
    value: Any
    score: float


@dataclass(frozen=True)
class Receipt:
    """How a query was decided, as plain data: it outlives the process, because rewards come back later.

    Attributes:
        branch: "exploit", "node" (one node was explored) or "leaf" (random memories of the leaf).
        path: (node, generation) from the root on.
        explored: (node, generation) where the query explored, or None.
        action: "left" or "right" where a node was explored.
        probability: of that action.
        hits: (memory id, leaf, generation of the leaf).
        key: the key, as plain data.
    """

    branch: str
    path: tuple[tuple[int, int], ...]
    explored: tuple[int, int] | None
    action: str | None
    probability: float | None
    hits: tuple[tuple[int, int, int], ...]
    key: Any

    @property
    def id(self) -> str:
        """A fingerprint of everything else in the receipt."""
        try:
            text = json.dumps(asdict(self), sort_keys=True)
        except (TypeError, ValueError) as error:
            raise InvalidReceipt(f"not a receipt: {error}") from None
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """As JSON-ready data, with the id."""
        return {"id": self.id, **json.loads(json.dumps(asdict(self)))}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Receipt:
        """The receipt that `to_dict` wrote; a changed one is refused."""
        try:
            receipt = cls(
                branch=data["branch"],
                path=tuple((int(node), int(generation)) for node, generation in data["path"]),
                explored=None if data["explored"] is None else (int(data["explored"][0]), int(data["explored"][1])),
                action=data["action"],
                probability=data["probability"],
                hits=tuple((int(id), int(leaf), int(generation)) for id, leaf, generation in data["hits"]),
                key=data["key"],
            )
            told = data["id"]
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            raise InvalidReceipt(f"not a receipt: {error!r}") from None
        numbers = [*sum(receipt.path, ()), *(receipt.explored or ()), *sum(receipt.hits, ())]
        if receipt.branch not in BRANCHES or any(abs(number) > 2**62 for number in numbers):
            raise InvalidReceipt("a receipt has a branch that is known and numbers of 64 bits")
        if receipt.branch == "node" and (receipt.explored is None or receipt.action not in ("left", "right")):
            raise InvalidReceipt("a receipt of an explored node names the node and the action")
        if receipt.id != told:
            raise InvalidReceipt("the receipt's id does not fit its content")
        return receipt

    def trace(self) -> np.ndarray:
        """As much of the engine's trace as learning needs."""
        trace = blank_trace(0)
        trace[BRANCH] = BRANCHES.index(self.branch)
        if self.explored is not None:
            trace[EXPLORED], trace[EXPLORED_GENERATION] = self.explored
        if trace[BRANCH] == AT_NODE:
            trace[ACTION] = self.action == "right"
        return trace


class Hits(Sequence[Hit]):
    """The memories that fit a key, best first, with the receipt of the decision.

    >>> from memorytree import MemoryTree
    >>> tree = MemoryTree(seed=0)
    >>> _ = tree.insert([0.0, 1.0], "up"), tree.insert([1.0, 0.0], "right")
    >>> hits = tree.query([0.1, 0.9], k=2)
    >>> hits.values
    ['up', 'right']
    >>> hits[0].id, round(hits[0].score, 3), hits.receipt.branch
    (0, -0.141, 'exploit')
    """

    __slots__ = ("_kept", "_keys", "_trace", "ids", "scores", "values")

    def __init__(self, ids: list[int], values: list[Any], scores: list[float], keys: Any, kept: Any, trace: np.ndarray):
        self.ids = ids
        self.values = values
        self.scores = scores
        self._keys = keys
        self._kept = kept
        self._trace = trace

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | list[Hit]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return Hit(self.ids[index], self.values[index], self.scores[index])

    def __iter__(self) -> Iterator[Hit]:
        return map(Hit, self.ids, self.values, self.scores)

    def __repr__(self) -> str:
        return f"Hits({list(self)!r})"

    @property
    def receipt(self) -> Receipt:
        """How these hits came about."""
        trace = self._trace.tolist()
        explored = trace[BRANCH] == AT_NODE
        path = PLACES + 2 * trace[WANTED]
        return Receipt(
            branch=BRANCHES[trace[BRANCH]],
            path=tuple((trace[i], trace[i + 1]) for i in range(path, path + 2 * trace[STEPS], 2)),
            explored=(trace[EXPLORED], trace[EXPLORED_GENERATION]) if trace[BRANCH] else None,
            action=("left", "right")[trace[ACTION]] if explored else None,
            probability=0.5 if explored else None,
            hits=tuple((id, trace[PLACES + 2 * j], trace[PLACES + 2 * j + 1]) for j, id in enumerate(self.ids)),
            key=self._keys.pack(self._kept),
        )


class HitMatrix(Sequence[Hits]):
    """The answers to a batch of queries: arrays of n x k, padded with id -1 and score -inf.

    Row i is `matrix[i]`, as `query` would have given it. `values` is a list of lists, fetched when asked for; a memory that
    has been removed since the query is None there. Unless the queries explored, receipts of rows have no path.
    """

    def __init__(self, ids: np.ndarray, scores: np.ndarray, tree: Any, keys: Any, kept: Any, traces: np.ndarray):
        self.ids = ids
        self.scores = scores
        self._tree = tree
        self._keys = keys
        self._kept = kept
        self._traces = traces

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def values(self) -> list[list[Any]]:
        """The values, row by row, without padding."""
        get = self._tree.get
        return [[get(id) for id in row if id >= 0] for row in self.ids.tolist()]

    @overload
    def __getitem__(self, index: int) -> Hits: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hits]: ...
    def __getitem__(self, index: int | slice) -> Hits | list[Hits]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        i = range(len(self))[index]
        found = int(np.count_nonzero(self.ids[i] >= 0))
        ids = self.ids[i, :found].tolist()
        values = [self._tree.get(id) for id in ids]
        kept = self._keys.pick(self._kept, i)
        trace = self._traces[i] if len(self._traces) else blank_trace(self.ids.shape[1])
        return Hits(ids, values, self.scores[i, :found].tolist(), self._keys, kept, trace)

    def __repr__(self) -> str:
        return f"HitMatrix({self.ids.shape[0]} queries x {self.ids.shape[1]} hits)"


def blank_trace(k: int) -> np.ndarray:
    """The trace of a query that followed its routers and did not write down where they led."""
    trace = np.full(PLACES + 2 * k, -1, np.int64)
    trace[[BRANCH, WANTED, STEPS]] = EXPLOIT, k, 0
    return trace
