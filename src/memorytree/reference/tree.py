"""Contextual Memory Trees (Sun et al., ICML 2019), Algorithms 1-7, to be read with the paper open.

A tree of routers sends a key to a leaf; a scorer picks the best memories there; both learn. Nothing here is fast: it is
the yardstick of the compiled engine, and the way in for any learner with `predict` and `update`.

The paper's slips, put right:

- Remove lowers the count of every ancestor, the root included; the sibling that moves up keeps its own count.
- Balance uses log(n + 1), as a side may be empty; the 1 is the default example that the proof of Theorem 1 puts there.
- g is clipped to [-1, 1] in Insert line 3, and only there: that proof needs it. sign(0) is -1, as g(x) <= 0 goes left.
- log is natural. The leaf limit is max(8, ceil(c log n)), checked on insertion. n is the number of all memories stored;
  the root's own count starts again at 0 while the root itself is being split.
- InsertLeaf line 5 would check the limit of leaves that are still being filled. Here each member takes one step of
  Insert; then a child that is still too large is split in turn, the left one first.
- A split that sends everything to one side falls back to the median of the margins. A leaf that its router cannot tell
  apart, such as one of equal keys, may exceed the limit.
- M maps ids, not keys, to leaves, so keys need not be unique.
- Theorem 1 says something as long as 1 - p > (1 + exp((1 - α) / α)) / T; the text drops the 1 before exp.
"""

from __future__ import annotations

import hashlib
import math
import random as standard_random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol, TypeVar

import numpy as np

from memorytree.reference.learners import AdagradLinear, Distance

ABSENT: Any = None
"""None with the type of a child or a learner, so that algorithms read as in the paper."""
T = TypeVar("T")


class Learner(Protocol):
    """A router g: any online binary classifier, of keys of any kind."""

    def predict(self, x: object) -> float:
        """Give a number whose sign is the class: right if positive, left otherwise."""

    def update(self, x: object, y: int, weight: float = 1.0) -> None:
        """Learn that `x` belongs to class `y` (-1 or +1), with an importance weight."""


class Scorer(Protocol):
    """The scorer f: predicts the reward of returning a memory for a key."""

    def score(self, x: object, memory: Memory) -> float:
        """Predict the reward; only the order of the scores matters to the tree."""

    def update(self, x: object, memory: Memory, reward: float) -> None:
        """Learn that returning `memory` for `x` brought `reward`."""


class Random(Protocol):
    """A source of random numbers."""

    def random(self) -> float:
        """Draw from [0, 1)."""

    def below(self, n: int) -> int:
        """Draw from 0, ..., n - 1."""


class SeededRandom(standard_random.Random):
    """Python's own generator.

    >>> SeededRandom(0).below(100)
    49
    """

    def below(self, n: int) -> int:
        """Draw from 0, ..., n - 1."""
        return self.randrange(n)


class Side(Enum):
    """The action at an internal node."""

    LEFT = 0
    RIGHT = 1


@dataclass(frozen=True, eq=False)
class Memory:
    """The paper's z: a key `x`, its value (ω) and the id that the tree knows it by."""

    id: int
    x: object
    value: object


@dataclass(eq=False, repr=False)
class Node:
    """A leaf or an internal node (Figure 3); a leaf that is split turns into an internal node in place.

    `left`, `right` and `learner` are None in a leaf. `updates` and
    `mistakes` give the router's progressive error of Theorem 1. `alive` is False once the node has left the tree.
    """

    parent: Node | None = None
    left: Node = ABSENT
    right: Node = ABSENT
    learner: Learner = ABSENT
    threshold: float = 0.0
    memories: list[Memory] = field(default_factory=list)
    n: int = 0
    updates: int = 0
    mistakes: int = 0
    alive: bool = True

    @property
    def is_leaf(self) -> bool:
        """Whether the node holds memories rather than a router."""
        return self.left is None

    def g(self, x: object) -> float:
        """Give the margin of `x`: positive goes right. The learner knows nothing of the threshold."""
        return self.learner.predict(x) - self.threshold

    def child(self, side: Side) -> Node:
        """Give the child on that side."""
        return self.right if side is Side.RIGHT else self.left

    def imbalance(self) -> float:
        """Give log left.n - log right.n, with the default example on each side."""
        return math.log(self.left.n + 1) - math.log(self.right.n + 1)


# Query's first answer, for Update: (node, action, probability), action None at a leaf; None where nothing was explored.
Triple = tuple[Node, Side | None, float | None] | None


@dataclass
class Path:
    """The way from a node down to a leaf: (node, action, probability) at each internal node."""

    steps: list[tuple[Node, Side, float]]
    leaf: Node


