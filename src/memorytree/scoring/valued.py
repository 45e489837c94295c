"""A core whose candidates are ranked by what is known of their values (`scoring/values.py`)."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from memorytree.engine import kernels
from memorytree.engine.arrays import NONE, SLOT, Settings
from memorytree.engine.core import NO_TRACES, NOBODY, ONE_LEAF, Core
from memorytree.engine.merge import shorten
from memorytree.engine.routers.principal import principal
from memorytree.engine.scorers.distance import distance
from memorytree.engine.search import AT_LEAF, BRANCH, PLACES
from memorytree.errors import InvalidOption
from memorytree.scoring.around import CoreAround
from memorytree.scoring.values import Aims, Values, directions

# Directions are found anew each time the values double, up to this many, and from this many at the most; no lesson is taken
# before the first number.
FIRST_VALUES, ENOUGH_VALUES = 32, 4096


def sample_of(n: int) -> slice:
    """Which of n values to find directions from."""
    return slice(0, None, max(1, -(-n // ENOUGH_VALUES)))


class ValuedCore(CoreAround):
    """Memories that another core finds by their keys; what is seen of their values lies in a tree of a single leaf."""

    def __init__(self, base: Any, scorer: Values, features: dict[int, np.ndarray]):
        super().__init__(base)
        self.scorer = scorer
        self.features = features  # by id; the face's own dictionary
        self.aims: Any = None  # Aims, and the tree of what is seen of values, once there are features
        self.values: Any = None

    def copy(self) -> ValuedCore:
        """A core of its own with the same content."""
        twin = copy(self)
        twin.base = self.base.copy()
        twin.aims, twin.values = self.aims and self.aims.copy(), self.values and self.values.copy()
        return twin

    # ---- files

    def lore(self) -> dict[str, np.ndarray]:
        """What has been learned, here and by the other core."""
        lore = {f"keys.{name}": array for name, array in self.base.lore().items()}
        if self.aims is not None:
            aims = self.aims
            lore |= {"basis": aims.basis, "center": aims.center, "weights": aims.weights, "trail": aims.trail}
            lore |= aims.sums._asdict()
            arrays = self.values.arrays()
            lore["seen"] = arrays["keys"][arrays["rows"][: len(self.values), SLOT]]
            lore["seen_ids"] = arrays["row_ids"][: len(self.values)]
            lore["settled"] = np.array([aims.settled])
        return lore

    def recall(self, lore: dict[str, np.ndarray]) -> None:
        """Be what `lore` told; the trees of the other core are then still to be adopted."""
        of_base = [name for name in lore if name.startswith("keys.")]
        self.base.recall({name.removeprefix("keys."): lore[name] for name in of_base})
        if "basis" not in lore:
            return
        aims = Aims(self.scorer, len(lore["basis"]))
        aims.reach(len(lore["weights"]))
        aims.center = np.zeros(len(lore["center"]), np.float32)
        own = {"basis": aims.basis, "center": aims.center, "weights": aims.weights, "trail": aims.trail}
        own |= aims.sums._asdict()
        for name, array in own.items():
            told = lore[name]
            if told.shape != array.shape or told.dtype != array.dtype or not np.all(np.isfinite(told)):
                raise ValueError(f"{name} of what was learned about values is not whole")
            array[:] = told
        aims.weigh()
        aims.settled = int(lore["settled"][0])
        if lore["seen"].shape != (len(lore["seen_ids"]), aims.width) or not np.all(np.isfinite(lore["seen"])):
            raise ValueError("what is seen of values is not whole")
        self.aims = aims
        self._see_anew(lore["seen_ids"], lore["seen"])

    def bytes_in_use(self) -> int:
        """Bytes of what is known of the values and of what has been learned, here and by the other core."""
        return self.base.bytes_in_use() + self._bytes({} if self.values is None else self.values.arrays_in_use())

    def bytes_in_all(self) -> int:
        """The same with the room for growth."""
        return self.base.bytes_in_all() + self._bytes({} if self.values is None else self.values.arrays())

    def _bytes(self, seen: dict[str, np.ndarray]) -> int:
        aims = [] if self.aims is None else [self.aims.basis, self.aims.weights, self.aims.trail, *self.aims.sums]
        return sum(array.nbytes for array in [*seen.values(), *aims])

    # ---- values

    def admit(self, features: np.ndarray) -> None:
        """Refuse features unlike those that are there; nothing has been written yet."""
        width = features.shape[1]
        if self.aims is not None and width != len(self.aims.basis):
            raise InvalidOption(f"a value has {width} features, those of this tree have {len(self.aims.basis)}")

    def describe(self, ids: np.ndarray) -> None:
        """These memories have got features."""
        n = len(self.features)
        if self.aims is None or self._is_due(n):
            every = np.array(list(self.features), np.int64)
            aims = self.aims or Aims(self.scorer, len(self.features[int(ids[0])]))
            aims.settle(directions(self._rows(every[sample_of(n)]), aims.width), n)
            self.aims = aims
            self._see_anew(every, self._look(every))
            if not self.base.shown.sparse and not aims.lessons:
                arrays = self.base.shown.arrays()
                aims.center = arrays["keys"][arrays["rows"][: len(self), SLOT][sample_of(len(self))]].mean(axis=0)
        else:
            self._see(ids, self._look(ids))

    def _is_due(self, n: int) -> bool:
        """Whether the directions are to be found anew, with n memories there."""
        return n >= max(FIRST_VALUES, 2 * self.aims.settled) and self.aims.settled < ENOUGH_VALUES

    def _rows(self, ids: np.ndarray) -> np.ndarray:
        return np.stack([self.features[id] for id in ids.tolist()])

    def _look(self, ids: np.ndarray) -> np.ndarray:
        """What is seen of the values of some memories."""
        return self._rows(ids) @ self.aims.basis

    def _see_anew(self, ids: np.ndarray, seen: np.ndarray) -> None:
        settings = Settings(leaf_factor=ONE_LEAF, reroutes=0, capacity=0, seed=0)
        self.values = Core(False, self.aims.width, settings, principal(), distance())
        self._see(ids, seen)

    def _see(self, ids: np.ndarray, seen: np.ndarray) -> None:
        rows = np.ascontiguousarray(seen, np.float32)
        self.values.insert(rows, ids.astype(np.int64), np.zeros(1, np.int64), len(ids), [])

    def _forget(self, id: int) -> None:
        if self.values is not None and kernels.locate(self.values.tree, id)[1] != NONE:
            self.values.remove(id)

    # ---- what a core does

    def insert(self, X: Any, ids: np.ndarray, progress: np.ndarray, last: int, removed: list) -> int:
        """Insert rows; their features come by `describe`."""
        gone: list[tuple[int, int]] = []
        long_work = self.base.insert(X, ids, progress, last, gone)
        for _, id in gone:
            self._forget(id)
        removed += gone
        return int(long_work)

    def remove(self, id: int) -> int:
        """Remove a memory that is there."""
        self._forget(id)
        return int(self.base.remove(id))

    def _columns(self, X: Any, first: int, last: int) -> Any:
        """Rows of a batch as (bounds, columns, weights), column 0 being the constant; nothing of features never stored."""
        if isinstance(X, tuple):
            return self.base.in_terms(X, first, last)
        n, d = last - first, X.shape[1]
        centered = (X[first:last] - self.aims.center).reshape(-1)
        return np.arange(n + 1) * d, np.tile(np.arange(1, d + 1, dtype=np.int32), n), centered

    @property
    def ready(self) -> bool:
        """Whether there are values and lessons about them; until then the other core answers alone."""
        return bool(self.aims is not None and self.aims.lessons)

    def _wanted(self, k: int) -> int:
        """How many candidates to look at for k hits."""
        return min(len(self), max(k, math.ceil(self.scorer.breadth * math.log2(len(self) + 2))))

    def _leaves(self, wanted: int) -> int:
        """How many leaves hold so many; term lists have none."""
        return 1 if self.base.shown.sparse else math.ceil(wanted / int(kernels.limit(self.base.shown.tree)))

    def query(self, X: Any, rows: tuple[int, int], *question: Any) -> None:
        """Answer a range of rows: the candidates whose keys fit, ranked by what their values are like."""
        bounds, excluded, ids, scores, traces, beam, explore, draw = question  # as in `Core.query`
        first, last = rows
        n, k = last - first, ids.shape[1]
        wanted = self._wanted(k)
        beam *= self._leaves(wanted)
        if not self.ready:
            self.base.query(X, rows, bounds, excluded, ids, scores, traces, beam, explore, draw)
            return
        found, fits = np.empty((n, wanted), np.int64), np.empty((n, wanted), np.float32)
        room = traces.shape[1] - PLACES - 2 * k if len(traces) else 0
        wide = np.empty((n, PLACES + 2 * wanted + room), np.int64) if len(traces) else NO_TRACES
        part = (X[0][first : last + 1], X[1], X[2]) if isinstance(X, tuple) else X[first:last]
        self.base.query(part, (0, n), bounds[first:], excluded, found, fits, wide, beam, explore, draw + first)
        if explore:
            found[wide[:, BRANCH] == AT_LEAF, k:] = NONE  # what chance has chosen is not to be chosen from
        best = ids[first:last], scores[first:last]
        self.aims.rank(self.values.tree, self.aims.counts, self._columns(X, first, last), found, fits, *best)
        if len(traces):
            shorten(wide, found, ids[first:last], traces[first:last])

    def candidates(self, row: Any) -> tuple[np.ndarray, np.ndarray]:
        """The memories that are looked at for the first key of a batch, and how well their keys fit."""
        wanted = self._wanted(1)
        found, fits = np.empty((1, wanted), np.int64), np.empty((1, wanted), np.float32)
        nobody = np.zeros(2, np.int64), NOBODY
        self.base.query(row, (0, 1), *nobody, found, fits, NO_TRACES, self._leaves(wanted), 0.0, 0)
        there = found[0] != NONE
        return found[0, there], fits[0, there]

    def ranked(self, row: Any, found: np.ndarray, fits: np.ndarray, counts: np.ndarray) -> tuple[list[int], list[float]]:
        """The same memories, ranked by what the parts of a score are made to count for, and their scores."""
        ids, scores = np.empty((1, len(found)), np.int64), np.empty((1, len(found)), np.float32)
        columns = self._columns(row, 0, 1)
        self.aims.rank(self.values.tree, counts, columns, found[None], fits[None], ids, scores)
        return ids[0].tolist(), scores[0].tolist()

    def compare(self, X: Any, first: int, last: int, ids: np.ndarray) -> np.ndarray:
        """How well memories, all of which are there, fit when they are the candidates."""
        fits = self.base.compare(X, first, last, ids)
        if not self.ready:
            return fits
        found = np.ascontiguousarray(ids[first:last])
        best, scores = np.empty_like(found), np.empty_like(fits)
        self.aims.rank(self.values.tree, self.aims.counts, self._columns(X, first, last), found, fits, best, scores)
        # They come ranked; each score goes back to where its id was.
        by_id = [dict(zip(*row, strict=True)) for row in zip(best.tolist(), scores.tolist(), strict=True)]
        return np.array([[scored[id] for id in row] for scored, row in zip(by_id, found.tolist(), strict=True)], np.float32)

    def update(
        self, X: Any, traces: np.ndarray, ids: np.ndarray, rewards: np.ndarray, progress: np.ndarray, last: int
    ) -> Any:
        """Learn from rewards: the aims, and routers if they do."""
        first = progress.item() // (1 + self.settings.reroutes)
        learned = 0
        if self._may_learn():
            columns = self._columns(X, first, last)
            self.aims.reach(1 + int(columns[1].max(initial=0)))
            fits = self.base.compare(X, first, last, ids)
            learned = self.aims.learn(self.values.tree, columns, ids[first:last], fits, rewards[first:last])
        counts = self.base.update(X, traces, ids, self._told(rewards), progress, last)
        counts[0] += learned
        return counts

    def _may_learn(self) -> bool:
        return self.aims is not None and self.aims.settled >= FIRST_VALUES

    def _told(self, rewards: np.ndarray) -> np.ndarray:
        """What the other core is told. Terms would learn next to nothing beside the aims, and would believe mere noise: they
        are told only which memories were of use."""
        return rewards if self.routing.learns else np.where(rewards > 0, 1.0, np.nan)
