"""Scores of classes: features of the classes among the memories found, mixed into probabilities.

Only the classes of the memories that a query returned are candidates, so a prediction costs the same however many classes
there are. Each candidate has four features; four shared coefficients weigh them, and a softmax over the weighted sums gives
the probabilities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from memorytree.estimators.arrays import TablePool, extended
from memorytree.estimators.kernels import dense_classes, sparse_classes
from memorytree.estimators.kernels.classes import N_FEATURES
from memorytree.estimators.kernels.records import (
    NO_LABEL,
    ClassHits,
    ClassScores,
    ClassTargets,
    DenseClassWeights,
    SparseClassWeights,
    SparseRows,
)
from memorytree.results import NO_ID

DENSE_MIXTURE = (6.0, 1.0, 1.0, 1.0)
SPARSE_MIXTURE = (30.0, 10.0, 20.0, 10.0)
CONSTANT = 0.5  # appended to each projected row, which has length one
TEMPERATURES = 8  # to choose from, each twice the last
LEAST_POOL = 1024

Rows = TypeVar("Rows")
Weights = TypeVar("Weights", DenseClassWeights, SparseClassWeights)


class ClassScorer(ABC, Generic[Rows, Weights]):
    """What is learned of classes. They are numbers here, in the order in which they first occurred.

    Args:
        weights: the arrays that are learned, as kernels take them.
    """

    def __init__(self, weights: Weights):
        self.weights: Weights = weights

    @abstractmethod
    def reserve(self, classes: int) -> None:
        """Make room for classes below `classes`."""

    @abstractmethod
    def join(self, classes: np.ndarray, ids: np.ndarray, rows: Rows) -> None:
        """Count rows of these classes, which have become memories with these ids."""

    @abstractmethod
    def learn(self, hits: ClassHits, targets: np.ndarray, own: np.ndarray | None, rows: Rows, first_pass: bool) -> None:
        """Learn from rows whose true classes are known.

        Args:
            hits: the memories found for each row.
            targets: the true classes.
            own: the rows' own memories, if they are stored.
            rows: the rows.
            first_pass: whether the rows have not been learned from before.
        """

    @abstractmethod
    def score(self, hits: ClassHits, rows: Rows) -> ClassScores:
        """The classes of the memories found for each row and their probabilities."""

    def most_frequent(self) -> int:
        """The class with the most memories."""
        return int(self.weights.counts.argmax())


def append_constant(rows: np.ndarray) -> np.ndarray:
    """Projected rows with a constant behind them. Its weight is a prior of the class."""
    extended_rows = np.empty((rows.shape[0], rows.shape[1] + 1), np.float32)
    extended_rows[:, :-1], extended_rows[:, -1] = rows, CONSTANT
    return extended_rows


class DenseClassScorer(ClassScorer[np.ndarray, DenseClassWeights]):
    """Scores of classes for dense rows, given as projected by the memory.

    The features of a class are its linear score, the logarithm of its share of two kinds of votes, and its best similarity.
    A vote of the first kind weighs by how similar the memory is; of the second by how near it is compared with the farthest
    one found, since all memories are similar where rows have few features or are many.

    Args:
        width: the number of columns of projected rows.
    """

    def __init__(self, width: int):
        super().__init__(
            DenseClassWeights(
                linear=np.zeros((16, width + 1), np.float32),
                squares=np.zeros(16, np.float64),
                counts=np.zeros(16, np.int64),
                mixture=np.array(DENSE_MIXTURE),
                mixture_squares=np.ones(N_FEATURES),
            )
        )

    def reserve(self, classes: int) -> None:
        """Make room for classes below `classes`."""
        weights = self.weights
        if classes > len(weights.counts):
            linear, squares, counts = (extended(array, classes) for array in weights[:3])
            self.weights = DenseClassWeights(linear, squares, counts, *weights[3:])

    def for_projection(self, width: int) -> DenseClassScorer:
        """A scorer for another projection: it keeps the counts of classes and has everything else still to learn."""
        scorer = DenseClassScorer(width)
        scorer.reserve(len(self.weights.counts))
        scorer.weights.counts[:] = self.weights.counts
        return scorer

    def join(self, classes: np.ndarray, ids: np.ndarray, rows: np.ndarray) -> None:
        """Count rows of these classes, which have become memories."""
        np.add.at(self.weights.counts, classes, 1)

    def learn(
        self, hits: ClassHits, targets: np.ndarray, own: np.ndarray | None, rows: np.ndarray, first_pass: bool
    ) -> None:
        """Learn from rows whose true classes are known; see `ClassScorer.learn`."""
        dense_classes.learn_dense(*hits, targets, own is not None, self.weights, append_constant(rows))

    def score(self, hits: ClassHits, rows: np.ndarray) -> ClassScores:
        """The classes of the memories found for each row and their probabilities."""
        return ClassScores(*dense_classes.score_dense(*hits, self.weights, append_constant(rows)))


class SparseClassScorer(ClassScorer[SparseRows, SparseClassWeights]):
    """Scores of classes for sparse rows, which are scaled to unit length.

    The features of a class are its linear score; the best similarity among its memories; the cosine with its centroid, the
    sum of its rows; and the evidence of each column by itself, the logarithm of the column's mean over the rows of the
    class, as in naive Bayes. The temperature of the softmax is the one with the least log loss over rows when they first
    came.
    """

    def __init__(self) -> None:
        self.tables = TablePool(sparse_classes.TABLE_WIDTH - 1, LEAST_POOL)
        super().__init__(
            SparseClassWeights(
                tables=self.tables.arrays,
                squares=np.zeros(16, np.float64),
                counts=np.zeros(16, np.int64),
                mixture=np.array(SPARSE_MIXTURE),
                mixture_squares=np.zeros(N_FEATURES),
                log_losses=np.zeros(TEMPERATURES),
                owners=np.full((16, sparse_classes.RIVALS), NO_LABEL, np.int64),
                duals=np.zeros((16, sparse_classes.RIVALS), np.float64),
            )
        )

    def _sync_tables(self) -> None:
        """Take over the arrays of the pool if it has replaced them."""
        if self.weights.tables is not self.tables.arrays:
            self.weights = SparseClassWeights(self.tables.arrays, *self.weights[1:])

    def reserve(self, classes: int) -> None:
        """Make room for classes below `classes`."""
        weights = self.weights
        if classes > len(weights.counts):
            self.tables.reserve(classes)
            squares, counts = extended(weights.squares, classes), extended(weights.counts, classes)
            self.weights = SparseClassWeights(self.tables.arrays, squares, counts, *weights[3:])

    def join(self, classes: np.ndarray, ids: np.ndarray, rows: SparseRows) -> None:
        """Add rows to the sums of their classes; they have become memories with these ids."""
        memories, weights = ids.max() + 1, self.weights
        if memories > len(weights.owners):
            owners, duals = extended(weights.owners, memories, NO_LABEL), extended(weights.duals, memories)
            self.weights = SparseClassWeights(*weights[:-2], owners, duals)
        more = 4 * len(rows[1])  # about what the tables need if all columns are new to their classes
        if len(self.tables.arrays.words) - self.tables.n_used < more:
            self.tables.grow(more)
            self._sync_tables()
        done = 0
        while (done := sparse_classes.join(self.weights, classes, rows, done)) < len(classes):
            self.tables.grow()
            self._sync_tables()
        self.tables.shrink()
        self._sync_tables()

    def learn(
        self, hits: ClassHits, targets: np.ndarray, own: np.ndarray | None, rows: SparseRows, first_pass: bool
    ) -> None:
        """Learn from rows whose true classes are known; see `ClassScorer.learn`."""
        known = ClassTargets(targets, np.full(len(targets), NO_ID) if own is None else own)
        done = 0
        while (done := sparse_classes.learn_sparse(hits, known, self.weights, first_pass, rows, done)) < len(targets):
            self.tables.grow()
            self._sync_tables()

    def score(self, hits: ClassHits, rows: SparseRows) -> ClassScores:
        """The classes of the memories found for each row and their probabilities."""
        inverse_temperature = 0.5 ** int(self.weights.log_losses.argmin())
        return ClassScores(*sparse_classes.score_sparse(*hits, self.weights, inverse_temperature, rows))

    def __getstate__(self) -> tuple[TablePool, tuple[np.ndarray, ...]]:
        """What a pickle holds: the tables once."""
        return self.tables, self.weights[1:]

    def __setstate__(self, state: tuple[TablePool, tuple[np.ndarray, ...]]) -> None:
        """Restore a pickled scorer."""
        self.tables, others = state
        self.weights = SparseClassWeights(self.tables.arrays, *others)