class ReferenceTree:
    """A contextual memory tree over any learner.

    The paper's letters: balance = alpha, leaf_factor = c, reroutes = d; `explore` of `query` is epsilon.

    `learner()` makes a router (default: AdagradLinear), `scorer` ranks the memories of a leaf (default: Distance).
    `random` serves `reroute` alone (default: SeededRandom(seed)). Of two memories with the same score the one with the
    larger `tie(x, memory)` comes first (default: a hash of seed, key and id).

    >>> tree = ReferenceTree(reroutes=0)
    >>> ids = [tree.insert([i % 10, i // 10], value=i) for i in range(100)]
    >>> triple, [memory] = tree.query([9, 9])
    >>> memory.value, triple
    (99, None)
    >>> triple, memories = tree.query([3, 4], k=2, explore=1.0)
    >>> tree.update([3, 4], [(memory, float(memory.value == 43)) for memory in memories], triple)
    0
    >>> tree.remove(99)
    >>> len(tree), 99 in [memory.id for leaf in tree.leaves() for memory in leaf.memories]
    (99, False)
    """

    def __init__(  # noqa: PLR0913  (a keyword for each option)
        self,
        learner: Callable[[], Learner] | None = None,
        *,
        scorer: Scorer | None = None,
        balance: float = 0.9,
        leaf_factor: float = 4,
        reroutes: int = 5,
        random: Random | None = None,
        seed: int = 0,
        tie: Callable[[object, Memory], int] | None = None,
    ) -> None:
        if not 0 <= balance <= 1:
            raise ValueError(f"balance is {balance}, but must lie in [0, 1]")
        self.learner = learner or AdagradLinear
        self.scorer = scorer or Distance()
        self.balance, self.leaf_factor, self.reroutes = balance, leaf_factor, reroutes
        self.random = random or SeededRandom(seed)
        self.exploration = SeededRandom(f"exploration {seed}")  # apart, so that reads never change what writes do
        self.tie = tie or (lambda x, memory: tie_hash(seed, x, memory.id))
        self.root = Node()
        self.memories: list[Memory] = []  # compact: a removal moves the last one into the gap
        self.position: dict[int, int] = {}  # id -> index in memories
        self.leaf_of: dict[int, Node] = {}  # the paper's M
        self.next_id = 0

    def __len__(self) -> int:
        return len(self.memories)

    def path(self, x: object, v: Node | None = None) -> Path:
        """Route `x` from `v` (the root if None) to a leaf: Algorithm 1."""
        v = v or self.root
        steps: list[tuple[Node, Side, float]] = []  # line 1
        while not v.is_leaf:  # line 2
            a = Side.RIGHT if v.g(x) > 0 else Side.LEFT  # line 3
            steps.append((v, a, 1.0))  # line 4
            v = v.child(a)  # line 5
        return Path(steps, v)  # lines 7-8

    def query(
        self, x: object, k: int = 1, explore: float = 0.0, random: Random | None = None
    ) -> tuple[Triple, list[Memory]]:
        """Return what `update` needs to know and at most `k` memories, best first: Algorithm 2.

        Draws come from `random`, or from the tree's exploration stream, in the order q, i, a.
        """
        random = random or self.exploration
        path = self.path(x)  # line 1
        q = random.random()  # line 2
        if q >= explore:  # line 3
            return None, self.top_k(path.leaf, x, k)  # line 4
        i = random.below(len(path.steps) + 1)  # line 6, counted from 0
        if i < len(path.steps):  # line 7
            v = path.steps[i][0]
            a = Side(random.below(2))  # line 8
            leaf = self.path(x, v.child(a)).leaf  # line 9
            return (v, a, 0.5), self.top_k(leaf, x, k)  # line 10
        return (path.leaf, None, None), self.rand_k(path.leaf, k, random)  # line 12

    def top_k(self, leaf: Node, x: object, k: int) -> list[Memory]:
        """Return the `k` memories of a leaf that score highest for `x`, ties by `tie`."""
        return sorted(leaf.memories, key=lambda z: (self.scorer.score(x, z), self.tie(x, z)), reverse=True)[:k]

    def rand_k(self, leaf: Node, k: int, random: Random) -> list[Memory]:
        """Return `k` memories of a leaf at random: the first steps of a Fisher-Yates shuffle of a copy."""
        shuffled = list(leaf.memories)
        for j in range(min(k, len(shuffled))):
            other = j + random.below(len(shuffled) - j)
            shuffled[j], shuffled[other] = shuffled[other], shuffled[j]
        return shuffled[:k]

    def update(self, x: object, rewarded: Iterable[tuple[Memory, float]], triple: Triple) -> int:
        """Learn from the reward in [0, 1] of each memory that `query(x)` returned with `triple`: Algorithm 3.

        Returns for how many of them nothing was learned because the router has left the tree since.
        """
        skipped = 0
        if triple is not None:
            v, a, p = triple
            for z, r in rewarded:
                if a is None or p is None:  # line 1; the scorer is the tree's, so it learns even if the leaf has gone
                    self.scorer.update(x, z, r)  # line 2
                elif not v.alive or v.is_leaf:
                    skipped += 1
                else:
                    r_hat = r / p * (1 if a is Side.RIGHT else -1)  # line 4: unbiased estimate of right minus left
                    y = (1 - self.balance) * r_hat + self.balance * v.imbalance()  # line 5
                    v.learner.update(x, sign(y), abs(y))  # line 6
        self._reroute_some()  # line 8
        return skipped

    def insert(self, x: object, value: object, id: int | None = None) -> int:
        """Store a memory and return its id (the next free one if None; a memory with the same id is replaced)."""
        if id is None:
            id = self.next_id
        elif id in self.leaf_of:
            self.remove(id)
        self.next_id = max(self.next_id, id + 1)
        self._insert(self.root, Memory(id, x, value))
        self._reroute_some()  # Algorithm 4, line 9
        return id

    def _insert(self, v: Node, z: Memory) -> None:
        """Algorithm 4 without its last line."""
        while not v.is_leaf:  # line 1
            v = self._step(v, z)  # lines 2-6
        self._insert_leaf(v, z)  # line 8

    def _step(self, v: Node, z: Memory) -> Node:
        """Algorithm 4, lines 2-6: teach the router of `v` and return the child that it then picks."""
        b = v.imbalance()  # line 2
        y = sign((1 - self.balance) * min(max(v.g(z.x), -1.0), 1.0) + self.balance * b)  # line 3, g clipped
        v.learner.update(z.x, y, 1.0)  # line 4
        v.n += 1  # line 5
        goes_right = v.g(z.x) > 0
        v.updates += 1
        v.mistakes += goes_right != (y > 0)  # Theorem 1 looks just after the update
        return v.right if goes_right else v.left  # line 6

    def _insert_leaf(self, v: Node, z: Memory) -> None:
        """Algorithm 5."""
        self.position[z.id] = len(self.memories)
        self.memories.append(z)
        self._append(v, z)  # line 1
        if v.n > self.leaf_limit():  # line 2
            self._split(v)  # lines 3-7

    def _append(self, leaf: Node, z: Memory) -> None:
        leaf.memories.append(z)
        leaf.n += 1
        self.leaf_of[z.id] = leaf

    def leaf_limit(self) -> int:
        """Return how many memories a leaf may hold before it is split."""
        return max(8, math.ceil(self.leaf_factor * math.log(max(1, len(self.memories)))))

    def _split(self, v: Node) -> None:
        """Algorithm 5, lines 3-7: turn the leaf `v` into a router over two leaves."""
        members = v.memories
        if all(same_key(members[0].x, z.x) for z in members):
            return
        v.learner, v.left, v.right = self.learner(), Node(parent=v), Node(parent=v)  # line 3
        v.memories, v.n = [], 0
        for z in members:  # line 4
            self._append(self._step(v, z), z)  # line 5, one step of Insert
        if v.left.n == 0 or v.right.n == 0:
            cut = median_cut([v.learner.predict(z.x) for z in members])
            if cut is None:  # the router cannot tell the members apart: the leaf stays one
                v.left.alive = v.right.alive = False
                v.left = v.right = v.learner = ABSENT
                v.updates = v.mistakes = 0
                self._refill(v, members)
                return
            v.threshold = cut
            self._refill(v.left, [z for z in members if not v.g(z.x) > 0])
            self._refill(v.right, [z for z in members if v.g(z.x) > 0])
        for child in (v.left, v.right):
            if child.n > self.leaf_limit():
                self._split(child)

    def _refill(self, leaf: Node, members: list[Memory]) -> None:
        leaf.memories, leaf.n = [], 0
        for z in members:
            self._append(leaf, z)

    def remove(self, id: int) -> None:
        """Take a memory out of the tree: Algorithm 6."""
        if id not in self.leaf_of:
            raise KeyError(f"no memory has the id {id!r}")
        leaf = self.leaf_of.pop(id)  # line 1
        i = self.position.pop(id)
        swap_remove(leaf.memories, leaf.memories.index(self.memories[i]))  # line 2
        swap_remove(self.memories, i)
        if i < len(self.memories):
            self.position[self.memories[i].id] = i
        v: Node | None = leaf
        while v is not None:  # lines 3-6, up to and including the root
            v.n -= 1
            v = v.parent
        if leaf.n == 0 and leaf.parent is not None:  # lines 7-10: the sibling takes the parent's place
            parent = leaf.parent
            grandparent = parent.parent
            sibling = parent.right if leaf is parent.left else parent.left
            sibling.parent = grandparent
            if grandparent is None:
                self.root = sibling
            elif grandparent.left is parent:
                grandparent.left = sibling
            else:
                grandparent.right = sibling
            parent.alive = leaf.alive = False

    def reroute(self) -> None:
        """Take a random memory out and insert it again, so that it lies where today's routers look: Algorithm 7."""
        if self.memories:
            z = self.memories[self.random.below(len(self.memories))]  # line 1
            self.remove(z.id)  # line 2
            self._insert(self.root, z)  # line 3

    def _reroute_some(self) -> None:
        for _ in range(self.reroutes):
            self.reroute()

    def nodes(self) -> Iterator[tuple[Node, int]]:
        """Walk over all nodes and their depths, parents first, left before right."""
        todo = [(self.root, 0)]
        while todo:
            v, depth = todo.pop()
            yield v, depth
            if not v.is_leaf:
                todo += [(v.right, depth + 1), (v.left, depth + 1)]

    def leaves(self) -> Iterator[Node]:
        """Walk over the leaves from left to right."""
        return (v for v, _ in self.nodes() if v.is_leaf)

    def depth(self) -> int:
        """Return the number of routers on the longest path."""
        return max(depth for _, depth in self.nodes())

    def check(self) -> None:
        """Raise AssertionError if the tree contradicts itself."""
        placed: list[int] = []
        require(self.root.parent is None and self.root.n == len(self), "the root counts every memory and has no parent")
        for v, _ in self.nodes():
            require(v.alive, "a node in the tree is alive")
            if v.is_leaf:
                require(v.n == len(v.memories), "a leaf counts its memories")
                require(v.n > 0 or v is self.root, "only the root may be an empty leaf")
                require(v.right is None and v.learner is None and v.threshold == 0, "a leaf has no router")
                require(all(self.leaf_of.get(z.id) is v for z in v.memories), "leaf_of knows where a memory lies")
                placed += [z.id for z in v.memories]
            else:
                require(v.left.parent is v and v.right.parent is v, "a child knows its parent")
                require(v.n == v.left.n + v.right.n, "a router counts the memories of its two sides")
                require(v.learner is not None and not v.memories, "an internal node has a router and no memories")
                require(0 <= v.mistakes <= v.updates, "a router errs at most once an update")
        require(sorted(placed) == sorted(z.id for z in self.memories), "every memory lies in exactly one leaf")
        require(self.position == {z.id: i for i, z in enumerate(self.memories)}, "position knows the order")
        require(self.leaf_of.keys() == self.position.keys(), "leaf_of knows the memories stored and no others")
        require(max(placed, default=-1) < self.next_id, "the next id is a new one")


