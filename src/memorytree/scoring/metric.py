"""`scorer="metric"`: keys are compared in a space that is learned from rewards.

A key x is seen as the unit vector of (W (x - c), lift): W has few rows, c is the mean, and the constant `lift` keeps keys
near the mean from being blown up to full length, and tells how far from it a key lies. The score is the cosine of two such
vectors, so a key always ranks itself highest. W begins at the principal directions of the keys. From the rewards of the
memories that a query returned it learns by the softmax of their scores: rewarded ones are to take the probability of the
others.

Trees hold what is seen of a key and route by it. When W learns, what they hold grows old; it is renewed a few memories at a
time (`cores.LearnedCore`), so that no single call pays for all of them.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from memorytree.engine.arrays import NONE, SLOT
from memorytree.engine.dense import dot
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import fast_helper, helper, kernel
from memorytree.scoring.directions import principal_directions

Metric = namedtuple("Metric", "rank rate temperature lift")

# Adagrad knows nothing of a gradient's usual size at first, and would take its longest steps when there is least to go by: a
# direction can be lost that way. They are as long as if so many lessons had come before.
EARLIER = 300
TINY = 1e-6  # of a feature's size, or of the usual reach: what reaches less tells nothing
# The temperature and lift that trees were learned with before files noted them.
FORMER_SIGHT = (8.0, 0.55)


def metric(*, rank: int = 63, rate: float = 0.2, temperature: float = 7.0, lift: float = 0.7) -> Metric:
    """A learned metric: W has `rank` rows, `rate` is Adagrad's step, `temperature` the factor inside the softmax."""
    return Metric(int(rank), float(rate), float(temperature), float(lift))


