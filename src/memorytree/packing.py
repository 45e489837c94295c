"""Values as bytes and back: msgpack, with arrays, NumPy's scalars and tuples on top. No pickle."""

from __future__ import annotations

import io
import reprlib
from collections.abc import Callable
from functools import partial
from typing import Any

import msgpack
import numpy as np
from msgpack import Packer, StackError, unpackb

from memorytree.errors import UnsupportedValue

_ARRAY, _SCALAR, _TUPLE = 101, 102, 103  # msgpack extension types
DEEPEST = 32
SMALL, LARGE = 1 << 10, 1 << 16  # bytes; for most of what is packed by itself the first do, by default msgpack takes 2^18
# How msgpack begins an array, by its length; longer ones are rare.
ARRAY_OF = [bytes([0x90 + n]) if n < 16 else b"\xdc" + n.to_bytes(2, "big") for n in range(1024)]


def shortly(value: Any) -> str:
    """A value as a message shows it: of what is nested too deep Python's own would fail."""
    return f"{reprlib.repr(value):.200}"


def packed(values: list[Any], encode: Callable[[Any], Any] | None = None) -> bytes:
    """A list of values as one run of bytes; `UnsupportedValue` for what would not come back as it went."""
    packer = msgpack.Packer(default=_extend, strict_types=True, autoreset=False)
    packer.pack_array_header(len(values))
    for value in values:
        try:
            data = encode(value) if encode else value
            if isinstance(data, bytearray):
                raise TypeError("a bytearray would come back as bytes")
            packer.pack(data)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise UnsupportedValue(
                f"cannot save the value {shortly(value)}: {error}. Give encode= (and decode= to load) for such values"
            ) from None
    return packer.bytes()


def _extend(value: Any, depth: int = 0) -> msgpack.ExtType:
    """What msgpack does not know by itself: arrays, NumPy's scalars, tuples."""
    if (type(value) is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
        file = io.BytesIO()
        np.save(file, np.asarray(value), allow_pickle=False)
        return msgpack.ExtType(_ARRAY if type(value) is np.ndarray else _SCALAR, file.getvalue())
    if type(value) is tuple:
        if depth == DEEPEST:
            raise ValueError(f"tuples may be nested {DEEPEST} deep")
        deeper = partial(_extend, depth=depth + 1)
        return msgpack.ExtType(_TUPLE, msgpack.packb(list(value), default=deeper, strict_types=True))
    raise TypeError(f"{type(value).__name__} is neither msgpack data nor an array")


_plain = Packer(buf_size=SMALL)
_IN_ONE_GO = Packer.__module__ == "msgpack._cmsgpack"  # msgpack in Python can be interrupted by another thread
_WITHOUT_INSIDES = {str, bytes, int, float, bool, type(None)}


def packed_plain(data: Any) -> bytes:
    """What msgpack knows by itself, as bytes. What is small takes less time than it would to make a packer for it."""
    global _plain
    if not _IN_ONE_GO:
        return Packer().pack(data)
    made: bytes = _plain.pack(data)
    if len(made) > LARGE:
        _plain = Packer(buf_size=SMALL)  # it would keep as much memory for good
    return made


def packed_value(value: Any) -> bytes:
    """One value as bytes; `UnsupportedValue` for what would not come back as it went."""
    try:
        if type(value) in _WITHOUT_INSIDES:
            return packed_plain(value)
        if isinstance(value, bytearray):
            raise TypeError("a bytearray would come back as bytes")
        return Packer(default=_extend, strict_types=True, buf_size=SMALL).pack(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UnsupportedValue(
            f"cannot keep the value {shortly(value)}: {error}. Values are JSON data, bytes, text or NumPy arrays"
        ) from None


def unpacked(data: bytes) -> Any:
    """What bytes stand for."""
    return unpackb(data, ext_hook=restore_extension, strict_map_key=False)


def unpacked_all(parts: list[Any]) -> list[Any]:
    """What each of several runs of bytes stands for; read as one array, in half the time that it takes one by one."""
    try:
        return unpackb(ARRAY_OF[len(parts)] + b"".join(parts), ext_hook=restore_extension, strict_map_key=False)
    except (IndexError, StackError):  # so many, or a value nested as deep as can be, and now one deeper
        return [unpacked(part) for part in parts]


def restore_extension(code: int, data: bytes) -> Any:
    """What `_extend` made something of."""
    if code == _TUPLE:
        return tuple(unpacked(data))
    if code in (_ARRAY, _SCALAR):
        array = np.load(io.BytesIO(data), allow_pickle=False)
        return array if code == _ARRAY else array[()]
    return msgpack.ExtType(code, data)