def require(holds: bool, rule: str) -> None:
    """Raise AssertionError with the rule if it does not hold."""
    if not holds:
        raise AssertionError(f"broken: {rule}")


def sign(y: float) -> int:
    """Give the class of `y`; that of 0 is -1, because g(x) <= 0 goes left."""
    return 1 if y > 0 else -1


def swap_remove(items: list[T], i: int) -> None:
    """Remove item `i`; the last one moves into its place.

    >>> items = list("abcd")
    >>> swap_remove(items, 1)
    >>> items
    ['a', 'd', 'c']
    """
    items[i] = items[-1]
    items.pop()


def median_cut(margins: list[float]) -> float | None:
    """Give the threshold closest to the median that has margins on both sides, None if all are equal.

    >>> median_cut([3.0, 1.0, 1.0, 1.0]), median_cut([2.0, 2.0])
    (2.0, None)
    """
    s, m = sorted(margins), len(margins)
    j = min((j for j in range(1, m) if s[j - 1] < s[j]), key=lambda j: abs(2 * j - m), default=None)
    if j is None:
        return None
    middle = (s[j - 1] + s[j]) / 2
    return middle if s[j - 1] <= middle < s[j] else s[j - 1]  # rounding, or overflow, may reach the upper one


def same_key(a: object, b: object) -> bool:
    """Tell whether two keys are equal, be they arrays, mappings or anything else with ==.

    >>> same_key(np.array([1, 2]), np.array([1, 2])), same_key({"a": 1}, {"b": 1})
    (True, False)
    """
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return bool(np.array_equal(np.asarray(a), np.asarray(b)))
    return bool(a == b)


def tie_hash(seed: int, x: object, id: int) -> int:
    """Hash seed, key and id to a number that is the same in every process."""
    if isinstance(x, np.ndarray):
        key = x.tobytes()
    else:
        key = repr(sorted(x.items(), key=repr) if isinstance(x, Mapping) else x).encode()
    return int.from_bytes(hashlib.blake2b(b"%d %d " % (seed, id) + key, digest_size=8).digest(), "big")
