"""Keys as bytes and back, for each kind of key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgpack
import numpy as np
import scipy.sparse

from memorytree.errors import InvalidKey
from memorytree.keys import DenseKeys, NamedKeys, SparseKeys

KINDS = {"dense": DenseKeys, "sparse": SparseKeys, "named": NamedKeys}


def kind_of(keys: Any) -> tuple[str, int]:
    """The name of a kind of keys, and their dimension: what must be known to read keys again."""
    return next(name for name, kind in KINDS.items() if type(keys) is kind), keys.dimension


def encoded(keys: Any, X: Any, batch: Any) -> list[bytes]:
    """The keys of a batch as bytes: X as it was given, and `batch` what the engine takes of it."""
    if isinstance(keys, DenseKeys):
        return [row.tobytes() for row in batch]
    if isinstance(keys, SparseKeys):
        bounds, features, weights = batch
        spans = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        return [features[first:last].tobytes() + weights[first:last].tobytes() for first, last in spans]
    return [encoded_kept(keys, dict(x)) for x in X]


def encoder(keys: Any) -> Callable[[Any], bytes]:
    """What makes bytes of one key, once it has checked it."""
    if isinstance(keys, DenseKeys):
        return keys.as_bytes

    def encoded_one(x: Any) -> bytes:
        row = keys.one(x)
        keys.check(row)
        return encoded_kept(keys, keys.keep(x, row))

    return encoded_one


def encoded_kept(keys: Any, kept: Any) -> bytes:
    """One key as bytes, from what `keys.keep` made of it."""
    if isinstance(keys, NamedKeys):
        try:
            return bytes(msgpack.packb(keys.pack(kept)))
        except (ValueError, OverflowError) as error:
            raise InvalidKey(f"a feature's name cannot be kept: {error}") from None
    return encoded(keys, None, kept)[0]


def decoded(kind: Sequence[Any], data: list[bytes]) -> Any:
    """Keys of a kind as a user would give them in one batch."""
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


def check_key(kind: Sequence[Any], key: bytes) -> None:
    """Raise `InvalidKey` unless these bytes can be a key; they may come from outside."""
    name, dimension = kind
    try:
        X = decoded(kind, [key])
        if name == "sparse" and not np.all((X.indices >= 0) & (X.indices < dimension)):
            raise ValueError("a column lies outside")
        (NamedKeys() if name == "named" else KINDS[name](dimension)).many(X)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise InvalidKey(f"not a key of this store: {error}") from None
