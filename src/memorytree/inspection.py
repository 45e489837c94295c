"""Looking inside a tree: figures and reasons. Everything here only reads; the caller holds the lock."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from memorytree.cores import LearnedCore
from memorytree.engine import kernels
from memorytree.engine.arrays import (
    COUNT,
    LEFT,
    MISTAKES,
    NONE,
    POOL_LIVE,
    RIGHT,
    ROOT,
    UPDATES,
    max_neighbours,
)  # fmt: skip
from memorytree.engine.core import NO_TRACES, NOBODY
from memorytree.hits import Hit
from memorytree.keys import DenseKeys
from memorytree.routing import TermsCore
from memorytree.scoring import Cosine, Distance
from memorytree.scoring.linear import LinearCore
from memorytree.scoring.own import ScoredCore
from memorytree.scoring.valued import ValuedCore


@dataclass(frozen=True)
class Level:
    """One level of internal nodes: how many there are, and the mean share of the heavier side (0.5 is even)."""

    nodes: int
    heavier_side: float


@dataclass(frozen=True)
class Stats:
    """Figures of a tree.

    Attributes:
        memories: how many there are.
        leaves: leaves that hold them.
        leaf_limit: how many a leaf may hold now.
        largest_leaf: how many the fullest holds (more than the limit only where keys are equal).
        depth: steps to the deepest leaf.
        average_depth: steps to a memory's leaf, on average over memories.
        levels: balance at each level from the root down.
        neighbours: how many others a memory knows, on average (routing="neighbours" only).
        router_error: share of insertions that a router sent against its own target (learning routers only).
        key_bytes: bytes of the keys themselves.
        other_bytes: bytes of everything else the engine uses.
        spare_bytes: room for growth on top, most of it never touched. Python's own objects are not counted.
    """

    memories: int
    leaves: int
    leaf_limit: int
    largest_leaf: int
    depth: int
    average_depth: float
    levels: tuple[Level, ...]
    neighbours: float | None
    router_error: float | None
    key_bytes: int
    other_bytes: int
    spare_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes the engine uses."""
        return self.key_bytes + self.other_bytes

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


def measure(tree: Any) -> Stats:
    """The figures of a tree."""
    if tree._core is None:
        return Stats(0, 0, 8, 0, 0, 0.0, (), None, None, 0, 0, 0)
    core, parts = tree._core.shown, tree._core.parts.values()
    arrays = core.arrays()
    nodes = arrays["nodes"]
    n = len(core)
    level = np.array([core.counters[ROOT]])
    levels, depth, steps, leaves, largest = [], 0, 0, 0, 0
    updates = mistakes = 0
    while True:
        is_leaf = nodes[level, LEFT] == NONE
        here, inner = level[is_leaf], level[~is_leaf]
        leaves += len(here)
        largest = max(largest, int(nodes[here, COUNT].max(initial=0)))
        steps += depth * int(nodes[here, COUNT].sum())
        if not len(inner):
            break
        updates += int(nodes[inner, UPDATES].sum(dtype=np.int64))
        mistakes += int(nodes[inner, MISTAKES].sum(dtype=np.int64))
        left, right = nodes[inner, LEFT], nodes[inner, RIGHT]
        heavier = np.maximum(nodes[left, COUNT], nodes[right, COUNT]) / nodes[inner, COUNT]
        levels.append(Level(len(inner), float(heavier.mean())))
        level = np.concatenate([left, right])
        depth += 1
    key_bytes = 8 * int(core.counters[POOL_LIVE]) if core.sparse else 4 * tree._keys.dimension * n
    used = sum(array.nbytes for part in parts for array in part.arrays_in_use().values())
    room = sum(array.nbytes for part in parts for array in part.arrays().values())
    used, room = used + tree._core.bytes_in_use(), room + tree._core.bytes_in_all()
    return Stats(
        memories=n,
        leaves=leaves if n else 0,
        leaf_limit=int(kernels.limit(core.tree)),
        largest_leaf=largest,
        depth=depth,
        average_depth=steps / n if n else 0.0,
        levels=tuple(levels),
        neighbours=float((arrays["neighbours"][:n] != NONE).sum() / max(n, 1)) if "neighbours" in arrays else None,
        router_error=mistakes / updates if updates else None,
        key_bytes=key_bytes,
        other_bytes=used - key_bytes,
        spare_bytes=room - used,
    )


@dataclass(frozen=True)
class Step:
    """One decision: the node, its margin (right where above 0), the side taken, and how many memories lie on each side."""

    node: int
    margin: float
    side: str
    left: int
    right: int


@dataclass(frozen=True)
class Candidate:
    """A memory of the leaf; `parts` are the features that weigh most in its score, with what each contributes."""

    hit: Hit
    parts: tuple[tuple[Any, float], ...]


@dataclass(frozen=True)
class Explanation:
    """Why a query returns what it does: the way down, how many memories of the leaf were looked at, whether the search went
    on from there to their neighbours, and the best that were found."""

    steps: tuple[Step, ...]
    leaf: int
    looked_at: int
    candidates: tuple[Candidate, ...]
    went_on: bool = False

    def __str__(self) -> str:
        lines = ["way down:"]
        for step in self.steps:
            lines.append(
                f"  node {step.node:<6} margin {step.margin:+.4g} -> {step.side:<5} ({step.left:,} | {step.right:,})"
            )
        onward = ", and from there their neighbours" if self.went_on else ""
        lines.append(f"  leaf {self.leaf}: {self.looked_at} memories looked at{onward}")
        lines.append("best candidates:")
        for candidate in self.candidates:
            parts = ", ".join(f"{name}: {part:+.3g}" for name, part in candidate.parts)
            lines.append(f"  {candidate.hit.score:+.4f}  id {candidate.hit.id}  {candidate.hit.value!r}  [{parts}]")
        return "\n".join(lines)


