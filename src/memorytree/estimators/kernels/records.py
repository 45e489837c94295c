"""Arrays that kernels take together, as named tuples.

A batch of sparse rows is the plain tuple ``(bounds, columns, values)``: row i holds ``values[bounds[i] : bounds[i + 1]]``.
"""

from typing import NamedTuple

import numpy as np

SparseRows = tuple[np.ndarray, np.ndarray, np.ndarray]

NO_LABEL = -1
"""Fills arrays of labels, and of positions among labels, where there is none."""


class ClassHits(NamedTuple):
    """The memories that a query returned for each row, and the class of every memory."""

    ids: np.ndarray  # (n, k) int64, NO_ID behind the last
    scores: np.ndarray  # (n, k) float32
    classes: np.ndarray  # (memories,) int64, by id


class ClassScores(NamedTuple):
    """The classes among the memories found for each row, and their probabilities."""

    classes: np.ndarray  # (n, k) int64, NO_LABEL behind the last
    probabilities: np.ndarray  # (n, k) float64, 0 behind the last


class ClassTargets(NamedTuple):
    """The true class of each row, and the row's own memory if it is stored."""

    classes: np.ndarray  # (n,) int64
    memories: np.ndarray  # (n,) int64, NO_ID for a row that is not stored


class DenseClassWeights(NamedTuple):
    """What a `DenseClassScorer` learns."""

    linear: np.ndarray  # (classes, width + 1) float32; the last column is the weight of the constant
    squares: np.ndarray  # (classes,) float64, Adagrad's sums of squared gradients
    counts: np.ndarray  # (classes,) int64, memories of each class
    mixture: np.ndarray  # (N_FEATURES,) float64, shared coefficients
    mixture_squares: np.ndarray  # (N_FEATURES,) float64


class FeatureTables(NamedTuple):
    """Hash tables from columns of X to values, one for each label, in one pool."""

    spans: np.ndarray  # (labels, 3) int64: first entry, number of entries, entries in use
    words: np.ndarray  # (entries, 1 + values) int32: the column, and the bits of its values
    numbers: np.ndarray  # the memory of `words` as float32
    top: np.ndarray  # (1,) int64, entries of the pool that are taken
    n_columns: int  # columns of X; UNBOUNDED where that is not used


class SparseClassWeights(NamedTuple):
    """What a `SparseClassScorer` learns."""

    tables: FeatureTables  # a linear weight and the sum of rows for each class and column
    squares: np.ndarray  # (classes,) float64, squared length of each class's sum of rows
    counts: np.ndarray  # (classes,) int64, memories of each class
    mixture: np.ndarray  # (N_FEATURES,) float64, shared coefficients
    mixture_squares: np.ndarray  # (N_FEATURES,) float64
    log_losses: np.ndarray  # (TEMPERATURES,) float64, running log loss at each temperature
    owners: np.ndarray  # (memories, RIVALS) int64, the classes of a memory's dual coefficients
    duals: np.ndarray  # (memories, RIVALS) float64


class LabelLists(NamedTuple):
    """Label sets of consecutive rows: row i has ``labels[bounds[i] : bounds[i + 1]]``, each once."""

    bounds: np.ndarray  # (n + 1,) int64
    labels: np.ndarray  # int32


class LabelSets(NamedTuple):
    """Label sets by memory id: memory `id` has ``pool[starts[id] : starts[id] + sizes[id]]``."""

    starts: np.ndarray  # (ids,) int64, NO_LABEL for an id without a label set
    sizes: np.ndarray  # (ids,) int64
    pool: np.ndarray  # int32


class LabelHits(NamedTuple):
    """The memories that a query returned for each row, and the label set of every memory."""

    sets: LabelSets
    ids: np.ndarray  # (n, k) int64, NO_ID behind the last
    scores: np.ndarray  # (n, k) float32


class Candidates(NamedTuple):
    """The labels of the memories found for each row. Labels are numbered in the order in which they first occur."""

    numbers: np.ndarray  # (n, MAX_CANDIDATES) int32, NO_LABEL behind the last
    right: np.ndarray  # (n, MAX_CANDIDATES) bool, whether the row has the label
    missed: np.ndarray  # one entry for each true label: its number if it is no candidate, else NO_LABEL


class LabelWeights(NamedTuple):
    """Linear weights of labels, learned one against some."""

    tables: FeatureTables  # a weight for each label, column and half of the rows
    bias: np.ndarray  # (labels, HALVES) float64
    counts: np.ndarray  # (labels,) int64, memories with each label


class TrainingRows(NamedTuple):
    """Rows whose label sets are known."""

    X: SparseRows
    scales: np.ndarray  # (n,) float64, the factor that gives each row unit length
    halves: np.ndarray  # (n,) int64, which half of the weights learns from the row
    judged: np.ndarray  # (n,) bool, whether the other half scores the row's candidates


class LabelPairs(NamedTuple):
    """Pairs of a row and a label to learn from, ordered by label."""

    labels: np.ndarray  # all labels that occur
    starts: np.ndarray  # the pairs of labels[q] are pairs[starts[q] : starts[q + 1]]
    pairs: np.ndarray  # row * MAX_CANDIDATES + candidate; or -1 - row for a true label that is no candidate
    right: np.ndarray  # `Candidates.right`


class LabelFeatures(NamedTuple):
    """Features of the candidates of some rows, one column for each candidate."""

    bounds: np.ndarray  # (rows + 1,) int64, the columns of row j are bounds[j] to bounds[j + 1] - 1
    features: np.ndarray  # (N_FEATURES, columns) float32
    right: np.ndarray  # (columns,) bool, whether the row has the label
    misses: np.ndarray  # (rows,) how many true labels of the row are no candidates


class LabelScores(NamedTuple):
    """The candidates of each row and their probabilities, highest first."""

    labels: np.ndarray  # (n, MAX_CANDIDATES) int64, NO_LABEL behind the last
    probabilities: np.ndarray  # (n, MAX_CANDIDATES) float64, 0 behind the last
