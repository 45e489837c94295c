"""`scorer="values"`: keys find the candidates, and what is known of their values ranks them.

The features given with a value (`features=`) are seen through their first principal directions, as v. Three things speak for
a candidate: how well its key fits; how much its value is like those of the other candidates, the more the better their keys
fit (a vote); and <U x, v>: a key x aims at a point among the values. Before the first reward the keys decide alone.

Everything is learned from rewards, as least squares. Of what fit and vote leave unexplained of the differences among the
rewards of a query's memories, one looks for the change of the aim that would explain it best; the weights U take a
normalised step towards it, and their average over time is what answers: later states count for more. How much each of the
three parts counts for comes from running sums over keys met for the first time, for which the aim was a true prediction; a
part that does not go with the rewards beyond doubt has no say, so rewards that are mere noise change nothing. Keys are taken
at length one and features at mean length one, and rewards are compared within a query only: there is no scale to be set.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from memorytree.engine.arrays import NONE, SLOT
from memorytree.engine.dense import dot
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import fast_helper, helper, kernel
from memorytree.engine.rng import mix
from memorytree.engine.sparse import inverse_norm
from memorytree.errors import InvalidOption
from memorytree.scoring.directions import principal_directions
from memorytree.scoring.metric import add_scaled

Values = namedtuple("Values", "width breadth damping ridge steps learns")

Sums = namedtuple("Sums", "products goes_with squares met lessons")
"""Over lessons: products of the three parts, their products with the rewards and the squares of these (all less the mean
over the memories of a query); which keys have been met, one bit for each of their hashes; how many lessons there were."""

FIT, VOTE, AIM, PARTS = range(4)
MET = 2**14  # words of 64 bits
WORTH = 3.0
ROUNDS = 30
# The age of a lesson is counted in these, so that the square of it stays a moderate number.
AGE = 1e-4
CONSTANT = 0  # the row of the weights that every key has


def values(*, width: int = 128, breadth: float = 8.0, damping: float = 3.0, ridge: float = 0.3, steps: int = 4) -> Values:
    """A scorer that reads values.

    `width` directions are seen of the features; the keys choose `breadth` * log2 n candidates. `damping` shortens the steps
    of the weights, `ridge` the change of an aim; `steps` of conjugate gradients find it.
    """
    if not (width >= 1 and breadth > 0 and damping >= 0 and ridge > 0 and steps >= 1):
        raise InvalidOption("width and steps are at least 1, breadth and ridge above 0, damping not below 0")
    return Values(int(width), float(breadth), float(damping), float(ridge), int(steps), True)


def directions(features: np.ndarray, width: int) -> np.ndarray:
    """The first principal directions of some features (not centred: an aim's constant part does that), as columns, scaled so
    that what is seen has a mean squared length of one."""
    squares, found = principal_directions(features.astype(np.float64), width)
    basis = np.zeros((features.shape[1], width), np.float32)
    if len(squares):
        basis[:, : len(squares)] = found / np.sqrt(squares.sum())
    return basis


@fast_helper
def inner(a, b):
    total = np.float32(0)
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@helper
def gather(seen, ids, slots):
    """Where what is seen of the values of memories lies; NONE for those without features."""
    for j in range(ids.shape[0]):
        row = row_of_id(seen, ids[j])
        slots[j] = NONE if row == NONE else seen.rows[row, SLOT]


@helper
def poll(seen, slots, fits, n, vote):
    """The mean of the values, each weighted by the square of how much better than the worst its key fits."""
    lowest = np.inf
    for j in range(n):
        lowest = min(lowest, fits[j])
    vote[:] = 0
    total = 0.0
    for j in range(n):
        weight = (fits[j] - lowest) ** 2
        total += weight
        if slots[j] != NONE:
            add_scaled(vote, seen.keys, slots[j], np.float32(weight))
    if total > 0:
        for a in range(vote.shape[0]):
            vote[a] = np.float32(vote[a] / total)


@kernel
def balance(sums, parts):
    """What each of the first so many parts counts for: least squares, by turns, over those that have shown their worth.

    A part that does not go with the rewards by WORTH standard errors has no say."""
    counts = np.zeros(PARTS)
    for _ in range(ROUNDS):
        for a in range(parts):
            if sums.goes_with[a] > WORTH * np.sqrt(sums.squares[a]):
                left = sums.goes_with[a]
                for b in range(parts):
                    left -= sums.products[a, b] * counts[b] if a != b else 0.0
                counts[a] = max(left / (sums.products[a, a] * (1 + 1e-4)), 0.0)
    return counts


@helper
def aim_of(aims, X, i, aim):
    """aim = U x, with a constant 1 added to the key at length one."""
    bounds, columns, weights = X
    shrink = np.float32(inverse_norm(X, i))
    aim[:] = aims[CONSTANT]
    for j in range(bounds[i], bounds[i + 1]):
        if columns[j] < aims.shape[0]:  # others came after the last lesson
            add_scaled(aim, aims, columns[j], weights[j] * shrink)


@helper
def average_aim(aims, trail, lessons, X, i, aim, spare):
    """The same by the average of the weights over time; `trail` holds their steps times age squared."""
    aim[:] = 0
    if lessons > 0:
        aim_of(aims, X, i, aim)
        aim_of(trail, X, i, spare)
        old = np.float32((lessons * AGE) ** -2)
        for a in range(aim.shape[0]):
            aim[a] -= old * spare[a]


@kernel
def rank_rows(seen, aims, trail, lessons, counts, X, found, fits, ids, scores):
    """For each row the best of the candidates `found`, whose keys fit as `fits` says, by what each part counts for."""
    width, k = aims.shape[1], ids.shape[1]
    aim, vote, slots = np.zeros(width, np.float32), np.zeros(width, np.float32), np.empty(found.shape[1], np.int64)
    spare = np.empty(width, np.float32)
    for i in range(found.shape[0]):
        n = 0
        while n < found.shape[1] and found[i, n] != NONE:
            n += 1
        gather(seen, found[i, :n], slots)
        if counts[AIM] > 0:
            average_aim(aims, trail, lessons, X, i, aim, spare)
        if counts[VOTE] > 0:
            poll(seen, slots, fits[i], n, vote)
        for a in range(width):
            aim[a] = np.float32(counts[AIM] * aim[a] + counts[VOTE] * vote[a])
        filled = 0
        for j in range(n):
            score = np.float32(counts[FIT] * fits[i, j])
            if slots[j] != NONE:
                score += dot(seen.keys, slots[j], aim)
            place = filled if filled < k else k
            while place > 0 and scores[i, place - 1] < score:
                place -= 1
            if place < k:
                filled = min(filled + 1, k)
                for later in range(filled - 1, place, -1):
                    ids[i, later], scores[i, later] = ids[i, later - 1], scores[i, later - 1]
                ids[i, place], scores[i, place] = found[i, j], score
        for j in range(filled, k):
            ids[i, j], scores[i, j] = NONE, -np.inf


@helper
def centre(numbers, n):
    """Take their mean from n numbers; returns what is left of the largest."""
    mean, largest = 0.0, 0.0
    for j in range(n):
        mean += numbers[j]
    mean /= n
    for j in range(n):
        numbers[j] -= mean
        largest = max(largest, abs(numbers[j]))
    return largest


@helper
def centre_rows(rows, n):
    """Take the mean of n rows from each; returns their mean squared length then."""
    mean, total = np.zeros(rows.shape[1], np.float32), 0.0
    for j in range(n):
        add_scaled(mean, rows, j, np.float32(1 / n))
    for j in range(n):
        for a in range(rows.shape[1]):
            rows[j, a] -= mean[a]
            total += rows[j, a] * rows[j, a]
    return total / n


@helper
def explain(rows, n, left, ridge, steps, change):
    """The change d that makes the products <row, d> most like `left`, by conjugate gradients on the ridge regression."""
    width = rows.shape[1]
    residual, direction, image = np.zeros(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    for j in range(n):
        add_scaled(residual, rows, j, np.float32(left[j]))
    change[:] = 0
    direction[:] = residual
    size = begun = inner(residual, residual)
    for _ in range(steps):
        if not size > np.float32(1e-8) * begun:
            break
        for a in range(width):
            image[a] = np.float32(ridge) * direction[a]
        for j in range(n):
            add_scaled(image, rows, j, dot(rows, j, direction))
        along = size / inner(direction, image)
        for a in range(width):
            change[a] += along * direction[a]
            residual[a] -= along * image[a]
        smaller = inner(residual, residual)
        for a in range(width):
            direction[a] = residual[a] + smaller / size * direction[a]
        size = smaller


@helper
def move(weights, X, i, shrink, change, factor):
    """weights += factor * (key at length one, with its constant) times change."""
    bounds, columns, values = X
    for a in range(change.shape[0]):
        weights[CONSTANT, a] += factor * change[a]
    for j in range(bounds[i], bounds[i + 1]):
        for a in range(change.shape[0]):
            weights[columns[j], a] += factor * values[j] * shrink * change[a]


@helper
def is_new(met, lessons, X, i):
    """Whether a key, at length one, is met for the first time; from now on it is not. Few are taken for others, as all are
    forgotten once they would fill half the bits."""
    if (lessons + 1) % (32 * MET) == 0:
        met[:] = 0
    bounds, columns, weights = X
    bits, scale = np.uint64(0), inverse_norm(X, i) * 2**20
    for j in range(bounds[i], bounds[i + 1]):
        bits += mix(np.uint64(columns[j]) ^ np.uint64(np.int64(weights[j] * scale)) << np.uint64(32))
    bits = mix(bits)
    word, bit = np.int64(bits % np.uint64(met.shape[0])), np.uint64(1) << (bits >> np.uint64(58))
    new = met[word] & bit == 0
    met[word] |= bit
    return new


@helper
def note(sums, parts, given, n):
    """Add the products of one lesson to the running sums."""
    for a in range(PARTS):
        goes = 0.0
        for j in range(n):
            goes += parts[a, j] * given[j] / n
            for b in range(PARTS):
                sums.products[a, b] += parts[a, j] * parts[b, j] / n
        sums.goes_with[a] += goes
        sums.squares[a] += goes * goes


@kernel
def lessons(seen, aims, trail, sums, scorer, X, ids, fits, rewards):
    """Learn from the rewards of queries, one after the other (NaN: none observed); how many had something to teach."""
    k, width = ids.shape[1], aims.shape[1]
    there, slots, given, left, parts = (
        np.empty(k, np.int64),
        np.empty(k, np.int64),
        np.empty(k),
        np.empty(k),
        np.empty((PARTS, k)),
    )
    rows = np.empty((k, width), np.float32)
    aim, change, vote = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    learned = 0
    for i in range(ids.shape[0]):
        n = 0
        for j in range(k):
            if row_of_id(seen, ids[i, j]) != NONE and not np.isnan(rewards[i, j]):
                there[n], parts[FIT, n], given[n] = ids[i, j], fits[i, j], rewards[i, j]
                n += 1
        # Where all earned the same, there is nothing to learn about their order.
        if n < 2 or not centre(given, n) > 1e-6:
            continue
        gather(seen, there[:n], slots)
        poll(seen, slots, parts[FIT], n, vote)
        average_aim(aims, trail, sums.lessons[0], X, i, aim, change)
        for j in range(n):
            parts[VOTE, j], parts[AIM, j] = dot(seen.keys, slots[j], vote), dot(seen.keys, slots[j], aim)
            rows[j] = seen.keys[slots[j], :width]
        for a in range(PARTS):
            centre(parts[a], n)
        size = centre_rows(rows, n)
        counts = balance(sums, AIM)
        aim_of(aims, X, i, aim)
        for j in range(n):
            left[j] = given[j] - counts[FIT] * parts[FIT, j] - counts[VOTE] * parts[VOTE, j] - dot(rows, j, aim)
        if is_new(sums.met, sums.lessons[0], X, i):
            note(sums, parts, given, n)
        sums.lessons[0] += 1
        learned += 1
        if size > 0:
            explain(rows, n, left, scorer.ridge * size, scorer.steps, change)
            shrink = np.float32(inverse_norm(X, i))
            step = np.float32(1 / (1 + (1 if shrink > 0 else 0) + scorer.damping))
            move(aims, X, i, shrink, change, step)
            move(trail, X, i, shrink, change, step * np.float32((sums.lessons[0] * AGE) ** 2))
    return learned


class Aims:
    """What has been learned: how values are seen, where keys aim at, and what fit and vote count for."""

    def __init__(self, scorer: Values, features: int):
        self.scorer = scorer
        self.basis = np.zeros((features, min(scorer.width, features)), np.float32)
        self.center = np.zeros(0, np.float32)  # of dense keys
        self.weights = np.zeros((1, self.basis.shape[1]), np.float32)
        self.trail = np.zeros_like(self.weights)
        self.sums = Sums(
            np.zeros((PARTS, PARTS)), np.zeros(PARTS), np.zeros(PARTS), np.zeros(MET, np.uint64), np.zeros(1, np.int64)
        )
        self.settled = 0  # how many values the directions were found from
        self.counts = np.eye(1, PARTS)[0]  # what each part counts for

    @property
    def lessons(self) -> int:
        """How many there have been."""
        return int(self.sums.lessons[0])

    def copy(self) -> Aims:
        """The same, of its own."""
        twin = Aims(self.scorer, len(self.basis))
        twin.basis, twin.weights, twin.trail = self.basis.copy(), self.weights.copy(), self.trail.copy()
        twin.center = self.center.copy()
        twin.sums, twin.settled = Sums(*(array.copy() for array in self.sums)), self.settled
        twin.weigh()
        return twin

    @property
    def width(self) -> int:
        """How many numbers are seen of a value."""
        return self.basis.shape[1]

    def settle(self, basis: np.ndarray, n: int) -> None:
        """Look along these directions, found among n values. Aims that were learned are taken along: what an aim is to the
        features themselves stays the same, as far as the new directions show it."""
        if self.lessons:
            squares = np.maximum((basis**2).sum(axis=0), 1e-30)
            into = np.where(squares > 1e-20, (self.basis.T @ basis) / squares, 0).astype(np.float32)
            self.weights, self.trail = self.weights @ into, self.trail @ into
        self.basis[:] = basis
        self.settled = n

    def reach(self, columns: int) -> None:
        """Be ready for keys with columns below `columns`."""
        if len(self.weights) < columns:
            more = np.zeros((max(columns, 2 * len(self.weights)) - len(self.weights), self.weights.shape[1]), np.float32)
            self.weights, self.trail = np.concatenate([self.weights, more]), np.concatenate([self.trail, more])

    def weigh(self) -> None:
        """Find what fit, vote and aim count for; before anything has shown its worth, the fit of the keys alone."""
        counts = balance(self.sums, PARTS)
        self.counts = counts if counts.any() else np.eye(1, PARTS)[0]

    def rank(self, seen: Any, counts: np.ndarray, X: Any, found: Any, fits: Any, ids: Any, scores: Any) -> None:
        """Fill ids and scores with the best of what was found."""
        rank_rows(seen, self.weights, self.trail, self.lessons, counts, X, found, fits, ids, scores)

    def learn(self, seen: Any, X: Any, ids: Any, fits: Any, rewards: Any) -> int:
        """Learn from rewards; from how many queries there was something to learn."""
        learned = int(lessons(seen, self.weights, self.trail, self.sums, self.scorer, X, ids, fits, rewards))
        self.weigh()
        return learned
