"""Arrays that grow, and metadata as columns of codes: what filters read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from memorytree.store.inputs import MetadataValue

ABSENT = -1
"""The code of a memory that does not have a field."""

MAX_UNSORTED = 1000
"""So many changes, and an eighth of the column more, are searched one by one before a column is sorted again."""


class GrowableArray:
    """An array that grows at its end.

    >>> numbers = GrowableArray(np.int64)
    >>> numbers.extend([3, 4])
    >>> numbers.array.tolist()
    [3, 4]
    """

    def __init__(self, dtype: np.typing.DTypeLike, given: np.ndarray | None = None):
        self._buffer = np.empty(64, dtype) if given is None else np.array(given, dtype)
        self._length = 0 if given is None else len(given)

    def __len__(self) -> int:
        return self._length

    def extend(self, more: Sequence[object] | np.ndarray) -> None:
        """Add entries at the end."""
        end = self._length + len(more)
        if end > len(self._buffer):
            self._buffer = np.concatenate([self._buffer[: self._length], np.empty(max(end, 64), self._buffer.dtype)])
        self._buffer[self._length : end] = more
        self._length = end

    def pad(self, length: int, filler: int) -> None:
        """Fill up to a length."""
        self.extend([filler] * (length - self._length))

    @property
    def array(self) -> np.ndarray:
        """The entries, as a view."""
        return self._buffer[: self._length]


class MetadataColumn:
    """One field of the metadata: the code of its value at each place, and how many memories have each value.

    >>> column = MetadataColumn()
    >>> column.set([0, 2], "fact")
    >>> column.set([1], "task")
    >>> column.places(column.codes_of(["fact"])).tolist()
    [0, 2]
    """

    def __init__(self, values: Iterable[MetadataValue] = (), codes: np.ndarray | None = None):
        self.values = list(values)
        self._code = {_comparable(value): code for code, value in enumerate(self.values)}
        self.codes = GrowableArray(np.int32, codes)
        present = self.codes.array[self.codes.array != ABSENT]
        self.counts: list[int] = np.bincount(present, minlength=len(self.values)).tolist()
        # Places in order of their codes, these codes, and the places whose codes have changed since that was computed.
        self._sorted: tuple[np.ndarray, np.ndarray, list[int]] = np.zeros(0, np.int64), np.zeros(0, np.int32), []

    def set(self, places: list[int], value: MetadataValue) -> None:
        """Set the value at some places, which must be in order."""
        code = self._code.setdefault(_comparable(value), len(self.values))
        if code == len(self.values):
            self.values.append(value)
            self.counts.append(0)
        for place in places:
            self.clear(place)
        self.counts[code] += len(places)
        self.codes.pad(places[-1] + 1, ABSENT)
        self.codes.array[places] = code

    def clear(self, place: int) -> None:
        """Remove the value at a place."""
        code = self.code_at(place)
        if code != ABSENT:
            self.counts[code] -= 1
            self.codes.array[place] = ABSENT
        order, _, changed = self._sorted
        if place < len(order):
            changed.append(place)

    def discount(self, place: int) -> None:
        """Do not count the value at a place any more, because its memory was removed."""
        code = self.code_at(place)
        if code != ABSENT:
            self.counts[code] -= 1

    def code_at(self, place: int) -> int:
        """The code at a place."""
        return int(self.codes.array[place]) if place < len(self.codes) else ABSENT

    def codes_of(self, values: Iterable[MetadataValue]) -> list[int]:
        """The codes of those values that occur."""
        return [self._code[value] for value in dict.fromkeys(map(_comparable, values)) if value in self._code]

    def places(self, codes: list[int]) -> np.ndarray:
        """At least the places that have one of these codes, in order; removed memories are included."""
        codes_now = self.codes.array
        order, sorted_codes, changed = self._sorted
        if len(codes_now) - len(order) + len(changed) > MAX_UNSORTED + len(codes_now) // 8:
            order = np.argsort(codes_now, kind="stable")
            sorted_codes, changed = codes_now[order], []
            self._sorted = order, sorted_codes, changed  # at once, as other threads read too
        end = len(order)
        runs = [order[slice(*np.searchsorted(sorted_codes, [code, code + 1]))] for code in codes]
        newest = end + np.flatnonzero(np.isin(codes_now[end:], codes))
        return np.unique(np.concatenate([*runs, newest, np.array(changed, np.int64)]))


def _comparable(value: MetadataValue) -> object:
    """A value such that values which are equal in JSON are equal here: True is not 1."""
    return ("bool", value) if isinstance(value, bool) else value
