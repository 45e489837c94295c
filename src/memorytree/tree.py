"""MemoryTree: a memory that takes pairs (key, value), returns those that fit a key, learns from reward, and forgets.

This file reads: what is there, what fits, and why; `writing.py` has all that changes a tree. Both know ids, values, receipts
and the lock; everything else they ask of the engine.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, Self

import numpy as np

from memorytree import files, options
from memorytree.engine.arrays import NONE
from memorytree.engine.core import NO_TRACES, NOBODY
from memorytree.engine.search import HITS, PLACES, STEPS
from memorytree.errors import InvalidOption
from memorytree.hits import HitMatrix, Hits, blank_trace
from memorytree.inspection import Explanation, Stats, explain, measure
from memorytree.keys import NO_KEYS, kind_for
from memorytree.pictures import draw_bars, draw_text
from memorytree.writing import Writable


class MemoryTree(Writable):
    """A memory that learns, in logarithmic time (Contextual Memory Trees, ICML 2019).

    Args:
        routing: "principal" (a full leaf is cut along its main direction, routers then stay), "neighbours" (the same, and
            every memory knows up to 32 others that are near: a search goes on from one to the next, finds more in less
            time, and insertions take ten times as long; dense keys only), "paper" (routers train themselves as memories
            pass), "terms" (sparse keys only: lists of memories by term, and weights of terms that
            learn from rewards), or "auto": principal for dense keys, terms for sparse ones.
        scorer: "distance" (the nearest fits best), "cosine", "tfidf" (sparse keys: terms count by how few of the memories
            that are there now have them), "metric" (near in a space that is learned from rewards), "values" (what values are
            like, by the features given with them, is learned to count as well), "linear" (the paper's), or one of your own:
            a function (x, keys, features) -> scores.
        balance: the paper's alpha: how strongly learning routers prefer even sides.
        leaf_factor: the paper's c: a leaf holds at most max(8, ceil(c ln n)) memories.
        reroutes: the paper's d: memories that are put in anew after each write, where routers learn.
        center: let learning routers see keys less their running mean; helps where all features are positive.
        capacity: keep at most so many memories; the one whose insertion or last useful return lies furthest back goes.
        seed: the same seed and the same writes give the same tree.

    Example:
        >>> tree = MemoryTree(seed=0)
        >>> first = tree.insert([1.0, 0.0], "east")
        >>> second = tree.insert([0.0, 1.0], "north")
        >>> hits = tree.query([0.9, 0.2], k=1)
        >>> hits[0].value
        'east'
        >>> tree.update(hits, [1.0])
        Learned(learned=0, skipped=0)
        >>> tree.remove(first)
        >>> tree.query([0.9, 0.2])[0].value
        'north'
    """

    def __init__(
        self,
        *,
        routing: Any = "auto",
        scorer: Any = "distance",
        balance: float = 0.9,
        leaf_factor: float = 4,
        reroutes: int = 5,
        center: bool = False,
        capacity: int | None = None,
        seed: int | None = None,
    ):
        super().__init__(
            options.check(
                {
                    "routing": routing, "scorer": scorer, "balance": balance, "leaf_factor": leaf_factor,
                    "reroutes": reroutes, "center": center, "capacity": capacity, "seed": seed, "trees": 0,
                }
            )
        )  # fmt: skip
        self._draw = 0  # numbers the explorations; no part of the state
        self._draw_lock = Lock()
        self._path_room = 64
        self._answer: Callable[..., Hits] = Hits  # what a query returns

    # ---- what is there

    def __iter__(self) -> Iterator[int]:
        """The ids, in order of insertion."""
        with self._lock.reading():
            return iter(list(self._values))

    def __getitem__(self, id: int) -> Any:
        """The value of a memory."""
        return self._values[self._there(id)]

    def get(self, id: int, default: Any = None) -> Any:
        """The value of a memory, or a default."""
        return self._values[id] if id in self else default

    def key(self, id: int) -> Any:
        """The key of a memory, in the form in which keys were given."""
        with self._lock.reading():
            id = self._there(id)
            keys, core = self._known()
            return keys.stored(*core.place_of(id))

    def __repr__(self) -> str:
        kind = "empty" if self._keys is None else type(self._keys).__name__.removesuffix("Keys").lower()
        return f"<{type(self).__name__}: {len(self):,} memories, {kind} keys, routing {self._options['routing']!r}>"

    # ---- reading

    def query(
        self,
        x: Any,
        k: int = 1,
        *,
        explore: float = 0.0,
        beam: int = 1,
        exclude: Iterable[int] | None = None,
        draw: int | None = None,
    ) -> Hits:
        """The memories that fit a key best, at most k, best first.

        Args:
            x: the key.
            k: how many to return.
            explore: the paper's epsilon: with this probability one decision is left to chance, so that `update` can learn.
            beam: how many leaves to look into, the likeliest first; a query that does explore looks into one. With
                neighbours: how many memories to ask for theirs, half as many to twice as many, as the distances tell. With
                term lists: how many times as many lists to read and memories to score; 0 reads as many as 1 does and ranks
                memories by what these lists tell of them, which takes less time: scores are then estimates.
            exclude: ids to leave out.
            draw: a number that fixes what chance decides when exploring.
        """
        if type(k) is not int or not 0 < k <= len(self._values):
            k = min(options.whole("k", k, 1), len(self._values) or 1)
        if beam != 1 or explore != 0 or type(beam) is not int:
            beam, explore = self._checked_beam(beam), options.within("explore", explore, 0, 1)
        keys = self._keys
        if keys is None or self._core is None:
            kind_for(x).one(x, growing=True)
            return self._answer([], [], [], NO_KEYS, None, blank_trace(0))
        row = keys.one(x)
        if self._options["scorer"] != "distance":
            keys.check(row)
        excluded, bounds = NOBODY, _NO_BOUNDS
        if exclude is not None:
            excluded = options.ids("exclude", exclude)
            bounds = np.array([0, len(excluded)])
        ids, scores = np.empty((1, k), _INT64), np.empty((1, k), _FLOAT32)
        draw = self._draws(draw, 1) if explore else 0
        while True:
            room = self._path_room
            traces = np.empty((1, PLACES + 2 * k + 2 * room), _INT64)
            with self._lock.reading():
                self._core.query(row, (0, 1), bounds, excluded, ids, scores, traces, beam, explore, draw)
                found = ids.tolist()[0]
                if traces.item(HITS) < k:
                    del found[traces.item(HITS) :]
                values = [self._values[id] for id in found]
            steps = traces.item(STEPS)
            if steps <= room:
                break
            self._path_room = max(self._path_room, 2 * steps)
        # A key that holds NaN or infinity shows in its distances; reading does no harm, so it is enough to look now.
        if not found or not scores.item(0) > _WORST:
            keys.check(row)
        return self._answer(found, values, scores.tolist()[0][: len(found)], keys, keys.keep(x, row), traces[0])

    def _checked_beam(self, beam: Any) -> int:
        return options.whole("beam", beam, 1 if self._core is None else self._core.least_beam)

    def query_many(
        self,
        X: Any,
        k: int = 1,
        *,
        explore: float = 0.0,
        beam: int = 1,
        exclude: Sequence[Iterable[int]] | None = None,
        draw: int | None = None,
        threads: int = 1,
    ) -> HitMatrix:
        """Answer a batch of queries, as a loop over `query` would.

        Args:
            X: a matrix with a key in each row, or a list of mappings.
            k, explore, beam: as in `query`.
            exclude: for each row the ids to leave out.
            draw: fixes what chance decides when exploring; row i takes draw + i.
            threads: how many threads share the rows (0: one for each core).
        """
        k = options.whole("k", k, 1)
        beam, explore = self._checked_beam(beam), options.within("explore", explore, 0, 1)
        workers = options.whole("threads", threads, 0) or os.cpu_count() or 1
        if options.length(X) * k > 2**33:
            raise InvalidOption(f"{options.length(X)} answers of {k} hits each are more than fit into memory")
        if self._keys is None or self._core is None:
            n = kind_for(X).many(X)[1] if options.length(X) else 0
            blank = np.full((n, k), NONE, np.int64), np.full((n, k), -np.inf, np.float32)
            return HitMatrix(*blank, self, NO_KEYS, X, NO_TRACES)
        keys = self._keys
        batch, n = keys.many(X)
        bounds, excluded = options.exclusions(exclude, n)
        ids, scores = np.empty((n, k), np.int64), np.empty((n, k), np.float32)
        draw = self._draws(draw, n) if explore else 0
        edges = np.linspace(0, n, min(workers, max(n, 1)) + 1).astype(int).tolist()
        while True:
            room = self._path_room
            traces = np.empty((n, PLACES + 2 * k + 2 * room), np.int64) if explore else NO_TRACES
            with self._lock.reading():
                core = self._core
                if workers == 1:
                    core.query(batch, (0, n), bounds, excluded, ids, scores, traces, beam, explore, draw)
                else:
                    with ThreadPoolExecutor(workers) as pool:
                        parts = [
                            pool.submit(core.query, batch, rows, bounds, excluded, ids, scores, traces, beam, explore, draw)
                            for rows in itertools.pairwise(edges)
                        ]
                    for part in parts:
                        part.result()
            if not explore or not n or traces[:, STEPS].max() <= room:
                return HitMatrix(ids, scores, self, keys, keys.keep_many(X, batch), traces)
            self._path_room = max(self._path_room, 2 * int(traces[:, STEPS].max()))

    def compare(self, x: Any, ids: Iterable[int]) -> np.ndarray:
        """How well some memories fit a key, each looked at, whatever routing would have found: one score for each id.

        An id that no memory has scores minus infinity.

        >>> tree = MemoryTree(seed=0)
        >>> ids = tree.insert_many([[0.0], [1.0], [2.0]], ["zero", "one", "two"])
        >>> tree.compare([1.5], [2, 0])
        array([-0.5, -1.5], dtype=float32)
        """
        asked = options.ids("ids", ids)
        scores = np.full(len(asked), -np.inf, np.float32)
        keys: Any = self._keys or kind_for(x)
        row = keys.one(x)
        keys.check(row)
        with self._lock.reading():
            there = np.array([id in self._values for id in asked.tolist()], bool)
            if there.any():
                scores[there] = self._core.compare(row, 0, 1, asked[None, there])[0]
        return scores

    def _draws(self, given: int | None, n: int) -> int:
        """The first of n numbers that fix what chance decides."""
        if given is not None:
            return options.whole("draw", given, 0)
        with self._draw_lock:
            self._draw += n
            return self._draw - n

    # ---- looking inside

    def stats(self) -> Stats:
        """Size, shape and balance of the tree, and the bytes it takes."""
        return self._read(measure)

    def explain(self, x: Any, k: int = 5, *, beam: int = 1) -> Explanation:
        """Why a query for x with this beam returns what it does: the way to the first leaf, and the k best memories."""
        k, beam = options.whole("k", k, 1), self._checked_beam(beam)
        keys: Any = self._keys or kind_for(x)
        keys.check(keys.one(x))
        return self._read(lambda tree: explain(tree, x, min(k, len(tree) or 1), beam))

    def draw(self, ax: Any = None, *, depth: int = 4, names: Mapping[Any, str] | None = None) -> Any:
        """A picture of the tree: as text, or with matplotlib on the axes given (`ax=True` makes some).

        Args:
            ax: None for text, or where to draw.
            depth: how many levels; of term lists, which have none, five terms for each.
            names: of term lists, only the terms that have a name here.
        """
        depth = options.whole("depth", depth, 0)
        if ax is None:
            return self._read(lambda tree: draw_text(tree, depth, names))
        return self._read(lambda tree: draw_bars(tree, depth, None if ax is True else ax, names))

    def _read(self, look: Callable[[MemoryTree], Any]) -> Any:
        with self._lock.reading():
            return look(self)

    # ---- files

    def save(self, path: str | os.PathLike, *, encode: Callable[[Any], Any] | None = None) -> None:
        """Write the tree to one file, whole or not at all.

        Values may be what msgpack knows (None, bool, int, float, str, bytes, list, dict) and NumPy arrays; for anything
        else give `encode`, which turns a value into such data.
        """
        files.save(self._read(files.state_of), path, encode)

    @classmethod
    def load(cls, path: str | os.PathLike, *, decode: Callable[[Any], Any] | None = None, scorer: Any = None) -> Self:
        """The tree that `save` wrote; it goes on exactly as the saved one would have.

        Args:
            path: the file.
            decode: turns what `encode` made of a value back into the value.
            scorer: the scorer of one's own that the tree had, if it had one; no file holds code.
        """
        return files.load(cls, path, decode, scorer)

    def __getstate__(self) -> dict[str, Any]:
        return self._read(files.state_of)

    def __setstate__(self, state: dict[str, Any]) -> None:
        files.restore(self, state)


_NO_BOUNDS = np.zeros(2, np.int64)
_INT64, _FLOAT32 = np.dtype(np.int64), np.dtype(np.float32)
_WORST = -math.inf
