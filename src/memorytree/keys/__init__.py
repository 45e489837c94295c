"""Keys in the form in which users give them, in the form in which indexes take them, and as bytes.

A tree holds one kind of key; its first key decides which:

- `DenseKeys`: arrays of one length. A batch is a float32 matrix.
- `SparseKeys`: rows of scipy matrices with one number of columns. A batch is (bounds, features, weights).
- `NamedKeys`: mappings {feature: weight}; a vocabulary numbers the features in the order in which they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from memorytree.errors import InvalidKey
from memorytree.keys.base import Keys, is_scipy_sparse
from memorytree.keys.dense import DenseKeys, as_numbers
from memorytree.keys.named import NamedKeys, is_mapping_batch
from memorytree.keys.sparse import KeyRows, SparseKeys

AnyKeys = Keys[Any, Any, Any]
EncodedKey: TypeAlias = Any
"""An encoded key; its type depends on the kind of keys."""
UserKey: TypeAlias = Any
"""A key in the form in which users give keys, which depends on their kind."""

__all__ = [
    "AnyKeys",
    "DenseKeys",
    "EncodedKey",
    "KeyRows",
    "Keys",
    "NamedKeys",
    "SparseKeys",
    "UserKey",
    "is_scipy_sparse",
    "keys_for",
    "make_keys",
]  # fmt: skip


def keys_for(x: object) -> DenseKeys | SparseKeys | NamedKeys:
    """The kind of keys of a tree whose first key, or batch of keys, is x.

    Raises:
        InvalidKey: x is no key.
    """
    if isinstance(x, Mapping) or is_mapping_batch(x):
        return NamedKeys()
    if isinstance(x, KeyRows) or is_scipy_sparse(x):
        return SparseKeys(x.shape[-1])  # type: ignore[attr-defined]  # scipy has no types
    array = as_numbers(x)
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise InvalidKey(f"a key is an array with one axis and at least one feature, this one has shape {array.shape}")
    return DenseKeys(array.shape[-1])


def make_keys(kind: str, dimension: int, vocabulary: list[str | int] | None = None) -> DenseKeys | SparseKeys | NamedKeys:
    """The keys of a kind: "dense", "sparse" or "named"; ValueError for another kind."""
    if kind == "dense":
        return DenseKeys(dimension)
    if kind == "sparse":
        return SparseKeys(dimension)
    if kind == "named":
        return NamedKeys(vocabulary or ())
    raise ValueError(f"there is no kind of keys {kind!r}")
