"""Snapshots of the tree: a directory of plain .npy files and a manifest with a checksum for each.

A snapshot is written under another name, forced to the disk, and renamed: it is there whole or not at all. It is derived
state; whoever deletes it loses time, not memories.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memorytree import files
from memorytree.errors import DamagedStore, InvalidOption
from memorytree.forest import MemoryForest
from memorytree.packing import packed_value, unpacked
from memorytree.store.records import Records
from memorytree.tree import MemoryTree

FORMAT = 1
MANIFEST = "manifest.json"
UNFINISHED = ".part"
ATTEMPTS = 20


class Positions(dict[int, int]):
    """The place of each memory's record by id; notes which memories leave, whatever the reason."""

    __slots__ = ("gone",)

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.gone: list[tuple[int, int]] = []

    def __delitem__(self, id: int) -> None:
        self.gone.append((id, self[id]))
        super().__delitem__(id)


class Snapshot(NamedTuple):
    """A tree and its records as they were after an event."""

    at: int
    lineage: int
    tree: MemoryTree
    records: Records
    settings: dict[str, Any] | None = None  # of the application; None in snapshots from before they were kept


def path_for(folder: Path, at: int) -> Path:
    """Where the snapshot after an event lies."""
    return folder / f"{at:020d}"


def found_in(folder: Path) -> list[tuple[int, Path]]:
    """The snapshots in a folder, newest first."""
    if not folder.is_dir():
        return []
    there = [(int(path.name), path) for path in folder.iterdir() if path.name.isdigit() and path.is_dir()]
    return sorted(there, reverse=True)


