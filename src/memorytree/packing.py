"""Values as bytes and back: msgpack, extended by NumPy arrays, NumPy scalars and tuples. No pickle is written or read."""

from __future__ import annotations

import io
import reprlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import msgpack
import numpy as np

from memorytree.errors import UnsupportedValue

Value: TypeAlias = Any
"""A value of the user's."""

ARRAY, SCALAR, TUPLE = 101, 102, 103  # msgpack extension types
MAX_TUPLE_DEPTH = 32
PLAIN_TYPES = frozenset({str, bytes, int, float, bool, type(None)})  # hold no other objects


def short_repr(value: object) -> str:
    """A value for an error message; `repr` itself would fail for a value that is nested too deeply."""
    return f"{reprlib.repr(value):.200}"


def pack(value: Value, *, advice: str = "values are JSON data, bytes, text or NumPy arrays") -> bytes:
    """One value as bytes.

    Args:
        value: JSON data, bytes, arrays and tuples, also inside each other.
        advice: ends the message of the error.

    Raises:
        UnsupportedValue: `unpack` would not return an equal value.

    >>> unpack(pack({"point": (1.5, 2), "note": None}))
    {'point': (1.5, 2), 'note': None}
    """
    try:
        if type(value) in PLAIN_TYPES:
            return msgpack.packb(value)
        if isinstance(value, bytearray):
            raise TypeError("a bytearray would be read back as bytes")
        return msgpack.packb(value, default=_extension, strict_types=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnsupportedValue(f"cannot save the value {short_repr(value)}: {error}; {advice}") from None


def unpack(data: bytes | memoryview) -> Value:
    """The value that `pack` wrote."""
    return msgpack.unpackb(data, ext_hook=_from_extension, strict_map_key=False)


def pack_all(values: Iterable[Value], encode: Callable[[Value], Value] | None = None) -> bytes:
    """Values as one msgpack array; `encode` is applied to each value first.

    Raises:
        UnsupportedValue: one of the values cannot be written.
    """
    advice = "give encode= (and decode= to load) for such values"
    parts = [pack(_encoded(value, encode, advice), advice=advice) for value in values]
    return msgpack.Packer().pack_array_header(len(parts)) + b"".join(parts)


def _encoded(value: Value, encode: Callable[[Value], Value] | None, advice: str) -> Value:
    """What `encode` returns; its errors about types and ranges become `UnsupportedValue`."""
    if encode is None:
        return value
    try:
        return encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnsupportedValue(f"cannot save the value {short_repr(value)}: {error}; {advice}") from None


def _extension(value: object, depth: int = 0) -> msgpack.ExtType:
    """A msgpack extension for an array, a NumPy scalar or a tuple."""
    if (type(value) is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
        file = io.BytesIO()
        np.save(file, np.asarray(value), allow_pickle=False)
        return msgpack.ExtType(ARRAY if type(value) is np.ndarray else SCALAR, file.getvalue())
    if type(value) is tuple:
        if depth == MAX_TUPLE_DEPTH:
            raise ValueError(f"tuples may be nested {MAX_TUPLE_DEPTH} deep")
        deeper = partial(_extension, depth=depth + 1)
        return msgpack.ExtType(TUPLE, msgpack.packb(list(value), default=deeper, strict_types=True))
    raise TypeError(f"{type(value).__name__} is neither msgpack data nor an array")


def _from_extension(code: int, data: bytes) -> Value:
    """The object that `_extension` wrote."""
    if code == TUPLE:
        return tuple(unpack(data))
    if code in (ARRAY, SCALAR):
        array = np.load(io.BytesIO(data), allow_pickle=False)
        return array if code == ARRAY else array[()]
    return msgpack.ExtType(code, data)
