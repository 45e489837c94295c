"""Features of candidate labels, their mixture into probabilities, and rewards by agreement of label sets.

The features of a label are its linear score; its share of the votes, weighted by similarity to the powers 1, 2, 4 and 8; the
logarithms of these shares; the best similarity among its memories; the logarithm of its frequency; and a constant.
"""

import numpy as np

from memorytree.engine.dense import dot
from memorytree.engine.jit import helper, kernel, prefetch
from memorytree.engine.sparse import inverse_norm
from memorytree.estimators.kernels.one_against_some import AHEAD, HALVES, linear_score, prefetch_weights
from memorytree.estimators.kernels.records import NO_LABEL, LabelHits
from memorytree.estimators.kernels.votes import (
    BEST,
    MAX_CANDIDATES,
    POWERS,
    choose,
    count_labels,
    count_votes,
    empty_ballot,
    with_room,
)
from memorytree.results import NO_ID

LINEAR, SHARE = 0, 1  # shares and their logarithms take one place for each power
LOG_SHARE, NEAREST = SHARE + POWERS, SHARE + 2 * POWERS
FREQUENCY, CONSTANT, N_FEATURES = NEAREST + 1, NEAREST + 2, NEAREST + 3
LEAST_SHARE = 0.01  # added to a share before its logarithm is taken
BINS = 200  # of probabilities, to choose a threshold


@helper
def prefetch_labels(weights, ballot, n):
    """Prefetch the spans, biases and counts of n chosen labels."""
    for c in range(n):
        label = ballot.labels[ballot.chosen[c]]
        prefetch(weights.tables.spans, label * 3)
        prefetch(weights.bias, label * HALVES)
        prefetch(weights.counts, label)


@helper
def compute_features(ballot, c, count, features, column):
    """Write all features of the label at position c of the ballot but the linear score."""
    votes, totals = ballot.votes, ballot.totals
    for p in range(POWERS):
        share = votes[c, p] / totals[p]
        features[SHARE + p, column] = share
        features[LOG_SHARE + p, column] = np.log(share + LEAST_SHARE)
    features[NEAREST, column] = votes[c, BEST]
    features[FREQUENCY, column] = np.log(count + 1.0)
    features[CONSTANT, column] = 1.0


@helper
def sigmoid(total):
    """The logistic function."""
    return 1.0 / (1.0 + np.exp(-total))


@kernel
def score_labels(weights, mixture, sets, ids, scores, X):
    """The candidates of each row and their probabilities, highest first.

    Args:
        weights: `LabelWeights`.
        mixture: (N_FEATURES,) float64, shared coefficients.
        sets, ids, scores: as in `LabelHits`.
        X: the rows, (bounds, columns, values).

    Returns:
        As in `LabelScores`.
    """
    hits, tables = LabelHits(sets, ids, scores), weights.tables
    found, probabilities = np.empty((ids.shape[0], MAX_CANDIDATES), np.int64), np.empty((ids.shape[0], MAX_CANDIDATES))
    ballot = empty_ballot(weights.counts.shape[0])
    features = np.empty((N_FEATURES, 1))
    for i in range(ids.shape[0]):
        ballot = with_room(ballot, count_labels(hits, i))
        n = choose(ballot, count_votes(hits, i, ballot))
        prefetch_labels(weights, ballot, n)
        scale = inverse_norm(X, i)
        # Prefetching the weights of all labels at once would exceed the loads that a processor tracks.
        for c in range(min(AHEAD, n)):
            prefetch_weights(tables, ballot.labels[ballot.chosen[c]], X, i)
        for c in range(n):
            if c + AHEAD < n:
                prefetch_weights(tables, ballot.labels[ballot.chosen[c + AHEAD]], X, i)
            label = ballot.labels[ballot.chosen[c]]
            compute_features(ballot, ballot.chosen[c], weights.counts[label], features, 0)
            features[LINEAR, 0] = linear_score(weights, label, X, i, scale)
            total = 0.0
            for f in range(N_FEATURES):
                total += mixture[f] * features[f, 0]
            probability = sigmoid(total)
            place = c
            while place > 0 and probabilities[i, place - 1] < probability:
                probabilities[i, place], found[i, place] = probabilities[i, place - 1], found[i, place - 1]
                place -= 1
            probabilities[i, place], found[i, place] = probability, label
        for c in range(n, MAX_CANDIDATES):
            probabilities[i, c], found[i, c] = 0.0, NO_LABEL
    return found, probabilities


