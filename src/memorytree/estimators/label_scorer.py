"""Scores of labels where a row has several: one-against-some linear weights and votes, mixed into probabilities.

Only the labels of the memories that a query returned are candidates, at most `MAX_CANDIDATES` of them, those with the most
votes. `LabelScorer` learns linear weights for each label and computes features of each candidate; `LabelMixture`, a logistic
regression that all labels share, turns features into probabilities.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from memorytree.estimators.arrays import TablePool, extended
from memorytree.estimators.kernels import label_features, one_against_some
from memorytree.estimators.kernels.label_features import BINS, N_FEATURES
from memorytree.estimators.kernels.one_against_some import HALVES
from memorytree.estimators.kernels.records import (
    NO_LABEL,
    Candidates,
    LabelFeatures,
    LabelHits,
    LabelLists,
    LabelPairs,
    LabelScores,
    LabelSets,
    LabelWeights,
    SparseRows,
    TrainingRows,
)
from memorytree.estimators.kernels.votes import MAX_CANDIDATES
from memorytree.progress import track

FIRST_MIXTURE = (1.0, *(0.0, 0.0, 0.0, 1.0), *(0.3, 0.3, 0.2, 0.2), 0.0, 0.0, 0.5)
HORIZON = 2048  # rows over which the curvature decays
DAMPING = 5.0  # diagonal of the curvature at first
LEAST_POOL = 2**19
PAIRS = 2**17  # pairs of row and label that are learned from between two steps of the progress bar
# The mixture is learned from at most so many rows, in two passes, or up to so many where there are few rows.
MOST_MIXED, MOST_MIXTURE_PASSES, MIXTURE_BATCH = 32_768, 6, 256
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class LabelTraining(NamedTuple):
    """Rows whose label sets are known, and the pairs of row and label to learn from."""

    hits: LabelHits
    rows: TrainingRows
    pairs: LabelPairs
    misses: np.ndarray  # (n,) how many true labels of each row are no candidates
    other_scores: np.ndarray  # (n, MAX_CANDIDATES) of rows that are judged: linear scores by the half that did not learn


class LabelMixture:
    """A logistic regression from the features of a label to its probability, learned by steps of Newton's method."""

    def __init__(self) -> None:
        self.weights = np.array(FIRST_MIXTURE)
        self.curvature = DAMPING * np.eye(N_FEATURES)
        self.outcomes = np.zeros((2, BINS))  # how many wrong and right labels had a probability in each bin
        self.missed = 0  # true labels that were no candidates

    def learn(self, computed: LabelFeatures, first: int, last: int) -> None:
        """Learn from the candidates of rows first .. last - 1."""
        gradient, lower = np.zeros(N_FEATURES), np.zeros((N_FEATURES, N_FEATURES))
        columns = slice(*computed.bounds[[first, last]].tolist())
        features = np.ascontiguousarray(computed.features[:, columns])  # contiguous loops are vectorised
        right = computed.right[columns]
        label_features.mixture_derivatives(self.weights, gradient, lower, self.outcomes, features, right)
        self.curvature += min((last - first) / HORIZON, 0.5) * (DAMPING * np.eye(N_FEATURES) - self.curvature)
        self.curvature += lower + np.tril(lower, -1).T
        self.weights -= np.clip(np.linalg.solve(self.curvature, gradient), -1, 1)
        self.missed += int(computed.misses[first:last].sum())

    def reset_outcomes(self) -> None:
        """Choose the threshold by what is learned from now on."""
        self.outcomes[:], self.missed = 0, 0

    def best_f1_threshold(self) -> float:
        """The threshold with which the F1 score of all decisions would have been the highest."""
        right, wrong = (self.outcomes[kind, ::-1].cumsum()[::-1] for kind in (1, 0))
        if not right[0]:
            return 0.5
        scores = 2 * right / (right + wrong + self.outcomes[1].sum() + self.missed)
        return float(np.argmax(scores) / BINS)


