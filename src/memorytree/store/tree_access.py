"""What a store needs of a tree beyond its public methods. No other file of the store touches a private attribute of a tree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgpack
import numpy as np
import scipy.sparse

from memorytree import files, options
from memorytree.checks import check_tree
from memorytree.engine.search import ACTION, AT_NODE, BRANCH, EXPLORED, EXPLORED_GENERATION
from memorytree.engine.state import LABEL, NEWER, NONE, OLDEST
from memorytree.errors import InvalidKey, InvalidOption
from memorytree.forest import MemoryForest
from memorytree.hits import HitMatrix, Hits, blank_trace
from memorytree.keys import DenseKeys, NamedKeys, SparseKeys
from memorytree.tree import MemoryTree
from memorytree.writing import Learned as RewardResult

if TYPE_CHECKING:
    from memorytree.store.tokens import Receipt

Keys: TypeAlias = DenseKeys | SparseKeys | NamedKeys
KeyKind: TypeAlias = tuple[str, int]  # the name of a kind of keys, and their dimension
KINDS: dict[str, Any] = {"dense": DenseKeys, "sparse": SparseKeys, "named": NamedKeys}
DECISION = (BRANCH, EXPLORED, EXPLORED_GENERATION, ACTION)  # the part of the engine's trace that learning needs
NO_ID = NONE

__all__ = ["DECISION", "NO_ID", "HitMatrix", "Hits", "MemoryTree", "RewardResult", "check_tree"]


# ---- a tree and its state


def plain_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a tree as plain data. Raises `InvalidOption` for options that do not fit."""
    kind = MemoryForest if "trees" in given else MemoryTree
    return files.plain_options(kind(**given))


def empty_tree(stored_options: Mapping[str, Any], scorer: object) -> MemoryTree:
    """A tree without memories, from options that `plain_options` returned."""
    return _restored({"options": dict(stored_options), "values": {}, "labels": []}, scorer, sealed=False)


