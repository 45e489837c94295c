"""Checks of what callers give to a store: keys, features, labels, times, metadata and filters."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import msgpack
import numpy as np

from memorytree import arguments
from memorytree.errors import InvalidOption
from memorytree.keys import AnyKeys
from memorytree.packing import Value, pack
from memorytree.tree import MemoryTree

MetadataValue: TypeAlias = str | int | float | bool | None
Metadata: TypeAlias = Mapping[str, MetadataValue]
Where: TypeAlias = Mapping[str, object]
Lifetime: TypeAlias = float | timedelta | None
Key: TypeAlias = Any
"""A key, or a batch of keys, in the form in which users give them."""

KeyKind: TypeAlias = tuple[str, int]  # the name of a kind of keys, and their dimension
Times: TypeAlias = tuple[float, float | None]  # creation and expiry, in seconds since 1970
NO_EXPIRY = math.inf
MAX_LIFETIME, MAX_TIME = 1e12, 1e15

T = TypeVar("T")


class NewMemories(NamedTuple):
    """A batch of memories for a store, one entry of each list for each memory, checked and as the database holds them."""

    kind: KeyKind
    keys: list[bytes]
    values: list[bytes]
    ids: Sequence[int]  # NO_ID: the next free one
    features: list[bytes | None]
    labels: Sequence[str | int | None]
    metadata: list[bytes | None]
    times: list[Times]


class GivenMemories(NamedTuple):
    """A batch of memories as a caller gives it: a batch of keys, and one entry of each list for each memory.

    `ids`, `features` and `labels` may be None: there are none.
    """

    keys: Key
    values: list[Value]
    ids: Iterable[int | None] | None
    features: object
    labels: Iterable[str | int | None] | None
    metadata: Sequence[Metadata | None]
    times: list[Times]

    def checked(self, tree: MemoryTree) -> NewMemories:
        """The batch for a store with this tree. Raises what `MemoryStore.insert_many` raises."""
        n = len(self.values)
        kind, keys = batch_bytes(tree, self.keys)
        ids = [arguments.check_new_id(id) for id in one_each("ids", n, self.ids)]
        features = feature_bytes(tree, self.keys, self.features, n)
        metadata = [pack_metadata(row) for row in self.metadata]
        values = [pack(value) for value in self.values]
        return NewMemories(kind, keys, values, ids, features, check_labels(self.labels, n), metadata, self.times)


def key_bytes(tree: MemoryTree, x: object) -> tuple[KeyKind, list[bytes]]:
    """The kind of a new key, and its bytes in a list of one. Raises `InvalidKey`, or `InvalidOption` for other routing."""
    keys = tree.check_insert(x)
    return (keys.kind, keys.dimension), [keys.key_to_bytes(x)]


def batch_bytes(tree: MemoryTree, X: object) -> tuple[KeyKind, list[bytes]]:
    """The kind of the keys of a batch, and the bytes of each."""
    keys = tree.check_insert(X)
    batch, n = keys.batch(X)
    encoded = keys.encode_many(X, batch)
    return (keys.kind, keys.dimension), [keys.to_bytes(keys.take(encoded, i)) for i in range(n)]


def check_key_bytes(keys: AnyKeys, key: bytes) -> None:
    """Raise `InvalidKey` unless these bytes, which may come from a client, are a key."""
    keys.batch(keys.from_bytes([key]))


def feature_bytes(tree: MemoryTree, X: object, features: object, n: int) -> list[bytes | None]:
    """The features of n memories as bytes, None for a memory without any; X is a key of the batch, or the batch."""
    if features is None:
        return [None] * n
    if isinstance(features, list) and len(features) == n and any(row is None for row in features):
        return [None if row is None else feature_bytes(tree, X, [row], 1)[0] for row in features]
    rows = arguments.check_feature_rows(cast(Sequence[object], features), n)
    tree.check_insert(X, rows)
    return [row.tobytes() for row in rows]


def one_each(name: str, n: int, given: Iterable[T] | None) -> Sequence[T | None]:
    """A list with one entry for each of n memories; None stands for n times None."""
    if given is None:
        return [None] * n
    given = arguments.check_list(given)
    if len(given) != n:
        raise InvalidOption(f"{n} memories need {n} {name}, not {len(given)}")
    return given


def check_labels(labels: Iterable[str | int | None] | None, n: int) -> Sequence[str | int | None]:
    """n labels that a tree takes and that the database can hold."""
    if labels is None:
        return [None] * n
    labels = arguments.check_list(labels)
    arguments.check_labels(labels, n, {})
    for label in labels:
        if isinstance(label, str) and not _is_utf8(label):
            raise InvalidOption(f"a label must be valid Unicode text, not {label!r:.80}")
    if any(isinstance(label, int) and not -(2**63) <= label < 2**63 for label in labels):
        raise InvalidOption("a label that is a number has at most 64 bits")
    return [int(label) if isinstance(label, np.integer) else label for label in labels]


def _is_utf8(text: str) -> bool:
    """Whether a text can be encoded as UTF-8."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def check_times(times: Iterable[tuple[float | None, float | None]]) -> list[Times]:
    """Pairs of creation (None: now) and expiry, checked."""
    now = time.time()
    return [(_moment(created, now), None if expires is None else _moment(expires, now)) for created, expires in times]


