"""What the scorers of classes share: candidates, the mixture of their features and the softmax over it."""

import numpy as np

from memorytree.engine.jit import helper
from memorytree.estimators.kernels.records import NO_LABEL

N_FEATURES = 4  # numbers that describe a candidate, for dense and for sparse rows


@helper
def find_candidate(candidates, n, label):
    """The position of a class among the first n candidates; n if it is not there."""
    c = 0
    while c < n and candidates[c] != label:
        c += 1
    return c


@helper
def softmax(results, n):
    """Softmax of the first n results in place."""
    best, total = -np.inf, 0.0
    for c in range(n):
        best = max(best, results[c])
    for c in range(n):
        results[c] = np.exp(results[c] - best)
        total += results[c]
    for c in range(n):
        results[c] /= total


@helper
def mix(mixture, features, n, inverse_temperature, results):
    """The probability of each of n candidates: softmax over the weighted sums of their features."""
    for c in range(n):
        total = 0.0
        for f in range(N_FEATURES):
            total += mixture[f] * features[c, f]
        results[c] = total * inverse_temperature
    softmax(results, n)


@helper
def fill_row(candidates, probabilities, n):
    """Write NO_LABEL and 0 behind the n candidates of a row."""
    for c in range(n, candidates.shape[0]):
        candidates[c], probabilities[c] = NO_LABEL, 0.0
