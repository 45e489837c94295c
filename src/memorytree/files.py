"""Trees in files: one zip of plain arrays and msgpack, written whole or not at all. No pickle is written or read."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from memorytree import options
from memorytree.checks import check_arrays
from memorytree.engine import state as engine_state
from memorytree.engine.core import Core
from memorytree.engine.state import MEMORIES
from memorytree.errors import DamagedFile, UnsupportedValue
from memorytree.keys import DenseKeys, NamedKeys, SparseKeys
from memorytree.routing import Paper, Principal

FORMAT = 1
_ARRAY, _TUPLE = 1, 2  # msgpack extension types
KINDS = {"dense": DenseKeys, "sparse": SparseKeys, "named": NamedKeys}
ROUTINGS = {"paper": Paper, "principal": Principal}


def state_of(tree: Any) -> dict[str, Any]:
    """Everything a tree is, as arrays and plain data; the values are the caller's own objects."""
    routing = tree._options["routing"]
    if not isinstance(routing, str):
        routing = {"name": type(routing).__name__.lower(), "settings": list(routing)}
    state = {"format": FORMAT, "options": {**tree._options, "routing": routing}, "values": dict(tree._values)}
    if tree._core is None:
        return state
    kind = next(name for name, kind in KINDS.items() if type(tree._keys) is kind)
    core_routing = {"name": type(tree._core.routing).__name__.lower(), "settings": list(tree._core.routing)}
    arrays = {name: array.copy() for name, array in tree._core.arrays_in_use().items()}
    if "keys" in arrays:  # what lies in free slots is nobody's business
        free = np.ones(len(arrays["keys"]), bool)
        free[arrays["rows"][:, engine_state.SLOT]] = False
        arrays["keys"][free] = 0
    state |= {"kind": kind, "dimension": tree._keys.dimension, "vocabulary": tree._keys.vocabulary()}
    return state | {"routing": core_routing, "arrays": arrays}


def restore(tree: Any, state: dict[str, Any]) -> None:
    """Make an object the tree that `state_of` described."""
    settings = dict(state["options"])
    if not isinstance(settings["routing"], str):
        settings["routing"] = ROUTINGS[settings["routing"]["name"]](*settings["routing"]["settings"])
    tree.__init__(**settings)
    tree._values = state["values"]
    if "arrays" not in state:
        return
    vocabulary = state["vocabulary"]
    keys = NamedKeys(vocabulary) if state["kind"] == "named" else KINDS[state["kind"]](state["dimension"])
    routing = ROUTINGS[state["routing"]["name"]](*state["routing"]["settings"])
    core_settings = options.settings_of(tree._options, routing)
    blank = engine_state.empty(keys.sparse, keys.dimension, core_settings, routing)
    arrays = {name: _padded(state["arrays"][name], blank[name]) for name in blank}
    check_arrays(arrays, keys.sparse, routing.learns)
    if set(tree._values) != set(arrays["row_ids"][: arrays["counters"][MEMORIES]].tolist()):
        raise ValueError("values and memories do not have the same ids")
    tree._keys = keys
    tree._core = Core(keys.sparse, keys.dimension, core_settings, routing, options.scorer_of(tree._options), arrays)


def _padded(array: np.ndarray, blank: np.ndarray) -> np.ndarray:
    """An array with at least the room it has in an empty tree, writeable and of the right type."""
    if array.dtype != blank.dtype or array.shape[1:] != blank.shape[1:]:
        raise ValueError(f"an array of {array.dtype} {array.shape} where {blank.dtype} {blank.shape} was expected")
    if len(array) < len(blank):
        return np.concatenate([array, blank[len(array) :]])
    return np.require(array, requirements=["C", "W"])


def save(tree: Any, path: str | os.PathLike, encode: Callable[[Any], Any] | None) -> None:
    """Write a tree to a file: to a new one beside it, which then takes its name."""
    state = state_of(tree)
    ids = np.array(list(state["values"]), np.int64)
    values = _packed(list(state.pop("values").values()), encode)
    arrays = state.pop("arrays", {})
    # Features named by huge ints would not fit msgpack: they are refused here, before anything is written.
    manifest = _packed([state], None)
    target = Path(path)
    handle, temporary = tempfile.mkstemp(prefix=target.name + ".", suffix=".part", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            members = {"manifest": _bytes(manifest), "values": _bytes(values), "ids": ids}
            np.savez(file, allow_pickle=False, **members, **{f"array_{name}": array for name, array in arrays.items()})
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        _sync_directory(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def load(cls: Any, path: str | os.PathLike, decode: Callable[[Any], Any] | None) -> Any:
    """Read a tree that `save` wrote."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        [state] = _unpacked(arrays.pop("manifest").tobytes())
        if state["format"] != FORMAT:
            raise DamagedFile(f"{path} has format {state['format']}, this version reads {FORMAT}")
        values = _unpacked(arrays.pop("values").tobytes())
        ids = arrays.pop("ids").tolist()
        if arrays:
            state["arrays"] = {name.removeprefix("array_"): array for name, array in arrays.items()}
    except (FileNotFoundError, PermissionError, IsADirectoryError, DamagedFile):
        raise
    except Exception as error:
        raise DamagedFile(f"{path} is not a whole saved tree: {error}") from error
    # The caller's own function: its errors are the caller's.
    state["values"] = dict(zip(ids, map(decode, values) if decode else values, strict=True))
    tree = cls.__new__(cls)
    try:
        restore(tree, state)
    except Exception as error:
        raise DamagedFile(f"{path} is not a whole saved tree: {error}") from error
    return tree


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def _packed(values: list[Any], encode: Callable[[Any], Any] | None) -> bytes:
    packer = msgpack.Packer(default=_extend, strict_types=True, autoreset=False)
    packer.pack_array_header(len(values))
    for value in values:
        try:
            packer.pack(encode(value) if encode else value)
        except (TypeError, ValueError, OverflowError) as error:
            raise UnsupportedValue(
                f"cannot save the value {value!r:.200}: {error}. Give encode= (and decode= to load) for such values"
            ) from None
    return packer.bytes()


def _extend(value: Any) -> msgpack.ExtType:
    if isinstance(value, np.ndarray | np.generic) and not np.asarray(value).dtype.hasobject:
        file = io.BytesIO()
        np.save(file, np.asarray(value), allow_pickle=False)
        return msgpack.ExtType(_ARRAY, file.getvalue())
    if type(value) is tuple:
        return msgpack.ExtType(_TUPLE, msgpack.packb(list(value), default=_extend, strict_types=True))
    raise TypeError(f"{type(value).__name__} is neither msgpack data nor an array")


def _unpacked(data: bytes) -> Any:
    return msgpack.unpackb(data, ext_hook=_restore_extension, strict_map_key=False)


def _restore_extension(code: int, data: bytes) -> Any:
    if code == _TUPLE:
        return tuple(_unpacked(data))
    if code == _ARRAY:
        array = np.load(io.BytesIO(data), allow_pickle=False)
        return array if array.ndim else array[()]
    raise ValueError(f"unknown extension {code}")


def _sync_directory(directory: Path) -> None:
    """Make a rename last; not every platform can open a directory."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
