"""MemoryTree: the public API of a memory in one process.

This file handles ids, values, receipts and locks. Everything else is the work of an index (`memorytree.index`).
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from threading import Lock
from typing import TYPE_CHECKING, Self, TypeVar, overload

import numpy as np

from memorytree import arguments, drawing, serialization
from memorytree.arguments import IdSet
from memorytree.config import Routing, Scorer, TreeConfig
from memorytree.errors import InvalidKey, InvalidOption, InvalidReceipt, UnknownId
from memorytree.index import base
from memorytree.index.base import IdLists, Index, QueryRequest, QueryResult, RewardBatch
from memorytree.index.evictions import Evictions, plan_evictions
from memorytree.index.factory import make_index
from memorytree.keys import AnyKeys, EncodedKey, UserKey, keys_for
from memorytree.learning.reward_groups import RewardGroups
from memorytree.locks import ReadersWriterLock
from memorytree.packing import PlainData, Value
from memorytree.progress import track
from memorytree.receipts import EXPLOITED, Decision, Receipt, decision_rows
from memorytree.results import (
    NO_ID,
    ExplainedHit,
    Explanation,
    Hit,
    HitMatrix,
    Hits,
    QueryOrigin,
    RewardResult,
    Stats,
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS_PER_LOCK = 1024
"""Rows of a batch that are written before waiting readers get the lock."""
MOST_HITS = 2**33
PARTS_SHOWN = 3
GOOD_REWARD = 0.5
"""Memories with at least this reward for the same query form a group."""

T = TypeVar("T")


class MemoryTree:
    """A memory that learns, in logarithmic time (Contextual Memory Trees, ICML 2019).

    Args:
        routing: how candidates are found. "graph" (dense keys): links between near memories, along which a search continues;
            nearly exact. "terms" (sparse keys): lists of memories by term, with weights of terms that learn from rewards.
            With a fixed scorer and one tree, both compare a key with every memory up to the first 1,000, without compiled
            code. "flat": they always do. "principal": a full leaf is split along its main direction, routers then stay.
            "paper": routers learn from every insertion. "auto": graph for dense keys, terms for sparse ones, principal with
            several trees or a learned scorer. An object of `memorytree.config` sets the options of a routing.
        scorer: how candidates are ranked. "distance" (the nearest first), "cosine", "tfidf" (sparse keys: terms count by how
            few of the memories have them), "metric" (by a projection that learns from rewards), "values" (by features given
            with the values as well), "linear" (the paper's), or a function (x, keys, features) -> scores.
        trees: how many trees split the same memories; their answers are merged.
        balance: the paper's alpha: how strongly learning routers prefer even sides.
        leaf_factor: the paper's c: a leaf holds at most max(8, ceil(c ln n)) memories.
        reroutes: the paper's d: memories that are inserted again after each write, where routers learn.
        center: subtract the running mean from keys where routers learn; helps where all features are positive.
        capacity: store at most so many memories; the one whose insertion or last reward is longest ago is removed.
        seed: the same seed and the same writes give the same tree.

    Raises:
        InvalidOption: an option is out of range.

    Example:
        >>> tree = MemoryTree(seed=0)
        >>> first = tree.insert([1.0, 0.0], "east")
        >>> second = tree.insert([0.0, 1.0], "north")
        >>> hits = tree.query([0.9, 0.2], k=1)
        >>> hits[0].value
        'east'
        >>> tree.reward(hits, [1.0])
        RewardResult(learned=0, skipped=0)
        >>> tree.remove(first)
        >>> tree.query([0.9, 0.2])[0].value
        'north'
    """

    def __init__(  # noqa: PLR0913  (a keyword for each option)
        self,
        *,
        routing: str | Routing = "auto",
        scorer: str | Scorer = "distance",
        trees: int = 1,
        balance: float = 0.9,
        leaf_factor: float = 4,
        reroutes: int = 5,
        center: bool = False,
        capacity: int | None = None,
        seed: int | None = None,
    ):
        self.config = TreeConfig(routing, scorer, trees, balance, leaf_factor, reroutes, center, capacity, seed)
        self.on_remove: Callable[[int, Value], None] | None = None
        """Called with the id and the value of every memory that is removed, also for lack of capacity."""
        self._keys: AnyKeys | None = None  # None before the first key
        self._index: Index | None = None
        self._values: dict[int, Value] = {}
        self._groups = RewardGroups()  # memories that were rewarded together
        self._labels: dict[str | int, int] = {}  # labels as numbers
        self._lock = ReadersWriterLock()
        self._writer = Lock()  # held for the whole of a write, also while readers have the lock in between
        self._checks_queries = self.config.scorer != "distance"  # distances show whether a key is finite
        self._draw = 0  # numbers explorations; not part of the state
        self._draw_lock = Lock()

    @classmethod
    def from_config(cls, config: TreeConfig) -> Self:
        """An empty tree with these options.

        Args:
            config: all options, checked.

        Returns:
            The tree.

        >>> MemoryTree.from_config(MemoryTree(scorer="cosine", seed=0).config).config.scorer
        'cosine'
        """
        return cls(**{field.name: getattr(config, field.name) for field in fields(config)})

    # ---- contents

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, int | np.integer) and not isinstance(id, bool) and id in self._values

    def __iter__(self) -> Iterator[int]:
        """The ids, in order of insertion."""
        with self._lock.reading():
            return iter(list(self._values))

    def __getitem__(self, id: int) -> Value:
        """The value of a memory; `UnknownId` if there is none."""
        return self._values[self._known_id(id)]

    def get(self, id: int, default: Value = None) -> Value:
        """The value of a memory, or a default.

        Args:
            id: any id.
            default: what to return if no memory has it.

        Returns:
            The value.

        >>> tree = MemoryTree(seed=0)
        >>> tree.get(tree.insert([1.0], "one")), tree.get(7, "nothing")
        ('one', 'nothing')
        """
        return self._values[id] if id in self else default

    def get_many(self, ids: Iterable[int], default: Value = None) -> list[Value]:
        """The values of several memories, a default where there is none.

        Args:
            ids: any ids.
            default: what to return in place of a value for an id that no memory has.

        Returns:
            A value for each id.

        Raises:
            InvalidOption: ids is no list.

        >>> tree = MemoryTree(seed=0)
        >>> ids = tree.insert_many([[0.0], [1.0]], ["zero", "one"])
        >>> tree.get_many([1, 5, 0])
        ['one', None, 'zero']
        """
        return [self.get(id, default) for id in arguments.check_list(ids)]

    def key(self, id: int) -> UserKey:
        """The key of a memory.

        Args:
            id: the memory.

        Returns:
            The key, in the form in which keys are given.

        Raises:
            UnknownId: no memory has this id.

        >>> tree = MemoryTree(seed=0)
        >>> tree.key(tree.insert({"rain": 2.0}, "wet"))
        {'rain': 2.0}
        """
        with self._lock.reading():
            keys, index = self._known_index()
            return keys.to_user(index.key(self._known_id(id)))

    def label(self, id: int) -> str | int | None:
        """The label of a memory.

        Args:
            id: the memory.

        Returns:
            The label, None if it has none.

        Raises:
            UnknownId: no memory has this id.

        >>> tree = MemoryTree(seed=0)
        >>> tree.label(tree.insert([1.0], "one", label="odd"))
        'odd'
        """
        with self._lock.reading():
            number = self._known_index()[1].label(self._known_id(id))
            return list(self._labels)[number] if 0 <= number < len(self._labels) else None

    def features(self, id: int) -> np.ndarray | None:
        """The features given with a memory's value.

        Args:
            id: the memory.

        Returns:
            An array, None if there are none, or if the scorer does not use features.

        Raises:
            UnknownId: no memory has this id.

        >>> tree = MemoryTree(scorer="values", seed=0)
        >>> tree.features(tree.insert([1.0], "one", features=[2.0, 3.0]))
        array([2., 3.], dtype=float32)
        """
        with self._lock.reading():
            return self._known_index()[1].features(self._known_id(id))

    @property
    def keys(self) -> AnyKeys | None:
        """The conversions of the tree's keys; None before the first key."""
        return self._keys

    @property
    def index(self) -> Index | None:
        """The index that holds the keys; None before the first key."""
        return self._index

    def _known_id(self, id: object) -> int:
        """An id that a memory has."""
        if id not in self:
            raise UnknownId(f"no memory has the id {id!r}; ids are integers that insert returned or was given")
        assert isinstance(id, int | np.integer)
        return int(id)

    def _known_index(self) -> tuple[AnyKeys, Index]:
        if self._keys is None or self._index is None:
            raise UnknownId("this tree has never had a memory")
        return self._keys, self._index

    def __repr__(self) -> str:
        kind = "empty" if self._keys is None else self._keys.kind
        return f"<{type(self).__name__}: {len(self):,} memories, {kind} keys, routing {self.config.routing_name!r}>"

    # ---- writing

    def _begin(self, x: object) -> tuple[AnyKeys, Index]:
        """The keys and the index for a first key or batch of keys; they are kept once it is stored."""
        if self._keys is None or self._index is None:
            keys = keys_for(x)
            return keys, make_index(self.config, keys.sparse, keys.dimension)
        return self._keys, self._index

    def check_insert(self, X: object, features: np.ndarray | None = None) -> AnyKeys:
        """The conversions of keys for a key or a batch to insert; keys themselves are not checked.

        Args:
            X: a key, or a batch of keys.
            features: rows of features for some of their values.

        Returns:
            The conversions, as in `keys`.

        Raises:
            InvalidKey: X is not a key.
            InvalidOption: the options of the tree do not fit keys of this kind, or the features.

        >>> MemoryTree(seed=0).check_insert([1.0, 2.0]).dimension
        2
        """
        keys, index = self._begin(X)
        if features is not None:
            index.check_features(features)
        return keys

    def _rebuild_and_swap(self, work: Callable[[Index], T]) -> T:
        """Do long work on a copy of the index while readers use the original, then replace it. The caller is the writer."""
        assert self._index is not None
        index = self._index.copy_for_rebuild()
        result = work(index)
        with self._lock.writing():
            self._index = index
        return result

    def insert(
        self,
        x: object,
        value: Value,
        *,
        id: int | None = None,
        features: object = None,
        label: str | int | None = None,
    ) -> int:
        """Store a memory.

        Args:
            x: the key: a 1-D array, a scipy sparse row, or a mapping {feature: weight}.
            value: any object.
            id: the id to give it; a memory that has it is replaced. By default the next free number.
            features: numbers that describe the value, for scorers that use them.
            label: what it belongs to; principal routers keep memories of one label together where they can.

        Returns:
            Its id.

        Raises:
            InvalidKey: x is not a key, or not of the tree's kind.
            InvalidOption: another argument is invalid.

        >>> tree = MemoryTree(seed=0)
        >>> tree.insert([1.0, 0.0], "east", label="horizontal")
        0
        """
        ids = np.array([arguments.check_new_id(id)])
        with self._writer:
            keys, index = self._begin(x)
            codes = None if label is None else arguments.check_labels([label], 1, self._labels)
            rows = self._check_features(index, None if features is None else [features], 1)
            row = keys.one(x, adding=True)  # last: only a valid key may add names of features
            self._insert_rows((keys, index), row, ids, [value], (0, 1))
            if codes is not None or rows is not None:
                self._describe(ids, codes, rows)
        return ids.item()

    def insert_many(
        self,
        X: object,
        values: Iterable[Value],
        *,
        ids: Sequence[int] | np.ndarray | None = None,
        features: object = None,
        labels: Iterable[str | int | None] | None = None,
        progress: bool = False,
    ) -> np.ndarray:
        """Store a batch of memories, as a loop over `insert` would.

        Args:
            X: a matrix (dense or scipy sparse) with a key in each row, or a list of mappings.
            values: as many values as there are keys.
            ids: the ids to give them.
            features: a row of numbers for each value, for scorers that use them.
            labels: a label or None for each; they are set about a thousand rows at a time.
            progress: show a progress bar.

        Returns:
            Their ids, (n,) int64.

        Raises:
            InvalidKey, InvalidOption: an argument is invalid; nothing has been stored.

        >>> tree = MemoryTree(seed=0)
        >>> tree.insert_many([[0.0], [1.0]], ["zero", "one"])
        array([0, 1])
        """
        values = arguments.check_list(values)
        new_ids = arguments.check_new_ids(X, len(values), ids)
        n = len(new_ids)
        if not n:
            return new_ids
        with self._writer:
            keys, index = self._begin(X)
            codes = None if labels is None else arguments.check_labels(labels, n, self._labels)
            rows = self._check_features(index, features, n)
            batch, _ = keys.batch(X, adding=True)
            start = 0
            for stop in track([*range(ROWS_PER_LOCK, n, ROWS_PER_LOCK), n], "inserting", progress):
                self._insert_rows((keys, self._index or index), batch, new_ids, values, (start, stop))
                part = slice(start, stop)
                self._describe(new_ids[part], codes and codes.rows(start, stop), None if rows is None else rows[part])
                start = stop
        return new_ids

    def _check_features(self, index: Index, features: object, n: int) -> np.ndarray | None:
        """Features of n values as a matrix that the index can use."""
        if features is None:
            return None
        rows = arguments.check_feature_rows(features, n)
        index.check_features(rows)
        return rows

    def _insert_rows(
        self,
        into: tuple[AnyKeys, Index],
        batch: base.KeyBatch,
        ids: np.ndarray,
        values: list[Value],
        rows: tuple[int, int],
    ) -> None:
        """Insert some rows of a checked batch, and their values."""
        (keys, index), (start, stop) = into, rows
        while True:
            with self._lock.writing():
                self._keys, self._index = keys, index
                result = index.insert(batch, ids, start, stop)
                for until, evicted in result.evicted:
                    self._values.update(zip(ids[start:until].tolist(), values[start:until], strict=True))
                    self._forget(evicted)
                    start = until
                if result.done - start == 1:  # saves a tenth of a single insert
                    self._values[ids.item(start)] = values[start]
                else:
                    self._values.update(zip(ids[start : result.done].tolist(), values[start : result.done], strict=True))
            start = result.done
            if not result.rebuild_due:
                return
            self._rebuild_and_swap(lambda copy: copy.rebuild())
            assert self._index is not None
            index = self._index

    def _describe(self, ids: np.ndarray, codes: arguments.LabelCodes | None, features: np.ndarray | None) -> None:
        """Set labels and features of memories that have been inserted."""
        if codes is None and features is None:
            return
        with self._lock.writing():
            assert self._index is not None
            if codes is not None:
                self._labels |= codes.new
                self._index.set_labels(ids, codes.numbers)
            if features is not None:
                # With a capacity, some of a batch may have been removed again; of equal ids the last one counts.
                rows = {id: row for id, row in zip(ids.tolist(), features, strict=True) if id in self._values}
                if rows:
                    self._index.set_features(np.array(list(rows), np.int64), np.stack(list(rows.values())))

    def _forget(self, id: int) -> None:
        """Delete what the tree itself stores of a memory."""
        value = self._values.pop(id)
        self._groups.discard(id)
        if self.on_remove is not None:
            self.on_remove(id, value)

    @classmethod
    def build(
        cls,
        X: object,
        values: Iterable[Value],
        *,
        ids: Sequence[int] | np.ndarray | None = None,
        features: object = None,
        labels: Iterable[str | int | None] | None = None,
        **options: Value,
    ) -> Self:
        """Make a tree of a whole batch, top-down, so that it is balanced from the start.

        Args:
            X, values, ids, features, labels: as in `insert_many`; ids must differ.
            options: as for `MemoryTree`.

        Returns:
            The tree.

        Raises:
            InvalidKey, InvalidOption: an argument is invalid.

        >>> tree = MemoryTree.build([[0.0], [1.0], [2.0]], ["zero", "one", "two"], seed=0)
        >>> tree.query([1.1])[0].value
        'one'
        """
        return cls(**options).fill(X, values, ids=ids, features=features, labels=labels)

    def fill(
        self,
        X: object,
        values: Iterable[Value],
        *,
        ids: Sequence[int] | np.ndarray | None = None,
        features: object = None,
        labels: Iterable[str | int | None] | None = None,
    ) -> Self:
        """Store a whole batch in this empty tree, top-down; see `build`.

        Args:
            X, values, ids, features, labels: as in `insert_many`; ids must differ.

        Returns:
            This tree.

        Raises:
            InvalidKey: a row of X is not a key.
            InvalidOption: the tree is not empty, or an argument is invalid.

        >>> len(MemoryTree(seed=0).fill([[0.0], [1.0]], ["zero", "one"]))
        2
        """
        values = arguments.check_list(values)
        new_ids = arguments.check_new_ids(X, len(values), ids)
        n = len(new_ids)
        if self._index is not None:
            raise InvalidOption("fill needs a tree that has never had a memory; use insert_many")
        if not n:
            return self
        keys, index = self._begin(X)
        if len(np.unique(new_ids[new_ids >= 0])) < np.count_nonzero(new_ids >= 0):
            raise InvalidOption("build needs ids that differ from each other")
        capacity = self.config.capacity
        if capacity is not None and n > capacity:
            raise InvalidOption(f"{n} memories are more than the capacity of {capacity}")
        rows = self._check_features(index, features, n)
        codes = None if labels is None else arguments.check_labels(labels, n, self._labels)
        index.build(keys.batch(X, adding=True)[0], new_ids, None if codes is None else codes.numbers)
        with self._writer, self._lock.writing():
            self._labels |= {} if codes is None else codes.new
            self._keys, self._index = keys, index
            self._values = dict(zip(new_ids.tolist(), values, strict=True))
        self._describe(new_ids, None, rows)
        return self

    def remove(self, id: int) -> None:
        """Remove a memory.

        Args:
            id: the memory.

        Raises:
            UnknownId: no memory has this id.

        >>> tree = MemoryTree(seed=0)
        >>> tree.remove(tree.insert([1.0], "one"))
        >>> len(tree)
        0
        """
        with self._writer:
            id = self._known_id(id)
            with self._lock.writing():
                assert self._index is not None
                rebuild_due = self._index.remove(id)
                self._forget(id)
            if rebuild_due:
                self._rebuild_and_swap(lambda index: index.rebuild())

    def plan_evictions(self, ids: np.ndarray) -> Evictions:
        """What `insert_many` with these ids would remove, without inserting anything.

        Args:
            ids: (n,) int64, all given.

        Returns:
            The memories that would be replaced, or removed for lack of capacity.

        >>> tree = MemoryTree.build([[0.0], [1.0]], ["zero", "one"], capacity=2, seed=0)
        >>> tree.plan_evictions(np.array([2]))
        Evictions(stored=[0], unstored=[])
        """
        with self._lock.reading():
            if self._index is None:
                return plan_evictions(ids, self.config.capacity, 0, lambda id: False, iter(()))
            return self._index.plan_evictions(ids)

    # ---- rewards

    def reward(self, hits: Hits | Receipt | str, rewards: object) -> RewardResult:
        """Report how useful the hits of a query were.

        Args:
            hits: what `query` returned, its receipt, or the receipt's token (`str(hits.receipt)`).
            rewards: for each hit a number in [0, 1], or None where none was observed; or a mapping {id: number}.

        Returns:
            How much was learned. Learned projections, term lists, value models and scorers of your own learn at once.
            Routers of paper routing learn at the explored node (Algorithm 3), unless it has been removed since, which the
            result counts. Principal routers learn when `refit` is called: memories rewarded together (at least 0.5) are then
            kept together.

        Raises:
            InvalidReceipt: the hits, receipt or token belong to another memory.
            InvalidReward: a reward is out of range, or belongs to no hit.

        >>> tree = MemoryTree(scorer="cosine", seed=0)
        >>> ids = tree.insert_many([{"tea": 1.0}, {"tea": 1.0, "milk": 1.0}], ["green", "white"])
        >>> hits = tree.query({"tea": 1.0}, k=2)
        >>> tree.reward(hits, {1: 1.0, 0: 0.0})
        RewardResult(learned=1, skipped=0)
        """
        with self._writer:
            if isinstance(hits, Hits) and hits.origin.keys is None:  # of a tree that was empty
                arguments.check_rewards(hits.ids, rewards)
                return RewardResult(0, 0)
            encoded, ids, decision = self._query_of(hits)
            given = arguments.check_rewards(ids, rewards)
            assert self._keys is not None
            batch = RewardBatch(self._keys.decode(encoded), ids[None], given[None], decision_rows([decision]))
            return self._learn(batch)

    def reward_many(self, hits: HitMatrix, rewards: object) -> RewardResult:
        """Report rewards for a batch of queries.

        Args:
            hits: what `query_many` returned.
            rewards: an array (n, k), NaN where none was observed.

        Returns:
            As `reward`.

        Raises:
            InvalidReceipt: the hits belong to another tree.
            InvalidReward: a reward is out of range, or the shape is wrong.

        >>> tree = MemoryTree(seed=0)
        >>> ids = tree.insert_many([[0.0], [1.0]], ["zero", "one"])
        >>> tree.reward_many(tree.query_many([[0.1], [0.9]]), [[1.0], [0.5]])
        RewardResult(learned=0, skipped=0)
        """
        if not isinstance(hits, HitMatrix):
            raise InvalidReceipt(f"reward_many takes what query_many returned, not {type(hits).__name__}")
        given = arguments.check_reward_matrix(hits.ids.shape, rewards)
        keys, encoded, decisions = hits.origin
        if not len(hits) or keys is None:
            return RewardResult(0, 0)
        with self._writer:
            if keys is not self._keys:
                raise InvalidReceipt("these hits come from another tree")
            decisions = decisions if len(decisions) else base.blank_decisions(len(hits))
            return self._learn(RewardBatch(keys.decode_many(encoded), hits.ids, given, decisions))

    def reward_queries(self, X: object, ids: np.ndarray, rewards: np.ndarray, decisions: np.ndarray) -> RewardResult:
        """Learn from rewards for queries that are given by their keys.

        Args:
            X: the keys of the queries.
            ids: (n, k) the hits, -1 where there is none.
            rewards: (n, k), NaN where none was observed.
            decisions: (n, 4), see `Decision`.

        Returns:
            As `reward`.

        Raises:
            UnknownId: this tree has never had a memory.
            InvalidKey: a row of X is not a key of the tree's kind.

        >>> tree = MemoryTree.build([[0.0], [1.0]], ["zero", "one"], scorer="linear", seed=0)
        >>> tree.reward_queries([[0.9]], np.array([[1]]), np.array([[1.0]]), np.array([[0, -1, -1, -1]]))
        RewardResult(learned=1, skipped=0)
        """
        with self._writer:
            keys, _ = self._known_index()
            return self._learn(RewardBatch(keys.batch(X, adding=True)[0], ids, rewards, decisions))

    def _query_of(self, hits: Hits | Receipt | str) -> tuple[EncodedKey, np.ndarray, Decision]:
        """(encoded key, ids, decision) of a query."""
        if isinstance(hits, Hits):
            if hits.origin.keys is not self._keys:
                raise InvalidReceipt("these hits come from another tree; a copy of that tree takes their receipt")
            return hits.origin.encoded, hits.ids, hits.origin.decisions
        receipt = Receipt.parse(hits) if isinstance(hits, str) else hits
        if not isinstance(receipt, Receipt):
            raise InvalidReceipt(f"reward takes hits, a receipt or its token, not {type(hits).__name__}")
        receipt.check()
        if receipt.issuer:
            raise InvalidReceipt("this receipt comes from a store")
        if self._keys is None:
            raise InvalidReceipt("this tree has never answered a query with hits")
        try:
            X = self._keys.from_bytes([receipt.key])
            batch, _ = self._keys.batch(X)
        except InvalidKey as error:
            raise InvalidReceipt(f"the key of this receipt does not fit this tree: {error}") from None
        encoded = self._keys.take(self._keys.encode_many(X, batch), 0)
        return encoded, np.array(receipt.ids, np.int64), receipt.decision

    def _learn(self, batch: RewardBatch) -> RewardResult:
        assert self._index is not None
        learned = skipped = 0
        n = len(batch.ids)
        for start in range(0, n, ROWS_PER_LOCK):
            with self._lock.writing():
                result = self._index.reward(batch.rows(start, min(start + ROWS_PER_LOCK, n)))
            learned, skipped = learned + result.learned, skipped + result.skipped
        if self._index.groups_rewards:
            for row, good in zip(batch.ids.tolist(), (batch.rewards >= GOOD_REWARD).tolist(), strict=True):
                self._groups.join(id for id, is_good in zip(row, good, strict=True) if is_good and id in self._values)
        return RewardResult(learned, skipped)

    def refit(self, passes: int = 1) -> None:
        """Let the routers learn from everything stored, and place every memory by them.

        Principal routers are rebuilt, so that memories of one label, and those rewarded together, stay together; projections
        of all memories are computed again. Paper routers see all memories `passes` times.

        Args:
            passes: how often paper routers see the memories.

        Raises:
            InvalidOption: passes is no integer of at least 1.

        >>> tree = MemoryTree.build([[0.0], [1.0], [2.0]], ["zero", "one", "two"], labels=["even", "odd", "even"], seed=0)
        >>> tree.refit()
        """
        arguments.check_int("passes", passes, 1)
        with self._writer:
            if self._index is None:
                return
            pairs = self._groups.pairs()
            groups = base.FIRST_GROUP + np.unique(pairs[:, 1], return_inverse=True)[1].reshape(-1)

            def work(index: Index) -> None:
                index.set_labels(pairs[:, 0].copy(), groups)
                index.refit(passes)

            self._rebuild_and_swap(work)

    def sweep(self) -> int:
        """Move every memory to where the present routers send it, without learning.

        Afterwards every memory is found under its own key.

        Returns:
            How many moved.

        >>> MemoryTree.build([[0.0], [1.0]], ["zero", "one"], routing="paper", seed=0).sweep()
        0
        """
        with self._writer:
            return 0 if self._index is None else self._rebuild_and_swap(lambda index: index.sweep())

    def reroute(self, times: int) -> None:
        """Remove a random memory and insert it again, `times` times (the paper's Algorithm 7).

        Args:
            times: how often.

        Raises:
            InvalidOption: times is no integer of at least 0.

        >>> MemoryTree.build([[0.0], [1.0]], ["zero", "one"], routing="paper", seed=0).reroute(10)
        """
        times = arguments.check_int("times", times, 0)
        with self._writer:
            if self._index is not None and times:
                self._rebuild_and_swap(lambda index: index.reroute(times))

    # ---- queries

    def query(  # noqa: PLR0913  (a keyword for each option)
        self,
        x: object,
        k: int = 1,
        *,
        recall: float | None = None,
        beam: int | None = None,
        explore: float = 0.0,
        exclude: Iterable[int] | None = None,
        allowed: IdSet | Iterable[int] | None = None,
        exploration_seed: int | None = None,
    ) -> Hits:
        """The memories that fit a key best.

        Args:
            x: the key.
            k: how many to return at most.
            recall: which part of the k best to find, on average: less is faster, 1 compares all memories. By default about
                .99 with routing="graph" and "terms", which measure on stored keys how far to search; others ignore it.
            beam: for experts, instead of `recall`: how far to search. With routing="principal" and "paper" the number of
                leaves, by default one; with "graph" how many near memories to follow links from; with term lists a factor on
                the lists read and the memories scored; 0 reads as many as 1 and ranks by what these lists tell, which is
                faster, and scores are then estimates.
            explore: the paper's epsilon: the probability that one decision is random, so that routers can learn from the
                reward.
            exclude: ids to leave out.
            allowed: the only ids that may be returned; the best of these are.
            exploration_seed: fixes the random decisions of exploration.

        Returns:
            Hits, best first.

        Raises:
            InvalidKey: x is not a key of the tree's kind.
            InvalidOption: another argument is out of range.

        >>> tree = MemoryTree(seed=0)
        >>> ids = tree.insert_many([[0.0], [1.0], [2.0]], ["zero", "one", "two"])
        >>> [hit.value for hit in tree.query([1.2], k=2)]
        ['one', 'two']
        """
        n = len(self._values)
        if type(k) is not int or not 0 < k <= n:
            k = min(arguments.check_int("k", k, 1), n or 1)
        if beam is not None or explore != 0 or recall is not None:
            beam, explore = self.check_beam(beam), arguments.check_fraction("explore", explore, 0, 1)
            recall = arguments.check_recall(recall)
        keys = self._keys
        if keys is None or self._index is None:
            keys_for(x).one(x, adding=True)
            return Hits(np.empty(0, np.int64), [], np.empty(0, np.float32), (None, None, EXPLOITED))
        row = keys.one(x)
        if self._checks_queries:
            keys.check(row)
        excluded = base.NONE_EXCLUDED
        if exclude is not None:
            ids = arguments.check_ids("exclude", exclude)
            excluded = IdLists(np.array([0, len(ids)]), ids)
        draw = self._draws(exploration_seed, 1) if explore else 0
        request = QueryRequest(row, k, 0, 1, beam, explore, draw, excluded, recall)
        if allowed is not None:
            request.allowed = arguments.check_allowed(allowed)
        with self._lock.reading():
            result = self._index.query(request)
            ids, scores = result.ids[0], result.scores[0]
            found = ids.tolist()
            if found[-1] == NO_ID:
                found = [id for id in found if id != NO_ID]
                ids, scores = ids[: len(found)], scores[: len(found)]
            values = [self._values[id] for id in found]
        # A key with NaN or infinity has distances that are not finite; reading does no harm, so checking now is enough.
        if not values or not scores.item(0) > -math.inf:
            keys.check(row)
        decision = Decision(*result.decisions[0].tolist()) if explore else EXPLOITED
        return Hits(ids, values, scores, (keys, keys.encode(x, row), decision))

    def check_beam(self, beam: object) -> int | None:
        """Check a beam.

        Args:
            beam: the breadth of a search, see `query`; or None.

        Returns:
            The beam, as an int; or None.

        Raises:
            InvalidOption: this tree cannot search with it.

        >>> MemoryTree(seed=0).check_beam(8)
        8
        """
        if beam is None:
            return None
        return arguments.check_int("beam", beam, 1 if self._index is None else self._index.min_beam)

    def query_many(  # noqa: PLR0913  (a keyword for each option)
        self,
        X: object,
        k: int = 1,
        *,
        recall: float | None = None,
        beam: int | None = None,
        explore: float = 0.0,
        exclude: Sequence[Iterable[int]] | np.ndarray | None = None,
        allowed: IdSet | Iterable[int] | None = None,
        exploration_seed: int | None = None,
        threads: int = 1,
    ) -> HitMatrix:
        """Answer a batch of queries, as a loop over `query` would.

        Args:
            X: a matrix with a key in each row, or a list of mappings.
            k, recall, beam, explore: as in `query`.
            exclude: for each row the ids to leave out.
            allowed: the only ids that may be returned, for all rows.
            exploration_seed: fixes the random decisions of exploration; row i uses exploration_seed + i.
            threads: how many threads share the rows; 0: one for each core.

        Returns:
            A hit matrix with a row for each key.

        Raises:
            InvalidKey, InvalidOption: an argument is invalid.

        >>> tree = MemoryTree(seed=0)
        >>> ids = tree.insert_many([[0.0], [1.0], [2.0]], ["zero", "one", "two"])
        >>> tree.query_many([[0.9], [2.2]]).values
        [['one'], ['two']]
        """
        k = arguments.check_int("k", k, 1)
        beam, explore = self.check_beam(beam), arguments.check_fraction("explore", explore, 0, 1)
        workers = arguments.check_int("threads", threads, 0) or os.cpu_count() or 1
        n = arguments.count_keys(X)
        if n * k > MOST_HITS:
            raise InvalidOption(f"{n} answers of {k} hits each are more than fit into memory")
        if self._keys is None or self._index is None:
            n = keys_for(X).batch(X)[1] if n else 0
            blank = np.full((n, k), NO_ID, np.int64), np.full((n, k), -np.inf, np.float32)
            return HitMatrix(*blank, self.get, QueryOrigin(None, None, base.NO_DECISIONS))
        keys = self._keys
        batch, n = keys.batch(X)
        excluded = base.no_exclusions(n) if exclude is None else IdLists(*arguments.check_exclusions(exclude, n))
        draw = self._draws(exploration_seed, n) if explore else 0
        edges = np.linspace(0, n, min(workers, max(n, 1)) + 1).astype(int).tolist()
        recall, only = arguments.check_recall(recall), arguments.check_allowed(allowed)
        requests = [
            QueryRequest(batch, k, start, stop, beam, explore, draw, excluded, recall, only)
            for start, stop in itertools.pairwise(edges)
        ]
        with self._lock.reading():
            if len(requests) == 1:
                result = self._index.query(requests[0])
            else:
                with ThreadPoolExecutor(workers) as pool:
                    parts = list(pool.map(self._index.query, requests))
                result = QueryResult(*(np.concatenate([part[column] for part in parts]) for column in range(3)))
        origin = QueryOrigin(keys, keys.encode_many(X, batch), result.decisions)
        return HitMatrix(result.ids, result.scores, self.get, origin)

    def score(self, x: object, ids: Iterable[int]) -> np.ndarray:
        """How well given memories fit a key, whatever routing would find.

        Args:
            x: the key.
            ids: the memories.

        Returns:
            A score for each id, (n,) float32; minus infinity where no memory has the id.

        >>> tree = MemoryTree(seed=0)
        >>> ids = tree.insert_many([[0.0], [1.0], [2.0]], ["zero", "one", "two"])
        >>> tree.score([1.5], [2, 0])
        array([-0.5, -1.5], dtype=float32)
        """
        asked = arguments.check_ids("ids", ids)
        scores = np.full(len(asked), -np.inf, np.float32)
        keys: AnyKeys = self._keys or keys_for(x)
        row = keys.one(x)
        keys.check(row)
        with self._lock.reading():
            stored = np.array([id in self._values for id in asked.tolist()], bool)
            if stored.any():
                assert self._index is not None
                scores[stored] = self._index.score(row, asked[None, stored])[0]
        return scores

    def _draws(self, given: int | None, n: int) -> int:
        """The first of n numbers that fix random decisions."""
        if given is not None:
            return arguments.check_int("exploration_seed", given, 0)
        with self._draw_lock:
            self._draw += n
            return self._draw - n

    # ---- inspection

    def stats(self) -> Stats:
        """Size, shape and balance of the tree, and the bytes it uses.

        Returns:
            The figures; `print` shows them as a table.

        >>> MemoryTree.build([[0.0], [1.0]], ["zero", "one"], seed=0).stats().memories
        2
        """
        with self._lock.reading():
            return Stats() if self._index is None else self._index.stats()

    def explain(self, x: object, k: int = 5, *, beam: int | None = None) -> Explanation:
        """Why a query returns what it does: the path to the first leaf, and what contributes to the scores of the hits.

        Args:
            x, k, beam: as in `query`.

        Returns:
            Path and hits.

        Raises:
            InvalidKey: x is not a key of the tree's kind.
            InvalidOption: another argument is out of range.

        >>> tree = MemoryTree(scorer="cosine", seed=0)
        >>> ids = tree.insert_many([{"tea": 1.0}, {"tea": 1.0, "milk": 1.0}], ["green", "white"])
        >>> tree.explain({"milk": 1.0}, k=1).candidates[0].parts
        (('milk', 0.707...),)
        """
        k, beam = arguments.check_int("k", k, 1), self.check_beam(beam)
        keys: AnyKeys = self._keys or keys_for(x)
        row = keys.one(x)
        keys.check(row)
        with self._lock.reading():
            if self._index is None:
                return Explanation()
            path, hits = self._index.explain(QueryRequest(row, min(k, len(self._values) or 1), beam=beam))
            candidates = []
            for hit in hits:
                named = [(keys.feature_name(feature), float(part)) for feature, part in hit.contributions.items()]
                largest = sorted(named, key=lambda part: (-abs(part[1]), str(part[0])))[:PARTS_SHOWN]
                parts = (*hit.components.items(), *largest)
                candidates.append(ExplainedHit(Hit(hit.id, self._values[hit.id], hit.score), parts))
        return Explanation(path.steps, path.leaf, path.n_scored, tuple(candidates), path.searched_neighbours)

    @overload
    def plot(self, ax: None = None, *, depth: int = 4, names: drawing.FeatureNames | None = None) -> str: ...
    @overload
    def plot(self, ax: Axes | bool, *, depth: int = 4, names: drawing.FeatureNames | None = None) -> Axes: ...
    @overload
    def plot(self, ax: Axes | bool | None, *, depth: int = 4, names: drawing.FeatureNames | None = None) -> str | Axes: ...
    def plot(
        self, ax: Axes | bool | None = None, *, depth: int = 4, names: drawing.FeatureNames | None = None
    ) -> str | Axes:
        """A picture of the tree: as text, or with matplotlib.

        Args:
            ax: None for text; matplotlib axes, or True for new ones.
            depth: how many levels; for term lists five terms for each.
            names: of term lists, show only the terms that have a name here.

        Returns:
            The text, or the axes.

        >>> print(MemoryTree.build([[0.0], [1.0]], ["zero", "one"], seed=0).plot())
        leaf 0: 2
        """
        depth = arguments.check_int("depth", depth, 0)
        with self._lock.reading():
            if self._index is None or self._keys is None:
                return "(empty)" if ax is None else drawing.new_axes(ax, 0)
            outline = self._index.outline(depth)
            return drawing.draw(outline, ax, depth, drawing.Names(len(self), self._keys.feature_name, names))

    # ---- files

    def save(self, path: str | os.PathLike[str], *, encode: Callable[[Value], Value] | None = None) -> None:
        """Write the tree to a file, completely or not at all.

        Args:
            path: the file.
            encode: turns a value into data that msgpack can hold: None, bool, int, float, str, bytes, list, dict, or NumPy
                arrays. Needed for other values only.

        Raises:
            UnsupportedValue: a value cannot be written.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "sets.tree"
        >>> tree = MemoryTree.build([[0.0], [1.0]], [{0}, {1, 2}], seed=0)
        >>> tree.save(path, encode=sorted)
        >>> MemoryTree.load(path, decode=set).query([0.9])[0].value
        {1, 2}
        """
        serialization.save(self.state_dict(), path, encode)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, decode: Callable[[Value], Value] | None = None, scorer: Scorer | None = None
    ) -> Self:
        """The tree that `save` wrote; it continues exactly as the saved one would have.

        Args:
            path: the file.
            decode: the inverse of `encode`.
            scorer: the scorer of your own that the tree had, if it had one; files contain no code.

        Returns:
            The tree.

        Raises:
            DamagedFile: the file is not a complete saved tree.
            InvalidOption: the scorer is missing, or the tree had none of its own.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "numbers.tree"
        >>> MemoryTree.build([[0.0], [1.0]], ["zero", "one"], seed=0).save(path)
        >>> MemoryTree.load(path).query([0.9])[0].value
        'one'
        """
        return serialization.load(cls.from_state_dict, path, decode, scorer)

    def state_dict(self) -> PlainData:
        """The complete state.

        Returns:
            Plain data and arrays; values are the caller's own objects.

        >>> tree = MemoryTree.build([[0.0], [1.0]], ["zero", "one"], seed=0)
        >>> tree.state_dict()["values"]
        {0: 'zero', 1: 'one'}
        """
        with self._lock.reading():
            state: PlainData = {
                "config": self.config.to_dict(),
                "values": dict(self._values),
                "labels": [label.item() if isinstance(label, np.generic) else label for label in self._labels],
            }
            if self._keys is None or self._index is None:
                return state
            return state | {
                "keys": [self._keys.kind, self._keys.dimension, self._keys.vocabulary()],
                "groups": self._groups.pairs(),
                "index": self._index.state_dict(),
            }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Value], *, scorer: Scorer | None = None, trusted: bool = False) -> Self:
        """The tree of a state.

        Args:
            state: what `state_dict` returned; the tree takes ownership of its arrays.
            scorer: the scorer of your own that the tree had, if it had one.
            trusted: the state is known to be what `state_dict` returned, so its consistency need not be checked.

        Returns:
            The tree.

        Raises:
            ValueError: the state contradicts itself.
            InvalidOption: the scorer is missing, or the tree had none of its own.

        >>> tree = MemoryTree.build([[0.0], [1.0]], ["zero", "one"], seed=0)
        >>> MemoryTree.from_state_dict(tree.state_dict()).query([0.9])[0].value
        'one'
        """
        tree = cls.from_config(TreeConfig.from_dict(state["config"], scorer))
        tree.load_state_dict(state, trusted=trusted)
        return tree

    def load_state_dict(self, state: Mapping[str, Value], *, trusted: bool = False) -> None:
        """Replace the contents of this tree, which has the options of the state.

        Args:
            state, trusted: as in `from_state_dict`.

        Raises:
            ValueError: the state contradicts itself.

        >>> tree = MemoryTree(seed=0)
        >>> tree.load_state_dict(MemoryTree.build([[0.0], [1.0]], ["zero", "one"], seed=0).state_dict())
        >>> len(tree)
        2
        """
        keys, index, groups = None, None, RewardGroups()
        if "index" in state:
            try:
                keys, groups = serialization.restore_keys(state["keys"]), RewardGroups(state["groups"].tolist())
                index = make_index(self.config, keys.sparse, keys.dimension)
                index.load_state_dict(state["index"], trusted=trusted)
            except KeyError as error:
                raise ValueError(f"contradictory state: it has no {error}") from None
        _check_values(state["values"], index)
        with self._writer, self._lock.writing():
            self._keys, self._index, self._groups = keys, index, groups
            self._values = state["values"]
            self._labels = {label: number for number, label in enumerate(state["labels"])}

    def check(self) -> None:
        """Raise ValueError, with the reason, if anything in the tree contradicts itself.

        >>> MemoryTree.build([[0.0], [1.0]], ["zero", "one"], seed=0).check()
        """
        with self._lock.reading():
            _check_values(self._values, self._index)
            if self._index is not None:
                self._index.check()

    def __getstate__(self) -> PlainData:
        return {**self.state_dict(), "scorer": self.config.scorer}

    def __setstate__(self, state: PlainData) -> None:
        scorer = state.pop("scorer")
        is_custom = state["config"]["scorer"] == {"name": "custom"}
        self.__dict__ = self.from_state_dict(state, scorer=scorer if is_custom else None).__dict__


def _check_values(values: Mapping[int, Value], index: Index | None) -> None:
    """Raise ValueError unless the ids of values and those of an index are the same."""
    if set(values) != set([] if index is None else index.stored_ids().tolist()):
        raise ValueError("contradictory state: values and keys belong to different memories")
