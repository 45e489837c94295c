"""Trees in files: a zip of plain arrays and msgpack, written completely or not at all. No pickle is written or read."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from memorytree.config import Scorer
from memorytree.errors import DamagedFile, InvalidOption
from memorytree.keys import AnyKeys, make_keys
from memorytree.packing import PlainData, Value, pack, pack_all, unpack

FORMAT = 1
ARRAY = "array."
T_co = TypeVar("T_co", covariant=True)


class FromState(Protocol[T_co]):
    """Makes a tree from a state, as `MemoryTree.from_state_dict` does."""

    def __call__(self, state: Mapping[str, Value], *, scorer: Scorer | None = None, trusted: bool = False) -> T_co:
        """Make the tree."""


def split_arrays(state: Mapping[str, Value]) -> tuple[PlainData, dict[str, np.ndarray]]:
    """A state of a tree, without values, as plain data and arrays by name."""
    plain = {name: part for name, part in state.items() if name not in ("values", "groups", "index")}
    if "index" not in state:
        return plain, {}
    return plain, {"groups": state["groups"], **{f"index.{name}": array for name, array in state["index"].items()}}


def join_arrays(plain: Mapping[str, Value], arrays: Mapping[str, np.ndarray], values: dict[int, Value]) -> PlainData:
    """The state of a tree from what `split_arrays` returned, and values by id."""
    state = {**plain, "values": values}
    if arrays:
        index = {name.removeprefix("index."): array for name, array in arrays.items() if name.startswith("index.")}
        state |= {"groups": arrays["groups"], "index": index}
    return state


def restore_keys(description: tuple[str, int, list[str | int] | None]) -> AnyKeys:
    """The keys of a tree from (kind, dimension, vocabulary)."""
    kind, dimension, vocabulary = description
    return make_keys(kind, dimension, vocabulary)


def save(state: PlainData, path: str | os.PathLike[str], encode: Callable[[Value], Value] | None) -> None:
    """Write the state of a tree to a new file beside `path`, which is then renamed."""
    ids = np.array(list(state["values"]), np.int64)
    values = pack_all(state["values"].values(), encode)
    plain, arrays = split_arrays(state)
    # Names of features that do not fit msgpack are refused here, before anything is written.
    manifest = pack([{"format": FORMAT, "arrays": sorted(arrays), **plain}])
    members = {"manifest": _as_array(manifest), "values": _as_array(values), "ids": ids}
    members |= {f"{ARRAY}{name}": array for name, array in arrays.items()}
    target = Path(path)
    temporary = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(temporary, "xb") as file:
            np.savez(file, allow_pickle=False, **members)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        sync_directory(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def load(
    from_state: FromState[T_co],
    path: str | os.PathLike[str],
    decode: Callable[[Value], Value] | None,
    scorer: Scorer | None = None,
) -> T_co:
    """The tree that `save` wrote.

    Raises:
        DamagedFile: the file is not a complete saved tree.
        InvalidOption: `scorer` is missing, or not wanted.
    """
    try:
        with zipfile.ZipFile(path) as file:
            # Reading a member to its end verifies its checksum.
            members = {name: np.load(io.BytesIO(file.read(name)), allow_pickle=False) for name in file.namelist()}
        members = {name.removesuffix(".npy"): array for name, array in members.items()}
        [plain] = unpack(members.pop("manifest").tobytes())
        if plain.pop("format") != FORMAT:
            raise ValueError(f"it has another format than {FORMAT}")
        values, ids = unpack(members.pop("values").tobytes()), members.pop("ids").tolist()
        arrays = {name.removeprefix(ARRAY): array for name, array in members.items()}
        if sorted(arrays) != plain.pop("arrays") or len(values) != len(ids):
            raise ValueError("a part is missing")
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except Exception as error:
        raise DamagedFile(f"{path} is not a complete saved tree: {error}") from error
    # Errors of the caller's own function are the caller's.
    by_id = dict(zip(ids, map(decode, values) if decode else values, strict=True))
    try:
        return from_state(join_arrays(plain, arrays, by_id), scorer=scorer)
    except InvalidOption as error:
        raise InvalidOption(f"{path}: {error}") from None
    except Exception as error:
        raise DamagedFile(f"{path} is not a complete saved tree: {error}") from error


def _as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def sync_directory(directory: Path) -> None:
    """Make a rename durable; not every platform can open a directory."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
