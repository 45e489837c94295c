"""Scorers in plain Python: a function or object of the user's own.

A scorer is a function `(x, keys, features) -> scores`, or an object whose method `score` is one. x is the key asked for,
keys those of the candidates (a matrix, scipy's where keys are sparse), features what was given with their values (a matrix,
with zeros where a memory was given fewer or none; None where nothing was). Routing finds the candidates, all memories of the
leaves looked into; the scorer only ranks them. An object may also have `learn(x, keys, features, rewards)`, called with the
memories that were rewarded, and `arrays()` and `adopt(arrays)`, by which what it has learned is saved and comes back.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse

from memorytree.engine import kernels
from memorytree.engine.arrays import COUNT, LEFT, NODES, NONE
from memorytree.engine.core import Core
from memorytree.engine.search import AT_LEAF, BRANCH, HITS, PLACES, STEPS, WANTED
from memorytree.errors import InvalidOption
from memorytree.scoring.around import CoreAround


@runtime_checkable
class Scorer(Protocol):
    """What a scorer of one's own has at the least."""

    def score(self, x: Any, keys: Any, features: np.ndarray | None) -> np.ndarray:
        """One number for each candidate, the larger the better."""


class ScoredCore(CoreAround):
    """A tree whose candidates are ranked by a scorer in plain Python."""

    def __init__(self, base: Core, scorer: Any, features: dict[int, np.ndarray]):
        super().__init__(base)
        self.scorer = scorer
        self.features = features  # by id; the tree's own dictionary

    def copy(self) -> ScoredCore:
        """A core with trees of its own and the same scorer, which belongs to the user."""
        return ScoredCore(self.base.copy(), self.scorer, self.features)

    def lore(self) -> dict[str, np.ndarray]:
        """What the scorer has learned, if it can tell."""
        return self.scorer.arrays() if hasattr(self.scorer, "arrays") else {}

    def recall(self, lore: dict[str, np.ndarray]) -> None:
        """Give the scorer what it told."""
        if lore:
            self.scorer.adopt(lore)

    def _row(self, X: Any, i: int) -> Any:
        """Key i of a batch, as a scorer takes it."""
        if not self.base.sparse:
            return X[i]
        bounds, features, weights = X
        known = slice(bounds[i], bounds[i + 1])
        there = features[known] >= 0  # features never stored match nothing
        return _rows([weights[known][there]], [features[known][there]], self._columns(features))

    def _columns(self, *more: np.ndarray) -> int:
        stored = self.base.arrays_in_use()["key_features"]
        return 1 + max(int(part.max(initial=0)) for part in (stored, *more))

    def _candidates(self, ids: list[int], columns: int) -> tuple[Any, np.ndarray | None]:
        """Keys and features of memories."""
        arrays = self.base.arrays()
        slots = [kernels.locate(self.base.tree, id)[1] for id in ids]
        if self.base.sparse:
            spans = [slice(first, first + count) for first, count in arrays["spans"][slots].tolist()]
            keys = _rows([arrays["key_weights"][s] for s in spans], [arrays["key_features"][s] for s in spans], columns)
        else:
            keys = arrays["keys"][slots]
        given = [self.features.get(id, ()) for id in ids]
        width = max(map(len, given), default=0)
        if not width:
            return keys, None
        features = np.zeros((len(ids), width), np.float32)
        for row, numbers in zip(features, given, strict=True):
            row[: len(numbers)] = numbers
        return keys, features

    def _scores(self, x: Any, ids: list[int]) -> np.ndarray:
        keys, features = self._candidates(ids, x.shape[1] if self.base.sparse else 0)
        judge = self.scorer.score if hasattr(self.scorer, "score") else self.scorer
        scores = np.asarray(judge(x, keys, features), np.float64).reshape(-1)
        if scores.shape != (len(ids),) or np.any(np.isnan(scores)):
            raise InvalidOption(f"the scorer must return {len(ids)} numbers, none of them NaN; it returned {scores!r:.80}")
        return scores

    def compare(self, X: Any, first: int, last: int, ids: np.ndarray) -> np.ndarray:
        """How well memories fit by the scorer; -inf for those that are not there."""
        scores = np.full((last - first, ids.shape[1]), -np.inf, np.float32)
        for i in range(first, last):
            there = [j for j, id in enumerate(ids[i].tolist()) if kernels.locate(self.base.tree, id)[1] != NONE]
            if there:
                scores[i - first, there] = self._scores(self._row(X, i), ids[i, there].tolist())
        return scores

    def query(self, X: Any, rows: tuple[int, int], *question: Any) -> None:
        """Answer a range of rows: all memories of the leaves looked into are ranked by the scorer."""
        bounds, excluded, ids, scores, traces, beam, explore, draw = question  # as in `Core.query`
        nodes = self.base.arrays()["nodes"][: self.base.counters[NODES]]
        largest = int(nodes[nodes[:, LEFT] == NONE, COUNT].max())
        first, last = rows
        k, all_of_them = ids.shape[1], min(len(self), beam * largest)
        room = traces.shape[1] - PLACES - 2 * k if len(traces) else 0
        for i in range(first, last):
            found, plain = np.empty((i + 1, all_of_them), np.int64), np.empty((i + 1, all_of_them), np.float32)
            trace = np.empty((i + 1, PLACES + 2 * all_of_them + max(room, 0)), np.int64)
            self.base.query(X, (i, i + 1), bounds, excluded, found, plain, trace, beam, explore, draw)
            candidates = found[i][found[i] != NONE]
            # Exploring in a leaf returns some at random; they come in random order.
            if trace[i, BRANCH] == AT_LEAF:
                candidates = candidates[:k]
            judged = self._scores(self._row(X, i), candidates.tolist()) if len(candidates) else np.empty(0)
            best = np.argsort(-judged, kind="stable")[:k]
            ids[i], scores[i] = NONE, -np.inf
            ids[i, : len(best)], scores[i, : len(best)] = candidates[best], judged[best]
            if len(traces):
                traces[i, :PLACES] = trace[i, :PLACES]
                traces[i, WANTED], traces[i, HITS] = k, len(best)
                places = trace[i, PLACES : PLACES + 2 * all_of_them].reshape(-1, 2)
                traces[i, PLACES : PLACES + 2 * len(best)] = places[best].reshape(-1)
                path = min(room, 2 * int(trace[i, STEPS]))
                traces[i, PLACES + 2 * k : PLACES + 2 * k + path] = trace[i, PLACES + 2 * all_of_them :][:path]

    def update(
        self, X: Any, traces: np.ndarray, ids: np.ndarray, rewards: np.ndarray, progress: np.ndarray, last: int
    ) -> Any:
        """Let the scorer learn, if it does, then the routers."""
        first = progress.item() // (1 + self.settings.reroutes)
        learned = 0
        for i in range(first, last):
            if hasattr(self.scorer, "learn"):
                there = [j for j in range(ids.shape[1]) if ids[i, j] != NONE and not np.isnan(rewards[i, j])]
                there = [j for j in there if kernels.locate(self.base.tree, ids[i, j])[1] != NONE]
                if there:
                    x = self._row(X, i)
                    keys, features = self._candidates(ids[i, there].tolist(), x.shape[1] if self.base.sparse else 0)
                    self.scorer.learn(x, keys, features, rewards[i, there])
                    learned += 1
        counts = self.base.update(X, traces, ids, rewards, progress, last)
        counts[0] += learned
        return counts


def _rows(weights: list[np.ndarray], features: list[np.ndarray], columns: int) -> scipy.sparse.csr_matrix:
    """Sparse rows as one matrix."""
    bounds = np.cumsum([0, *(len(row) for row in weights)])
    return scipy.sparse.csr_matrix(
        (np.concatenate(weights), np.concatenate(features), bounds), shape=(len(weights), columns)
    )