def write(folder: Path, snapshot: Snapshot, event: bytes) -> Path:
    """Write a snapshot so that it survives a power cut, then let go of older ones. `event` is the seal of the last event."""
    state = files.state_of(snapshot.tree)
    state.pop("values")  # places in the records, which are numbered anew
    arrays = {f"tree.{name}": array for name, array in state.pop("arrays", {}).items()}
    state["options"] = files.plain_options(snapshot.tree)
    arrays["tree"] = np.frombuffer(packed_value(state), np.uint8)
    arrays["settings"] = np.frombuffer(packed_value(snapshot.settings), np.uint8)  # for `repair`
    arrays |= {f"records.{name}": array for name, array in snapshot.records.arrays().items()}
    target = path_for(folder, snapshot.at)
    part = target.with_name(target.name + UNFINISHED)
    folder.mkdir(exist_ok=True)
    remove_all_but(folder, keep=None if not target.exists() else target)
    part.mkdir()
    try:
        sums = {
            name: _write_file(part / f"{name}.npy", lambda file, a=array: np.save(file, a)) for name, array in arrays.items()
        }
        manifest = {"format": FORMAT, "at": snapshot.at, "event": event.hex(), "lineage": snapshot.lineage, "files": sums}
        text = json.dumps(manifest, indent=1).encode()
        _write_file(part / MANIFEST, lambda file: file.write(b"%08x\n" % zlib.crc32(text) + text))
        files.sync_directory(part)
        if target.exists():
            _remove(target)
        os.rename(part, target)
        files.sync_directory(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    remove_all_but(folder, keep=target)
    return target


def remove_all_but(folder: Path, keep: Path | None) -> None:
    """Remove what writing left unfinished and, if one is to be kept, all other snapshots."""
    for path in folder.iterdir():
        if path.name.endswith(UNFINISHED):
            shutil.rmtree(path, ignore_errors=True)
        elif keep is not None and path.name.isdigit() and path != keep:
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a snapshot: nobody who looks for one finds half of it."""
    part = path.with_name(f"{path.name}-{secrets.token_hex(2)}{UNFINISHED}")
    with contextlib.suppress(OSError):
        os.rename(path, part)
        shutil.rmtree(part, ignore_errors=True)


def undisturbed(folder: Path, look: Callable[[], Any], suffices: Callable[[Any], bool] = lambda seen: False) -> Any:
    """What comes of looking at snapshots: if it does not suffice, once no other process has written one meanwhile."""
    for _ in range(ATTEMPTS):
        there = found_in(folder)
        try:
            seen = look()
        except OSError:
            if there == found_in(folder):
                raise
            continue
        if suffices(seen) or there == found_in(folder):
            return seen
    return look()


class _Summed:
    """A file that knows the checksum of what was written to it."""

    def __init__(self, file: Any):
        self._file = file
        self.bytes = self.sum = 0

    def write(self, data: Any) -> int:
        self._file.write(data)
        self.sum = zlib.crc32(data, self.sum)
        self.bytes += memoryview(data).nbytes
        return memoryview(data).nbytes


def _write_file(path: Path, fill: Any) -> list[int]:
    """Write a file and force it to the disk: its length and checksum."""
    with open(path, "xb") as file:
        summed = _Summed(file)
        fill(summed)
        file.flush()
        os.fsync(file.fileno())
    return [summed.bytes, summed.sum]


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a snapshot; `DamagedStore` if it is not whole."""
    try:
        sum, _, text = (path / MANIFEST).read_bytes().partition(b"\n")
        if int(sum, 16) != zlib.crc32(text) or sum != b"%08x" % zlib.crc32(text):
            raise ValueError("its checksum does not fit")
        manifest = json.loads(text)
    except (OSError, ValueError) as error:
        raise DamagedStore(f"{path / MANIFEST} is damaged: {error}") from None
    if manifest["format"] != FORMAT:
        raise DamagedStore(f"{path} has format {manifest['format']}, this version reads {FORMAT}")
    return dict(manifest)


def damage(path: Path) -> Iterator[str]:
    """What is wrong with the files of a snapshot. Nothing is, if a writer has removed it meanwhile."""
    try:
        manifest = read_manifest(path)
        for name, (length, sum) in manifest["files"].items():
            _read_file(path / f"{name}.npy", length, sum)
    except DamagedStore as error:
        if path.exists():
            yield str(error)


def _read_file(path: Path, length: int, sum: int, mapped: bool = False) -> np.ndarray:
    """The array in a file whose checksum fits."""
    try:
        data: Any = np.memmap(path, np.uint8, "r") if mapped else np.fromfile(path, np.uint8)
        if len(data) != length or zlib.crc32(data) != sum:
            raise ValueError("its checksum does not fit")
        head = io.BytesIO(data[:65536].tobytes())
        major, _ = np.lib.format.read_magic(head)
        reader = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(head)
        return np.asarray(data)[head.tell() :].view(dtype).reshape(shape)
    except (OSError, ValueError) as error:
        raise DamagedStore(f"{path} is damaged: {error}") from None


def read(path: Path, scorer: Any = None) -> Snapshot:
    """Read a snapshot; every byte of it is checked. `DamagedStore` if it is not whole."""
    manifest = read_manifest(path)
    arrays = {
        name: _read_file(path / f"{name}.npy", length, sum, mapped=name == "records.values")
        for name, (length, sum) in manifest["files"].items()
    }
    try:
        state = unpacked(arrays.pop("tree").tobytes())
        settings = unpacked(arrays.pop("settings").tobytes()) if "settings" in arrays else None
        records = Records({n.removeprefix("records."): a for n, a in arrays.items() if n.startswith("records.")})
        ids = records.ids.tolist()
        # Where ids and places are the same, so are the objects: a query then has one fewer to fetch for each hit.
        places = ids if np.array_equal(records.ids, np.arange(len(ids))) else range(len(ids))
        state["values"] = Positions(zip(ids, places, strict=True))
        inside = {name.removeprefix("tree."): array for name, array in arrays.items() if name.startswith("tree.")}
        if inside:
            state["arrays"] = inside
        if state["options"]["scorer"] == files.OWN:
            if scorer is None:
                raise InvalidOption(f"{path} has a scorer of its own: give it with scorer=")
            state["options"]["scorer"] = scorer
        kind = MemoryForest if state["options"]["trees"] else MemoryTree
        tree = kind.__new__(kind)
        files.restore(tree, state, is_sealed=True)
    except InvalidOption:
        raise
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DamagedStore(f"{path} does not hold a whole tree: {error}") from error
    return Snapshot(manifest["at"], manifest["lineage"], tree, records, settings)
