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
from memorytree.errors import (
    InvalidKey,
    InvalidOption,
    InvalidReceipt,
    StaleReceipt,
    UnknownId,
    UnknownReward,
)  # fmt: skip
from memorytree.index import base
from memorytree.index.base import IdLists, Index, QueryRequest, QueryResult, RewardBatch
from memorytree.index.factory import make_index
from memorytree.keys import AnyKeys, EncodedKey, UserKey, keys_for
from memorytree.learning.reward_groups import RewardGroups
from memorytree.locks import ReadersWriterLock
from memorytree.packing import PlainData, Value
from memorytree.progress import track
from memorytree.receipts import Decision, GivenIds, Receipt, decision_rows
from memorytree.results import (
    NO_ID,
    ExplainedHit,
    Explanation,
    Hit,
    HitMatrix,
    Hits,
    PastReward,
    QueryOrigin,
    RewardResult,
    Stats,
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ROWS_PER_LOCK = 1024
"""Rows of a batch that are written before waiting readers get the lock."""
MOST_HITS = 2**33
PARTS_SHOWN, OTHER_PARTS, NEGLIGIBLE_PART = 3, "(other)", 1e-3
GOOD_REWARD = 0.5
"""Memories with at least this reward for the same query form a group."""

T = TypeVar("T")


class MemoryTree:
    """A memory that learns, in logarithmic time (Contextual Memory Trees, ICML 2019).

    Args:
        routing: how candidates are found. "principal": a full leaf is split along its main direction, routers then stay.
            "graph" (dense keys): the same tree, and links between near memories along which a search continues; finds more
            in less time, insertions take ten times as long. "paper": routers learn from every insertion. "terms" (sparse
            keys): lists of memories by term, with weights of terms that learn from rewards. "auto": principal for dense
            keys, terms for sparse ones. An object of `memorytree.config` sets the options of a routing.
        scorer: how candidates are ranked. "distance" (the nearest first), "cosine", "tfidf" (sparse keys: terms count by how
            few of the memories have them), "metric" (by a projection that learns from rewards), "values" (by features given
            with the values as well), "linear" (the paper's), or a function (x, keys, features) -> scores.
        trees: how many trees split the same memories; their answers are merged.
        balance: the paper's alpha: how strongly learning routers prefer even sides.
        leaf_factor: the paper's c: a leaf holds at most max(8, ceil(c ln n)) memories.
        reroutes: the paper's d: memories that are inserted again after each write, where routers learn.
        center: subtract the running mean from keys where routers learn; helps where all features are positive.
        capacity: store at most so many memories; the one whose insertion or last reward is longest ago is removed.
        experiences: remember at most so many rewards, each of which changes the answers to its query at once; the oldest are
            forgotten. By default 100,000, and 0 for routing="paper".
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
        RewardResult(learned=0, skipped=0, experiences=1)
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
        experiences: int | None = None,
        seed: int | None = None,
    ):
        self.config = TreeConfig(routing, scorer, trees, balance, leaf_factor, reroutes, center, capacity, experiences, seed)
        self.on_remove: Callable[[int, Value], None] | None = None
        """Called with the id and the value of every memory that is removed, also for lack of capacity."""
        self._keys: AnyKeys | None = None  # None before the first key
        self._index: Index | None = None
        self._values: dict[int, Value] = {}
        self._groups = RewardGroups()  # memories that were rewarded together
        self._given = GivenIds()
        self._labels: dict[str | int, int] = {}  # labels as numbers
        self._lock = ReadersWriterLock()
        self._writer = Lock()  # held for the whole of a write, also while readers have the lock in between
        self._draw = 0  # numbers explorations; not part of the state
        self._draw_lock = Lock()

    @classmethod
    def from_config(cls, config: TreeConfig) -> Self:
        """An empty tree with these options."""
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

        >>> tree = MemoryTree(seed=0)
        >>> tree.get(tree.insert([1.0], "one")), tree.get(7, "nothing")
        ('one', 'nothing')
        """
        return self._values[id] if id in self else default

    def get_many(self, ids: Iterable[int], default: Value = None) -> list[Value]:
        """The values of several memories, a default where there is none.

        >>> tree = MemoryTree(seed=0)
        >>> ids = tree.insert_many([[0.0], [1.0]], ["zero", "one"])
        >>> tree.get_many([1, 5, 0])
        ['one', None, 'zero']
        """
        return [self.get(id, default) for id in arguments.check_list(ids)]

    def key(self, id: int) -> UserKey:
        """The key of a memory, in the form in which keys are given.

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
        """The label of a memory, None if it has none.

        >>> tree = MemoryTree(seed=0)
        >>> tree.label(tree.insert([1.0], "one", label="odd"))
        'odd'
        """
        with self._lock.reading():
            number = self._known_index()[1].label(self._known_id(id))
            return list(self._labels)[number] if 0 <= number < len(self._labels) else None

    def features(self, id: int) -> np.ndarray | None:
        """The features given with a memory's value, if the scorer uses features."""
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

        Raises:
            InvalidKey: X is no key.
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
            InvalidKey: x is no key, or not of the tree's kind.
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
            self._given.add(ids)
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
                self._given.add(new_ids[part])
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

        Raises:
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
            self._given.add(new_ids)
        self._describe(new_ids, None, rows)
        return self

    def remove(self, id: int) -> None:
        """Remove a memory.

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

    def plan_evictions(self, ids: np.ndarray) -> base.Evictions:
        """What `insert_many` with these ids would remove, without inserting anything.

        Args:
            ids: (n,) int64, all given.
        """
        with self._lock.reading():
            if self._index is None:
                return base.plan_evictions(ids, self.config.capacity, 0, lambda id: False, iter(()))
            return self._index.plan_evictions(ids)

    # ---- rewards

    def reward(self, hits: Hits | Receipt | str | UserKey, rewards: object) -> RewardResult:
        """Report how useful the hits of a query were, or which memories answer a question.

        Args:
            hits: what `query` returned, its receipt, or the receipt's token (`str(hits.receipt)`); or the key of a question.
            rewards: for each hit a number in [0, 1], or None where none was observed; or a mapping {id: number}. For a
                question a mapping of any ids.

        Returns:
            How much was learned. Each reward is remembered and changes the answers to the same query at once, and those to
            near ones a little (not with routing="paper", by default); a different reward for the same memory and receipt
            replaces it. Learned projections, term lists, value models and scorers of your own learn at once.
            Routers of paper routing learn at the explored node (Algorithm 3), unless it has been removed since, which the
            result counts. Principal routers learn when `refit` is called: memories rewarded together (at least 0.5) are then
            kept together.

        Raises:
            InvalidReceipt: the hits, receipt or token belong to another memory.
            StaleReceipt: a rewarded memory has been removed or replaced since.
            InvalidReward: a reward is out of range, or belongs to no hit.
            UnknownId: no memory has an id that is rewarded for a question.

        >>> tree = MemoryTree(scorer="cosine", seed=0)
        >>> ids = tree.insert_many([{"tea": 1.0}, {"tea": 1.0, "milk": 1.0}], ["green", "white"])
        >>> hits = tree.query({"tea": 1.0}, k=2)
        >>> hits.values, tree.reward(hits, {1: 1.0, 0: 0.0})
        (['green', 'white'], RewardResult(learned=1, skipped=0, experiences=2))
        >>> tree.query({"tea": 1.0}).values
        ['white']
        >>> result = tree.reward({"chai": 1.0}, {1: 1.0})
        >>> tree.query({"chai": 1.0}).values
        ['white']
        """
        if not isinstance(hits, Hits | Receipt | str):
            return self._reward_question(hits, rewards)
        with self._writer:
            if isinstance(hits, Hits) and hits.origin.keys is None:  # of a tree that was empty
                arguments.check_rewards(hits.ids, rewards)
                return RewardResult(0, 0)
            encoded, ids, decision, inserted = self._query_of(hits)
            given = arguments.check_rewards(ids, rewards)
            self._check_versions(ids[~np.isnan(given)], inserted)
            assert self._keys is not None
            batch = RewardBatch(self._keys.decode(encoded), ids[None], given[None], decision_rows([decision]))
            return self._learn(batch)

    def _reward_question(self, x: UserKey, rewards: object) -> RewardResult:
        """Learn which memories answer a question."""
        with self._writer:
            keys, _ = self._known_index()
            if not isinstance(rewards, Mapping):
                raise InvalidReceipt("reward takes hits, a receipt or its token, or a key and a mapping {id: number}")
            ids = np.array([self._known_id(id) for id in rewards], np.int64)
            given = arguments.check_rewards(ids, rewards)
            row = keys.one(x, adding=True)
            batch = RewardBatch(row, ids[None], given[None], base.blank_decisions(1), returned=False)
            return self._learn(batch) if len(ids) else RewardResult(0, 0)

    def _check_versions(self, ids: np.ndarray, inserted: int) -> None:
        """Raise `StaleReceipt` unless memories are those that had these ids when `inserted` was the last number."""
        stale = [id for id in ids.tolist() if id not in self._values or self._given.number(id) > inserted]
        if stale:
            raise StaleReceipt(f"removed or replaced since this query, so not rewarded: {', '.join(map(str, stale[:5]))}")

    def reward_many(self, hits: HitMatrix, rewards: object) -> RewardResult:
        """Report rewards for a batch of queries.

        Args:
            hits: what `query_many` returned.
            rewards: an array (n, k), NaN where none was observed.

        Raises:
            InvalidReceipt: the hits belong to another tree.
            StaleReceipt: a rewarded memory has been removed or replaced since.
            InvalidReward: a reward is out of range, or the shape is wrong.

        >>> tree = MemoryTree(seed=0)
        >>> ids = tree.insert_many([[0.0], [1.0]], ["zero", "one"])
        >>> tree.reward_many(tree.query_many([[0.1], [0.9]]), [[1.0], [0.5]])
        RewardResult(learned=0, skipped=0, experiences=2)
        """
        if not isinstance(hits, HitMatrix):
            raise InvalidReceipt(f"reward_many takes what query_many returned, not {type(hits).__name__}")
        given = arguments.check_reward_matrix(hits.ids.shape, rewards)
        keys, encoded, decisions, inserted = hits.origin
        if not len(hits) or keys is None:
            return RewardResult(0, 0)
        with self._writer:
            if keys is not self._keys:
                raise InvalidReceipt("these hits come from another tree")
            self._check_versions(np.unique(hits.ids[~np.isnan(given) & (hits.ids != NO_ID)]), inserted)
            decisions = decisions if len(decisions) else base.blank_decisions(len(hits))
            return self._learn(RewardBatch(keys.decode_many(encoded), hits.ids, given, decisions))

    def rewards(self) -> list[PastReward]:
        """The rewards that are remembered, in the order in which they were given; also those that were replaced.

        >>> tree = MemoryTree(seed=0)
        >>> hits = tree.query([1.0]) if tree.insert([1.0], "one") else tree.query([1.0])
        >>> tree.reward(hits, [1.0]), tree.reward(hits, [0.0])
        (RewardResult(learned=0, skipped=0, experiences=1), RewardResult(learned=0, skipped=0, experiences=1))
        >>> for reward in tree.rewards():
        ...     print(reward)
        PastReward(id=1, memory=0, reward=1.0, active=False)
        PastReward(id=2, memory=0, reward=0.0, active=True)
        """
        with self._lock.reading():
            return [] if self._index is None else self._index.past_rewards()

    def withdraw(self, id: int) -> None:
        """Take back a reward: answers are as if it had never been given, but for what slow learning has made of it.

        Term importances, projections, routers and scorers that learn keep what they have learned; `reset_learning` resets
        importances and projections.

        Args:
            id: the id of the reward, from `rewards`.

        Raises:
            UnknownReward: there is no such reward, or it was withdrawn or replaced.

        >>> tree = MemoryTree(seed=0)
        >>> ids = tree.insert_many([[0.0], [1.0]], ["zero", "one"])
        >>> result = tree.reward(tree.query([0.1]), [0.0])
        >>> tree.query([0.1]).values
        ['one']
        >>> tree.withdraw(tree.rewards()[-1].id)
        >>> tree.query([0.1]).values
        ['zero']
        """
        with self._writer, self._lock.writing():
            if self._index is None:
                raise UnknownReward("this tree has never had a reward")
            self._index.withdraw(id)

    def withdraw_of(self, receipt: Receipt, memory: int) -> None:
        """Take back the reward of a memory for one query, if it is remembered and counts."""
        with self._writer, self._lock.writing():
            if self._index is not None:
                self._index.withdraw_of(receipt.digest, memory)

    def reset_learning(self) -> None:
        """Forget all rewards, the importances of terms and what a projection has learned.

        Paper routers, linear weights, value models, terms that memories have learned and scorers of your own stay.

        >>> tree = MemoryTree(seed=0)
        >>> result = tree.reward(tree.query([1.0], k=1 + tree.insert([1.0], "one")), [0.0])
        >>> tree.reset_learning()
        >>> tree.rewards()
        []
        """
        with self._writer, self._lock.writing():
            if self._index is not None:
                self._index.reset_learning()
            self._groups = RewardGroups()

    def known_rewards(self, receipt: Receipt) -> dict[int, float]:
        """The rewards of a query that are remembered and count, by the id of the memory."""
        with self._lock.reading():
            return {} if self._index is None else self._index.known_rewards(receipt.digest)

    def reward_batch(self, batch: RewardBatch) -> RewardResult:
        """Learn from rewards as an index takes them; the keys must be a batch made by `keys`."""
        with self._writer:
            return self._learn(batch)

    def _query_of(self, hits: Hits | Receipt | str) -> tuple[EncodedKey, np.ndarray, Decision, int]:
        """(encoded key, ids, decision, number of the last insertion) of a query."""
        if isinstance(hits, Hits):
            if hits.origin.keys is not self._keys:
                raise InvalidReceipt("these hits come from another tree; a copy of that tree takes their receipt")
            return hits.origin.encoded, hits.ids, hits.origin.decisions, hits.origin.inserted
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
        return encoded, np.array(receipt.ids, np.int64), receipt.decision, receipt.inserted

    def _learn(self, batch: RewardBatch) -> RewardResult:
        assert self._index is not None
        total = RewardResult(0, 0)
        n = len(batch.ids)
        for start in range(0, n, ROWS_PER_LOCK):
            with self._lock.writing():
                result = self._index.reward(batch.rows(start, min(start + ROWS_PER_LOCK, n)))
            total = RewardResult(*map(sum, zip(total, result, strict=True)))
        if self._index.groups_rewards:
            for row, good in zip(batch.ids.tolist(), (batch.rewards >= GOOD_REWARD).tolist(), strict=True):
                self._groups.join(id for id, is_good in zip(row, good, strict=True) if is_good and id in self._values)
        return total

    def refit(self, passes: int = 1) -> None:
        """Let the routers learn from everything stored, and place every memory by them.

        Principal routers are rebuilt, so that memories of one label, and those rewarded together, stay together; projections
        of all memories are computed again. Paper routers see all memories `passes` times.

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
            InvalidKey: x is no key of the tree's kind.
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
            return Hits(np.empty(0, np.int64), [], np.empty(0, np.float32), QueryOrigin(None, None, Decision()))
        row = keys.one(x)
        if self.config.scorer != "distance":
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
            found, scores, decisions = self._index.query(request)
            ids, scores = found[0], scores[0]
            if ids.item(k - 1) == NO_ID:
                filled = int(np.count_nonzero(ids != NO_ID))
                ids, scores = ids[:filled], scores[:filled]
            values = [self._values[id] for id in ids.tolist()]
        # A key with NaN or infinity has distances that are not finite; reading does no harm, so checking now is enough.
        if not values or not scores.item(0) > -math.inf:
            keys.check(row)
        decision = Decision(*decisions[0].tolist()) if len(decisions) else Decision()
        return Hits(ids, values, scores, QueryOrigin(keys, keys.encode(x, row), decision, self._given.last_number))

    def check_beam(self, beam: object) -> int | None:
        """A beam that this tree can search with, or None; otherwise `InvalidOption`."""
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
        origin = QueryOrigin(keys, keys.encode_many(X, batch), result.decisions, self._given.last_number)
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

        >>> MemoryTree.build([[0.0], [1.0]], ["zero", "one"], seed=0).stats().memories
        2
        """
        with self._lock.reading():
            return Stats() if self._index is None else self._index.stats()

    def explain(self, x: object, k: int = 5, *, beam: int | None = None) -> Explanation:
        """Why a query returns what it does: the path to the first leaf, and the parts of which scores are sums.

        Args:
            x, k, beam: as in `query`.

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
                rest = hit.score - sum(part for _, part in parts)
                if parts and abs(rest) > NEGLIGIBLE_PART * abs(hit.score):
                    parts = (*parts, (OTHER_PARTS, rest))
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
        """The complete state as plain data and arrays; values are the caller's own objects."""
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
                "given": self._given.to_list(),
                "index": self._index.state_dict(),
            }

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Value], *, scorer: Scorer | None = None, trusted: bool = False) -> Self:
        """The tree of a state.

        Args:
            state: what `state_dict` returned; the tree takes ownership of its arrays.
            scorer: the scorer of your own that the tree had, if it had one.
            trusted: the state is known to be what `state_dict` returned, so its consistency need not be checked.

        Raises:
            ValueError: the state contradicts itself.
            InvalidOption: the scorer is missing, or the tree had none of its own.
        """
        tree = cls.from_config(TreeConfig.from_dict(state["config"], scorer))
        tree.load_state_dict(state, trusted=trusted)
        return tree

    def load_state_dict(self, state: Mapping[str, Value], *, trusted: bool = False) -> None:
        """Replace the contents of this tree, which has the options of the state; see `from_state_dict`."""
        keys, index, groups, given = None, None, RewardGroups(), GivenIds()
        if "index" in state:
            try:
                keys, groups = serialization.restore_keys(state["keys"]), RewardGroups(state["groups"].tolist())
                given = GivenIds.from_list(state["given"])
                index = make_index(self.config, keys.sparse, keys.dimension)
                index.load_state_dict(state["index"], trusted=trusted)
            except KeyError as error:
                raise ValueError(f"contradictory state: it has no {error}") from None
        _check_values(state["values"], index)
        with self._writer, self._lock.writing():
            self._keys, self._index, self._groups, self._given = keys, index, groups, given
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
