"""Label sets: as users write them, as numbers, and by memory.

Users write an indicator matrix (dense or sparse; the labels are its columns) or a list of labels for each row. The model of
the labels knows them as numbers: columns, or in the order in which they first came.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse

from memorytree.engine.arrays import NONE
from memorytree.errors import InvalidOption

DENSE, SPARSE, LISTS = "a dense matrix", "a sparse matrix", "lists of labels"


class LabelNames:
    """How labels were written, and their numbers."""

    def __init__(self, Y: Any):
        Y = as_array(Y)
        self.kind = kind_of(Y)
        if self.kind == LISTS and are_flags(Y):
            raise InvalidOption(
                "labels are lists of one length that hold only 0 and 1: if they are an indicator matrix, give it as an array"
            )
        self.dtype: Any = Y.dtype if self.kind != LISTS else None
        self.sparse: Any = type(Y.tocsr()) if self.kind == SPARSE else None  # a matrix or an array
        self.width = 0  # of the widest indicator matrix so far
        self.names: list[Any] = []  # by number, where labels came in lists
        self._known: dict[Any, int] = {}
        self._made: tuple[np.ndarray, np.ndarray] | None = None  # see `_tables`

    def __len__(self) -> int:
        return len(self.names) if self.kind == LISTS else self.width

    def read(self, Y: Any, rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Label sets as (bounds, numbers): row i has numbers[bounds[i] : bounds[i + 1]], each once. New labels are noted."""
        Y = as_array(Y)
        kind = kind_of(Y)
        if (kind == LISTS) != (self.kind == LISTS):
            raise InvalidOption(f"labels were {self.kind} before; now they are {kind}")
        given = Y.shape[0] if kind != LISTS else len(Y)
        if rows is not None and given != rows:
            raise InvalidOption(f"{rows} rows need as many label sets, not {given}")
        return self._read_lists(Y) if kind == LISTS else self._read_matrix(Y)

    def _read_matrix(self, Y: Any) -> tuple[np.ndarray, np.ndarray]:
        matrix = scipy.sparse.csr_matrix(Y, copy=scipy.sparse.issparse(Y))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if not np.all(matrix.data == 1):
            raise InvalidOption("an indicator matrix holds only 0 and 1")
        self.width = max(self.width, matrix.shape[1])
        return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)

    def _read_lists(self, Y: Any) -> tuple[np.ndarray, np.ndarray]:
        lists = [_checked(row) for row in Y]  # nothing is noted before all of them are known to be lists of labels
        bounds, numbers = [0], list[int]()
        for row in lists:
            for label in dict.fromkeys(one.item() if isinstance(one, np.generic) else one for one in row):
                if label not in self._known:
                    self._known[label] = len(self.names)
                    self.names.append(label)
                numbers.append(self._known[label])
            bounds.append(len(numbers))
        return np.array(bounds, np.int64), np.array(numbers, np.int32)

    def named(self, bounds: np.ndarray, numbers: np.ndarray) -> list[list[Any]]:
        """Label sets as lists of labels."""
        labels = numbers.tolist() if self.kind != LISTS else [self.names[number] for number in numbers.tolist()]
        return [labels[first:last] for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)]

    def written(self, bounds: np.ndarray, numbers: np.ndarray) -> Any:
        """Label sets as labels were first given."""
        if self.kind == LISTS:
            return self.named(bounds, numbers)
        matrix = self.matrix(bounds, numbers, np.ones(len(numbers), self.dtype))
        return self.sparse(matrix) if self.kind == SPARSE else matrix.toarray()

    def matrix(self, bounds: np.ndarray, numbers: np.ndarray, values: np.ndarray) -> scipy.sparse.csr_matrix:
        """A CSR matrix with a column for each label, in the order of `sorted_names`."""
        columns = numbers
        if self.kind == LISTS:
            columns = self._tables()[1][numbers] if len(numbers) else numbers
        matrix = scipy.sparse.csr_matrix((values, columns, bounds), shape=(len(bounds) - 1, len(self)))
        matrix.sort_indices()
        return matrix

    def ranked(self, numbers: np.ndarray) -> np.ndarray:
        """Labels in place of an array of numbers; where there is none, -1 among whole numbers, otherwise None."""
        if self.kind != LISTS:
            return numbers
        return self._tables()[0][numbers]  # NONE is -1, and so is the place of what stands for no label

    def sorted_names(self) -> np.ndarray:
        """All labels, sorted where they can be."""
        if self.kind != LISTS:
            return np.arange(self.width)
        ordered = [self.names[number] for number in self._order()]
        kinds = {type(name) for name in ordered}
        if len(kinds) == 1 and kinds <= {int, str, float, bool}:
            return np.array(ordered)
        names = np.empty(len(ordered), object)
        for number, name in enumerate(ordered):
            names[number] = name
        return names

    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """By number: labels, with what stands for no label behind the last; and columns. Made anew when labels have come."""
        if self._made is None or len(self._made[1]) != len(self.names):
            whole = all(type(name) is int and 0 <= name < 2**62 for name in self.names)
            names = np.empty(len(self.names) + 1, np.int64 if whole else object)
            names[-1] = -1 if whole else None
            for number, name in enumerate(self.names):
                names[number] = name
            self._made = names, np.argsort(self._order())
        return self._made

    def _order(self) -> np.ndarray:
        try:
            return np.array(sorted(range(len(self.names)), key=self.names.__getitem__), np.int64)
        except TypeError:
            return np.arange(len(self.names))


