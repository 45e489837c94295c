"""Progressive validation: every row is predicted before it is inserted.

Three systems predict the same stream: a memory tree, an exact scan for the nearest key, and the constant predictor (the
most frequent answer so far).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from memorytree import MemoryTree

TREE, SCAN, CONSTANT = "memorytree", "exact nearest neighbour", "constant"

_BLOCK = 256
_TIMED_SCANS = 15
NOTHING = -1


class Race:
    """The stream and the predictions of each system so far.

    Attributes:
        right: for each system whether its prediction of each row was right.
        remembered: the row of the memory that the tree returned.
        seconds: the time of each query to the tree.
        sizes, tree_times, scan_times: sizes of the memory, and the seconds of a query at each.
    """

    def __init__(self, keys: np.ndarray, labels: Sequence[str], *, beam: int, seed: int):
        self.labels = np.asarray(labels)
        self.right = {system: np.zeros(len(keys), bool) for system in (TREE, SCAN, CONSTANT)}
        self.remembered = np.full(len(keys), NOTHING)
        self.seconds = np.zeros(len(keys))
        self.seen_before = np.zeros(len(keys), bool)
        self.sizes: list[int] = []
        self.tree_times: list[float] = []
        self.scan_times: list[float] = []
        self._keys = keys
        self._beam = beam
        self._tree = MemoryTree(seed=seed)
        self._counts: dict[str, int] = {}
        self._commonest = ""

    def run(self) -> Iterator[int]:
        """Process the stream; yield the number of rows done after each block."""
        rows = len(self._keys)
        stops = np.unique(np.geomspace(min(100, rows), rows, 14).astype(int))
        blocks = np.unique([*range(_BLOCK, rows, _BLOCK), *stops])
        first = 0
        for last in blocks.tolist():
            self._predict_by_tree(first, last)
            self._predict_by_constant(first, last)
            self._predict_by_scan(first, last)
            if last in stops:
                self._time(last)
            first = last
            yield last

    def _predict_by_tree(self, first: int, last: int) -> None:
        for row in range(first, last):
            key, label = self._keys[row], str(self.labels[row])
            start = time.perf_counter()
            hits = self._tree.query(key, k=1, beam=self._beam)
            self.seconds[row] = time.perf_counter() - start
            if hits:
                self.remembered[row] = hits[0].id
                self.right[TREE][row] = hits[0].value == label
                # The routers of dense keys do not learn; the reward marks a memory as useful.
                self._tree.reward(hits, [float(hits[0].value == label)])
            self._tree.insert(key, label, id=row)

    def _predict_by_constant(self, first: int, last: int) -> None:
        for row in range(first, last):
            label = str(self.labels[row])
            self.right[CONSTANT][row] = label == self._commonest
            self.seen_before[row] = label in self._counts
            self._counts[label] = self._counts.get(label, 0) + 1
            if self._counts[label] > self._counts.get(self._commonest, 0):
                self._commonest = label

    def _predict_by_scan(self, first: int, last: int) -> None:
        """Predict a block at once; each row is compared only with the rows before it."""
        likeness = self._keys[first:last] @ self._keys[:last].T
        rows = np.arange(first, last)
        likeness[:, first:][rows >= rows[:, None]] = -np.inf
        nearest = likeness.argmax(axis=1)
        self.right[SCAN][first:last] = (self.labels[nearest] == self.labels[first:last]) & (rows > 0)

    def _time(self, size: int) -> None:
        """Store the time of a query at this size: of the tree's latest queries, and of some scans, on one thread."""
        stored, scans = self._keys[:size], []
        with threadpool_limits(1):
            for key in self._keys[max(0, size - _TIMED_SCANS) : size]:
                start = time.perf_counter()
                int((stored @ key).argmax())
                scans.append(time.perf_counter() - start)
        self.sizes.append(size)
        self.tree_times.append(_typical(self.seconds[max(0, size - max(30, size // 10)) : size]))
        self.scan_times.append(_typical(scans))


def _typical(seconds: Sequence[float] | np.ndarray) -> float:
    """Return the lower quartile, because other processes on the machine only add time."""
    return float(np.quantile(np.asarray(seconds), 0.25))


def error(right: np.ndarray) -> np.ndarray:
    """Return the progressive error after each row."""
    return 1 - np.cumsum(right) / np.arange(1, len(right) + 1)


def entropy_reduction(right: np.ndarray, constant: np.ndarray) -> np.ndarray:
    """Return the paper's measure after each row: log2 of the accuracy less log2 of the constant predictor's, in bits.

    It is NaN until both have been right once.

    >>> entropy_reduction(np.array([False, True, True]), np.array([False, True, False]))
    array([nan,  0.,  1.])
    """
    ours, theirs = np.cumsum(right), np.cumsum(constant)
    defined = (ours > 0) & (theirs > 0)
    return np.where(defined, np.log2(np.maximum(ours, 1) / np.maximum(theirs, 1)), np.nan)


def figures(race: Race) -> dict[str, Any]:
    """Return the final figures as JSON data; the time of the constant predictor is negligible and not measured."""
    seconds = {TREE: race.tree_times[-1], SCAN: race.scan_times[-1], CONSTANT: None}
    systems = {
        system: {
            "error": float(error(right)[-1]),
            "entropy_reduction": _finite(entropy_reduction(right, race.right[CONSTANT])[-1]),
            "seconds_a_query": seconds[system],
        }
        for system, right in race.right.items()
    }
    return {"rows": len(race.labels), "first_of_their_kind": float(1 - race.seen_before.mean()), "systems": systems}


def _finite(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None


def warm_up(dimension: int, beam: int) -> None:
    """Compile everything that the race needs, on random keys."""
    keys = np.random.default_rng(0).normal(size=(200, dimension)).astype(np.float32)
    for _ in Race(keys, ["a"] * len(keys), beam=beam, seed=0).run():
        pass