def lifetime(ttl: object) -> Times:
    """Creation and expiry of a memory that is stored now."""
    now = time.time()
    return now, expiry(now, ttl)


def lifetimes(n: int, ttl: Lifetime | Sequence[Lifetime]) -> list[Times]:
    """The same for n memories; `ttl` is one for all, or one for each."""
    if isinstance(ttl, Iterable):
        return [lifetime(one) for one in one_each("ttl", n, ttl)]
    return [lifetime(ttl)] * n


def expiry(now: float, ttl: object) -> float | None:
    """The time at which a memory with this lifetime expires."""
    if ttl is None:
        return None
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    return now + arguments.check_fraction("ttl", seconds, 0, MAX_LIFETIME)


def _moment(given: float | None, default: float) -> float:
    """A time in seconds since 1970, or a default. The database has no -0.0."""
    return default if given is None else arguments.check_fraction("a time", given, -MAX_TIME, MAX_TIME) + 0.0


def _native(value: object) -> object:
    """A NumPy scalar as a Python scalar; other values as they are."""
    return value.item() if isinstance(value, np.generic) else value


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def pack_metadata(metadata: object) -> bytes | None:
    """The metadata of one memory as bytes, None if there are none.

    Raises:
        InvalidOption: not a mapping from names to text, numbers, booleans or None.
    """
    if metadata is None:
        return None
    plain = check_metadata(metadata)
    try:
        return msgpack.packb(plain) if plain else None
    except (OverflowError, ValueError) as error:
        raise InvalidOption(f"metadata cannot be stored: {error}") from None


def check_metadata(metadata: object) -> dict[str, MetadataValue]:
    """Metadata as a dictionary of plain values. Raises `InvalidOption`."""
    if not isinstance(metadata, Mapping):
        raise InvalidOption(f"metadata is a mapping {{name: value}}, not {type(metadata).__name__}")
    plain = {name: _native(value) for name, value in metadata.items()}
    for name, value in plain.items():
        if not isinstance(name, str) or not _is_plain(value):
            raise InvalidOption(f"metadata maps names to text, numbers, booleans or None, not {name!r} to {value!r:.80}")
    return cast(dict[str, MetadataValue], plain)


def check_where(where: object) -> dict[str, list[MetadataValue]]:
    """A filter as lists of the accepted values, by name. Raises `InvalidOption`."""
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise InvalidOption(f'where is a mapping such as {{"user": "u17"}}, not {type(where).__name__}')
    lists: dict[str, list[MetadataValue]] = {}
    for name, accepted in where.items():
        values = [
            _native(value) for value in (accepted if isinstance(accepted, list | tuple | set | frozenset) else [accepted])
        ]
        if not isinstance(name, str) or not all(map(_is_plain, values)):
            raise InvalidOption(
                f"where maps names to text, numbers, booleans, None, or a list of these, not {name!r}: {accepted!r:.80}"
            )
        lists[name] = cast(list[MetadataValue], values)
    return lists
