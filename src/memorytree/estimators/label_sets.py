"""Labels and label sets: as users write them, as numbers, and by memory.

Users write an indicator matrix (dense or sparse; the labels are its columns) or a list of labels for each row. Scorers use
numbers instead: columns, or numbers in the order in which labels first occurred.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse

from memorytree.errors import InvalidOption
from memorytree.estimators.arrays import extended
from memorytree.estimators.kernels.records import NO_LABEL, LabelLists, LabelSets

# NumPy would turn numbers into texts if an array held both; arrays of objects hold texts, or scikit-learn refuses them.
KINDS = {"U": "texts", "O": "texts", "S": "bytes"}
DENSE, SPARSE, LISTS = "a dense matrix", "a sparse matrix", "lists of labels"

LabelData: TypeAlias = np.ndarray | scipy.sparse.spmatrix | Sequence[Iterable[Hashable]]
"""Label sets as users write them: an indicator matrix, or a list of labels for each row."""


class ClassCodec:
    """Numbers for class labels, in the order in which they first occurred."""

    def __init__(self) -> None:
        self.labels: list[Any] = []  # by number
        self._numbers: dict[Hashable, int] = {}
        self._dtype: np.dtype | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def encode(self, y: np.ndarray, expected: object = None) -> np.ndarray:
        """Labels as numbers; labels that are expected get numbers first."""
        before = y[:0] if expected is None else np.asarray(expected)
        before = before if before.size else y[:0]
        if before.ndim != 1:
            raise InvalidOption(f"classes must be a list of labels, not an array of shape {before.shape}")
        dtypes = [before.dtype, y.dtype, y.dtype if self._dtype is None else self._dtype]
        kinds = {KINDS.get(dtype.kind, "numbers") for dtype in dtypes}
        if len(kinds) > 1:
            raise InvalidOption(f"labels are all of one kind, not {' and '.join(sorted(kinds))}")
        self._dtype = np.result_type(*dtypes)
        for label in [*before.tolist(), *y.tolist()]:
            if label not in self._numbers:
                self._numbers[label] = len(self.labels)
                self.labels.append(label)
        return np.array([self._numbers[label] for label in y.tolist()], np.int64)

    def decode(self, numbers: np.ndarray) -> np.ndarray:
        """Labels in place of numbers."""
        return np.array([self.labels[number] for number in numbers.tolist()], self._dtype)

    def classes(self) -> np.ndarray:
        """All labels, sorted."""
        return np.sort(np.array(self.labels, self._dtype))

    def columns(self) -> np.ndarray:
        """By number, the position of the label in `classes`."""
        return np.argsort(np.argsort(np.array(self.labels, self._dtype)))


class LabelCodec:
    """How labels were written first, and their numbers.

    Args:
        Y: the first label sets. Others must be of the same kind, matrices or lists.

    Example:
        >>> codec = LabelCodec([["sea", "dog"], ["dog"]])
        >>> codec.encode([["sea", "dog"], ["dog"]])
        LabelLists(bounds=array([0, 2, 3]), labels=array([0, 1, 1], dtype=int32))
        >>> codec.decode(LabelLists(np.array([0, 1]), np.array([1])))
        [['dog']]
    """

    def __init__(self, Y: object):
        data = as_label_data(Y)
        self.kind = kind_of(data)
        if self.kind == LISTS and are_flags(data):
            raise InvalidOption(
                "labels are lists of one length that hold only 0 and 1: if they are an indicator matrix, give it as an array"
            )
        self.dtype = data.dtype if self.kind != LISTS else None
        self.sparse_format = type(data.tocsr()) if self.kind == SPARSE else None  # a matrix or an array
        self.width = 0  # of the widest indicator matrix so far
        self.labels: list[Any] = []  # by number, for lists
        self._numbers: dict[Hashable, int] = {}
        self._tables: tuple[np.ndarray, np.ndarray] | None = None  # see `_lookup`

    def __len__(self) -> int:
        return len(self.labels) if self.kind == LISTS else self.width

    def encode(self, Y: object, rows: int | None = None) -> LabelLists:
        """Label sets as numbers. New labels get the next numbers.

        Args:
            Y: label sets.
            rows: how many there must be.
        """
        data = as_label_data(Y)
        kind = kind_of(data)
        if (kind == LISTS) != (self.kind == LISTS):
            raise InvalidOption(f"labels were {self.kind} before; now they are {kind}")
        given = data.shape[0] if kind != LISTS else len(data)
        if rows is not None and given != rows:
            raise InvalidOption(f"{rows} rows need as many label sets, not {given}")
        return self._encode_lists(data) if kind == LISTS else self._encode_matrix(data)

    def _encode_matrix(self, Y: np.ndarray | scipy.sparse.spmatrix) -> LabelLists:
        matrix = scipy.sparse.csr_matrix(Y, copy=scipy.sparse.issparse(Y))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if not np.all(matrix.data == 1):
            raise InvalidOption("an indicator matrix holds only 0 and 1")
        self.width = max(self.width, matrix.shape[1])
        return LabelLists(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32))

    def _encode_lists(self, Y: Sequence[object]) -> LabelLists:
        lists = [_checked(row) for row in Y]  # all rows are checked before any label gets a number
        bounds, numbers = [0], list[int]()
        for row in lists:
            for label in dict.fromkeys(one.item() if isinstance(one, np.generic) else one for one in row):
                if label not in self._numbers:
                    self._numbers[label] = len(self.labels)
                    self.labels.append(label)
                numbers.append(self._numbers[label])
            bounds.append(len(numbers))
        return LabelLists(np.array(bounds, np.int64), np.array(numbers, np.int32))

    def decode_lists(self, lists: LabelLists) -> list[list[Hashable]]:
        """Label sets as lists of labels."""
        bounds = lists.bounds.tolist()
        labels = lists.labels.tolist() if self.kind != LISTS else [self.labels[number] for number in lists.labels.tolist()]
        return [labels[first:last] for first, last in pairwise(bounds)]

    def decode(self, lists: LabelLists) -> LabelData:
        """Label sets as they were first written."""
        if self.kind == LISTS:
            return self.decode_lists(lists)
        matrix = self.to_matrix(lists, np.ones(len(lists.labels), self.dtype))
        return matrix.toarray() if self.sparse_format is None else self.sparse_format(matrix)

    def to_matrix(self, lists: LabelLists, values: np.ndarray) -> scipy.sparse.csr_matrix:
        """A CSR matrix of one value for each label, with a column for each of `classes()`."""
        columns = lists.labels
        if self.kind == LISTS and len(columns):
            columns = self._lookup()[1][columns]
        matrix = scipy.sparse.csr_matrix((values, columns, lists.bounds), shape=(len(lists.bounds) - 1, len(self)))
        matrix.sort_indices()
        return matrix

    def decode_array(self, numbers: np.ndarray) -> np.ndarray:
        """Labels in place of numbers; NO_LABEL becomes -1 where all labels are whole numbers, otherwise None."""
        if self.kind != LISTS:
            return numbers
        return self._lookup()[0][numbers]  # NO_LABEL is -1: the last entry

    def classes(self) -> np.ndarray:
        """All labels, sorted if they can be compared."""
        if self.kind != LISTS:
            return np.arange(self.width)
        ordered = [self.labels[number] for number in self._order()]
        types = {type(label) for label in ordered}
        if len(types) == 1 and types <= {int, str, float, bool}:
            return np.array(ordered)
        labels = np.empty(len(ordered), object)
        for number, label in enumerate(ordered):
            labels[number] = label
        return labels

    def _lookup(self) -> tuple[np.ndarray, np.ndarray]:
        """By number: labels, with the filler behind the last; and columns of `to_matrix`. Rebuilt for new labels."""
        if self._tables is None or len(self._tables[1]) != len(self.labels):
            whole = all(type(label) is int and 0 <= label < 2**62 for label in self.labels)
            labels = np.empty(len(self.labels) + 1, np.int64 if whole else object)
            labels[-1] = -1 if whole else None
            for number, label in enumerate(self.labels):
                labels[number] = label
            self._tables = labels, np.argsort(self._order())
        return self._tables

    def _order(self) -> np.ndarray:
        """Numbers of labels in the order of the labels."""
        try:
            return np.array(sorted(range(len(self.labels)), key=self.labels.__getitem__), np.int64)
        except TypeError:
            return np.arange(len(self.labels))


def _checked(row: object) -> list[Hashable]:
    """The labels of a row."""
    if isinstance(row, str | bytes) or not isinstance(row, Iterable):
        raise InvalidOption(f"each row needs a list of labels, not {row!r:.80}")
    labels = list(row)
    for label in labels:
        if not isinstance(label, Hashable) or label is None:
            raise InvalidOption(f"a label must be hashable and not None, {label!r:.80} is not")
    return labels


def as_label_data(Y: object) -> Any:
    """Tables that are not arrays, such as data frames, as arrays, and other iterables as lists."""
    if Y is None:
        raise InvalidOption("requires y to be passed, but the target y is None")
    if scipy.sparse.issparse(Y) or isinstance(Y, list | tuple):
        return Y
    if hasattr(Y, "__array__"):
        array = np.asarray(Y)
        if array.dtype == object and array.ndim == 2 and all(is_flag(one) for one in array.flat):
            return array.astype(np.int64)
        return list(array) if array.dtype.kind in "USO" else array
    return list(Y) if isinstance(Y, Iterable) and not isinstance(Y, str | bytes) else Y


def is_flag(value: object) -> bool:
    """Whether a value may be an entry of an indicator matrix."""
    return isinstance(value, Real | np.bool_) and value in (0, 1)


def are_flags(Y: Sequence[Any]) -> bool:
    """Whether lists are probably rows of an indicator matrix: of one length above 1, with only 0 and 1."""
    if not len(Y) or not all(isinstance(row, list | tuple | np.ndarray) and len(row) == len(Y[0]) > 1 for row in Y):
        return False
    # A single row with the labels 0 and 1 is accepted.
    return all(is_flag(one) for row in Y for one in row) and (len(Y) > 1 or len(set(Y[0])) < len(Y[0]))


def kind_of(Y: object) -> str:
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


class LabelSetTable:
    """The label set of every memory, by its id, in arrays that kernels take.

    Example:
        >>> table = LabelSetTable()
        >>> table.add(np.array([7, 3]), LabelLists(np.array([0, 2, 3]), np.array([5, 6, 5], np.int32)))
        >>> table.take(np.array([3, 7])).labels.tolist()
        [5, 5, 6]
    """

    def __init__(self) -> None:
        self.starts, self.sizes = np.full(1024, NO_LABEL, np.int64), np.zeros(1024, np.int64)
        self.pool = np.empty(1024, np.int32)
        self.used = 0

    @property
    def arrays(self) -> LabelSets:
        """As kernels take it."""
        return LabelSets(self.starts, self.sizes, self.pool)

    def add(self, ids: np.ndarray, lists: LabelLists) -> None:
        """Store the label sets of memories with these ids."""
        size = ids.max(initial=0) + 1
        self.starts, self.sizes = extended(self.starts, size, NO_LABEL), extended(self.sizes, size)
        used = self.used + len(lists.labels)
        self.pool = extended(self.pool, used)
        self.pool[self.used : used] = lists.labels
        self.starts[ids], self.sizes[ids] = self.used + lists.bounds[:-1], np.diff(lists.bounds)
        self.used = used

    def retain(self, ids: np.ndarray) -> None:
        """Drop the label sets of all other memories."""
        lists = self.take(ids)
        self.starts[:], self.sizes[:] = NO_LABEL, 0
        self.pool, self.used = np.empty(max(1024, 2 * len(lists.labels)), np.int32), 0
        self.add(ids, lists)

    def take(self, ids: np.ndarray) -> LabelLists:
        """The label sets of some memories."""
        return _take(self.starts[ids], self.sizes[ids], self.pool)


def take(lists: LabelLists, rows: np.ndarray) -> LabelLists:
    """The label sets of some rows."""
    return _take(lists.bounds[rows], np.diff(lists.bounds)[rows], lists.labels)


def select(labels: np.ndarray, kept: np.ndarray) -> LabelLists:
    """The kept entries of a matrix of labels, as label sets of its rows."""
    return LabelLists(np.concatenate([[0], np.cumsum(kept.sum(axis=1))]), labels[kept])


def _take(starts: np.ndarray, sizes: np.ndarray, pool: np.ndarray) -> LabelLists:
    """Label sets that begin at `starts` in a pool."""
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    at = np.repeat(starts - bounds[:-1], sizes) + np.arange(bounds[-1])
    return LabelLists(bounds, pool[at])