def _checked(row: Any) -> list[Any]:
    """The labels of a row."""
    if isinstance(row, str | bytes) or not isinstance(row, Iterable):
        raise InvalidOption(f"each row needs a list of labels, not {row!r:.80}")
    labels = list(row)
    for label in labels:
        if not isinstance(label, Hashable) or label is None:
            raise InvalidOption(f"a label must be hashable and not None, {label!r:.80} is not")
    return labels


def as_array(Y: Any) -> Any:
    """Label sets with tables that are no arrays (a data frame, say) made into one, and other iterables into a list."""
    if scipy.sparse.issparse(Y) or isinstance(Y, list | tuple):
        return Y
    if hasattr(Y, "__array__"):
        array = np.asarray(Y)
        if array.dtype == object and array.ndim == 2 and all(is_flag(one) for one in array.flat):
            return array.astype(np.int64)
        return list(array) if array.dtype.kind in "USO" else array
    return list(Y) if isinstance(Y, Iterable) and not isinstance(Y, str | bytes) else Y


def is_flag(one: Any) -> bool:
    """Whether something may stand in an indicator matrix."""
    return isinstance(one, Real | np.bool_) and one in (0, 1)


def are_flags(Y: Any) -> bool:
    """Whether lists can hardly be labels: each has two or more, only 0 and 1, and as many as all the others."""
    if not len(Y) or not all(isinstance(row, list | tuple | np.ndarray) and len(row) == len(Y[0]) > 1 for row in Y):
        return False
    # A single row may well have both labels.
    return all(is_flag(one) for row in Y for one in row) and (len(Y) > 1 or len(set(Y[0])) < len(Y[0]))


def kind_of(Y: Any) -> str:
    """How label sets are written."""
    if scipy.sparse.issparse(Y):
        return SPARSE
    if isinstance(Y, np.ndarray) and Y.dtype != object:
        if Y.ndim != 2:
            raise InvalidOption(f"labels must be an indicator matrix or a list of labels for each row, not {Y.ndim}-D")
        return DENSE
    if isinstance(Y, str | bytes) or not isinstance(Y, Iterable):
        raise InvalidOption(f"labels must be an indicator matrix or a list of labels for each row, not {type(Y).__name__}")
    return LISTS


class SetsById:
    """The label set of every memory, by its id, as arrays that kernels take."""

    def __init__(self) -> None:
        self.starts, self.sizes = np.full(1024, NONE, np.int64), np.zeros(1024, np.int64)
        self.pool = np.empty(1024, np.int32)
        self.used = 0

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(starts, sizes, pool): memory `id` has pool[starts[id] : starts[id] + sizes[id]]; NONE where nobody knows."""
        return self.starts, self.sizes, self.pool

    def add(self, ids: np.ndarray, bounds: np.ndarray, numbers: np.ndarray) -> None:
        """Memories with these ids have come, with these label sets."""
        while len(self.starts) <= ids.max(initial=0):
            self.starts = np.concatenate([self.starts, np.full_like(self.starts, NONE)])
            self.sizes = np.concatenate([self.sizes, np.zeros_like(self.sizes)])
        while len(self.pool) < self.used + len(numbers):
            self.pool = np.concatenate([self.pool, np.empty_like(self.pool)])
        self.pool[self.used : self.used + len(numbers)] = numbers
        self.starts[ids], self.sizes[ids] = self.used + bounds[:-1], np.diff(bounds)
        self.used += len(numbers)

    def keep(self, ids: np.ndarray) -> None:
        """Let go of the label sets of all other memories."""
        bounds, numbers = self.of(ids)
        self.starts[:], self.sizes[:] = NONE, 0
        self.pool, self.used = np.empty(max(1024, 2 * len(numbers)), np.int32), 0
        self.add(ids, bounds, numbers)

    def of(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The label sets of some memories, as (bounds, numbers)."""
        sizes = self.sizes[ids]
        bounds = np.concatenate([[0], np.cumsum(sizes)])
        at = np.repeat(self.starts[ids] - bounds[:-1], sizes) + np.arange(bounds[-1])
        return bounds, self.pool[at]


def taken(sets: tuple[np.ndarray, np.ndarray], rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The label sets of some rows, as (bounds, numbers)."""
    bounds, numbers = sets
    sizes = np.diff(bounds)[rows]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    at = np.repeat(bounds[rows] - ends[:-1], sizes) + np.arange(ends[-1])
    return ends, numbers[at]
