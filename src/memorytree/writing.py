"""Everything that changes a tree: memories come and go, rewards teach. One thread writes at a time.

What a tree consists of lies here as well: its keys, its core, its values, and the lock between readers and the writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple, Self

import numpy as np

from memorytree import cores, options
from memorytree.engine.arrays import LINKED, NONE
from memorytree.errors import InvalidOption, InvalidReceipt, UnknownId
from memorytree.hits import HitMatrix, Hits, Receipt, blank_trace
from memorytree.keys import NO_KEYS, kind_for
from memorytree.links import Links
from memorytree.locks import ReadersWriterLock
from memorytree.progress import track
from memorytree.routing import Principal

# Rows of a batch that are written before waiting readers get a turn.
STRETCH = 1024


class Learned(NamedTuple):
    """What came of an update: lessons that taught a scorer or a router, and rewards too late because a node has gone."""

    learned: int
    skipped: int


class Writable:
    """A tree as its writer sees it; `MemoryTree` is this and all that reads."""

    def __init__(self, checked: dict[str, Any]):
        self._options = checked
        self._keys: Any = None  # DenseKeys, SparseKeys or NamedKeys, once there is a key
        self._core: Any = None  # an AnyCore, once there are keys
        self._values: dict[int, Any] = {}
        self._features: dict[int, np.ndarray] = {}  # of values, for scorers that read them
        self._links = Links()  # memories that were rewarded together
        self._labels: dict[Any, int] = {}  # labels that routers may learn from, as numbers
        self._lock = ReadersWriterLock()
        self._writer = Lock()  # held for the whole of a write, also while readers are let in

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int | np.integer) and not isinstance(id, bool) and id in self._values

    def _there(self, id: Any) -> int:
        """An id that a memory has."""
        if id not in self:
            raise UnknownId(f"no memory has the id {id!r}; ids are whole numbers that insert returned or was given")
        return int(id)

    # ---- writing

    def _begin(self, x: Any) -> Any:
        """The kind of keys this tree holds; the first key settles it."""
        if self._keys is None:
            keys = kind_for(x)
            return keys, cores.make(keys.sparse, keys.dimension, self._options, self._features)
        return self._keys, self._core

    def _aside(self, work: Callable[[Any], Any]) -> Any:
        """Do long work on a twin while readers go on with the tree as it was, then swap. The caller is the writer."""
        assert self._core is not None
        core = self._core.aside()
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
            self._write(keys, core, row, ids, [value], np.zeros(1, np.int64), 1)
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

        >>> from memorytree import MemoryTree
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
            if isinstance(hits, Hits) and hits._keys is NO_KEYS:  # of a tree that had no memories yet
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
        if not len(hits) or hits._keys is NO_KEYS:
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
