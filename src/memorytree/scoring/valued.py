"""A core whose candidates are ranked by what is known of their values (`scoring/values.py`)."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np

from memorytree.engine import kernels
from memorytree.engine.core import NO_TRACES, NOBODY, Core
from memorytree.engine.merge import shorten
from memorytree.engine.search import AT_LEAF, BRANCH, PLACES
from memorytree.engine.state import NONE, Settings
from memorytree.errors import InvalidOption
from memorytree.routing.principal import principal
from memorytree.scoring.distance import distance
from memorytree.scoring.values import Aims, Values

# Directions are found anew each time the values double, up to this many, unless there has been a lesson by then.
FIRST_VALUES, ENOUGH_VALUES = 32, 4096
# A leaf that never splits.
ONE_LEAF = 1e6


class ValuedCore:
    """Memories that another core finds by their keys; what is seen of their values lies in a tree of a single leaf."""

    def __init__(self, base: Any, scorer: Values, features: dict[int, np.ndarray]):
        self.base = base
        self.scorer = scorer
        self.features = features  # by id; the face's own dictionary
        self.settings, self.routing = base.settings, base.routing
        self.aims: Any = None  # Aims, and the tree of what is seen of values, once there are features
        self.values: Any = None

    def __len__(self) -> int:
        return len(self.base)

    def __getattr__(self, name: str) -> Any:
        """Everything but values is the other core's affair."""
        if name == "base":  # not there yet, while a copy is being made
            raise AttributeError(name)
        return getattr(self.base, name)

    def copy(self) -> ValuedCore:
        """A core of its own with the same content."""
        twin = copy(self)
        twin.base = self.base.copy()
        twin.aims, twin.values = self.aims and self.aims.copy(), self.values and self.values.copy()
        return twin

    # ---- files

    def lore(self) -> dict[str, np.ndarray]:
        """What has been learned, here and by the other core."""
        lore = {f"keys.{name}": array for name, array in self.base.lore().items()} if hasattr(self.base, "lore") else {}
        if self.aims is not None:
            aims = self.aims
            lore |= {"basis": aims.basis, "weights": aims.weights, "trail": aims.trail, **aims.sums._asdict()}
            lore["settled"] = np.array([aims.settled])
        return lore

    def recall(self, lore: dict[str, np.ndarray]) -> None:
        """Be what `lore` told; the trees of the other core are then still to be adopted."""
        if hasattr(self.base, "recall"):
            self.base.recall({name[5:]: array for name, array in lore.items() if name.startswith("keys.")})
        if "basis" not in lore:
            return
        aims = Aims(self.scorer, len(lore["basis"]))
        aims.reach(len(lore["weights"]))
        own = {"basis": aims.basis, "weights": aims.weights, "trail": aims.trail, **aims.sums._asdict()}
        for name, array in own.items():
            told = lore[name]
            if told.shape != array.shape or told.dtype != array.dtype or not np.all(np.isfinite(told)):
                raise ValueError(f"{name} of what was learned about values is not whole")
            array[:] = told
        aims.settled = int(lore["settled"][0])
        self.aims = aims
        self._see_all()

    def bytes_in_use(self) -> int:
        """Bytes of what is known of the values and of what has been learned, here and by the other core."""
        parts = [] if self.values is None else list(self.values.arrays_in_use().values())
        mine = [array for name, array in self.lore().items() if not name.startswith("keys.")]
        return sum(array.nbytes for array in [*parts, *mine]) + self._beside("bytes_in_use")

    def bytes_in_all(self) -> int:
        """The same with the room for growth."""
        grown = 0 if self.values is None else sum(array.nbytes for array in self.values.arrays().values())
        grown -= 0 if self.values is None else sum(array.nbytes for array in self.values.arrays_in_use().values())
        return self.bytes_in_use() + grown + self._beside("bytes_in_all") - self._beside("bytes_in_use")

    def _beside(self, what: str) -> int:
        return getattr(self.base, what)() if hasattr(self.base, what) else 0

    # ---- values

    def admit(self, features: np.ndarray) -> None:
        """Refuse features unlike those that are there; nothing has been written yet."""
        width = features.shape[1]
        if self.aims is not None and width != len(self.aims.basis):
            raise InvalidOption(f"a value has {width} features, those of this tree have {len(self.aims.basis)}")

    def describe(self, ids: np.ndarray) -> None:
        """These memories have got features."""
        if self.aims is None:
            self.aims = Aims(self.scorer, len(self.features[int(ids[0])]))
        n = len(self.features)
        due = max(FIRST_VALUES, 2 * self.aims.settled)
        if self.values is None or (n >= due and self.aims.settled < ENOUGH_VALUES and not self.aims.lessons):
            sample = list(self.features.values())[:: max(1, n // ENOUGH_VALUES)][:ENOUGH_VALUES]
            self.aims.settle(np.stack(sample), n)
            self._see_all()
        else:
            self._see(ids)

    def _see_all(self) -> None:
        settings = Settings(leaf_factor=ONE_LEAF, reroutes=0, capacity=0, seed=0)
        self.values = Core(False, self.aims.basis.shape[1], settings, principal(), distance())
        self._see(np.array(list(self.features), np.int64))

    def _see(self, ids: np.ndarray) -> None:
        rows = np.stack([self.features[id] for id in ids.tolist()]) @ self.aims.basis
        self.values.insert(np.ascontiguousarray(rows, np.float32), ids.copy(), np.zeros(1, np.int64), len(ids), [])

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
        return np.arange(n + 1) * d, np.tile(np.arange(1, d + 1, dtype=np.int32), n), X[first:last].reshape(-1)

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
        self.aims.rank(self.values.tree, self.aims.counts(), self._columns(X, first, last), found, fits, *best)
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

    def update(
        self, X: Any, traces: np.ndarray, ids: np.ndarray, rewards: np.ndarray, progress: np.ndarray, last: int
    ) -> Any:
        """Learn from rewards: the aims, and routers if they do. Terms would learn next to nothing beside the aims, and would
        believe mere noise: they are told only which memories were of use."""
        first = progress.item() // (1 + self.settings.reroutes)
        learned = 0
        if self.aims is not None:
            columns = self._columns(X, first, last)
            self.aims.reach(1 + int(columns[1].max(initial=0)))
            fits = self.base.compare(X, first, last, ids)
            learned = self.aims.learn(self.values.tree, columns, ids[first:last], fits, rewards[first:last])
        told = rewards if self.routing.learns else np.where(rewards > 0, 1.0, np.nan)
        counts = self.base.update(X, traces, ids, told, progress, last)
        counts[0] += learned
        return counts