def tree_state(tree: MemoryTree) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Everything a tree is except its values, as plain data and arrays."""
    state = files.state_of(tree)
    state.pop("values")
    state["options"] = files.plain_options(tree)
    return state, state.pop("arrays", {})


def tree_from_state(
    state: dict[str, Any], arrays: dict[str, np.ndarray], values: dict[int, int], scorer: object
) -> MemoryTree:
    """The tree that `tree_state` described; its values are given by id."""
    return _restored({**state, "values": values, **({"arrays": arrays} if arrays else {})}, scorer, sealed=True)


def _restored(state: dict[str, Any], scorer: object, *, sealed: bool) -> MemoryTree:
    if state["options"]["scorer"] == files.OWN:
        if scorer is None:
            raise InvalidOption("this store has a scorer of its own: open it with scorer=")
        state["options"] = {**state["options"], "scorer": scorer}
    kind = MemoryForest if state["options"]["trees"] else MemoryTree
    tree = kind.__new__(kind)
    files.restore(tree, state, is_sealed=sealed)
    return tree


def labels_by_id(tree: MemoryTree) -> dict[int, str | int]:
    """The labels of memories."""
    names = list(tree._labels)
    if not names:
        return {}
    core = next(iter(tree._known()[1].parts.values()))
    ids, codes = core.arrays()["row_ids"][: len(core)], core.arrays()["rows"][: len(core), LABEL]
    return {id: names[code] for id, code in zip(ids.tolist(), codes.tolist(), strict=True) if 0 <= code < len(names)}


def features_by_id(tree: MemoryTree) -> Mapping[int, np.ndarray]:
    """The features of memories."""
    return tree._features


# ---- keys


def key_kind(tree: MemoryTree) -> KeyKind | None:
    """The kind of keys that a tree holds; None before its first key."""
    return None if tree._keys is None else _kind_of(tree._keys)


def _kind_of(keys: Keys) -> KeyKind:
    return next(name for name, kind in KINDS.items() if type(keys) is kind), keys.dimension


def key_to_bytes(tree: MemoryTree, x: object) -> tuple[KeyKind, list[bytes]]:
    """The kind of a key, and its bytes in a list of one. Raises `InvalidKey`, or `InvalidOption` where routing does not fit."""
    keys, _ = tree._begin(x)
    row = keys.one(x)
    keys.check(row)
    return _kind_of(keys), [_kept_to_bytes(keys, keys.keep(x, row))]


def keys_to_bytes(tree: MemoryTree, X: Any) -> tuple[KeyKind, list[bytes]]:
    """The kind of the keys of a batch, and the bytes of each."""
    keys, _ = tree._begin(X)
    batch, _ = keys.many(X)
    if isinstance(keys, DenseKeys):
        return _kind_of(keys), [row.tobytes() for row in batch]
    if isinstance(keys, SparseKeys):
        bounds, features, weights = batch
        spans = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        return _kind_of(keys), [features[first:last].tobytes() + weights[first:last].tobytes() for first, last in spans]
    return _kind_of(keys), [_kept_to_bytes(keys, dict(x)) for x in X]


def stored_key_to_bytes(tree: MemoryTree, id: int) -> bytes:
    """The bytes of the key of a memory."""
    return key_to_bytes(tree, tree.key(id))[1][0]


def _kept_to_bytes(keys: Any, kept: Any) -> bytes:
    """The bytes of a key, from what `keys.keep` returned."""
    if isinstance(keys, NamedKeys):
        try:
            return bytes(msgpack.packb(keys.pack(kept)))
        except (ValueError, OverflowError) as error:
            raise InvalidKey(f"a feature's name cannot be stored: {error}") from None
    if isinstance(keys, DenseKeys):
        return bytes(kept[0].tobytes())
    return bytes(kept[1].tobytes() + kept[2].tobytes())


def keys_from_bytes(kind: KeyKind, data: list[bytes]) -> Any:
    """Keys of one kind as a batch for `insert_many`."""
    name, dimension = kind
    if name == "dense":
        return np.frombuffer(b"".join(data), np.float32).reshape(len(data), dimension)
    if name == "sparse":
        lengths = [len(key) // 8 for key in data]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        halves = [(key[: 4 * n], key[4 * n :]) for key, n in zip(data, lengths, strict=True)]
        features = np.frombuffer(b"".join(half for half, _ in halves), np.int32)
        weights = np.frombuffer(b"".join(half for _, half in halves), np.float32)
        return scipy.sparse.csr_matrix((weights, features, bounds), shape=(len(data), dimension))
    return [dict(map(tuple, msgpack.unpackb(key))) for key in data]


def check_key(kind: KeyKind, key: bytes) -> None:
    """Raise `InvalidKey` unless these bytes, which may come from a client, are a key."""
    name, dimension = kind
    try:
        X = keys_from_bytes(kind, [key])
        if name == "sparse" and not np.all((X.indices >= 0) & (X.indices < dimension)):
            raise ValueError("a column is out of range")
        (NamedKeys() if name == "named" else KINDS[name](dimension)).many(X)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise InvalidKey(f"not a key of this store: {error}") from None


def different_keys(tree: MemoryTree, kind: KeyKind, ids: Sequence[int], data: list[bytes]) -> Iterator[int]:
    """The positions in `ids` of memories whose key in the tree is not the one in `data`."""
    keys: Any = tree._keys
    written, _ = keys.many(keys_from_bytes(kind, data))
    held: list[Any] = [tree.key(id) for id in ids]
    stacked = scipy.sparse.vstack(held, "csr") if scipy.sparse.issparse(held[0]) else held
    found, _ = keys.many(np.stack(held) if isinstance(held[0], np.ndarray) else stacked)
    if isinstance(found, np.ndarray):
        different = (found != written).any(axis=1)
    elif not np.array_equal(found[0], written[0]):  # of other lengths: they cannot be compared position by position
        different = np.ones(len(ids), bool)
    else:
        unequal = np.cumsum(np.concatenate([[0], (found[1] != written[1]) | (found[2] != written[2])]))
        different = unequal[found[0][1:]] > unequal[found[0][:-1]]
    yield from np.flatnonzero(different).tolist()


# ---- writing


def check_features(tree: MemoryTree, x: object, features: object, n: int) -> list[bytes | None]:
    """The features of n memories as bytes, None for a memory without any; `x` is a key of the batch, or the batch."""
    if features is None:
        return [None] * n
    _, core = tree._begin(x)
    if isinstance(features, list) and len(features) == n and any(row is None for row in features):
        return [None if row is None else options.features_for([row], 1, core)[0].tobytes() for row in features]
    return [row.tobytes() for row in options.features_for(features, n, core)]


def insert(tree: MemoryTree, key: Any, place: int, id: int, label: str | int | None) -> None:
    """Insert one memory without features."""
    tree.insert(key, place, id=id, label=label)


def plan_evictions(tree: MemoryTree, ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """Which memories leave when memories with these ids are inserted one after another: replaced, or beyond the capacity.

    Returns:
        The ids of present memories that leave, and the positions in `ids` of new ones that do not stay either.
    """
    capacity = tree._options["capacity"]
    if capacity is None and tree._values.keys().isdisjoint(ids) and len(set(ids)) == len(ids):
        return [], []
    unused = _longest_unused(tree)
    present, leaving = len(tree), set()
    staying: dict[int, int] = {}
    old, own = [], []
    for position, id in enumerate(ids):
        if id in staying:
            own.append(staying.pop(id))
        elif id in tree and id not in leaving:
            leaving.add(id)
            old.append(id)
        elif capacity is None or present < capacity:
            present += 1
        elif (oldest := next((id for id in unused if id not in leaving), None)) is not None:
            leaving.add(oldest)
            old.append(oldest)
        else:
            own.append(staying.pop(next(iter(staying))))
        staying[id] = position
    return old, own


def _longest_unused(tree: MemoryTree) -> Iterator[int]:
    """The ids in order of their last use, the oldest first."""
    if tree._core is None:
        return
    arrays = next(iter(tree._core.parts.values())).arrays()
    row = int(arrays["counters"][OLDEST])
    while row != NONE:
        yield int(arrays["row_ids"][row])
        row = int(arrays["rows"][row, NEWER])


def reward_batch(
    tree: MemoryTree, kind: KeyKind, observed: Sequence[tuple[Receipt, dict[int, float]]], lineage: int
) -> RewardResult:
    """Learn from rewards of past queries. Decisions of a tree of another lineage are ignored."""
    width = max(len(receipt.ids) for receipt, _ in observed)
    ids = np.full((len(observed), width), NO_ID, np.int64)
    rewards = np.full(ids.shape, np.nan)
    for row, (receipt, given) in enumerate(observed):
        ids[row, : len(receipt.ids)] = receipt.ids
        rewards[row, : len(receipt.ids)] = [given.get(id, np.nan) for id in receipt.ids]
    traces = np.tile(blank_trace(0), (len(observed), 1))
    for row, (receipt, _) in enumerate(observed):
        if receipt.lineage == lineage:
            traces[row, list(DECISION)] = receipt.decision
    with tree._writer:
        keys, core = tree._known()
        batch, _ = keys.many(keys_from_bytes(kind, [receipt.key for receipt, _ in observed]), growing=True)
        return tree._learn(core, batch, traces, ids, rewards)


# ---- queries


def smallest_beam(tree: MemoryTree, beam: object) -> int:
    """A checked beam. Raises `InvalidOption`."""
    return tree._checked_beam(beam)


def query_many(tree: MemoryTree, X: Any, k: int, threads: int, asked: Mapping[str, Any]) -> HitMatrix:
    """The answers of a tree to a batch; its values are places."""
    renamed = {"draw" if name == "exploration_seed" else name: given for name, given in asked.items()}
    return tree.query_many(X, k, threads=threads, **renamed)


def key_bytes_of(hits: Hits) -> bytes:
    """The bytes of the key that a query had; none where the tree held no memories."""
    return b"" if hits._kept is None else _kept_to_bytes(hits._keys, hits._kept)


def decision_of(hits: Hits) -> list[int]:
    """What exploration decided: the branch, and if a node was explored the node, its generation and the action."""
    decision = [int(hits._trace[column]) for column in DECISION]
    if decision[0] != AT_NODE:
        decision[1:] = [NONE] * (len(DECISION) - 1)
    return decision


def is_decision(decision: object) -> bool:
    """Whether this, which may come from a client, is a decision."""
    return (
        isinstance(decision, list)
        and len(decision) == len(DECISION)
        and all(type(number) is int and abs(number) < 2**62 for number in decision)
        and decision[0] in (0, 1, 2)
    )
