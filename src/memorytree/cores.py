"""What stands behind a `MemoryTree`: one tree (`engine.core.Core`), several (`Grove`), trees over a learned space
(`LearnedCore`), lists of memories by term (`routing.terms.TermsCore`), or one of these whose candidates are ranked by their
values (`scoring.valued.ValuedCore`), by learned weights of their features (`scoring.linear.LinearCore`) or by a scorer in
plain Python (`scoring.own.ScoredCore`).

All of them take keys as batches and have the same methods; the face above does not know which it has.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from memorytree import options
from memorytree.engine import kernels
from memorytree.engine.arrays import LABEL, NONE, SLOT, Settings, max_neighbours
from memorytree.engine.core import NO_TRACES, ONE_LEAF, AnyCore, Core
from memorytree.engine.merge import merge_rows
from memorytree.engine.search import BRANCH, EXPLOIT, EXPLORED, EXPLORED_GENERATION
from memorytree.errors import InvalidOption
from memorytree.routing import Terms, TermsCore, principal
from memorytree.scoring import Cosine, Distance, Linear, Tfidf, Values, cosine, distance, metric, values
from memorytree.scoring.linear import LinearCore
from memorytree.scoring.metric import FORMER_SIGHT, Metric, Space
from memorytree.scoring.own import ScoredCore
from memorytree.scoring.term_space import TermSpaceCore
from memorytree.scoring.valued import ValuedCore

# Directions are found anew each time the memories double, up to this many, unless there has been a lesson by then; and
# where there is a capacity, each time so many have come and gone.
FIRST_KEYS, ENOUGH_KEYS = 8, 1024
# No lesson is taken before there are so many: directions of fewer are about to change.
FIRST_LESSON = 64
# The generation of an explored node of a learned space counts the plantings of its trees as well, in steps of this.
GENERATIONS = 2**32
# Directions are found from this many memories at the most.
SAMPLE = 4096
# How many numbers are seen of a sparse key.
SPARSE_WIDTH = 192


class Grove(AnyCore):
    """Several trees over the same memories, each with keys of its own; what they find is merged."""

    def __init__(self, trees: list[Core]):
        self.trees = trees
        self.settings = trees[0].settings
        self.routing = trees[0].routing

    def __len__(self) -> int:
        return len(self.trees[0])

    @property
    def shown(self) -> Core:
        """The tree to look at when somebody asks for its shape: the first."""
        return self.trees[0]

    @property
    def parts(self) -> dict[str, Core]:
        """The trees this consists of, by name."""
        return {f"tree{number}": tree for number, tree in enumerate(self.trees)}

    def copy(self) -> Grove:
        """A grove of its own with the same content."""
        return Grove([tree.copy() for tree in self.trees])

    def place_of(self, id: int) -> tuple[dict[str, np.ndarray], int]:
        """The arrays that hold the key of a memory, and its slot there."""
        return self.trees[0].place_of(id)

    def insert(self, X: Any, ids: np.ndarray, progress: np.ndarray, last: int, removed: list) -> int:
        """Insert rows into every tree. The order of use is the same in all, so all forget the same memories."""
        begun = progress.item()
        for number, tree in enumerate(self.trees):
            progress[0] = begun
            gone = removed if number == 0 else []
            while (node := tree.insert(X, ids, progress, last, gone)) != NONE:
                tree.regrow(node)
        return NONE

    def remove(self, id: int) -> int:
        """Remove a memory that is there."""
        for tree in self.trees:
            if (node := tree.remove(id)) != NONE:
                tree.regrow(node)
        return NONE

    def label(self, ids: np.ndarray, labels: np.ndarray) -> None:
        """Give memories labels."""
        for tree in self.trees:
            tree.label(ids, labels)

    def fill(self, X: Any, ids: np.ndarray, labels: np.ndarray | None = None) -> None:
        """Put all rows into the empty trees."""
        for tree in self.trees:
            tree.fill(X, ids, labels)

    def replace(self, X: Any, ids: np.ndarray) -> None:
        """Give memories new keys."""
        for tree in self.trees:
            tree.replace(X, ids)

    def relearn(self, passes: int) -> None:
        """Let every tree learn."""
        for tree in self.trees:
            tree.relearn(passes)

    def reroute(self, times: int) -> None:
        """Reroute so many memories in every tree."""
        for tree in self.trees:
            tree.reroute(times)

    def sweep(self) -> int:
        """Sweep every tree; the number moved in all of them."""
        return sum(tree.sweep() for tree in self.trees)

    def compare(self, X: Any, first: int, last: int, ids: np.ndarray) -> np.ndarray:
        """How well the keys of memories fit."""
        return self.trees[0].compare(X, first, last, ids)

    def update(
        self, X: Any, traces: np.ndarray, ids: np.ndarray, rewards: np.ndarray, progress: np.ndarray, last: int
    ) -> Any:
        """Learn from rewards. The first tree explored, so its routers learn; the others only note which were of use."""
        begun, blank = progress.item(), np.zeros_like(traces)
        counts = None
        for number, tree in enumerate(self.trees):
            progress[0] = begun
            found = tree.update(X, blank if number else traces, ids, rewards, progress, last)
            counts = found if counts is None else counts
        return counts

    def query(self, X: Any, rows: tuple[int, int], *question: Any) -> None:
        """Answer a range of rows by the best of what all trees find, `beam` leaves in each; the first tree explores."""
        bounds, excluded, ids, scores, traces, beam, explore, draw = question  # as in `Core.query`
        n, k = ids.shape
        found = np.empty((len(self.trees), n, k), np.int64)
        values = np.empty((len(self.trees), n, k), np.float32)
        for number, tree in enumerate(self.trees):
            if number == 0:
                tree.query(X, rows, bounds, excluded, found[0], values[0], traces, beam, explore, draw)
            else:
                tree.query(X, rows, bounds, excluded, found[number], values[number], NO_TRACES, beam, 0.0, draw)
        merge_rows(self.shown.tree, found, values, *rows, ids, scores, traces)


def make(
    sparse: bool, dimension: int, settings: dict[str, Any], features: dict[int, np.ndarray], routing: Any = None
) -> Core | Grove | LearnedCore | LinearCore | ScoredCore | TermsCore | ValuedCore:
    """What stands behind a tree with these options; a routing that was settled earlier may be given."""
    routing = routing or options.routing_of(settings, sparse)
    basic, scorer = options.settings_of(settings, routing), options.scorer_of(settings)
    if isinstance(routing, Terms) and routing.expansion and not isinstance(scorer, Distance | Cosine | Tfidf):
        raise InvalidOption("keys take up queries only where the scorer looks at nothing else: distance, cosine or tfidf")
    if isinstance(scorer, Metric):
        if sparse:
            if not isinstance(routing, Terms):
                raise InvalidOption('scorer="metric" compares sparse keys in front of term lists: it needs routing="terms"')
            width = SPARSE_WIDTH if scorer.rank == metric().rank else scorer.rank
            return TermSpaceCore(TermsCore(basic, routing, cosine()), values(width=width, damping=0.5))
        return LearnedCore(Space(scorer, dimension), basic, routing, settings["trees"] or 1, settings["reroutes"])
    if isinstance(scorer, Values):
        if sparse and not isinstance(routing, Terms):
            raise InvalidOption('scorer="values" finds sparse keys by their terms: it needs routing="terms", and no forest')
        by_keys = {**settings, "scorer": "cosine" if sparse else "distance"}
        return ValuedCore(make(sparse, dimension, by_keys, features, routing), scorer, features)
    if isinstance(scorer, Tfidf) and not isinstance(routing, Terms):
        raise InvalidOption('scorer="tfidf" counts memories by term: it needs sparse keys, routing="terms", and no forest')
    if not isinstance(scorer, Distance | Cosine | Tfidf):
        if settings["trees"] or isinstance(routing, Terms):
            raise InvalidOption("a forest or term lists need one of these scorers: distance, cosine, metric, values")
        if isinstance(scorer, Linear):
            if max_neighbours(routing):
                raise InvalidOption("weights of a linear scorer say nothing of who is near: it needs another routing")
            return LinearCore.make(sparse, dimension, basic, routing, scorer)
        return ScoredCore(Core(sparse, dimension, basic, routing, distance()), scorer, features)
    if isinstance(routing, Terms):
        return TermsCore(basic, routing, scorer)
    if settings["trees"]:
        return plant(sparse, dimension, basic, routing, scorer, settings["trees"])
    return Core(sparse, dimension, basic, routing, scorer)


def plant(sparse: bool, dimension: int, settings: Settings, routing: Any, scorer: Any, trees: int) -> Grove:
    """Trees that differ by their seeds."""
    seeds = [(settings.seed + number * 0x9E3779B97F4A7C15) % 2**62 for number in range(trees)]
    return Grove([Core(sparse, dimension, settings._replace(seed=seed), routing, scorer) for seed in seeds])


class LearnedCore(AnyCore):
    """Trees over what a learned space makes of the keys; the keys themselves lie in a tree of a single leaf."""

    def __init__(self, space: Space, settings: Settings, routing: Any, trees: int, renewed: int):
        self.space = space
        self._renewed = renewed  # how many memories a lesson renews
        self._settings, self._trees = settings, trees
        self.settings = settings._replace(leaf_factor=ONE_LEAF, reroutes=0)
        self.raw = Core(False, len(space.center), self.settings, principal(), distance())
        self.routing = routing
        self.trees: Grove | None = None
        self._next = 0  # the row to be renewed next
        self._inserted = 0  # how many memories have come
        self.settled_at = 0  # and how many had when the directions were last found
        self._plantings = 0  # how often the trees were planted

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def parts(self) -> dict[str, Core]:
        """The trees this consists of, by name."""
        return {"keys": self.raw, **({} if self.trees is None else self.trees.parts)}

    def lore(self) -> dict[str, np.ndarray]:
        """What has been learned beside the trees."""
        space = self.space
        own = (self._next, self._inserted, self.settled_at, self._plantings)
        numbers = np.array([space.lessons, space.settled, *own])
        arrays = {name: getattr(space, name) for name in ("weights", "squares", "center", "units")}
        return {**arrays, "numbers": numbers, "sight": np.array([space.scorer.temperature, space.scorer.lift])}

    def recall(self, lore: dict[str, np.ndarray]) -> None:
        """Be what `lore` told; the trees are then still to be adopted."""
        known = self.lore()
        # Earlier files have fewer numbers, and do not tell what was the default then.
        former = known["sight"] if self.space.scorer != metric() else np.array(FORMER_SIGHT)
        missing = max(0, len(known["numbers"]) - lore["numbers"].size)
        lore = {"sight": former, **lore, "numbers": np.pad(lore["numbers"], (0, missing))}
        for name, array in known.items():
            if lore[name].shape != array.shape or lore[name].dtype != array.dtype or not np.all(np.isfinite(lore[name])):
                raise ValueError(f"{name} of the learned space is not whole")
            array[:] = lore[name]
        self.space.lessons, self.space.settled, *own = lore["numbers"].tolist()
        self._next, self._inserted, self.settled_at, self._plantings = own
        temperature, lift = lore["sight"].tolist()
        self.space.scorer = self.space.scorer._replace(temperature=temperature, lift=lift)
        if self.space.settled:
            self.trees = self._planted()

    @property
    def shown(self) -> Core:
        """The tree to look at when somebody asks for its shape."""
        return self.raw if self.trees is None else self.trees.shown

    def seen(self, X: np.ndarray) -> np.ndarray:
        """What that tree sees of a batch of keys."""
        return X if self.trees is None else self.space.see(X, 0, len(X))

    def place_of(self, id: int) -> tuple[dict[str, np.ndarray], int]:
        """The arrays that hold the key of a memory, and its slot there."""
        return self.raw.place_of(id)

    def copy(self) -> LearnedCore:
        """A core of its own with the same content."""
        twin = copy(self)
        twin.space, twin.raw, twin.trees = self.space.copy(), self.raw.copy(), self.trees and self.trees.copy()
        return twin

    def insert(self, X: Any, ids: np.ndarray, progress: np.ndarray, last: int, removed: list) -> int:
        """Insert rows, stopping wherever the directions are due to be found."""
        while progress.item() < last:
            first = progress.item()
            gone: list[tuple[int, int]] = []
            until = min(last, first + max(1, self._due() - len(self)))
            if self.settings.capacity or self._replaces(ids[first:until]):
                until = first + 1  # a memory may have to go first
            self.raw.insert(X, ids, progress, until, gone)
            self._inserted += until - first
            removed += gone
            if self.trees is not None:
                for _, id in gone:
                    self.trees.remove(id)
                self.trees.insert(
                    self.space.see(X, first, until), ids[first:until], np.zeros(1, np.int64), until - first, []
                )
            if len(self) >= self._due() or self._is_filled_anew():
                self.settle()
        return NONE

    def _replaces(self, ids: np.ndarray) -> bool:
        """Whether one of the ids to give is taken already, or is so once another has come."""
        given = ids[ids != NONE]
        if not len(given):
            return False
        taken = len(np.unique(given)) < len(given) or len(given) < len(ids)
        return taken or any(kernels.locate(self.raw.tree, id)[1] != NONE for id in given)

    def _due(self) -> int:
        """At how many memories the directions are to be found (anew)."""
        if self.space.lessons or self.space.settled >= ENOUGH_KEYS:
            return 2**62
        return max(FIRST_KEYS, 2 * self.space.settled)

    def _is_filled_anew(self) -> bool:
        """Whether as many memories as there is capacity for have come since the directions were found."""
        capacity = self.settings.capacity
        if not capacity or not self.space.settled or self.space.lessons:
            return False
        return self._inserted - self.settled_at >= capacity

    def settle(self) -> None:
        """Find the directions from the keys that are there, and plant the trees in that space."""
        arrays, n = self.raw.arrays(), len(self)
        rows = np.arange(min(n, SAMPLE)) * n // min(n, SAMPLE)
        self.space.settle(arrays["keys"][arrays["rows"][rows, SLOT]], n)
        self.settled_at = self._inserted
        self.relearn()

    def relearn(self, passes: int = 1) -> None:
        """See every memory with today's eyes, and plant the trees anew."""
        if not self.space.settled:
            return
        self.trees = self._planted()
        self._plantings += 1
        labels = self.raw.arrays()["rows"][: len(self), LABEL].astype(np.int64)
        self.trees.fill(self._seen(slice(None)), self._ids(slice(None)), labels)

    def _planted(self) -> Grove:
        settings = self._settings._replace(capacity=0)
        return plant(False, self.space.width, settings, self.routing, distance(), self._trees)

    def _ids(self, rows: Any) -> np.ndarray:
        return self.raw.arrays()["row_ids"][: len(self)][rows].copy()

    def _seen(self, rows: Any) -> np.ndarray:
        arrays = self.raw.arrays()
        keys = arrays["keys"][arrays["rows"][: len(self), SLOT][rows]]
        return self.space.see(keys, 0, len(keys))

    def label(self, ids: np.ndarray, labels: np.ndarray) -> None:
        """Give memories labels."""
        self.raw.label(ids, labels)
        if self.trees is not None:
            self.trees.label(ids, labels)

    def fill(self, X: Any, ids: np.ndarray, labels: np.ndarray | None = None) -> None:
        """Put all rows into this empty core."""
        self.raw.fill(X, ids, labels)
        self._inserted = len(self)
        if len(self) >= FIRST_KEYS:
            self.settle()

    def remove(self, id: int) -> int:
        """Remove a memory that is there."""
        self.raw.remove(id)
        return NONE if self.trees is None else self.trees.remove(id)

    def reroute(self, times: int) -> None:
        """See so many memories with today's eyes, in turn, and place them by that."""
        if self.trees is None or not len(self):
            return
        times = min(times, len(self))
        rows = np.arange(self._next, self._next + times) % len(self)
        self._next = (self._next + times) % len(self)
        self.trees.replace(self._seen(rows), self._ids(rows))

    def sweep(self) -> int:
        """See every memory with today's eyes and place it by that; the number that changed places."""
        if self.trees is None:
            return 0
        self.trees.replace(self._seen(slice(None)), self._ids(slice(None)))
        return self.trees.sweep()

    def update(
        self, X: Any, traces: np.ndarray, ids: np.ndarray, rewards: np.ndarray, progress: np.ndarray, last: int
    ) -> Any:
        """Learn from rewards: the space from every query, then the routers as theirs do. A few memories for each lesson are
        renewed at the end of the call."""
        first = progress.item()
        self.raw.update(X, np.zeros_like(traces), ids, rewards, progress, last)
        counts = np.zeros(2, np.int64)
        if self.trees is None:
            return counts
        if len(self) >= FIRST_LESSON:
            counts[0] = self.space.learn(self.trees.shown.tree, X, first, last, ids, rewards)
            self.reroute(self._renewed * int(counts[0]))
        steps = np.array([first * (1 + self.trees.settings.reroutes)])
        traces = traces.copy()
        planting, traces[:, EXPLORED_GENERATION] = np.divmod(traces[:, EXPLORED_GENERATION], GENERATIONS)
        traces[planting != self._plantings, EXPLORED] = NONE  # a node of trees that are no more
        return counts + self.trees.update(self.seen(X), traces, ids, rewards, steps, last)

    def compare(self, X: Any, first: int, last: int, ids: np.ndarray) -> np.ndarray:
        """How well the keys of memories fit, in the learned space."""
        if self.trees is None:
            return self.raw.compare(X, first, last, ids)
        return _cosines(self.trees.compare(self.space.see(X, first, last), 0, last - first, ids[first:last]))

    def query(self, X: Any, rows: tuple[int, int], *question: Any) -> None:
        """Answer a range of rows; scores are cosines in the learned space."""
        bounds, excluded, ids, scores, traces, beam, explore, draw = question  # as in `Core.query`
        if self.trees is None:
            self.raw.query(X, rows, bounds, excluded, ids, scores, traces, beam, explore, draw)
            return
        first, last = rows
        seen = self.space.see(X, first, last)
        part = slice(first, last)
        self.trees.query(
            seen,
            (0, last - first),
            bounds[first:],
            excluded,
            ids[part],
            scores[part],
            traces[part],
            beam,
            explore,
            draw + first,
        )
        scores[part] = _cosines(scores[part])
        if len(traces):
            explored = traces[part, BRANCH] != EXPLOIT
            traces[part, EXPLORED_GENERATION] += np.where(explored, self._plantings * GENERATIONS, 0)


def _cosines(scores: np.ndarray) -> np.ndarray:
    """Scores by distance as cosines: between unit vectors the cosine is 1 - distance^2 / 2."""
    return np.where(np.isneginf(scores), -np.inf, 1 - scores**2 / 2)
