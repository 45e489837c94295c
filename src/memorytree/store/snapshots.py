"""Snapshots of a store's state: a directory of .npy files, and a manifest with a checksum for each.

A snapshot is written under another name, forced to the disk and renamed, so that it exists whole or not at all. It is
derived from the database; deleting it costs time, not memories.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, TypedDict, TypeVar, cast

import numpy as np

from memorytree.config import Scorer
from memorytree.errors import DamagedStore, InvalidOption
from memorytree.packing import pack, unpack
from memorytree.serialization import join_arrays, split_arrays, sync_directory
from memorytree.store.records import Records
from memorytree.store.schema import Json
from memorytree.tree import MemoryTree

FORMAT = 1
MANIFEST = "manifest.json"
UNFINISHED = ".part"
MAX_ATTEMPTS = 20

Result = TypeVar("Result")


class Snapshot(NamedTuple):
    """A tree and its records as they were after an event."""

    event: int
    lineage: int
    tree: MemoryTree
    records: Records
    app_settings: dict[str, Json]  # for `repair`


class Manifest(TypedDict):
    """The manifest of a snapshot: `files` are the length and the checksum of each array by name."""

    format: int
    event: int
    seal: str
    lineage: int
    files: dict[str, tuple[int, int]]


def custom_scorer(options: Mapping[str, object], given: object) -> Scorer | None:
    """The scorer that was given, if the options of a tree say that it has one of the user's own; else None."""
    return cast(Scorer, given) if options["scorer"] == {"name": "custom"} else None


def path_of(folder: Path, event: int) -> Path:
    """The directory of the snapshot after an event."""
    return folder / f"{event:020d}"


def found_in(folder: Path) -> list[tuple[int, Path]]:
    """The snapshots in a folder, newest first."""
    if not folder.is_dir():
        return []
    found = [(int(path.name), path) for path in folder.iterdir() if path.name.isdigit() and path.is_dir()]
    return sorted(found, reverse=True)