@kernel
def compute_row_features(hits, counts, judged, rows, stored, output):
    """Write the features of the candidates of some rows.

    Args:
        hits: `LabelHits`.
        counts: (labels,) int64, memories with each label.
        judged: (right, other_scores), (n, MAX_CANDIDATES) each: whether the row has the label, and the label's linear score
            by the half of the weights that did not learn from the row.
        rows: the rows.
        stored: whether the rows are counted among the memories of their labels.
        output: `LabelFeatures`.
    """
    right, other_scores = judged
    ballot = empty_ballot(counts.shape[0])
    output.bounds[0] = 0
    for j in range(rows.shape[0]):
        i, first = rows[j], output.bounds[j]
        ballot = with_room(ballot, count_labels(hits, i))
        n = choose(ballot, count_votes(hits, i, ballot))
        for c in range(n):
            count = counts[ballot.labels[ballot.chosen[c]]] - (1 if right[i, c] and stored else 0)
            compute_features(ballot, ballot.chosen[c], count, output.features, first + c)
            output.features[LINEAR, first + c], output.right[first + c] = other_scores[i, c], right[i, c]
        output.bounds[j + 1] = first + n


@kernel
def mixture_derivatives(mixture, gradient, curvature, outcomes, features, right):
    """Add the gradient and the curvature of the log loss of candidates, and count their probabilities.

    Args:
        mixture: (N_FEATURES,) float64.
        gradient: (N_FEATURES,) float64, added to.
        curvature: (N_FEATURES, N_FEATURES) float64, symmetric; the diagonal and what lies below it are added to.
        outcomes: (2, BINS), added to: how many wrong and right labels had a probability in each bin.
        features: (N_FEATURES, n) float32.
        right: (n,) bool.
    """
    n = right.shape[0]
    totals, errors, spreads = np.zeros(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    for a in range(N_FEATURES):
        own, weight = features[a], np.float32(mixture[a])
        for f in range(n):
            totals[f] += weight * own[f]
    for f in range(n):
        probability = sigmoid(np.float64(totals[f]))
        errors[f], spreads[f] = probability - right[f], probability * (1.0 - probability)
        outcomes[np.int64(right[f]), max(min(np.int64(probability * BINS), BINS - 1), 0)] += 1
    for a in range(N_FEATURES):
        own = features[a]
        gradient[a] += dot(features, a, errors)
        for f in range(n):
            totals[f] = spreads[f] * own[f]
        for b in range(a + 1):
            curvature[a, b] += dot(features, b, totals)


@kernel
def f1_rewards(sets, ids, truth, n_labels, rewards):
    """Write the F1 score between the labels of each row and of each memory found for it; NaN where there is none.

    Args:
        sets: `LabelSets` of the memories.
        ids: (n, k) int64, NO_ID behind the last.
        truth: `LabelLists` of the rows.
        n_labels: all labels are below this.
        rewards: (n, k) float64, written to.
    """
    starts, sizes, pool = sets
    bounds, labels = truth
    marked = np.zeros(n_labels, np.bool_)
    for i in range(ids.shape[0]):
        for t in range(bounds[i], bounds[i + 1]):
            marked[labels[t]] = True
        for j in range(ids.shape[1]):
            if ids[i, j] == NO_ID:
                rewards[i, j] = np.nan
                continue
            start, size = starts[ids[i, j]], sizes[ids[i, j]]
            common = 0
            for at in range(start, start + size):
                common += marked[pool[at]]
            rewards[i, j] = 2.0 * common / max(size + bounds[i + 1] - bounds[i], 1)
        for t in range(bounds[i], bounds[i + 1]):
            marked[labels[t]] = False
