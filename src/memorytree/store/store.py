"""MemoryStore: a memory that learns and is durable. All public methods of a store are here."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

import numpy as np

from memorytree import options
from memorytree.errors import InvalidOption, InvalidReceipt, UnknownId
from memorytree.hits import Hit
from memorytree.inspection import Explanation, Stats
from memorytree.packing import Value, pack
from memorytree.store import changes, import_export, tree_access
from memorytree.store.filtering import Filter, QueryOptions, SingleQueryOptions, query_filtered, query_many_filtered
from memorytree.store.inputs import (
    NO_EXPIRY,
    Lifetime,
    Metadata,
    NewMemories,
    Times,
    Where,
    check_labels,
    check_times,
    check_where,
    lifetime,
    lifetimes,
    one_each,
    pack_metadata,
)
from memorytree.store.results import StoreHitMatrix, StoreHits
from memorytree.store.schema import Change
from memorytree.store.session import Session
from memorytree.store.state import StoreState
from memorytree.store.tokens import Receipt
from memorytree.store.tree_access import NO_ID, RewardResult
from memorytree.store.verify import VerifyReport, verify_open

if TYPE_CHECKING:
    from memorytree.store.import_export import TextFile

Rewards: TypeAlias = Mapping[int, float | None] | Sequence[float | None]


class MemoryStore:
    """A memory that learns, in a directory: what it has acknowledged survives crashes and power cuts.

    It has the methods of `MemoryTree`, and metadata, filters and expiry on top. `memorytree.open` is the same as this class.

    Args:
        path: the directory; a new store is created if there is none.
        mode: "w" to write (one process at a time), "r" to read beside a writer.
        durability: "full": what was acknowledged survives a power cut; "normal": it survives the end of the process.
        app_settings: JSON data of the application, kept from when the store is created.
        options: options of `MemoryTree`, kept from when the store is created.

    Raises:
        StoreLocked: another process writes to the store.
        DamagedStore: the files contradict their checksums; `memorytree.store.repair` saves what can be saved.
        StoreError: the directory cannot be a store, or cannot be read or written.
        InvalidOption: an option does not fit, or differs from the one the store was created with.

    All methods raise `StoreClosed` after `close`; those that write raise `ReadOnlyStore` in a reader, and `StoreError` for
    errors of the disk, after which nothing was changed. The examples of the methods begin with this store.

    Example:
        >>> import tempfile
        >>> store = MemoryStore(tempfile.mkdtemp(), seed=0)
        >>> store.insert([1.0, 0.0], "east", metadata={"kind": "fact"})
        0
        >>> store.insert([0.0, 1.0], "north", metadata={"kind": "task"})
        1
        >>> store.query([0.9, 0.2]).values, store.query([0.9, 0.2], where={"kind": "task"}).values
        (['east'], ['north'])
        >>> store.close()
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        mode: str = "w",
        durability: str = "full",
        app_settings: Mapping[str, Any] | None = None,
        **options: Any,
    ):
        self.path = Path(path).absolute()
        self._session = Session(self.path, mode, durability, app_settings, options)

    # ---- what the store holds

    @property
    def app_settings(self) -> dict[str, Any]:
        """The JSON data that the application gave when it created the store."""
        return deepcopy(self._session.facts["app_settings"])

    @property
    def version(self) -> int:
        """How many operations made the store what it is; each insertion, removal or reward, single or batch, counts one."""
        return self._session.state().event

    def __len__(self) -> int:
        state = self._session.state()
        return len(state.tree) - len(state.records.expired(time.time()))

    def __contains__(self, id: object) -> bool:
        return self._find(id)[1] is not None

    def __iter__(self) -> Iterator[int]:
        """The ids, in order of insertion."""
        state = self._session.state()
        expired = set(state.records.expired(time.time()))
        return (id for id in state.tree if id not in expired)

    def __getitem__(self, id: int) -> Value:
        """The value of a memory."""
        state, place = self._present(id)
        return state.records.value(place)

    def _find(self, id: object) -> tuple[StoreState, int | None]:
        """The state, and the place of a memory in it; None if there is no such memory or it has expired."""
        state = self._session.state()
        place = state.place(id)
        if place is not None and state.records.expires[place] <= time.time():
            place = None
        return state, place

    def _present(self, id: object) -> tuple[StoreState, int]:
        """The same for a memory that must be present."""
        state, place = self._find(id)
        if place is None:
            raise UnknownId(f"no memory has the id {id!r}; ids are whole numbers that insert returned or was given")
        return state, place

    def get(self, id: int, default: Value = None) -> Value:
        """The value of a memory, or a default.

        >>> store.get(0), store.get(7, "none")
        ('east', 'none')
        """
        state, place = self._find(id)
        return default if place is None else state.records.value(place)

    def get_many(self, ids: Iterable[int], default: Value = None) -> list[Value]:
        """The values of memories in the order of their ids; `default` for an id that no memory has.

        >>> store.get_many([1, 7, 0])
        ['north', None, 'east']
        """
        return [self.get(id, default) for id in ids]

    def key(self, id: int) -> Any:
        """The key of a memory, in the form in which keys were given. Raises `UnknownId`.

        >>> store.key(1)
        array([0., 1.], dtype=float32)
        """
        return self._present(id)[0].tree.key(id)

    def metadata(self, id: int) -> dict[str, Any]:
        """The metadata of a memory. Raises `UnknownId`.

        >>> store.metadata(0)
        {'kind': 'fact'}
        """
        state, place = self._present(id)
        return state.records.metadata(place)

    def timestamps(self, id: int) -> Times:
        """When a memory was created, and when it expires (None: never), in seconds since 1970. Raises `UnknownId`.

        >>> store.timestamps(0)
        (1..., None)
        """
        state, place = self._present(id)
        expires = float(state.records.expires[place])
        return float(state.records.created[place]), None if expires == NO_EXPIRY else expires

    def ids(self, where: Where | None = None) -> list[int]:
        """The ids of all memories, or of those with some metadata, in order of insertion.

        Args:
            where: as in `query`.

        >>> store.ids(), store.ids({"kind": ["task", "note"]})
        ([0, 1], [1])
        """
        state = self._session.state()
        with state.reading():
            places = Filter(state.records, where, time.time()).places()
            return [int(id) for id in state.records.ids[places]]

    def __repr__(self) -> str:
        size = f"{len(self):,} memories" if self._session.is_open else "closed"
        return f"<MemoryStore {str(self.path)!r}: {size}>"

    # ---- queries

    def query(
        self,
        x: object,
        k: int = 1,
        *,
        where: Where | None = None,
        explore: float = 0.0,
        beam: int = 1,
        exclude: Iterable[int] | None = None,
        exploration_seed: int | None = None,
    ) -> StoreHits:
        """The memories that fit a key best, at most k, best first.

        Args:
            x, k, explore, beam, exclude, exploration_seed: as in `MemoryTree.query`.
            where: only memories with this metadata; a list holds alternatives. If k memories match, k are returned.

        Returns:
            The hits, with the receipt for `reward`.

        >>> store.query([0.9, 0.2], where={"kind": ["task", "note"]}).values
        ['north']
        """
        state = self._session.state()
        if where is None and state.records.next_expiry > time.time():
            found = state.tree.query(x, k, explore=explore, beam=beam, exclude=exclude, draw=exploration_seed)
            return StoreHits(state, found)
        asked: SingleQueryOptions = {
            "explore": explore, "beam": beam, "exclude": exclude, "exploration_seed": exploration_seed,
        }  # fmt: skip
        return query_filtered(state, x, k, where, asked)

    def query_many(
        self, X: Any, k: int = 1, *, where: Where | None = None, threads: int = 1, **query_options: Unpack[QueryOptions]
    ) -> StoreHitMatrix:
        """Answer a batch of queries, as a loop over `query` would.

        Args:
            X, k, threads: as in `MemoryTree.query_many`.
            where: as in `query`; one filter for all.
            query_options: explore, beam, exclude and exploration_seed, as in `MemoryTree.query_many`.

        >>> store.query_many([[0.9, 0.2], [0.1, 0.8]]).ids.tolist()
        [[0], [1]]
        """
        state = self._session.state()
        exclude = query_options.get("exclude")
        if not (exclude is None or isinstance(exclude, np.ndarray)):
            query_options["exclude"] = options.listed(exclude)
        if where is None and state.records.next_expiry > time.time():
            return StoreHitMatrix.from_matrix(state, tree_access.query_many(state.tree, X, k, threads, query_options))
        return query_many_filtered(state, X, k, where, query_options)

    def score(self, x: object, ids: Iterable[int]) -> np.ndarray:
        """How well memories fit a key, whether routing finds them or not: one score for each id.

        Args:
            x: the key.
            ids: the ids; one that no memory has scores minus infinity.

        >>> store.score([1.0, 1.0], [1, 7])
        array([ -1., -inf], dtype=float32)
        """
        asked = options.listed(ids)
        present = np.array([id in self for id in asked], bool)
        return np.where(present, self._session.state().tree.compare(x, asked), -np.inf).astype(np.float32)

    # ---- writing

    def insert(
        self,
        x: object,
        value: Value,
        *,
        id: int | None = None,
        features: object = None,
        label: str | int | None = None,
        metadata: Metadata | None = None,
        ttl: Lifetime = None,
    ) -> int:
        """Store a memory.

        Args:
            x, id, features, label: as in `MemoryTree.insert`.
            value: JSON data, bytes, text or a NumPy array.
            metadata: {name: text, number, boolean or None}, for filters.
            ttl: the memory expires after this many seconds.

        Returns:
            The id, once the memory is committed.

        >>> store.insert([1.0, 1.0], "north-east", metadata={"kind": "task"}, ttl=3600)
        2
        """
        with self._session.writing() as state:
            kind, keys = tree_access.key_to_bytes(state.tree, x)
            given = tree_access.check_features(state.tree, x, None if features is None else [features], 1)
            ids, labels, packed = [options.id_to_give(id)], check_labels([label], 1), [pack(value)]
            new = NewMemories(kind, keys, packed, ids, given, labels, [pack_metadata(metadata)], [lifetime(ttl)])
            return changes.insert(self._session, new)[0]

    def insert_many(
        self,
        X: Any,
        values: Iterable[Value],
        *,
        ids: Sequence[int | None] | np.ndarray | None = None,
        features: object = None,
        labels: Iterable[str | int | None] | None = None,
        metadata: Metadata | Sequence[Metadata | None] | None = None,
        ttl: Lifetime | Sequence[Lifetime] = None,
    ) -> np.ndarray:
        """Store a batch of memories, all or none of them, and return their ids.

        Args:
            X, values, features, labels: as in `MemoryTree.insert_many`.
            ids: the ids to give; None for the next free one.
            metadata: one mapping for all memories, or one for each.
            ttl: one for all, or one for each.

        >>> store.insert_many([[1.0, 2.0], [3.0, 4.0]], ["a", "b"], metadata={"kind": "letter"}).tolist()
        [2, 3]
        """
        values = options.listed(values)
        n = len(options.ids_for(X, len(values), None))
        given = {"ids": ids, "features": features, "labels": labels}
        described = one_each("mappings of metadata", n, metadata, isinstance(metadata, Mapping))
        return self._insert_many(X, values, described, lifetimes(n, ttl), given)

    def _insert_many(
        self, X: Any, values: list[Value], metadata: Sequence[Metadata | None], times: list[Times], given: dict[str, Any]
    ) -> np.ndarray:
        """`insert_many` for checked numbers of values and metadata; `given` are ids, features and labels."""
        n = len(values)
        ids = [options.id_to_give(id) for id in one_each("ids", n, given["ids"], False)]
        if not n:
            return np.zeros(0, np.int64)
        with self._session.writing() as state:
            kind, keys = tree_access.keys_to_bytes(state.tree, X)
            features = tree_access.check_features(state.tree, X, given["features"], n)
            labels, packed = check_labels(given["labels"], n), [pack(value) for value in values]
            new = NewMemories(kind, keys, packed, ids, features, labels, [pack_metadata(row) for row in metadata], times)
            return np.array(changes.insert(self._session, new), np.int64)

    def update_metadata(self, id: int, metadata: Metadata, *, replace: bool = False) -> None:
        """Change the metadata of a memory.

        Args:
            id: of the memory.
            metadata: the names to set; others keep their values.
            replace: remove all other names.

        Raises:
            UnknownId: there is no such memory.

        >>> store.update_metadata(0, {"read": True})
        >>> store.metadata(0)
        {'kind': 'fact', 'read': True}
        """
        with self._session.writing():
            self._present(id)
            changes.update_metadata(self._session, id, metadata, replace=replace)

    def remove(self, id: int | None = None, *, where: Where | None = None) -> int:
        """Remove one memory, or all with some metadata.

        Args:
            id: of the memory.
            where: instead of an id, a filter as in `query` with at least one name.

        Returns:
            How many memories were removed.

        Raises:
            UnknownId: there is no memory with this id.

        >>> store.remove(where={"kind": "task"}), store.remove(0), len(store)
        (1, 1, 0)
        """
        if (id is None) == (not check_where(where)):
            raise InvalidOption("remove takes either an id, or a filter that names at least one field")
        with self._session.writing():
            return self.remove_many(self.ids(where) if id is None else [id])

    def remove_many(self, ids: Iterable[int]) -> int:
        """Remove memories, all or none of them; returns how many.

        Raises:
            UnknownId: one of the ids belongs to no memory.

        >>> store.remove_many([0, 1])
        2
        """
        asked = options.listed(ids)
        with self._session.writing():
            for id in asked:
                self._present(id)
            present = list(dict.fromkeys(map(int, asked)))
            if present:
                self._session.remove(present)
        return len(present)

    # ---- learning

    def reward(self, receipt: StoreHits | Receipt | str, rewards: Rewards) -> RewardResult:
        """Learn from how useful the hits of a query were.

        Args:
            receipt: what `query` returned, its `receipt`, or `str` of that, in this process or another one.
            rewards: a number from 0 to 1 for each hit, None where none was observed; or a mapping {id: number}.

        Returns:
            How many rewards taught something, and how many came too late. A reward that is already known counts for neither.

        Raises:
            InvalidReceipt: the receipt is damaged, or of another store.
            InvalidReward: a reward is not such a number, or for no hit of the query.
            ConflictingReward: another reward for the same hit is known.

        >>> hits = store.query([0.9, 0.2], k=2)
        >>> result = store.reward(str(hits.receipt), {0: 1.0})
        >>> store.verify().rewards
        1
        """
        receipt = self._receipt(receipt)
        given = changes.rewards_by_id(receipt.ids, rewards)
        with self._session.writing() as state:
            if given and state.kind is not None:
                tree_access.check_key(state.kind, receipt.key)
            return changes.reward(self._session, [(receipt, given)])

    def _receipt(self, given: object) -> Receipt:
        """The receipt of a query to this store."""
        receipt = given.receipt if isinstance(given, StoreHits) else given
        receipt = receipt if isinstance(receipt, Receipt) else Receipt.parse(receipt)
        if receipt.store != self._session.identity:
            raise InvalidReceipt("this receipt comes from another store")
        return receipt

    def reward_many(self, hits: StoreHitMatrix, rewards: object) -> RewardResult:
        """Learn from the hits of a batch of queries, as one operation.

        Args:
            hits: what `query_many` returned.
            rewards: an n x k array of numbers from 0 to 1, NaN where none was observed.

        Returns:
            As `reward`, whose errors are also raised.

        >>> hits = store.query_many([[0.9, 0.2], [0.1, 0.8]])
        >>> result = store.reward_many(hits, [[1.0], [0.0]])
        """
        if not isinstance(hits, StoreHitMatrix):
            raise InvalidReceipt(f"reward_many takes what query_many returned, not {type(hits).__name__}")
        given = options.reward_matrix(hits.ids.shape, rewards)
        observed = (hits.ids != NO_ID) & ~np.isnan(given)
        rows = np.flatnonzero(observed.any(axis=1)).tolist()
        receipts = [self._receipt(hits[row]) for row in rows]
        by_id = [dict(zip(hits.ids[i, observed[i]].tolist(), given[i, observed[i]].tolist(), strict=True)) for i in rows]
        with self._session.writing():
            return changes.reward(self._session, zip(receipts, by_id, strict=True))

    def refit(self, passes: int = 1) -> None:
        """Learn explicitly: as `MemoryTree.refit`.

        >>> store.refit()
        """
        with self._session.writing():
            self._session.commit(Change("refit", options.whole("passes", passes, 1)))

    def sweep(self) -> int:
        """Put each memory where the routers send it now, as `MemoryTree.sweep`; returns how many were moved.

        >>> store.sweep()
        0
        """
        with self._session.writing():
            return int(self._session.commit(Change("sweep")))

    def reroute(self, times: int) -> None:
        """Take a random memory out and insert it again, `times` times, as `MemoryTree.reroute`.

        >>> store.reroute(3)
        """
        with self._session.writing():
            self._session.commit(Change("reroute", options.whole("times", times, 0)))

    # ---- inspection

    def stats(self) -> Stats:
        """Size, shape and balance of the tree, and the bytes it takes in memory.

        >>> store.stats().memories
        2
        """
        return self._session.state().tree.stats()

    def explain(self, x: object, k: int = 5, *, beam: int = 1) -> Explanation:
        """Why a query returns what it does.

        Args:
            x, k, beam: those of the query.

        Returns:
            The way through the tree, and the parts of each score.

        >>> store.explain([0.9, 0.2], 1).candidates[0].hit.value
        'east'
        """
        state, now = self._session.state(), time.time()
        explanation = state.tree.explain(x, k, beam=beam)
        candidates = [
            replace(candidate, hit=Hit(id, state.records.value(place), score))
            for candidate in explanation.candidates
            for id, place, score in [candidate.hit]
            if state.records.expires[place] > now
        ]
        return replace(explanation, candidates=tuple(candidates))

    def plot(self, ax: Any = None, *, depth: int = 4, names: Mapping[Any, str] | None = None) -> Any:
        """A picture of the tree; arguments and result as in `MemoryTree.plot`.

        >>> "memories" in store.plot()
        True
        """
        return self._session.state().tree.draw(ax, depth=depth, names=names)

    # ---- upkeep

    def checkpoint(self) -> None:
        """Write a snapshot of the tree now, so that the store opens quickly, and delete what it makes unnecessary.

        >>> store.checkpoint()
        """
        self._session.checkpoint()

    def compact(self) -> None:
        """Write a snapshot, and rewrite the database without what was removed.

        >>> store.compact()
        """
        self._session.compact()

    def verify(self) -> VerifyReport:
        """Read everything in the store, and report all damage.

        >>> store.verify().ok
        True
        """
        with self._session.lock:
            return verify_open(self.path, self._session.database, self._session.state())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is now, while it is in use.

        Args:
            path: a new or empty directory.

        >>> import tempfile
        >>> store.backup(tempfile.mkdtemp())
        """
        with self._session.lock:
            self._session.state()
            import_export.backup(self._session, path)

    def export_jsonl(self, file: TextFile, *, progress: bool = False) -> int:
        """Write all memories as JSON Lines.

        Args:
            file: a path or an open text file.
            progress: show a progress bar.

        Returns:
            How many memories were written.

        >>> import io
        >>> store.export_jsonl(io.StringIO())
        2
        """
        return import_export.export_jsonl(self._session, file, progress)

    def import_jsonl(self, file: TextFile, *, progress: bool = False) -> int:
        """Store the memories of a file that `export_jsonl` wrote, all or none of them.

        Args:
            file: a path or an open text file.
            progress: show a progress bar.

        Returns:
            How many memories were read.

        Raises:
            InvalidOption: a line is not a memory; the message names it.

        >>> import io
        >>> store.import_jsonl(io.StringIO('{"key": [0.5, 0.5], "value": "between"}'))
        1
        """
        memories = import_export.read_jsonl(file, progress)
        if memories:
            columns: dict[str, list[Any]] = {name: [row.get(name) for row in memories] for name in import_export.FIELDS}
            times = check_times(len(memories), list(zip(columns["created"], columns["expires"], strict=True)))
            given = {"ids": columns["id"], "features": columns["features"], "labels": columns["label"]}
            keys = import_export.key_batch(columns["key"])
            self._insert_many(keys, columns["value"], columns["metadata"], times, given)
        return len(memories)

    def close(self) -> None:
        """Write a snapshot if anything has changed, and close the files.

        >>> store.close()
        """
        self._session.close()

    def __enter__(self) -> Self:
        """The store itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the store."""
        self.close()
