"""What is known of each memory beside its key: value, metadata, times. Values stay as bytes until somebody asks for them.

A memory has a *place* here, a number that the tree keeps as its value. Places are given out once and never again, so a
reader who has found a place may look there later. What lay in the last snapshot is read from its mapped files; the rest lies
here.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgpack
import numpy as np
from msgpack import StackError, unpackb

from memorytree.packing import ARRAY_OF, packed_value, restore_extension, unpacked, unpacked_all
from memorytree.store.arguments import checked_where
from memorytree.store.rows import Memory

FEW = 1000
"""A filter that fits fewer memories than this is answered by looking at each of them."""

NEVER = math.inf
ABSENT = -1


KEPT = ("numbers", "ids", "seals", "created", "expires")  # by a snapshot, each as an array of its own
ROW = np.dtype([*zip(KEPT, (np.int64, np.int64, np.uint64, np.float64, np.float64), strict=True), ("alive", bool)])


class Growing:
    """An array that grows at its end."""

    def __init__(self, dtype: Any, given: np.ndarray | None = None):
        self._room = np.empty(64, dtype) if given is None else np.array(given, dtype)
        self._length = 0 if given is None else len(given)

    def __len__(self) -> int:
        return self._length

    def extend(self, more: Any) -> None:
        """Add numbers at the end."""
        end = self._length + len(more)
        if end > len(self._room):
            self._room = np.concatenate([self._room[: self._length], np.empty(max(end, 64), self._room.dtype)])
        if len(more) == 1:
            self._room[self._length] = more[0]  # much quicker than a slice of one
        else:
            self._room[self._length : end] = more
        self._length = end

    def pad(self, length: int, filler: Any) -> None:
        """Add one number at the end until there are so many."""
        self.extend([filler] * (length - self._length))

    @property
    def array(self) -> np.ndarray:
        """What is in use."""
        return self._room[: self._length]

    def item(self, i: int) -> Any:
        """One number."""
        return self._room.item(i)


class Column:
    """One field of the metadata: for each place the code of its value, and for each code how many memories have it."""

    def __init__(self, values: Iterable[Any] = (), codes: np.ndarray | None = None):
        self.values = list(values)
        self._code = {_comparable(value): code for code, value in enumerate(self.values)}
        self.codes = Growing(np.int32, codes)
        present = self.codes.array[self.codes.array != ABSENT]
        self.counts = np.bincount(present, minlength=len(self.values)).tolist()
        self._sorted: tuple[np.ndarray, np.ndarray] | None = None  # places by code, up to where this was made

    def _code_for(self, value: Any) -> int:
        code = self._code.setdefault(_comparable(value), len(self.values))
        if code == len(self.values):
            self.values.append(value)
            self.counts.append(0)
        return code

    def put(self, places: list[int], value: Any) -> None:
        """Note the value at new places, in order."""
        code = self._code_for(value)
        self.counts[code] += len(places)
        self.codes.pad(places[-1] + 1, ABSENT)
        self.codes.array[places if len(places) > 1 else places[0]] = code

    def at(self, place: int) -> int:
        """The code at a place."""
        return int(self.codes.item(place)) if place < len(self.codes) else ABSENT

    def drop(self, place: int) -> None:
        """The memory at a place has gone."""
        code = self.at(place)
        if code != ABSENT:
            self.counts[code] -= 1

    def codes_of(self, wanted: list[Any]) -> list[int]:
        """The codes of those values that occur."""
        return [self._code[known] for known in dict.fromkeys(map(_comparable, wanted)) if known in self._code]

    def places(self, codes: list[int]) -> np.ndarray:
        """The places that have one of these codes, of memories that have gone as well."""
        all_codes = self.codes.array
        fresh = 0 if self._sorted is None else len(all_codes) - len(self._sorted[0])
        if self._sorted is None or fresh > FEW + len(all_codes) // 8:
            order = np.argsort(all_codes, kind="stable")
            self._sorted, fresh = (order, all_codes[order]), 0
        order, ranked = self._sorted
        runs = [order[slice(*np.searchsorted(ranked, [code, code + 1]))] for code in codes]
        newest = len(all_codes) - fresh
        return np.concatenate([*runs, newest + np.flatnonzero(np.isin(all_codes[newest:], codes))])


class Filter:
    """Which places fit a question: field by field one of the values given, and not yet expired."""

    def __init__(self, records: Records, where: Mapping[str, Any] | None, now: float):
        self._records, self._now = records, now
        self._fields: list[tuple[Column, list[int]]] = []
        self.at_most = math.inf  # no more memories than this can fit
        for field, wanted in checked_where(where).items():
            column = records.columns.get(field, Column())
            codes = column.codes_of(wanted)
            self._fields.append((column, codes))
            self.at_most = min(self.at_most, sum(column.counts[code] for code in codes))

    def fits(self, places: np.ndarray) -> np.ndarray:
        """Whether each of some places fits."""
        fitting = self._records.expires[places] > self._now
        for column, codes in self._fields:
            known = places < len(column.codes)
            fitting &= known
            fitting[known] &= np.isin(column.codes.array[places[known]], codes)
        return fitting

    def places(self) -> np.ndarray:
        """All places that fit, in order; the smallest field finds them."""
        if self._fields:
            found = min(self._fields, key=lambda field: sum(field[0].counts[code] for code in field[1]))
            candidates = np.sort(found[0].places(found[1]))
        else:
            candidates = np.arange(len(self._records))
        candidates = candidates[self._records.alive[candidates]]
        return candidates[self.fits(candidates)]


class Records:
    """The records of all memories, by place."""

    def __init__(self, stored: dict[str, np.ndarray] | None = None):
        stored = stored or {}
        rows = np.ones(len(stored.get("ids", ())), ROW)
        for name in KEPT if stored else ():
            rows[name] = stored[name]
        self._rows = Growing(ROW, rows)
        self.columns: dict[str, Column] = {}
        for number, (field, values) in enumerate(unpacked(stored["fields"].tobytes()) if stored else []):
            self.columns[field] = Column(values, stored["codes"][number])
        # Where each value begins in what is mapped; one number of NumPy's arrays takes four times as long to read.
        self._bounds = array("q", stored["bounds"].astype(np.int64).tobytes() if stored else bytes(8))
        self._mapped: Any = memoryview(stored["values"]) if stored else memoryview(b"")  # type: ignore[arg-type]
        self._fresh: list[bytes | None] = []  # behind those that are mapped
        self._gone = 0
        self.next_expiry = float(self.expires.min(initial=NEVER))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def numbers(self) -> np.ndarray:
        """Of each memory the number of its row in the database."""
        return self._rows.array["numbers"]

    @property
    def ids(self) -> np.ndarray:
        """Of each memory its id."""
        return self._rows.array["ids"]

    @property
    def created(self) -> np.ndarray:
        """Of each memory when it was stored."""
        return self._rows.array["created"]

    @property
    def expires(self) -> np.ndarray:
        """Of each memory when it is to go."""
        return self._rows.array["expires"]

    @property
    def alive(self) -> np.ndarray:
        """Of each memory whether it is still there."""
        return self._rows.array["alive"]

    @property
    def mostly_empty(self) -> bool:
        """Whether more memories have gone than are there."""
        return self._gone > len(self) - self._gone + FEW

    def add(self, memories: list[Memory]) -> range:
        """Take the records of new memories; returns their places."""
        first = len(self)
        self._fresh += [memory.value for memory in memories]
        self._describe(first, memories)
        rows = np.ones(len(memories), ROW)
        rows["numbers"], rows["ids"] = [memory.record for memory in memories], [memory.id for memory in memories]
        rows["seals"] = np.frombuffer(b"".join([memory.seal for memory in memories]), ">u8")
        rows["created"] = [memory.created for memory in memories]
        rows["expires"] = [NEVER if memory.expires is None else memory.expires for memory in memories]
        self.next_expiry = min(self.next_expiry, float(rows["expires"].min(initial=NEVER)))
        self._rows.extend(rows)
        return range(first, len(self))

    def _describe(self, first: int, memories: list[Memory]) -> None:
        """Note the metadata of new memories, whose places begin with `first`."""
        alike: dict[bytes, list[int]] = {}
        for place, memory in enumerate(memories, first):
            if memory.metadata is not None:
                alike.setdefault(memory.metadata, []).append(place)
        for metadata, places in alike.items():
            for field, value in msgpack.unpackb(metadata).items():
                if field not in self.columns:
                    self.columns[field] = Column()
                self.columns[field].put(places, value)

    def drop(self, place: int) -> None:
        """The memory at a place has gone."""
        self.alive[place] = False
        self._gone += 1
        for column in self.columns.values():
            column.drop(place)
        if place >= len(self._bounds) - 1:
            self._fresh[place - len(self._bounds) + 1] = None

    def packed_value(self, place: int) -> Any:
        """The value at a place as bytes; None if the memory has gone, though one that is mapped can still be read."""
        if place >= len(self._bounds) - 1:
            return self._fresh[place - len(self._bounds) + 1]
        return self._mapped[self._bounds[place] : self._bounds[place + 1]]

    def value(self, place: int) -> Any:
        """The value at a place."""
        return self.values_at([place])[0]

    def values_at(self, places: Sequence[int | None]) -> list[Any]:
        """The values at some places. This is on the path of every query, so it asks nobody else."""
        bounds, data = self._bounds, self._mapped
        try:
            parts = [ARRAY_OF[len(places)]]
            for place in places:  # a comprehension takes longer
                parts.append(data[bounds[place] : bounds[place + 1]])  # type: ignore[index, operator]
            return unpackb(b"".join(parts), ext_hook=restore_extension, strict_map_key=False)
        except (IndexError, TypeError, StackError):  # not all of them are mapped, or `unpacked_all` knows what to do
            return unpacked_all([_NOTHING if place is None else self.packed_value(place) or _NOTHING for place in places])

    def seal(self, place: int) -> bytes:
        """The seal of the record at a place."""
        return int(self._rows.array["seals"][place]).to_bytes(8, "big")

    def metadata(self, place: int) -> dict[str, Any]:
        """The metadata at a place."""
        codes = [(field, column, column.at(place)) for field, column in list(self.columns.items())]
        return {field: column.values[code] for field, column, code in codes if code != ABSENT}

    def stub(self, place: int) -> tuple[int, bytes]:
        """What is left of a record when its memory has gone: its number and its seal."""
        return int(self.numbers.item(place)), self.seal(place)

    def expired(self, now: float) -> list[int]:
        """The ids of memories that are there still but have expired."""
        if now < self.next_expiry:
            return []
        return self.ids[self.alive & (self.expires <= now)].tolist()

    def look_ahead(self) -> None:
        """Find out when the next memory expires."""
        self.next_expiry = float(self.expires[self.alive].min(initial=NEVER))

    def arrays(self) -> dict[str, np.ndarray]:
        """All that a snapshot keeps: the memories that are there, in order of their places."""
        places = np.flatnonzero(self.alive)
        values = [self.packed_value(place) or b"" for place in places.tolist()]
        arrays = {name: self._rows.array[name][places] for name in KEPT}
        fields, all_codes = [], []
        for field, column in self.columns.items():
            if not any(column.counts):
                continue
            codes = np.full(len(self), ABSENT, np.int32)
            codes[: len(column.codes)] = column.codes.array
            used, packed_codes = np.unique(codes[places], return_inverse=True)
            start = int(len(used) > 0 and used[0] == ABSENT)
            fields.append((field, [column.values[code] for code in used[start:].tolist()]))
            all_codes.append((packed_codes.reshape(-1) - start).astype(np.int32))
        arrays["codes"] = np.array(all_codes, np.int32).reshape(len(all_codes), len(places))
        arrays["fields"] = np.frombuffer(packed_value([list(field) for field in fields]), np.uint8)
        arrays["bounds"] = np.concatenate([[0], np.cumsum([len(value) for value in values], dtype=np.int64)])
        arrays["values"] = np.frombuffer(b"".join(values), np.uint8)
        return arrays


_NOTHING = packed_value(None)


def _comparable(value: Any) -> Any:
    """A value such that what is equal in JSON is equal here: true is not 1."""
    return ("bool", value) if isinstance(value, bool) else value
