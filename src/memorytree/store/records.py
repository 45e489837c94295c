"""The records of memories: value, metadata and times. Values stay bytes until they are read.

Each memory has a place here, a number that the tree holds as its value. A place is used once: a reader that holds a place
never reads the record of another memory there. Values in the last snapshot are read from its memory-mapped file, later ones
are in memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import msgpack
import numpy as np

from memorytree.packing import Value, pack, unpack
from memorytree.store.columns import ABSENT, GrowableArray, MetadataColumn
from memorytree.store.inputs import NO_EXPIRY, MetadataValue
from memorytree.store.schema import Ended, Memory

MIN_REMOVED = 1000
"""Records are rewritten when more memories were removed than remain, and at least this many."""

SAVED = ("numbers", "ids", "seals", "created", "expires")  # by a snapshot, each as an array
ROW = np.dtype([*zip(SAVED, (np.int64, np.int64, np.uint64, np.float64, np.float64), strict=True), ("alive", bool)])


class Records:
    """The records of all memories, by place.

    Args:
        saved: the arrays of a snapshot, as `arrays` returned them.
    """

    def __init__(self, saved: dict[str, np.ndarray] | None = None):
        saved = saved or {}
        rows = np.ones(len(saved.get("ids", ())), ROW)
        for name in SAVED if saved else ():
            rows[name] = saved[name]
        self._rows = GrowableArray(ROW, rows)
        self.columns: dict[str, MetadataColumn] = {}
        for number, (name, values) in enumerate(unpack(saved["fields"].tobytes()) if saved else []):
            self.columns[name] = MetadataColumn(values, saved["codes"][number])
        self._bounds = array("q", saved["bounds"].astype(np.int64).tobytes() if saved else bytes(8))  # of mapped values
        self._mapped = memoryview(saved["values"].data) if saved else memoryview(b"")
        self._fresh: list[bytes | None] = []  # values behind the mapped ones; None for a removed memory
        self._removed = 0
        self.next_expiry = float(self.expires.min(initial=NO_EXPIRY))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def numbers(self) -> np.ndarray:
        """The record number of each memory."""
        return self._rows.array["numbers"]

    @property
    def ids(self) -> np.ndarray:
        """The id of each memory."""
        return self._rows.array["ids"]

    @property
    def created(self) -> np.ndarray:
        """The time at which each memory was created."""
        return self._rows.array["created"]

    @property
    def expires(self) -> np.ndarray:
        """The time at which each memory expires."""
        return self._rows.array["expires"]

    @property
    def alive(self) -> np.ndarray:
        """Whether each memory is still present."""
        return self._rows.array["alive"]

    @property
    def mostly_removed(self) -> bool:
        """Whether more memories were removed than remain."""
        return self._removed > len(self) - self._removed + MIN_REMOVED

    def add(self, memories: Sequence[Memory]) -> range:
        """Add the records of new memories; returns their places."""
        first = len(self)
        self._fresh += [memory.value for memory in memories]
        rows = [
            (row.record, row.id, int.from_bytes(row.seal, "big"), row.created, _end(row.expires), True) for row in memories
        ]
        self.next_expiry = min(self.next_expiry, *(row[4] for row in rows))
        self._add_metadata(first, memories)
        self._rows.extend(np.array(rows, ROW))
        return range(first, len(self))

    def _add_metadata(self, first: int, memories: Sequence[Memory]) -> None:
        """Set the metadata of new memories, whose places begin with `first`."""
        places: dict[bytes, list[int]] = {}  # by metadata, which many memories have in common
        for place, memory in enumerate(memories, first):
            if memory.metadata is not None:
                places.setdefault(memory.metadata, []).append(place)
        for metadata, alike in places.items():
            for name, value in msgpack.unpackb(metadata).items():
                self._column(name).set(alike, value)

    def _column(self, name: str) -> MetadataColumn:
        """The column of a field, which is created if there is none."""
        if name not in self.columns:
            self.columns[name] = MetadataColumn()
        return self.columns[name]

    def set_metadata(self, place: int, metadata: bytes | None, seal: bytes) -> None:
        """Replace the metadata at a place, and the seal of its row."""
        for column in self.columns.values():
            column.clear(place)
        for name, value in (msgpack.unpackb(metadata) if metadata else {}).items():
            self._column(name).set([place], value)
        self._rows.array["seals"][place] = int.from_bytes(seal, "big")

    def remove(self, place: int) -> None:
        """Remove the record at a place."""
        self.alive[place] = False
        self._removed += 1
        for column in self.columns.values():
            column.discount(place)
        if place >= len(self._bounds) - 1:
            self._fresh[place - len(self._bounds) + 1] = None

    def packed_value(self, place: int) -> bytes | memoryview | None:
        """The bytes of the value at a place; None if the memory was removed, though a mapped value can still be read."""
        mapped = len(self._bounds) - 1
        return self._mapped[self._bounds[place] : self._bounds[place + 1]] if place < mapped else self._fresh[place - mapped]

    def value(self, place: int) -> Value:
        """The value at a place; None if the memory was removed."""
        data = self.packed_value(place)
        return None if data is None else unpack(data)

    def values(self, places: Iterable[int]) -> list[Value]:
        """The values at some places."""
        return [self.value(place) for place in places]

    def metadata(self, place: int) -> dict[str, MetadataValue]:
        """The metadata at a place."""
        codes = [(name, column, column.code_at(place)) for name, column in list(self.columns.items())]
        return {name: column.values[code] for name, column, code in codes if code != ABSENT}

    def ended(self, place: int) -> Ended:
        """What the database needs to end the memory at a place: the number and the seal of its row."""
        row = self._rows.array[place]
        return Ended(int(row["numbers"]), int(row["seals"]).to_bytes(8, "big"))

    def expired(self, now: float) -> list[int]:
        """The ids of memories that have expired and were not removed yet."""
        if now < self.next_expiry:
            return []
        return [int(id) for id in self.ids[self.alive & (self.expires <= now)]]

    def update_next_expiry(self) -> None:
        """Compute when the next memory expires, after some were removed."""
        self.next_expiry = float(self.expires[self.alive].min(initial=NO_EXPIRY))

    def arrays(self) -> dict[str, np.ndarray]:
        """What a snapshot holds: the memories that are present, in order of their places, which are numbered anew."""
        places = np.flatnonzero(self.alive)
        values = [self.packed_value(place) or b"" for place in places.tolist()]
        arrays = {name: self._rows.array[name][places] for name in SAVED}
        fields, all_codes = [], []
        for name, column in self.columns.items():
            if not any(column.counts):
                continue
            codes = np.full(len(self), ABSENT, np.int32)
            codes[: len(column.codes)] = column.codes.array
            used, packed_codes = np.unique(codes[places], return_inverse=True)
            start = int(len(used) > 0 and used[0] == ABSENT)
            fields.append([name, [column.values[code] for code in used[start:].tolist()]])
            all_codes.append((packed_codes.reshape(-1) - start).astype(np.int32))
        arrays["codes"] = np.array(all_codes, np.int32).reshape(len(all_codes), len(places))
        arrays["fields"] = np.frombuffer(pack(fields), np.uint8)
        arrays["bounds"] = np.concatenate([[0], np.cumsum([len(value) for value in values], dtype=np.int64)])
        arrays["values"] = np.frombuffer(b"".join(values), np.uint8)
        return arrays


def _end(expires: float | None) -> float:
    """The time of expiry as the records hold it."""
    return NO_EXPIRY if expires is None else expires
