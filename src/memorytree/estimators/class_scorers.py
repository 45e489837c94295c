"""Scores of classes: features of the classes among the memories found, mixed into probabilities.

Only the classes of the memories that a query returned are candidates, so a prediction costs the same however many classes there
are. Each candidate has four features; four shared coefficients weigh them, and a softmax over the weighted sums gives the
probabilities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

import numpy as np

from memorytree.estimators.arrays import NO_ID, TablePool, extended
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

DENSE_MIXTURE = (6.0, 1.0, 1.0, 1.0)
SPARSE_MIXTURE = (30.0, 10.0, 20.0, 10.0)
CONSTANT = 0.5  # appended to each projected row, which has length one
TEMPERATURES = 8  # to choose from, each twice the last
LEAST_POOL = 1024

Rows = TypeVar("Rows")


class ClassScorer(ABC, Generic[Rows]):
    """What is learned of classes. They are numbers here, in the order in which they first occurred.

    Args:
        mixture: the shared coefficients to begin with.
        mixture_squares: their sums of squared gradients to begin with.
    """

    def __init__(self, mixture: tuple[float, ...], mixture_squares: float):
        self.counts = np.zeros(16, np.int64)
        self.mixture = np.array(mixture)
        self.mixture_squares = np.full(N_FEATURES, mixture_squares)

    @abstractmethod
    def reserve(self, classes: int) -> None:
        """Make room for classes below `classes`."""

    @abstractmethod
    def join(self, classes: np.ndarray, ids: np.ndarray, rows: Rows) -> None:
        """Count rows of these classes, which have become memories with these ids."""

    @abstractmethod
    def learn(self, hits: ClassHits, targets: ClassTargets, rows: Rows, first_pass: bool) -> None:
        """Learn from rows whose true classes are known; either all of them are stored or none."""

    @abstractmethod
    def _score(self, hits: ClassHits, rows: Rows, output: ClassScores) -> None:
        """Write the classes of the memories found for each row and their probabilities."""

    def score(self, hits: ClassHits, rows: Rows) -> ClassScores:
        """The classes of the memories found for each row and their probabilities."""
        output = ClassScores(np.empty(hits.ids.shape, np.int64), np.empty(hits.ids.shape, np.float64))
        self._score(hits, rows, output)
        return output

    def most_frequent(self) -> int:
        """The class with the most memories."""
        return int(self.counts.argmax())


def append_constant(rows: np.ndarray) -> np.ndarray:
    """Projected rows with a constant behind them. Its weight is a prior of the class."""
    return np.hstack([rows, np.full((len(rows), 1), CONSTANT, np.float32)])


class DenseClassScorer(ClassScorer[np.ndarray]):
    """Scores of classes for dense rows, given as projected by the memory.

    The features of a class are its linear score, the logarithm of its share of two kinds of votes, and its best similarity. A
    vote of the first kind weighs by how similar the memory is; of the second by how near it is compared with the farthest one
    found, since all memories are similar where rows have few features or are many.

    Args:
        width: the number of columns of projected rows.
    """

    def __init__(self, width: int):
        super().__init__(DENSE_MIXTURE, 1.0)
        self.linear = np.zeros((16, width + 1), np.float32)
        self.squares = np.zeros(16, np.float64)

    @property
    def arrays(self) -> DenseClassWeights:
        """As kernels take it."""
        return DenseClassWeights(self.linear, self.squares, self.counts, self.mixture, self.mixture_squares)

    def reserve(self, classes: int) -> None:
        """Make room for classes below `classes`."""
        self.linear, self.squares = extended(self.linear, classes), extended(self.squares, classes)
        self.counts = extended(self.counts, classes)

    def for_projection(self, width: int) -> DenseClassScorer:
        """A scorer for another projection: it keeps the counts of classes and has everything else still to learn."""
        scorer = DenseClassScorer(width)
        scorer.reserve(len(self.counts))
        scorer.counts[:] = self.counts
        return scorer

    def join(self, classes: np.ndarray, ids: np.ndarray, rows: np.ndarray) -> None:
        """Count rows of these classes, which have become memories."""
        np.add.at(self.counts, classes, 1)

    def learn(self, hits: ClassHits, targets: ClassTargets, rows: np.ndarray, first_pass: bool) -> None:
        """Learn from rows whose true classes are known; either all of them are stored or none."""
        stored = bool(len(targets.memories)) and targets.memories[0] != NO_ID
        dense_classes.learn_dense(hits, targets, stored, self.arrays, append_constant(rows))

    def _score(self, hits: ClassHits, rows: np.ndarray, output: ClassScores) -> None:
        dense_classes.score_dense(hits, self.arrays, append_constant(rows), output)


class SparseClassScorer(ClassScorer[SparseRows]):
    """Scores of classes for sparse rows, which are scaled to unit length.

    The features of a class are its linear score; the best similarity among its memories; the cosine with its centroid, the sum
    of its rows; and the evidence of each column by itself, the logarithm of the column's mean over the rows of the class, as
    in naive Bayes. The temperature of the softmax is the one with the least log loss over rows when they first came.
    """

    def __init__(self) -> None:
        super().__init__(SPARSE_MIXTURE, 0.0)
        self.tables = TablePool(sparse_classes.TABLE_WIDTH - 1, LEAST_POOL)
        self.squares = np.zeros(16, np.float64)
        self.log_losses = np.zeros(TEMPERATURES)
        self.owners = np.full((16, sparse_classes.RIVALS), NO_LABEL, np.int64)
        self.duals = np.zeros((16, sparse_classes.RIVALS), np.float64)

    @property
    def arrays(self) -> SparseClassWeights:
        """As kernels take it."""
        return SparseClassWeights(
            self.tables.arrays,
            self.squares,
            self.counts,
            self.mixture,
            self.mixture_squares,
            self.log_losses,
            self.owners,
            self.duals,
        )

    def reserve(self, classes: int) -> None:
        """Make room for classes below `classes`."""
        self.tables.reserve(classes)
        self.squares, self.counts = extended(self.squares, classes), extended(self.counts, classes)

    def join(self, classes: np.ndarray, ids: np.ndarray, rows: SparseRows) -> None:
        """Add rows to the sums of their classes; they have become memories with these ids."""
        self.owners = extended(self.owners, ids.max() + 1, NO_LABEL)
        self.duals = extended(self.duals, ids.max() + 1)
        more = 4 * len(rows[1])  # about what the tables need if all columns are new to their classes
        if len(self.tables.words) - self.tables.top[0] < more:
            self.tables.grow(more)
        done = 0
        while (done := sparse_classes.join(self.arrays, classes, rows, done)) < len(classes):
            self.tables.grow()
        self.tables.shrink()

    def learn(self, hits: ClassHits, targets: ClassTargets, rows: SparseRows, first_pass: bool) -> None:
        """Learn from rows whose true classes are known."""
        done = 0
        while (done := sparse_classes.learn_sparse(hits, targets, self.arrays, first_pass, rows, done)) < len(hits.ids):
            self.tables.grow()

    def _score(self, hits: ClassHits, rows: SparseRows, output: ClassScores) -> None:
        inverse_temperature = 0.5 ** int(self.log_losses.argmin())
        sparse_classes.score_sparse(hits, self.arrays, inverse_temperature, rows, output)
