"""MemoryTree: a memory that takes pairs (key, value), returns those that fit a key, learns from reward, and forgets.

This file knows ids, values, receipts and the lock; everything else it asks of the engine.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np

from memorytree import cores, files, options
from memorytree.engine.core import NO_TRACES, NOBODY
from memorytree.engine.search import HITS, PLACES, STEPS
from memorytree.engine.state import LINKED, NONE
from memorytree.errors import InvalidOption, InvalidReceipt, UnknownId
from memorytree.hits import HitMatrix, Hits, Receipt, blank_trace
from memorytree.inspection import Explanation, Stats, explain, measure
from memorytree.keys import kind_for
from memorytree.links import Links
from memorytree.locks import ReadersWriterLock
from memorytree.pictures import draw_bars, draw_text
from memorytree.progress import track
from memorytree.routing import Principal

# Rows of a batch that are written before waiting readers get a turn.
STRETCH = 1024


class Learned(NamedTuple):
    """What came of an update: lessons that taught a scorer or a router, and rewards too late because a node has gone."""

    learned: int
    skipped: int


class MemoryTree:
    """A memory that learns, in logarithmic time (Contextual Memory Trees, ICML 2019).

    Args:
        routing: "principal" (a full leaf is cut along its main direction, routers then stay), "paper" (routers train
            themselves as memories pass), "terms" (sparse keys only: lists of memories by term, and weights of terms that
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
        self._options = options.check(
            {
                "routing": routing, "scorer": scorer, "balance": balance, "leaf_factor": leaf_factor,
                "reroutes": reroutes, "center": center, "capacity": capacity, "seed": seed, "trees": 0,
            }
        )  # fmt: skip
        self._keys: Any = None  # DenseKeys, SparseKeys or NamedKeys, once there is a key
        self._core: Any = None  # an AnyCore, once there are keys
        self._values: dict[int, Any] = {}
        self._features: dict[int, np.ndarray] = {}  # of values, for scorers that read them
        self._links = Links()  # memories that were rewarded together
        self._labels: dict[Any, int] = {}  # labels that routers may learn from, as numbers
        self._lock = ReadersWriterLock()
        self._writer = Lock()  # held for the whole of a write, also while readers are let in
        self._draw = 0  # numbers the explorations; no part of the state
        self._draw_lock = Lock()
        self._path_room = 64
        self._answer: Callable[..., Hits] = Hits  # what a query returns

    # ---- what is there

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int | np.integer) and not isinstance(id, bool) and id in self._values

    def __iter__(self) -> Iterator[int]:
        """The ids, in order of insertion."""
        with self._lock.reading():
            return iter(list(self._values))

    def __getitem__(self, id: int) -> Any:
        """The value of a memory."""
        return self._values[self._there(id)]

    def _there(self, id: Any) -> int:
        """An id that a memory has."""
        if id not in self:
            raise UnknownId(f"no memory has the id {id!r}; ids are whole numbers that insert returned or was given")
        return int(id)

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

    # ---- writing

    def _begin(self, x: Any) -> Any:
        """The kind of keys this tree holds; the first key settles it."""
        if self._keys is None:
            keys = kind_for(x)
            return keys, cores.make(keys.sparse, keys.dimension, self._options, self._features)
        return self._keys, self._core

    def _aside(self, work: Callable[[Any], Any]) -> Any:
        """Do long work on a copy while readers go on with the tree as it was, then swap. The caller is the writer."""
        assert self._core is not None
        core = self._core.copy()
        result = work(core)
        self._lock.acquire_write()
        try:
            self._core = core
        finally:
            self._lock.release_write()
        return result

    def _regrow_aside(self, node: int) -> Any:
        self._aside(lambda core: core.regrow(node))
        return self._known()[1]

    def insert(
        self, x: Any, value: Any, *, id: int | None = None, features: Any = None, label: str | int | None = None
    ) -> int:
        """Store a memory and return its id.

        Args:
            x: the key: a 1-D array, a scipy sparse row, or a mapping {feature: weight}.
            value: any object.
            id: the id to give it (a memory that has it is replaced); by default the next free number.
            features: numbers that describe the value, for scorers that read them.
            label: what it belongs to; principal routers keep memories of one label together where they can.
        """
        ids = np.array([NONE if id is None else options.id_to_give(id)])
        with self._writer:
            keys, core = self._begin(x)
            codes = None if label is None else options.codes_for([label], 1, self._labels)
            given = None if features is None else options.features_for([features], 1, core)
            row = keys.one(x, growing=True)  # last: only a key that is taken may bring names of features
            self._write(keys, core, row, ids, [value], np.zeros(1, _INT64), 1)
            if codes is not None or given is not None:
                self._describe(ids, codes, given)
        return ids.item()

    def _describe(self, ids: np.ndarray, codes: options.Codes | None, features: np.ndarray | None) -> None:
        """Note labels and features of memories that have come."""
        if codes is None and features is None:
            return
        self._lock.acquire_write()
        try:
            if codes is not None:
                self._labels |= codes.new
                self._core.label(ids, codes.numbers)
            if features is not None:
                # With a capacity, some of a batch may have gone again.
                there = {id: row for id, row in zip(ids.tolist(), features, strict=True) if id in self._values}
                self._features.update(there)
                if there:
                    self._core.describe(np.array(list(there), np.int64))
        finally:
            self._lock.release_write()

    def insert_many(
        self,
        X: Any,
        values: Iterable[Any],
        *,
        ids: Sequence[int] | np.ndarray | None = None,
        features: Any = None,
        labels: Iterable[str | int | None] | None = None,
        progress: bool = False,
    ) -> np.ndarray:
        """Store a batch of memories, as a loop over `insert` would, and return their ids.

        Args:
            X: a matrix (dense or scipy sparse) with a key in each row, or a list of mappings.
            values: as many values as there are keys.
            ids: the ids to give them.
            features: a row of numbers for each value, for scorers that read them.
            labels: what each belongs to, or None; they are noted about a thousand rows at a time.
            progress: show a progress bar.
        """
        values = options.listed(values)
        numbers = options.ids_for(X, len(values), ids)
        if not len(numbers):
            return numbers
        with self._writer:
            keys, core = self._begin(X)
            n = len(numbers)
            codes = None if labels is None else options.codes_for(labels, n, self._labels)
            given = None if features is None else options.features_for(features, n, core)
            batch, _ = keys.many(X, growing=True)
            done = np.zeros(1, np.int64)
            first = 0
            # Between two stretches waiting readers get a turn.
            for last in track([*range(STRETCH, n, STRETCH), n], "inserting", progress):
                self._write(keys, core if self._core is None else self._core, batch, numbers, values, done, last)
                part = slice(first, last)
                self._describe(numbers[part], codes and codes.of(part), given if given is None else given[part])
                first = last
        return numbers

    def _write(self, keys: Any, core: Any, batch: Any, ids: np.ndarray, values: list, done: np.ndarray, last: int) -> None:
        """Insert the rows of a checked batch up to last - 1, and note their values as they come and go."""
        steps = core.settings.reroutes + 1
        while True:
            removed: list[tuple[int, int]] = []
            self._lock.acquire_write()
            try:
                self._keys, self._core = keys, core
                first = -(-done.item() // steps)
                long_work = core.insert(batch, ids, done, last, removed)
                for until, gone in removed:
                    self._values.update(zip(ids[first:until].tolist(), values[first:until], strict=True))
                    self._forget(gone)
                    first = until
                until = -(-done.item() // steps)
                if until - first == 1:  # much quicker than a batch of one
                    self._values[ids.item(first)] = values[first]
                else:
                    self._values.update(zip(ids[first:until].tolist(), values[first:until], strict=True))
            finally:
                self._lock.release_write()
            if long_work == NONE:
                return
            core = self._regrow_aside(long_work)

    def _forget(self, id: int) -> None:
        """Let go of what is kept here of a memory."""
        del self._values[id]
        self._features.pop(id, None)
        self._links.forget(id)

    @classmethod
    def build(
        cls,
        X: Any,
        values: Iterable[Any],
        *,
        ids: Sequence[int] | np.ndarray | None = None,
        features: Any = None,
        labels: Iterable[str | int | None] | None = None,
        **settings: Any,
    ) -> Self:
        """A tree of a whole batch, built top-down: its sides are even from the start.

        >>> tree = MemoryTree.build([[0.0], [1.0], [2.0]], ["zero", "one", "two"], seed=0)
        >>> tree.query([1.1])[0].value
        'one'
        """
        tree = cls(**settings)
        values = options.listed(values)
        numbers = options.ids_for(X, len(values), ids)
        if not len(numbers):
            return tree
        keys, core = tree._begin(X)
        n = len(numbers)
        if len(np.unique(numbers[numbers >= 0])) < np.count_nonzero(numbers >= 0):
            raise InvalidOption("build needs ids that differ from each other")
        capacity = tree._options["capacity"]
        if capacity is not None and n > capacity:
            raise InvalidOption(f"{n} memories do not fit into a capacity of {capacity}")
        given = None if features is None else options.features_for(features, n, core)
        codes = None if labels is None else options.codes_for(labels, n, tree._labels)
        core.fill(keys.many(X, growing=True)[0], numbers, codes and codes.numbers)
        tree._labels |= {} if codes is None else codes.new
        tree._keys, tree._core = keys, core
        tree._values = dict(zip(numbers.tolist(), values, strict=True))
        tree._describe(numbers, None, given)
        return tree

    def remove(self, id: int) -> None:
        """Forget a memory; `UnknownId` where there is none."""
        with self._writer:
            id = self._there(id)
            self._lock.acquire_write()
            try:
                assert self._core is not None
                long_work = self._core.remove(id)
                self._forget(id)
            finally:
                self._lock.release_write()
            if long_work != NONE:
                self._regrow_aside(long_work)

    def update(self, hits: Hits | Receipt | dict, rewards: Any) -> Learned:
        """Say how useful the hits of a query were.

        Args:
            hits: what `query` returned, or its receipt (also as the dictionary that `Receipt.to_dict` made).
            rewards: for each hit a number in [0, 1], or None where none was observed.

        A learned metric, term lists and a scorer of one's own learn at once. Routers of paper routing learn from the
        explored node (Algorithm 3); where it has gone since, nothing is learned from it and the result counts that; then d
        memories are rerouted. Principal routers learn when `learn` is called: memories that were rewarded together (at
        least 0.5) are then kept together.
        """
        with self._writer:
            if isinstance(hits, Hits) and hits._keys is _NO_KEYS:  # of a tree that had no memories yet
                options.rewards_for(0, rewards)
                return Learned(0, 0)
            keys, core = self._known()
            kept, ids, trace = self._decision(hits)
            given = options.rewards_for(len(ids), rewards)
            return self._learn(core, keys.again(kept), trace[None], np.array([ids], np.int64), given[None])

    def update_many(self, hits: HitMatrix, rewards: Any) -> Learned:
        """The same for a batch: rewards is an n x k array, NaN where none was observed."""
        if not isinstance(hits, HitMatrix):
            raise InvalidReceipt(f"update_many takes what query_many returned, not {type(hits).__name__}")
        given = options.reward_matrix(hits.ids.shape, rewards)
        if not len(hits) or hits._keys is _NO_KEYS:
            return Learned(0, 0)
        traces = hits._traces if len(hits._traces) else np.tile(blank_trace(hits.ids.shape[1]), (len(hits), 1))
        with self._writer:
            keys, core = self._known()
            if hits._keys is not keys:
                raise InvalidReceipt("these hits come from another tree")
            return self._learn(core, keys.again_many(hits._kept), traces, hits.ids, given)

    def _known(self) -> tuple[Any, Any]:
        if self._keys is None or self._core is None:
            raise InvalidReceipt("this tree has never answered a query with hits")
        return self._keys, self._core

    def _decision(self, hits: Hits | Receipt | dict) -> tuple[Any, Sequence[int], np.ndarray]:
        """(kept key, ids, trace) of a query."""
        if isinstance(hits, Hits):
            if hits._keys is not self._keys:
                raise InvalidReceipt("these hits come from another tree; a copy of that tree takes their receipt")
            return hits._kept, hits.ids, hits._trace
        if not isinstance(hits, Receipt | dict):
            raise InvalidReceipt(f"update takes hits or their receipt, not {type(hits).__name__}")
        receipt = Receipt.from_dict(hits if isinstance(hits, dict) else hits.to_dict())
        return self._known()[0].unpack(receipt.key), [id for id, _, _ in receipt.hits], receipt.trace()

    def _learn(self, core: Any, batch: Any, traces: np.ndarray, ids: np.ndarray, rewards: np.ndarray) -> Learned:
        done = np.zeros(1, np.int64)
        learned = np.zeros(2, np.int64)
        for last in [*range(STRETCH, len(ids), STRETCH), len(ids)]:
            self._lock.acquire_write()
            try:
                learned += core.update(batch, traces, ids, rewards, done, last)
            finally:
                self._lock.release_write()
        if isinstance(core.routing, Principal):
            for row, good in zip(ids.tolist(), (rewards >= 0.5).tolist(), strict=True):
                self._links.join(id for id, rewarded in zip(row, good, strict=True) if rewarded and id in self._values)
        return Learned(*learned.tolist())

    def reroute(self, times: int) -> None:
        """Take a random memory out and put it in again, `times` times (the paper's Algorithm 7)."""
        times = options.whole("times", times, 0)
        with self._writer:
            if self._core is not None and times:
                self._aside(lambda core: core.reroute(times))

    def learn(self, passes: int = 1) -> None:
        """The explicit learning step: routers learn, then every memory is placed by them.

        Principal routers are cut anew, so that memories of one label, and those that were rewarded together, stay together;
        a learned space is looked at with today's eyes. Paper routers see all memories pass by `passes` times.
        """
        options.whole("passes", passes, 1)
        with self._writer:
            if self._core is None:
                return
            linked = self._links.pairs()
            groups = LINKED + np.unique(linked[:, 1], return_inverse=True)[1].reshape(-1)

            def work(core: Any) -> None:
                core.label(linked[:, 0].copy(), groups)
                core.relearn(passes)

            self._aside(work)

    def sweep(self) -> int:
        """Put every memory where today's routers send it, without learning; returns how many moved.

        Afterwards every memory is found under its own key.
        """
        with self._writer:
            return 0 if self._core is None else self._aside(lambda core: core.sweep())

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
            beam: how many leaves to look into, the likeliest first; a query that does explore looks into one. With term
                lists: how many times as many lists to read and memories to score.
            exclude: ids to leave out.
            draw: a number that fixes what chance decides when exploring.
        """
        if type(k) is not int or not 0 < k <= len(self._values):
            k = min(options.whole("k", k, 1), len(self._values) or 1)
        if beam != 1 or explore != 0 or type(beam) is not int:
            beam, explore = options.whole("beam", beam, 1), options.within("explore", explore, 0, 1)
        keys = self._keys
        if keys is None or self._core is None:
            kind_for(x).one(x, growing=True)
            return self._answer([], [], [], _NO_KEYS, None, blank_trace(0))
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
        beam, explore = options.whole("beam", beam, 1), options.within("explore", explore, 0, 1)
        workers = options.whole("threads", threads, 0) or os.cpu_count() or 1
        if options.length(X) * k > 2**33:
            raise InvalidOption(f"{options.length(X)} answers of {k} hits each are more than fit into memory")
        if self._keys is None or self._core is None:
            n = kind_for(X).many(X)[1] if options.length(X) else 0
            blank = np.full((n, k), NONE, np.int64), np.full((n, k), -np.inf, np.float32)
            return HitMatrix(*blank, self, _NO_KEYS, X, NO_TRACES)
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

    def explain(self, x: Any, k: int = 5) -> Explanation:
        """Why a query for x returns what it does: the way to the leaf, and the candidates in it."""
        k = options.whole("k", k, 1)
        keys: Any = self._keys or kind_for(x)
        keys.check(keys.one(x))
        return self._read(lambda tree: explain(tree, x, min(k, len(tree) or 1)))

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


class _NoKeys:
    """Stands for the keys of a tree that has none yet."""

    def pack(self, kept: Any) -> None:
        return None

    def pick(self, kept: Any, i: int) -> None:
        return None


_NO_KEYS = _NoKeys()