class LabelScorer:
    """What is learned of labels. They are numbers here.

    Args:
        labels: how many labels there are.
        n_columns: how many columns rows have.
    """

    def __init__(self, labels: int, n_columns: int) -> None:
        self.tables = TablePool(HALVES, LEAST_POOL, n_columns)
        self.bias = np.zeros((16, HALVES), np.float64)
        self.counts = np.zeros(16, np.int64)
        self.mixture = LabelMixture()
        self.reserve(labels)

    @property
    def weights(self) -> LabelWeights:
        """As kernels take them."""
        return LabelWeights(self.tables.arrays, self.bias, self.counts)

    def reserve(self, labels: int) -> None:
        """Make room for labels below `labels`."""
        self.tables.reserve(labels)
        self.bias, self.counts = extended(self.bias, labels), extended(self.counts, labels)

    def for_projection(self, n_columns: int) -> LabelScorer:
        """A scorer for another projection: it keeps the counts of labels and has everything else still to learn."""
        scorer = LabelScorer(len(self.counts), n_columns)
        scorer.counts[:] = self.counts
        return scorer

    def join(self, labels: np.ndarray) -> None:
        """Count the labels of rows that have become memories."""
        self.counts += np.bincount(labels, minlength=len(self.counts))

    def recount(self, labels: np.ndarray) -> None:
        """Replace all counts by those of these labels, of all present memories."""
        self.counts[:] = np.bincount(labels, minlength=len(self.counts))

    def rewards(self, sets: LabelSets, ids: np.ndarray, truth: LabelLists) -> np.ndarray:
        """The F1 score between the labels of each row and of each memory found for it; NaN where there is none."""
        rewards = np.empty(ids.shape)
        label_features.f1_rewards(sets, ids, truth, len(self.counts), rewards)
        return rewards

    def prepare(
        self,
        hits: LabelHits,
        truth: LabelLists,
        X: SparseRows,
        halves: np.ndarray,
        judged: np.ndarray | None = None,
    ) -> LabelTraining:
        """Collect the pairs to learn from, and allocate weights for them.

        Args:
            hits: the memories found for each row.
            truth: the true labels of each row.
            X: the rows.
            halves: (n,) int64, which half of the weights learns from each row.
            judged: the rows whose features are needed later, by default all.
        """
        n = len(hits.ids)
        candidates = Candidates(
            np.empty((n, MAX_CANDIDATES), np.int32),
            np.empty((n, MAX_CANDIDATES), np.bool_),
            np.empty(len(truth.labels), np.int32),
        )
        scales, is_judged = np.empty(n), np.zeros(n, np.bool_)
        is_judged[slice(None) if judged is None else judged] = True
        labels = one_against_some.collect_candidates(hits, truth, X, len(self.counts), candidates, scales)
        starts = np.empty(len(labels) + 1, np.int64)
        grouped = one_against_some.group_pairs(candidates, truth.bounds, starts)
        pairs = LabelPairs(labels, starts, grouped, candidates.right)
        rows = TrainingRows(X, scales, halves, is_judged)
        done = 0
        while (done := one_against_some.allocate_weights(self.tables.arrays, pairs, rows, done)) < len(grouped):
            self.tables.grow()
        misses = np.diff(np.concatenate([[0], np.cumsum(candidates.missed != NO_LABEL)])[truth.bounds])
        return LabelTraining(hits, rows, pairs, misses, np.zeros((n, MAX_CANDIDATES), np.float32))

    def learn_weights(self, training: LabelTraining, span: tuple[int, int], max_iter: int, seed: int) -> None:
        """Learn the weights of training.pairs.labels[span[0] : span[1]], each label once."""
        one_against_some.solve_labels(
            self.weights, training.pairs, training.rows, span, max_iter, seed, training.other_scores
        )

    def compute_features(self, training: LabelTraining, rows: np.ndarray, stored: bool) -> LabelFeatures:
        """The features of the candidates of some rows; `stored`: the rows are counted among the memories of their labels."""
        room = len(rows) * MAX_CANDIDATES
        output = LabelFeatures(
            np.empty(len(rows) + 1, np.int64),
            np.empty((N_FEATURES, room), np.float32),
            np.empty(room, np.bool_),
            training.misses[rows],
        )
        judged = training.pairs.right, training.other_scores
        label_features.compute_row_features(training.hits, self.counts, judged, rows, stored, output)
        return output

    def learn_new(self, training: LabelTraining, max_iter: int, seed: int) -> None:
        """Learn from rows that are not memories yet.

        Args:
            training: as `prepare` returns it.
            max_iter: passes over the rows to learn linear weights.
            seed: of the order of the rows.
        """
        n = len(training.misses)
        self.learn_weights(training, (0, len(training.pairs.labels)), max_iter, seed)
        self.mixture.learn(self.compute_features(training, np.arange(n), stored=False), 0, n)

    def learn_stored(self, training: LabelTraining, mixing: np.ndarray, max_iter: int, seed: int, verbose: bool) -> None:
        """Learn from rows that are memories.

        Args:
            training: as `prepare` returns it, with `mixing` judged.
            mixing: rows to learn the mixture from.
            max_iter: passes over the rows to learn linear weights.
            seed: of the order of the rows.
            verbose: whether to show progress bars.
        """
        starts, n_pairs = training.pairs.starts, len(training.pairs.pairs)
        edges = np.unique(np.searchsorted(starts, [*range(0, n_pairs, PAIRS), n_pairs])).tolist()
        for span in track(list(pairwise(edges)), "learning the weights of labels", verbose):
            self.learn_weights(training, span, max_iter, seed)
        features = self.compute_features(training, mixing, stored=True)
        passes = min(max(MOST_MIXED // (3 * len(mixing)), 2), MOST_MIXTURE_PASSES)
        firsts = [*range(0, len(mixing), MIXTURE_BATCH)] * passes
        for first in track(firsts, "learning to mix weights and votes", verbose):
            if first == 0:
                self.mixture.reset_outcomes()
            self.mixture.learn(features, first, min(first + MIXTURE_BATCH, len(mixing)))

    def score(self, hits: LabelHits, X: SparseRows) -> LabelScores:
        """The candidates of each row and their probabilities, highest first."""
        return LabelScores(*label_features.score_labels(self.weights, self.mixture.weights, *hits, X))


def top_labels(scores: LabelScores, k: int) -> LabelScores:
    """The k most probable labels of each row, padded if there are more than `MAX_CANDIDATES` wanted."""
    labels, probabilities = scores
    missing = ((0, 0), (0, max(k - MAX_CANDIDATES, 0)))
    return LabelScores(np.pad(labels[:, :k], missing, constant_values=NO_LABEL), np.pad(probabilities[:, :k], missing))


def halves(numbers: np.ndarray) -> np.ndarray:
    """Which half of the weights learns from each row: a hash of the row's number, independent of patterns in the rows."""
    return ((numbers.astype(np.uint64) * HASH_FACTOR) >> np.uint64(63)).astype(np.int64)