def first_directions(keys: np.ndarray, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(centre, W, units): the principal directions of some keys, half whitened, so that keys have length one on average.

    A feature that reaches much further than the others would drown them, and one that reaches much less would be drowned: at
    the most twice and at the least half the median reach is kept. Reach is the fourth root of the mean fourth power: by it,
    a pixel that is seldom anything but black reaches nearly as far as its neighbours, and its few values are not blown up;
    nor is what may be rounding, or reaches next to nowhere. The unit of a feature is what its weights measure before
    anything is learned: steps are taken in it, so that learning does not depend on the scale of the keys.
    """
    center = keys.mean(axis=0, dtype=np.float64)
    centered = keys - center
    most = np.maximum(np.abs(centered).max(axis=0), 1e-300)
    reach = most * np.mean((centered / most) ** 4, axis=0) ** 0.25
    real = reach > TINY * np.abs(keys).max(axis=0)
    usual = np.median(reach[real]) if np.any(real) else 1.0
    relative = np.maximum(np.where(real, reach / usual, 1.0), TINY)
    shrink = np.clip(relative, 0.5, 2.0) / relative
    centered *= shrink
    variances, directions = principal_directions(centered, rank)
    weights = np.zeros((rank, keys.shape[1]))
    found = len(variances)
    if found:
        half_white = directions * (variances + 1e-3 * variances.mean()) ** -0.25
        weights[:found] = half_white.T / np.sqrt(np.mean(np.sum((centered @ half_white) ** 2, axis=1)))
    units = np.sqrt(np.mean(weights[: max(found, 1)] ** 2)) * shrink
    return center.astype(np.float32), (weights * shrink).astype(np.float32), units.astype(np.float32)


@fast_helper
def see(weights, lift, centered, seen):
    """seen = unit vector of (W centered, lift); returns 1 / its length before."""
    rank = weights.shape[0]
    total = np.float32(lift * lift)
    for a in range(rank):
        seen[a] = dot(weights, a, centered)
        total += seen[a] * seen[a]
    shrink = np.float32(1) / np.sqrt(total)
    for a in range(rank):
        seen[a] *= shrink
    seen[rank] = np.float32(lift) * shrink
    return shrink


@fast_helper
def subtract(x, center, centered):
    for j in range(x.shape[0]):
        centered[j] = x[j] - center[j]


@kernel
def see_rows(weights, center, lift, X, first, last):
    """What is seen of the keys in rows first .. last - 1."""
    seen = np.empty((last - first, weights.shape[0] + 1), np.float32)
    centered = np.empty(X.shape[1], np.float32)
    for i in range(first, last):
        subtract(X[i], center, centered)
        see(weights, lift, centered, seen[i - first])
    return seen


@fast_helper
def turn(weights, squares, units, rate, along, x):
    """One Adagrad step on W; the gradient of row a is along[a] * x."""
    for a in range(weights.shape[0]):
        for j in range(x.shape[0]):
            g = along[a] * x[j]
            squares[a, j] += g * g
            weights[a, j] -= rate * units[j] * g / np.sqrt(squares[a, j] + np.float32(1e-30))


@fast_helper
def add_scaled(total, matrix, row, factor):
    """total += factor * the row of a matrix."""
    for j in range(total.shape[0]):
        total[j] += factor * matrix[row, j]


@helper
def lesson(trees, weights, squares, center, units, scorer, rate, X, i, ids, rewards):
    """Learn from the rewards of query i, NaN where none was observed; `trees` holds what was seen of the memories.

    With p the softmax of the scores and t the part of it that was rewarded, the gradient of each score is p - t. It goes
    through what is seen of the query; what was seen of the memories is taken as given. Returns whether there was anything
    to learn: nothing where no memory was rewarded, nor where the rewarded ones have it all already.
    """
    k, rank = ids.shape[1], weights.shape[0]
    slots, pulls, given = np.empty(k, np.int64), np.empty(k, np.float32), np.empty(k, np.float32)
    centered, seen = np.empty(X.shape[1], np.float32), np.empty(rank + 1, np.float32)
    subtract(X[i], center, centered)
    shrink = see(weights, scorer.lift, centered, seen)
    n, best = 0, -np.inf
    for j in range(k):
        row = row_of_id(trees, ids[i, j])
        if row != NONE and not np.isnan(rewards[i, j]):
            slots[n], given[n] = trees.rows[row, SLOT], rewards[i, j]
            pulls[n] = scorer.temperature * dot(trees.keys, slots[n], seen)
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
        add_scaled(along, trees.keys, slots[j], pull)
    if strongest < 1e-3:
        return False
    for a in range(rank + 1):
        radial += along[a] * seen[a]
    for a in range(rank):
        along[a] = (along[a] - radial * seen[a]) * shrink
    turn(weights, squares, units, np.float32(rate), along, centered)
    return True


@kernel
def lessons(trees, weights, squares, center, units, scorer, before, X, first, last, ids, rewards):
    """Learn from the rewards of queries first .. last - 1, one after the other; how many had something to teach. `before`
    are the lessons that came before."""
    learned = 0
    for i in range(first, last):
        number = before + learned + 1
        rate = scorer.rate * np.sqrt(number / (number + EARLIER))
        learned += lesson(trees, weights, squares, center, units, scorer, rate, X, i, ids, rewards)
    return learned


class Space:
    """What has been learned: W, its Adagrad sums, the centre, the units of the features; and how many lessons there were."""

    def __init__(self, scorer: Metric, dimension: int):
        self.scorer = scorer
        rank = min(scorer.rank, dimension)
        self.weights = np.zeros((rank, dimension), np.float32)
        self.squares = np.zeros((rank, dimension), np.float32)
        self.center = np.zeros(dimension, np.float32)
        self.units = np.zeros(dimension, np.float32)
        self.lessons = 0
        self.settled = 0  # how many keys the directions were found from

    @property
    def width(self) -> int:
        """How many numbers are seen of a key."""
        return len(self.weights) + 1

    def copy(self) -> Space:
        """A space of its own with the same content."""
        twin = Space(self.scorer, len(self.center))
        twin.weights[:], twin.squares[:] = self.weights, self.squares
        twin.center[:], twin.units[:] = self.center, self.units
        twin.lessons, twin.settled = self.lessons, self.settled
        return twin

    def settle(self, keys: np.ndarray, n: int) -> None:
        """Begin at the principal directions of these keys, a sample of n."""
        self.center[:], self.weights[:], self.units[:] = first_directions(keys, len(self.weights))
        self.squares[:] = 0
        self.settled = n

    def see(self, X: np.ndarray, first: int, last: int) -> np.ndarray:
        """What is seen of some rows of a batch."""
        return see_rows(self.weights, self.center, self.scorer.lift, X, first, last)

    def learn(self, trees: Any, X: np.ndarray, first: int, last: int, ids: np.ndarray, rewards: np.ndarray) -> int:
        """Learn from the rewards of some queries; from how many there was something to learn."""
        own = self.weights, self.squares, self.center, self.units, self.scorer, self.lessons
        learned = int(lessons(trees, *own, X, first, last, ids, rewards))
        self.lessons += learned
        return learned
