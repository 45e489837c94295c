"""Kernels of the learned projection: unit vectors of (W (x - center), lift), and the Adagrad step on W."""

from collections import namedtuple

import numpy as np

from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import fast_helper, helper, kernel
from memorytree.engine.dense import dot
from memorytree.engine.arrays import NONE, SLOT

ProjectionArrays = namedtuple("ProjectionArrays", "weights squares center units")
"""W (rank, d), its Adagrad sums (rank, d), the mean of the keys (d,), and the step size of each feature (d,); all float32."""

ProjectionSettings = namedtuple("ProjectionSettings", "rate temperature lift")

# The sums of Adagrad are small at first, which would make the first steps the longest. Steps are as long as if so many
# lessons had come before.
WARM_UP = 300


@fast_helper
def project(weights, lift, centered, projected):
    """Set projected (rank + 1,) to the unit vector of (W centered, lift); returns 1 / its length before."""
    rank = weights.shape[0]
    total = np.float32(lift * lift)
    for a in range(rank):
        projected[a] = dot(weights, a, centered)
        total += projected[a] * projected[a]
    shrink = np.float32(1) / np.sqrt(total)
    for a in range(rank):
        projected[a] *= shrink
    projected[rank] = np.float32(lift) * shrink
    return shrink


@fast_helper
def subtract(x, center, centered):
    for j in range(x.shape[0]):
        centered[j] = x[j] - center[j]


@kernel
def project_rows(weights, center, lift, X):
    """The projections (n, rank + 1) of the keys X (n, d)."""
    projected = np.empty((X.shape[0], weights.shape[0] + 1), np.float32)
    centered = np.empty(X.shape[1], np.float32)
    for i in range(X.shape[0]):
        subtract(X[i], center, centered)
        project(weights, lift, centered, projected[i])
    return projected


@fast_helper
def adagrad_step(arrays, rate, along, x):
    """One Adagrad step on W; the gradient of row a is along[a] * x."""
    weights, squares, units = arrays.weights, arrays.squares, arrays.units
    for a in range(weights.shape[0]):
        for j in range(x.shape[0]):
            g = along[a] * x[j]
            squares[a, j] += g * g
            weights[a, j] -= rate * units[j] * g / np.sqrt(squares[a, j] + np.float32(1e-30))


@fast_helper
def add_scaled(total, matrix, row, factor):
    """total += factor * matrix[row]."""
    for j in range(total.shape[0]):
        total[j] += factor * matrix[row, j]


@helper
def learn_row(tree, arrays, settings, rate, x, ids, rewards):
    """Learn from the rewards (NaN: not observed) of one query; `tree` stores the projections of the memories.

    With p the softmax of the scores and t its rewarded part, normalised, the gradient of each score is p - t. It is
    propagated through the projection of the query; the stored projections of the memories are constants. Returns whether
    there was a gradient: there is none where no memory was rewarded, or where the rewarded ones have all of the softmax.
    """
    weights = arrays.weights
    k, rank = ids.shape[0], weights.shape[0]
    slots, pulls, given = np.empty(k, np.int64), np.empty(k, np.float32), np.empty(k, np.float32)
    centered, projected = np.empty(x.shape[0], np.float32), np.empty(rank + 1, np.float32)
    subtract(x, arrays.center, centered)
    shrink = project(weights, settings.lift, centered, projected)
    n, best = 0, -np.inf
    for j in range(k):
        row = row_of_id(tree, ids[j])
        if row != NONE and not np.isnan(rewards[j]):
            slots[n], given[n] = tree.rows[row, SLOT], rewards[j]
            pulls[n] = settings.temperature * dot(tree.keys, slots[n], projected)
            best = max(best, np.float64(pulls[n]))
            n += 1
    total, earned = 0.0, 0.0
    for j in range(n):
        pulls[j] = np.exp(pulls[j] - best)
        total += pulls[j]
        earned += given[j] * pulls[j]
    if earned <= 0:
        return False
    along = np.zeros(rank + 1, np.float32)
    strongest, radial = 0.0, np.float32(0)
    for j in range(n):
        pull = np.float32(pulls[j] / total - given[j] * pulls[j] / earned)
        strongest = max(strongest, abs(pull))
        add_scaled(along, tree.keys, slots[j], pull)
    if strongest < 1e-3:
        return False
    for a in range(rank + 1):
        radial += along[a] * projected[a]
    for a in range(rank):
        along[a] = (along[a] - radial * projected[a]) * shrink
    adagrad_step(arrays, np.float32(rate), along, centered)
    return True


@kernel
def learn_rows(tree, arrays, settings, n_lessons, X, ids, rewards):
    """Learn from the rewards of queries, one after the other, after `n_lessons` earlier ones; from how many there was
    something to learn."""
    learned = 0
    for i in range(ids.shape[0]):
        number = n_lessons + learned + 1
        rate = settings.rate * np.sqrt(number / (number + WARM_UP))
        learned += learn_row(tree, arrays, settings, rate, X[i], ids[i], rewards[i])
    return learned