def write(folder: Path, snapshot: Snapshot, seal: bytes) -> Path:
    """Write a snapshot so that it survives a power cut, then remove older ones. `seal` is the seal of its event."""
    state, tree_arrays = split_arrays(snapshot.tree.state_dict())
    arrays = {f"tree.{name}": array for name, array in tree_arrays.items()}
    arrays["tree"] = np.frombuffer(pack(state), np.uint8)
    arrays["settings"] = np.frombuffer(pack(snapshot.app_settings), np.uint8)
    arrays |= {f"records.{name}": array for name, array in snapshot.records.arrays().items()}
    target = path_of(folder, snapshot.event)
    part = target.with_name(target.name + UNFINISHED)
    folder.mkdir(exist_ok=True)
    remove_others(folder, keep=target if target.exists() else None)
    part.mkdir()
    try:
        sums = {name: _write_array(part / f"{name}.npy", array) for name, array in arrays.items()}
        manifest: Manifest = {
            "format": FORMAT, "event": snapshot.event, "seal": seal.hex(), "lineage": snapshot.lineage, "files": sums,
        }  # fmt: skip
        text = json.dumps(manifest, indent=1).encode()
        with _synced(part / MANIFEST) as file:
            file.write(b"%08x\n" % zlib.crc32(text) + text)
        sync_directory(part)
        if target.exists():
            _remove(target)
        os.rename(part, target)
        sync_directory(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    remove_others(folder, keep=target)
    return target


def remove_others(folder: Path, keep: Path | None) -> None:
    """Remove unfinished snapshots, and with `keep` all other snapshots."""
    for path in folder.iterdir():
        if path.name.endswith(UNFINISHED):
            shutil.rmtree(path, ignore_errors=True)
        elif keep is not None and path.name.isdigit() and path != keep:
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a snapshot: renamed first, so that no reader finds a part of it."""
    part = path.with_name(f"{path.name}-{secrets.token_hex(2)}{UNFINISHED}")
    with contextlib.suppress(OSError):
        os.rename(path, part)
        shutil.rmtree(part, ignore_errors=True)


def with_stable_snapshots(
    folder: Path, read: Callable[[], Result], is_final: Callable[[Result], bool] = lambda result: False
) -> Result:
    """The result of reading snapshots, read again while another process replaces them, unless the result is final."""
    for _ in range(MAX_ATTEMPTS):
        found = found_in(folder)
        try:
            result = read()
        except OSError:
            if found == found_in(folder):
                raise
            continue
        if is_final(result) or found == found_in(folder):
            return result
    return read()


@contextlib.contextmanager
def _synced(path: Path) -> Iterator[io.BufferedWriter]:
    """A new file that is forced to the disk at the end."""
    with open(path, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


class _ChecksumWriter:
    """A file that sums up what is written to it."""

    def __init__(self, file: io.BufferedWriter):
        self._file = file
        self.bytes = self.sum = 0

    def write(self, data: bytes | memoryview) -> int:
        self._file.write(data)
        self.sum = zlib.crc32(data, self.sum)
        self.bytes += memoryview(data).nbytes
        return memoryview(data).nbytes


def _write_array(path: Path, array: np.ndarray) -> tuple[int, int]:
    """Write an array to a file: the length of the file and its checksum."""
    with _synced(path) as file:
        writer = _ChecksumWriter(file)
        np.save(writer, array)
    return writer.bytes, writer.sum


def read_manifest(path: Path) -> Manifest:
    """The manifest of a snapshot. Raises `DamagedStore`."""
    try:
        sum, _, text = (path / MANIFEST).read_bytes().partition(b"\n")
        if int(sum, 16) != zlib.crc32(text) or sum != b"%08x" % zlib.crc32(text):
            raise ValueError("its checksum does not match")
        manifest = json.loads(text)
    except (OSError, ValueError) as error:
        raise DamagedStore(f"{path / MANIFEST} is damaged: {error}") from None
    if manifest["format"] != FORMAT:
        raise DamagedStore(f"{path} has format {manifest['format']}, this version reads {FORMAT}")
    return cast(Manifest, manifest)


def damage_in(path: Path) -> Iterator[str]:
    """What is wrong with the files of a snapshot; nothing if a writer has removed it meanwhile."""
    try:
        manifest = read_manifest(path)
        for name, (length, sum) in manifest["files"].items():
            _read_array(path / f"{name}.npy", length, sum)
    except DamagedStore as error:
        if path.exists():
            yield str(error)


def _read_array(path: Path, length: int, sum: int, mapped: bool = False) -> np.ndarray:
    """The array in a file. Raises `DamagedStore` if its checksum does not match."""
    try:
        data: np.ndarray = np.memmap(path, np.uint8, "r") if mapped else np.fromfile(path, np.uint8)
        if len(data) != length or zlib.crc32(data.data) != sum:
            raise ValueError("its checksum does not match")
        head = io.BytesIO(data[:65536].tobytes())
        major, _ = np.lib.format.read_magic(head)
        reader = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(head)
        return np.asarray(data)[head.tell() :].view(dtype).reshape(shape)
    except (OSError, ValueError) as error:
        raise DamagedStore(f"{path} is damaged: {error}") from None


def read(path: Path, scorer: object = None) -> Snapshot:
    """Read a snapshot; the checksums of all files are compared.

    Raises:
        DamagedStore: a file is damaged or missing, or the files do not make a tree.
        InvalidOption: the tree has a scorer of the user's own, which was not given.
    """
    manifest = read_manifest(path)
    arrays = {
        name: _read_array(path / f"{name}.npy", length, sum, mapped=name == "records.values")
        for name, (length, sum) in manifest["files"].items()
    }
    try:
        state = unpack(arrays.pop("tree").tobytes())
        settings = unpack(arrays.pop("settings").tobytes())
        records = Records({n.removeprefix("records."): a for n, a in arrays.items() if n.startswith("records.")})
        places = dict(zip(records.ids.tolist(), range(len(records)), strict=True))
        inside = {name.removeprefix("tree."): array for name, array in arrays.items() if name.startswith("tree.")}
        tree = MemoryTree.from_state_dict(
            join_arrays(state, inside, places), scorer=custom_scorer(state["config"], scorer), trusted=True
        )
    except InvalidOption:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedStore(f"{path} does not hold a whole tree: {error}") from error
    return Snapshot(manifest["event"], manifest["lineage"], tree, records, settings)
