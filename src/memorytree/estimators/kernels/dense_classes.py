"""Scores of classes for dense rows: votes of the memories found, mixed with one-against-some linear weights."""

import numpy as np

from memorytree.engine.dense import dot
from memorytree.engine.jit import fast_helper, helper, kernel
from memorytree.estimators.kernels.classes import N_FEATURES, fill_row, find_candidate, mix, softmax
from memorytree.estimators.kernels.records import ClassHits
from memorytree.results import NO_ID

LINEAR, SIMILAR, NEAR, NEAREST = range(N_FEATURES)
SHARPNESS = 12.0  # a vote by similarity weighs exp(SHARPNESS * similarity)
LEAST_SHARE = 0.02  # added to each share of votes before its logarithm is taken
LEAST_DISTANCE = 1e-6  # resolution of single precision
MIXTURE_RATE, LINEAR_RATE = 0.05, 0.5
LEAST_GRADIENT = 1e-4  # smaller gradients of a linear score are ignored


@helper
def count_votes(hits, i, candidates, features):
    """Write the classes of the memories found for row i and the features from their votes; returns how many there are."""
    ids, scores = hits.ids, hits.scores
    best, farthest, similar, near, n = -np.inf, LEAST_DISTANCE, 0.0, 0.0, 0
    for j in range(ids.shape[1]):
        if ids[i, j] != NO_ID:
            best = max(best, np.float64(scores[i, j]))
            farthest = max(farthest, 1.0 - np.float64(scores[i, j]))
    for j in range(ids.shape[1]):
        if ids[i, j] == NO_ID:
            continue
        label, score = hits.classes[ids[i, j]], np.float64(scores[i, j])
        c = find_candidate(candidates, n, label)
        if c == n:
            candidates[n], features[n, SIMILAR], features[n, NEAR], features[n, NEAREST] = label, 0.0, 0.0, score
            n += 1
        features[c, NEAREST] = max(features[c, NEAREST], score)
        vote = np.exp(SHARPNESS * (score - best))
        features[c, SIMILAR] += vote
        similar += vote
        vote = (farthest / max(1.0 - score, LEAST_DISTANCE)) ** 3
        features[c, NEAR] += vote
        near += vote
    for c in range(n):
        features[c, SIMILAR] = np.log(features[c, SIMILAR] / similar + LEAST_SHARE)
        features[c, NEAR] = np.log(features[c, NEAR] / near + LEAST_SHARE)
    return n


@helper
def compute_linear(weights, x, candidates, n, features):
    """Write the linear score of each of n candidates.

    The score of a class with m memories is shrunk by (m - 1) / m: weights learned from one memory add nothing to its vote.
    """
    for c in range(n):
        shrinkage = 1.0 - 1.0 / max(weights.counts[candidates[c]], 1)
        features[c, LINEAR] = dot(weights.linear, candidates[c], x) * shrinkage


@fast_helper
def step(linear, label, x, width, size):
    """Move the first `width` weights of a class by -size * x."""
    for a in range(width):
        linear[label, a] -= size * x[a]


@helper
def learn_mixture(weights, features, errors, n):
    """One Adagrad step on the shared coefficients, by the errors of the probabilities of n candidates."""
    for f in range(N_FEATURES):
        g = 0.0
        for c in range(n):
            g += errors[c] * features[c, f]
        weights.mixture_squares[f] += g * g
        weights.mixture[f] -= MIXTURE_RATE * g / np.sqrt(weights.mixture_squares[f])


@kernel
def score_dense(ids, scores, classes, weights, rows):
    """The classes of the memories found for each row and their probabilities.

    Args:
        ids, scores, classes: as in `ClassHits`.
        weights: `DenseClassWeights`.
        rows: (n, width + 1) float32, projected rows and the constant.

    Returns:
        As in `ClassScores`.
    """
    hits, features = ClassHits(ids, scores, classes), np.empty((ids.shape[1], N_FEATURES))
    candidates, probabilities = np.empty(ids.shape, np.int64), np.empty(ids.shape)
    for i in range(ids.shape[0]):
        n = count_votes(hits, i, candidates[i], features)
        compute_linear(weights, rows[i], candidates[i], n, features)
        mix(weights.mixture, features, n, 1.0, probabilities[i])
        fill_row(candidates[i], probabilities[i], n)
    return candidates, probabilities


@kernel
def learn_dense(ids, scores, classes, targets, stored, weights, rows):
    """Learn from the true class of each row, one row after the other; `stored`: the rows are memories themselves.

    Half of the gradient of the linear weights comes from the softmax over the linear scores alone, half from the softmax
    over the mixture. With the mixture alone they would receive almost no gradient where the votes are already correct; with
    the linear scores alone they would fit what the votes already decide. A true class that no memory has adds to the first
    half only.
    """
    hits, k = ClassHits(ids, scores, classes), ids.shape[1]
    linear, counts, mixture = weights.linear, weights.counts, weights.mixture
    # Rows that are not stored may come ordered by class: the weight of the constant would follow the latest class.
    width = linear.shape[1] if stored else linear.shape[1] - 1
    features, candidates = np.empty((k + 1, N_FEATURES)), np.empty(k + 1, np.int64)
    mixed, alone = np.empty(k + 1), np.empty(k + 1)
    for i in range(ids.shape[0]):
        target = targets[i]
        n = count_votes(hits, i, candidates, features)
        true = find_candidate(candidates, n, target)
        found = true < n
        if not found and counts[target] < (2 if stored else 1):
            continue  # the class has no other memory
        if not found:
            features[n, NEAREST] = 1.0
            for c in range(n):
                features[n, NEAREST] = min(features[n, NEAREST], features[c, NEAREST])
            candidates[n] = target
            features[n, SIMILAR] = features[n, NEAR] = np.log(LEAST_SHARE)
            n += 1
        compute_linear(weights, rows[i], candidates, n, features)
        mix(mixture, features, n, 1.0, mixed)
        for c in range(n):
            alone[c] = mixture[LINEAR] * features[c, LINEAR]
        softmax(alone, n)
        mixed[true] -= 1.0
        alone[true] -= 1.0
        for c in range(n):
            g = mixture[LINEAR] * (0.5 * (mixed[c] + alone[c]) if found else alone[c])
            if abs(g) > LEAST_GRADIENT:
                weights.squares[candidates[c]] += g * g
                size = np.float32(LINEAR_RATE * g / np.sqrt(weights.squares[candidates[c]]))
                step(linear, candidates[c], rows[i], width, size)
        if found:
            learn_mixture(weights, features, mixed, n)
