"""Stores to and from elsewhere: JSON Lines, and copies of a whole store."""

from __future__ import annotations

import base64
import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import scipy.sparse

from memorytree import files
from memorytree.errors import InvalidOption, StoreError
from memorytree.packing import packed_value, unpacked
from memorytree.progress import track
from memorytree.store import key_codec, snapshots
from memorytree.store.layout import DATABASE, SNAPSHOTS
from memorytree.store.rows import Memory

BATCH = 10_000
_PACKED = "$msgpack"
DEEPEST = 100


# ---- JSON Lines


def export(store: Any, file: Any, progress: bool) -> int:
    """Write all memories of a store as it is now, one a line."""
    now, written = time.time(), 0
    with store._busy, _opened(file, "w") as lines:
        database, size = store._database, len(store)
        with database.as_of_now():
            kind = database.facts().get("keys", ("", 0))
            for memories in track(database.live_memories(BATCH), "exporting", progress, -(-size // BATCH)):
                there = [memory for memory in memories if memory.expires is None or now < memory.expires]
                for memory, key in zip(there, key_codec.decoded(kind, [memory.key for memory in there]), strict=True):
                    lines.write(json.dumps(_line_of(memory, key), ensure_ascii=False) + "\n")
                written += len(there)
    return written


def _line_of(memory: Memory, key: Any) -> dict[str, Any]:
    """A memory as JSON data."""
    line = {"id": memory.id, "key": _key_as_json(key), "value": as_json(unpacked(memory.value)), "created": memory.created}
    optional = {
        "metadata": memory.metadata and msgpack.unpackb(memory.metadata),
        "expires": memory.expires,
        "label": memory.label,
        "features": memory.features and np.frombuffer(memory.features, np.float32).tolist(),
    }
    return line | {name: given for name, given in optional.items() if given is not None}


def import_(store: Any, file: Any, progress: bool) -> int:
    """Store the memories of a file, all or none of them."""
    lines = []
    with _opened(file, "r") as text:
        number = 0
        try:
            for line in track(text, "reading", progress):
                number += 1
                if line.strip():
                    lines.append(_memory_of(json.loads(line)))
        except UnicodeDecodeError as error:
            raise InvalidOption(f"line {number + 1} is not UTF-8 text: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, msgpack.UnpackException) as error:
            raise InvalidOption(f"line {number} is not a memory: {error}") from None
        except RecursionError:
            raise InvalidOption(f"line {number} is nested too deep") from None
    if not lines:
        return 0
    store.insert_many(
        _batch_of([line["key"] for line in lines]),
        [line["value"] for line in lines],
        ids=[line.get("id") for line in lines],
        features=[line.get("features") for line in lines],
        labels=[line.get("label") for line in lines],
        metadata=[line.get("metadata") for line in lines],
        times=[(line.get("created"), line.get("expires")) for line in lines],
    )
    return len(lines)


def _batch_of(keys: list[Any]) -> Any:
    """Keys, each by itself, as one batch."""
    try:
        return scipy.sparse.vstack(keys, "csr") if scipy.sparse.issparse(keys[0]) else keys
    except (ValueError, TypeError) as error:
        raise InvalidOption(f"the keys are not all of one kind: {error}") from None


def _memory_of(line: dict[str, Any]) -> dict[str, Any]:
    """What `line_of` wrote, as Python data; id, metadata, label, features and times may be absent."""
    if not isinstance(line, dict) or not {"key", "value"} <= line.keys():
        raise ValueError('a memory is an object with at least "key" and "value"')
    unknown = line.keys() - {"id", "key", "value", "created", "metadata", "expires", "label", "features"}
    if unknown:
        raise ValueError(f"there is no {sorted(unknown)[0]!r} in a memory")
    return line | {"key": _key_from_json(line["key"]), "value": from_json(line["value"])}


def _key_as_json(key: Any) -> Any:
    """Dense keys are lists of numbers; sparse ones {"columns": n, "weights": pairs}, named ones {"weights": pairs}."""
    if scipy.sparse.issparse(key):
        weights = zip(key.indices.tolist(), key.data.tolist(), strict=True)
        return {"columns": key.shape[1], "weights": [list(pair) for pair in weights]}
    return key.tolist() if isinstance(key, np.ndarray) else {"weights": [list(pair) for pair in key.items()]}


def _key_from_json(key: Any) -> Any:
    if isinstance(key, list):
        return key
    weights = [(name, weight) for name, weight in key["weights"]]
    if "columns" not in key:
        return dict(weights)
    bounds, columns = [0, len(weights)], [column for column, _ in weights]
    if not all(type(column) is int and 0 <= column < key["columns"] for column in columns):
        raise ValueError(f"columns are whole numbers from 0 to {key['columns'] - 1}")
    data = [weight for _, weight in weights]
    return scipy.sparse.csr_matrix((data, columns, bounds), shape=(1, key["columns"]), dtype=np.float32)


def as_json(value: Any, depth: int = 0) -> Any:
    """A value as JSON data; what JSON does not know (bytes, arrays, tuples, NaN ...) as msgpack in base64.

    So is what is nested deep, which many who read JSON do not take.
    """
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if type(value) is list and depth < DEEPEST:
        return [as_json(item, depth + 1) for item in value]
    if type(value) is dict and depth < DEEPEST and all(type(name) is str and name != _PACKED for name in value):
        return {name: as_json(item, depth + 1) for name, item in value.items()}
    return {_PACKED: base64.b64encode(packed_value(value)).decode()}


def from_json(data: Any) -> Any:
    """What `as_json` made."""
    if isinstance(data, list):
        return [from_json(item) for item in data]
    if not isinstance(data, dict):
        return data
    if _PACKED in data:
        return unpacked(base64.b64decode(data[_PACKED]))
    return {name: from_json(item) for name, item in data.items()}


@contextmanager
def _opened(file: Any, mode: str) -> Iterator[Any]:
    """A text file: opened here if it is a path, else the caller's own."""
    if not isinstance(file, str | os.PathLike):
        yield file
        return
    if mode == "r":
        with open(file, encoding="utf8") as lines:
            yield lines
        return
    target = Path(os.path.realpath(file))  # what a link leads to, not the link
    try:
        if target.exists() and not target.is_file() and not target.is_dir():  # a pipe or a device stays what it is
            with open(target, "w", encoding="utf8") as lines:
                yield lines
            return
        # Written aside, so that a full disk does not leave half a file under the name.
        with _aside(target) as part:
            with open(part, "x", encoding="utf8") as lines:
                yield lines
                lines.flush()
                os.fsync(lines.fileno())
            os.replace(part, target)
    except OSError as error:
        if isinstance(error, StoreError | BrokenPipeError):
            raise
        raise StoreError(f"{file} could not be written: {error}") from error


@contextmanager
def _aside(target: Path) -> Iterator[Path]:
    """A name beside another that nobody has; whatever bears it is removed if anything goes wrong."""
    if not target.name or (target.is_dir() and any(target.iterdir())):
        raise StoreError(f"{target} is a directory that is not empty: nothing is written over it")
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
    except BaseException:
        shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(missing_ok=True)
        raise


# ---- copies


def backup(store: Any, path: str | os.PathLike) -> None:
    """Copy a store as it is now. The caller sees to it that this process writes no snapshot meanwhile."""
    target = Path(path).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(f"{target} is there already and not empty: a backup goes to a new directory")
    try:
        with _aside(target) as part:
            snapshots.undisturbed(store.path / SNAPSHOTS, partial(_copy, store, part))
            for copied in [part, *part.rglob("*")]:
                files.sync_directory(copied) if copied.is_dir() else _sync_file(copied)
            if target.exists():
                target.rmdir()
            os.rename(part, target)
        files.sync_directory(target.parent)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"no backup could be made at {target}: {error}") from error


def _copy(store: Any, part: Path) -> None:
    """The database and the newest snapshot of a store, into a directory of their own."""
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    store._database.copy_to(part / DATABASE)
    for _, snapshot in snapshots.found_in(store.path / SNAPSHOTS)[:1]:
        shutil.copytree(snapshot, part / SNAPSHOTS / snapshot.name)


def _sync_file(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