def explain(tree: Any, x: Any, k: int, beam: int) -> Explanation:
    """The way of a key to its leaf (in the first of several trees), and the k best memories, as a query finds them."""
    if tree._core is None:
        return Explanation((), 0, 0, ())
    if isinstance(tree._core, ValuedCore) and tree._core.ready:
        return _explain_values(tree, tree._keys.one(x), k)
    by_keys = tree._core.base if isinstance(tree._core, ValuedCore) else tree._core
    if isinstance(by_keys, TermsCore):
        return _explain_terms(tree, by_keys, tree._keys.one(x), k, beam)
    core, row, keys = tree._core.shown, tree._core.seen(tree._keys.one(x)), tree._keys
    if isinstance(tree._core, LearnedCore):
        keys = DenseKeys(core.dimension)  # what is compared are directions of the learned space
    nodes = core.arrays()["nodes"]
    node = int(core.counters[ROOT])
    steps = []
    while True:
        margin, child = kernels.step_margin(core.tree, node, row)
        if child == NONE:
            break
        left, right = nodes[node, LEFT], nodes[node, RIGHT]
        side = "right" if child == right else "left"
        steps.append(Step(node, margin, side, int(nodes[left, COUNT]), int(nodes[right, COUNT])))
        node = child
    candidates = []
    for id, score in _asked(tree._core, tree._keys.one(x), k, beam):
        parts: tuple[tuple[Any, float], ...] = ()
        if not isinstance(tree._core, LinearCore | ScoredCore):  # nobody knows what a scorer of one's own looks at
            _, slot = kernels.locate(core.tree, id)
            by_angle = isinstance(core.scorer, Cosine) or keys is not tree._keys
            parts = _parts(keys, row, core.arrays(), slot, score if by_angle else None)
        candidates.append(Candidate(Hit(id, tree._values[id], score), parts))
    went_on = max_neighbours(core.routing) > 0 and len(steps) > 0  # a single leaf holds all there is
    return Explanation(tuple(steps), node, int(nodes[node, COUNT]), tuple(candidates), went_on)


def _asked(core: Any, row: Any, k: int, beam: int) -> list[tuple[int, float]]:
    """The k best memories and their scores, as a query finds them."""
    ids, scores = np.empty((1, k), np.int64), np.empty((1, k), np.float32)
    core.query(row, (0, 1), np.zeros(2, np.int64), NOBODY, ids, scores, NO_TRACES, beam, 0.0, 0)
    return [pair for pair in zip(ids[0].tolist(), scores[0].tolist(), strict=True) if pair[0] != NONE]


def _explain_values(tree: Any, row: Any, k: int) -> Explanation:
    """The same where values count: what the fit of the keys, the vote and the aim bring to each score."""
    core = tree._core
    found, fits = core.candidates(row)
    every = len(found)
    parts = [dict(zip(*core.ranked(row, found, fits, part), strict=True)) for part in np.diag(core.aims.counts)]
    totals = {id: sum(part[id] for part in parts) for id in found.tolist()}
    best = sorted(totals, key=lambda id: (-totals[id], id))[:k]
    named = [tuple(zip(("keys", "vote", "aim"), (part[id] for part in parts), strict=True)) for id in best]
    candidates = [Candidate(Hit(id, tree._values[id], totals[id]), of) for id, of in zip(best, named, strict=True)]
    return Explanation((), int(core.shown.counters[ROOT]), every, tuple(candidates))


def _explain_terms(tree: Any, core: TermsCore, row: Any, k: int, beam: int) -> Explanation:
    """The same for term lists, which know no way and no leaf: the memories that a query returns."""
    keys = tree._keys
    candidates = []
    x = (row[0], row[1], row[2] * np.sqrt(core.weights(row[1])))
    for id, score in _asked(core, row, k, beam):
        arrays, slot = core.place_of(id, learned=True)
        arrays["key_weights"] = arrays["key_weights"] * np.sqrt(core.weights(arrays["key_features"]))
        parts = _parts(keys, x, arrays, slot, None if isinstance(core.raw.scorer, Distance) else score)
        candidates.append(Candidate(Hit(id, tree._values[id], score), parts))
    return Explanation((), int(core.raw.counters[ROOT]), core.entries_read(row), tuple(candidates))


def _parts(
    keys: Any, row: Any, arrays: dict[str, np.ndarray], slot: int, score: float | None
) -> tuple[tuple[Any, float], ...]:
    """The three features that weigh most: parts of a score that is an overlap by some length, or of minus the squared
    distance."""
    x, z = keys.weights(row), keys.weights_in(arrays, slot)
    if score is not None:
        overlap = {name: x[name] * z[name] for name in x.keys() & z.keys()}
        terms = {name: part * score / (sum(overlap.values()) or 1.0) for name, part in overlap.items()}
    else:
        terms = {name: -((x.get(name, 0.0) - z.get(name, 0.0)) ** 2) for name in x.keys() | z.keys()}
    heaviest = sorted(terms.items(), key=lambda term: (-abs(term[1]), str(term[0])))[:3]
    return tuple((name, float(part)) for name, part in heaviest)
