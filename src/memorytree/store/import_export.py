"""Memories as JSON Lines, and copies of a whole store."""

from __future__ import annotations

import base64
import json
import math
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TypeAlias

import msgpack
import numpy as np

from memorytree.errors import InvalidOption, StoreError
from memorytree.keys import KeyRows, is_scipy_sparse
from memorytree.packing import Value, pack, unpack
from memorytree.progress import track
from memorytree.serialization import sync_directory
from memorytree.store import snapshots
from memorytree.store.database import Database
from memorytree.store.inputs import GivenMemories, Key, check_times
from memorytree.store.paths import DATABASE, SNAPSHOTS
from memorytree.store.schema import Json, Memory
from memorytree.store.session import Session
from memorytree.store.state import stored_keys

TextFile: TypeAlias = str | os.PathLike[str] | IO[str]
BATCH = 10_000
PACKED = "$msgpack"
MAX_DEPTH = 100
FIELDS = frozenset({"id", "key", "value", "created", "metadata", "expires", "label", "features"})


# ---- JSON Lines


def export_jsonl(session: Session, file: TextFile, progress: bool) -> int:
    """Write all memories of a store as it is now, one on each line; returns how many."""
    with session.lock, _opened_for_writing(file) as lines:
        batches = -(-len(session.state().tree) // BATCH)
        return session.database.read(lambda: sum(_write_lines(session.database, lines, batches if progress else None)))


def _write_lines(database: Database, lines: IO[str], batches: int | None) -> Iterator[int]:
    """Write all memories as lines; yields the numbers of lines. `batches`, for a progress bar, are about as many."""
    keys, now = stored_keys(database.facts()), time.time()
    for memories in track(database.live_memories(BATCH), "exporting", batches is not None, batches):
        present = [memory for memory in memories if memory.expires is None or now < memory.expires]
        if keys is None or not present:
            continue
        batch: Key = keys.from_bytes([row.key for row in present])
        for memory, key in zip(present, batch, strict=True):
            lines.write(json.dumps(_to_line(memory, key), ensure_ascii=False) + "\n")
        yield len(present)


def _to_line(memory: Memory, key: Key) -> dict[str, Json]:
    """A memory as JSON data."""
    line = {"id": memory.id, "key": _key_to_json(key), "value": to_json(unpack(memory.value)), "created": memory.created}
    optional = {
        "metadata": memory.metadata and msgpack.unpackb(memory.metadata),
        "expires": memory.expires,
        "label": memory.label,
        "features": memory.features and np.frombuffer(memory.features, np.float32).tolist(),
    }
    return line | {name: given for name, given in optional.items() if given is not None}


def read_jsonl(file: TextFile, progress: bool) -> GivenMemories | None:
    """The memories in a file that `export_jsonl` wrote; None if there are none. Only key and value must be present.

    Raises:
        InvalidOption: a line is not a memory; the message names it.
    """
    memories: list[dict[str, Json]] = []
    with _opened_for_reading(file) as text:
        number = 0
        try:
            for line in track(text, "reading", progress):
                number += 1
                if line.strip():
                    memories.append(_from_line(json.loads(line)))
        except UnicodeDecodeError as error:
            raise InvalidOption(f"line {number + 1} is not UTF-8 text: {error}") from None
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, msgpack.UnpackException) as error:
            raise InvalidOption(f"line {number} is not a memory: {error}") from None
        except RecursionError:
            raise InvalidOption(f"line {number} is nested too deeply") from None
    if not memories:
        return None
    columns = {name: [row.get(name) for row in memories] for name in FIELDS}
    return GivenMemories(
        keys=key_batch(columns["key"]),
        values=columns["value"],
        ids=columns["id"],
        features=columns["features"],
        labels=columns["label"],
        metadata=columns["metadata"],
        times=check_times(zip(columns["created"], columns["expires"], strict=True)),
    )


def _from_line(line: Json) -> dict[str, Json]:
    """A memory from JSON data, with its key and its value as Python data."""
    if not isinstance(line, dict) or not {"key", "value"} <= line.keys():
        raise ValueError('a memory is an object with at least "key" and "value"')
    unknown = line.keys() - FIELDS
    if unknown:
        raise ValueError(f"there is no {sorted(unknown)[0]!r} in a memory")
    return line | {"key": _key_from_json(line["key"]), "value": from_json(line["value"])}


def key_batch(keys: list[Key]) -> Key:
    """Single keys as one batch. Raises `InvalidOption` if they are of different kinds."""
    try:
        if not is_scipy_sparse(keys[0]):
            return keys
        import scipy.sparse

        return scipy.sparse.vstack(keys, "csr")
    except (ValueError, TypeError) as error:
        raise InvalidOption(f"the keys are not all of one kind: {error}") from None


