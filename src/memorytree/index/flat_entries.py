"""Rows of (term, weight) entries, one behind another in two arrays, for sums over all of them at once."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memorytree.index.base import Ids
from memorytree.index.flat_keys import LEAST_ROWS, Distances, grown

NO_ROW = -1


class Entries(NamedTuple):
    """The entries of some rows, row by row.

    Attributes:
        terms, weights: (e,) of each entry.
        lengths: (n,) how many entries each row has.
    """

    terms: Ids
    weights: NDArray[np.floating]
    lengths: Ids

    def sums(self, values: Distances) -> Distances:
        """The sum of a value for each entry, by row."""
        sums, filled = np.zeros(len(self.lengths)), self.lengths > 0
        if len(values):
            sums[filled] = np.add.reduceat(values, (np.cumsum(self.lengths) - self.lengths)[filled])
        return sums

    def owners(self) -> Ids:
        """The position of the row of each entry."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


class EntryRows:
    """Rows of entries, without holes between rows. Every sum over a row has one order, whatever rows there are beside it.

    A row that is written goes behind all others. What it leaves is cleared, and used again once half of all entries are
    unused.

    Attributes:
        n: the number of rows.
        spans: (rows, 2) where the entries of each row begin, and how many there are.
        terms, weights: (entries,); 0 where they are unused.
        starts, rows: (segments,) where each run of entries begins, and its row; `NO_ROW` if it is unused.
        segments: (rows,) the segment of each row that is not empty.
    """

    def __init__(self) -> None:
        self.n = self.used = self.live = self.n_segments = 0
        self.spans, self.segments = np.zeros((LEAST_ROWS, 2), np.int64), np.zeros(LEAST_ROWS, np.int64)
        self.terms, self.weights = np.zeros(LEAST_ROWS, np.int64), np.zeros(LEAST_ROWS, np.float32)
        self.starts, self.rows = np.zeros(LEAST_ROWS, np.int64), np.zeros(LEAST_ROWS, np.int64)

    @classmethod
    def of(cls, terms: Ids, weights: NDArray[np.float32], counts: Ids) -> EntryRows:
        """Rows with so many of these entries each."""
        made = cls()
        made.n, made.used = len(counts), len(terms)
        made.spans = grown(np.column_stack([np.zeros(made.n, np.int64), counts]), LEAST_ROWS)
        made.segments = np.zeros(len(made.spans), np.int64)
        made.terms, made.weights = grown(terms, LEAST_ROWS), grown(weights, LEAST_ROWS)
        made.spans[: made.n, 0] = np.cumsum(counts) - counts
        made._number_segments()
        return made

    def _number_segments(self) -> None:
        """Number the runs of entries, which lie in the order of rows without gaps."""
        filled = np.flatnonzero(self.spans[: self.n, 1])
        self.n_segments, self.live = len(filled), self.used
        self.segments[filled] = np.arange(len(filled))
        self.starts, self.rows = grown(self.spans[filled, 0], LEAST_ROWS), grown(filled, LEAST_ROWS)

    def add_row(self) -> int:
        """Add an empty row; returns its number."""
        row = self.n
        self.spans, self.segments = grown(self.spans, row + 1), grown(self.segments, row + 1)
        self.spans[row] = 0
        self.n += 1
        return row

    def write(self, row: int, terms: Ids, weights: NDArray[np.float32]) -> None:
        """Give an empty row entries."""
        count = len(terms)
        if not count:
            return
        if self.used + count > len(self.terms):
            self._make_room(count)
        here = slice(self.used, self.used + count)
        self.terms[here], self.weights[here], self.spans[row] = terms, weights, (here.start, count)
        segment = self.n_segments
        self.starts, self.rows = grown(self.starts, segment + 1), grown(self.rows, segment + 1)
        self.starts[segment], self.rows[segment], self.segments[row] = here.start, row, segment
        self.used, self.live, self.n_segments = here.stop, self.live + count, segment + 1

    def clear(self, row: int) -> None:
        """Remove all entries of a row."""
        start, count = self.spans[row].tolist()
        if count:
            self.terms[start : start + count] = self.weights[start : start + count] = 0
            self.rows[self.segments[row]] = NO_ROW
            self.live -= count
            self.spans[row] = 0

    def remove_row(self, row: int) -> None:
        """Remove a row; the last one takes its number."""
        self.clear(row)
        self.n -= 1
        if row != self.n:
            self.spans[row], self.segments[row] = self.spans[self.n], self.segments[self.n]
            if self.spans[row, 1]:
                self.rows[self.segments[row]] = row

    def _make_room(self, more: int) -> None:
        """Move entries together if at least half are unused, and double the room if that is not enough."""
        if 2 * self.live <= self.used:
            at = self.places(np.arange(self.n))
            self.terms, self.weights = grown(self.terms[at], len(self.terms)), grown(self.weights[at], len(self.weights))
            counts = self.spans[: self.n, 1]
            self.spans[: self.n, 0] = np.cumsum(counts) - counts
            self.used = self.live
            self._number_segments()
        self.terms, self.weights = grown(self.terms, self.used + more), grown(self.weights, self.used + more)

    # ---- reading

    def places(self, rows: Ids) -> Ids:
        """Where the entries of some rows are, row by row."""
        starts, counts = self.spans[rows].T
        ends = np.cumsum(counts)
        return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + counts, counts)

    def entries(self, rows: Ids) -> Entries:
        """The entries of some rows."""
        at = self.places(rows)
        return Entries(self.terms[at], self.weights[at].astype(np.float64), self.spans[rows, 1])

    def sums(self, values: Distances) -> Distances:
        """The sum of a value for each of the `used` entries, by row."""
        sums = np.zeros(self.n + 1)  # the last one for unused segments
        if self.n_segments:
            sums[self.rows[: self.n_segments]] = np.add.reduceat(values, self.starts[: self.n_segments])
        return sums[: self.n]

    def copy(self) -> Self:
        """An independent copy."""
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(twin, name, value.copy())
        return twin

    def nbytes(self) -> tuple[int, int]:
        """Bytes in use, and bytes allocated."""
        of_rows, of_entries, of_segments = 3 * 8, 8 + 4, 2 * 8
        used = of_rows * self.n + of_entries * self.live + of_segments * self.n
        return used, of_rows * len(self.spans) + of_entries * len(self.terms) + of_segments * len(self.starts)