def _key_to_json(key: Key) -> Json:
    """Dense keys are lists of numbers; sparse ones {"columns": n, "weights": pairs}, named ones {"weights": pairs}."""
    if isinstance(key, KeyRows):
        weights = zip(key.features.tolist(), key.weights.tolist(), strict=True)
        return {"columns": key.columns, "weights": [list(pair) for pair in weights]}
    return key.tolist() if isinstance(key, np.ndarray) else {"weights": [list(pair) for pair in key.items()]}


def _key_from_json(key: Json) -> Key:
    """The key that `_key_to_json` wrote."""
    if isinstance(key, list):
        return key
    weights = [(name, weight) for name, weight in key["weights"]]
    if "columns" not in key:
        return dict(weights)
    bounds, columns = [0, len(weights)], [column for column, _ in weights]
    if not all(type(column) is int and 0 <= column < key["columns"] for column in columns):
        raise ValueError(f"columns are whole numbers from 0 to {key['columns'] - 1}")
    import scipy.sparse

    data = [weight for _, weight in weights]
    return scipy.sparse.csr_matrix((data, columns, bounds), shape=(1, key["columns"]), dtype=np.float32)


def to_json(value: Value, depth: int = 0) -> Json:
    """A value as JSON data. What JSON cannot hold (bytes, arrays, tuples, NaN) becomes msgpack in base64.

    So does what is nested deeply, because many JSON parsers refuse it.

    >>> to_json({"a": [1, None]}), from_json(to_json((1, b"x")))
    ({'a': [1, None]}, (1, b'x'))
    """
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if type(value) is list and depth < MAX_DEPTH:
        return [to_json(item, depth + 1) for item in value]
    if type(value) is dict and depth < MAX_DEPTH and all(type(name) is str and name != PACKED for name in value):
        return {name: to_json(item, depth + 1) for name, item in value.items()}
    return {PACKED: base64.b64encode(pack(value)).decode()}


def from_json(data: Json) -> Value:
    """The value that `to_json` wrote."""
    if isinstance(data, list):
        return [from_json(item) for item in data]
    if not isinstance(data, dict):
        return data
    if PACKED in data:
        return unpack(base64.b64decode(data[PACKED]))
    return {name: from_json(item) for name, item in data.items()}


@contextmanager
def _opened_for_reading(file: TextFile) -> Iterator[Iterable[str]]:
    """A text file, opened here if it is a path."""
    if not isinstance(file, str | os.PathLike):
        yield file
        return
    with open(file, encoding="utf8") as lines:
        yield lines


@contextmanager
def _opened_for_writing(file: TextFile) -> Iterator[IO[str]]:
    """A text file; if it is a path, a new file that gets the name at the end, so that a full disk leaves no half file."""
    if not isinstance(file, str | os.PathLike):
        yield file
        return
    target = Path(os.path.realpath(file))  # the file that a link leads to, not the link
    try:
        if target.exists() and not target.is_file() and not target.is_dir():  # a pipe or a device is written to directly
            with open(target, "w", encoding="utf8") as lines:
                yield lines
            return
        with _temporary_name(target) as part:
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
def _temporary_name(target: Path) -> Iterator[Path]:
    """An unused name beside another one. If the context fails, the file or directory with that name is removed."""
    if not target.name or (target.is_dir() and any(target.iterdir())):
        raise StoreError(f"{target} is a directory that is not empty, and is not overwritten")
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        yield part
    except BaseException:
        shutil.rmtree(part, ignore_errors=True) if part.is_dir() else part.unlink(missing_ok=True)
        raise


# ---- copies


def backup(session: Session, path: str | os.PathLike[str]) -> None:
    """Copy a store as it is now. The caller holds `session.lock`, so that this process writes no snapshot meanwhile."""
    target = Path(path).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise StoreError(f"{target} exists and is not empty: a backup needs a new directory")
    try:
        with _temporary_name(target) as part:
            snapshots.with_stable_snapshots(session.path / SNAPSHOTS, partial(_copy, session, part))
            for copied in [part, *part.rglob("*")]:
                sync_directory(copied) if copied.is_dir() else _sync_file(copied)
            if target.exists():
                target.rmdir()
            os.rename(part, target)
        sync_directory(target.parent)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"no backup could be made at {target}: {error}") from error


def _copy(session: Session, part: Path) -> None:
    """Copy the database and the newest snapshot of a store to a new directory."""
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    session.database.copy_to(part / DATABASE)
    for _, snapshot in snapshots.found_in(session.path / SNAPSHOTS)[:1]:
        shutil.copytree(snapshot, part / SNAPSHOTS / snapshot.name)


def _sync_file(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
