"""Kernels of the value model (`learning/value_model.py`): ranking by three components, and learning from rewards.

Keys come as rows of (bounds, columns, weights), column `CONSTANT` being the constant term. `table` is a tree of one leaf that
stores the projected features of values by id.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import fast_helper, helper, kernel
from memorytree.engine.dense import dot
from memorytree.engine.projection import add_scaled
from memorytree.engine.rng import mix
from memorytree.engine.sparse import inverse_norm
from memorytree.engine.arrays import NONE, SLOT

RewardMoments = namedtuple("RewardMoments", "products with_rewards squares seen_keys lessons")
"""Running sums over lessons: products of the three components (3, 3), their products with the rewards (3,) and the squares of
these (3,), all centred within a query; a bit for the hash of each key that was in a lesson; the number of lessons (1,)."""

AimWeights = namedtuple("AimWeights", "weights averaging")
"""U (columns, width), and the buffer from which its average over time is computed: the steps times age squared."""

ValueSettings = namedtuple("ValueSettings", "damping ridge steps")

FIT, VOTE, AIM, COMPONENTS = range(4)
SEEN_WORDS = 2**14  # of 64 bits each
MIN_STANDARD_ERRORS = 3.0
ROUNDS = 30
AGE_UNIT = 1e-4
"""The age of a lesson is counted in multiples of 10,000, so that its square stays a moderate number."""
CONSTANT = 0


@fast_helper
def inner_product(a, b):
    total = np.float32(0)
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


@helper
def find_slots(table, ids, slots):
    """Set slots to where the features of memories are stored; NONE for those without features."""
    for j in range(ids.shape[0]):
        row = row_of_id(table, ids[j])
        slots[j] = NONE if row == NONE else table.rows[row, SLOT]


@helper
def weighted_vote(table, slots, fits, n, vote):
    """Set vote to the mean of the features, each weighted by the squared difference between its fit and the lowest fit."""
    lowest = np.inf
    for j in range(n):
        lowest = min(lowest, fits[j])
    vote[:] = 0
    total = 0.0
    for j in range(n):
        weight = (fits[j] - lowest) ** 2
        total += weight
        if slots[j] != NONE:
            add_scaled(vote, table.keys, slots[j], np.float32(weight))
    if total > 0:
        for a in range(vote.shape[0]):
            vote[a] = np.float32(vote[a] / total)


@kernel
def fit_component_weights(moments, components):
    """The weights (3,) of the first components: least squares by coordinate descent.

    A component whose correlation with reward is below 3 standard errors gets weight 0.
    """
    weights = np.zeros(COMPONENTS)
    for _ in range(ROUNDS):
        for a in range(components):
            if moments.with_rewards[a] > MIN_STANDARD_ERRORS * np.sqrt(moments.squares[a]):
                left = moments.with_rewards[a]
                for b in range(components):
                    left -= moments.products[a, b] * weights[b] if a != b else 0.0
                weights[a] = max(left / (moments.products[a, a] * (1 + 1e-4)), 0.0)
    return weights


@helper
def compute_aim(weights, X, i, aim):
    """Set aim (width,) to U x, with x at length one and a constant 1 added."""
    bounds, columns, values = X
    shrink = np.float32(inverse_norm(X, i))
    aim[:] = weights[CONSTANT]
    for j in range(bounds[i], bounds[i + 1]):
        if columns[j] < weights.shape[0]:  # larger columns are newer than the last lesson
            add_scaled(aim, weights, columns[j], values[j] * shrink)


@helper
def compute_average_aim(aims, lessons, X, i, aim, spare):
    """`compute_aim` with the average of U over time."""
    aim[:] = 0
    if lessons > 0:
        compute_aim(aims.weights, X, i, aim)
        compute_aim(aims.averaging, X, i, spare)
        scale = np.float32((lessons * AGE_UNIT) ** -2)
        for a in range(aim.shape[0]):
            aim[a] -= scale * spare[a]


@kernel
def rank_rows(table, aims, lessons, component_weights, X, candidates, answer):
    """Rank the candidates of each row by the weighted sum of their components.

    Args:
        aims, lessons: U and the number of lessons.
        component_weights: (3,).
        X: the keys of the queries.
        candidates: (ids, fits) of shape (n, m); ids are padded with NONE, fits are the scores of the keys.
        answer: (ids, scores) of shape (n, k), which are filled.
    """
    (found, fits), (ids, scores) = candidates, answer
    width, k = aims.weights.shape[1], ids.shape[1]
    aim, vote, slots = np.zeros(width, np.float32), np.zeros(width, np.float32), np.empty(found.shape[1], np.int64)
    spare = np.empty(width, np.float32)
    for i in range(found.shape[0]):
        n = 0
        while n < found.shape[1] and found[i, n] != NONE:
            n += 1
        find_slots(table, found[i, :n], slots)
        if component_weights[AIM] > 0:
            compute_average_aim(aims, lessons, X, i, aim, spare)
        if component_weights[VOTE] > 0:
            weighted_vote(table, slots, fits[i], n, vote)
        for a in range(width):
            aim[a] = np.float32(component_weights[AIM] * aim[a] + component_weights[VOTE] * vote[a])
        filled = 0
        for j in range(n):
            score = np.float32(component_weights[FIT] * fits[i, j])
            if slots[j] != NONE:
                score += dot(table.keys, slots[j], aim)
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
def center_numbers(numbers, n):
    """Subtract their mean from n numbers; returns the largest absolute value that is left."""
    mean, largest = 0.0, 0.0
    for j in range(n):
        mean += numbers[j]
    mean /= n
    for j in range(n):
        numbers[j] -= mean
        largest = max(largest, abs(numbers[j]))
    return largest


@helper
def center_rows(rows, n):
    """Subtract their mean from n rows; returns their mean squared length."""
    mean, total = np.zeros(rows.shape[1], np.float32), 0.0
    for j in range(n):
        add_scaled(mean, rows, j, np.float32(1 / n))
    for j in range(n):
        for a in range(rows.shape[1]):
            rows[j, a] -= mean[a]
            total += rows[j, a] * rows[j, a]
    return total / n


@helper
def solve_ridge(rows, n, left, ridge, steps, change):
    """Set change d so that the products <row, d> approximate `left`: conjugate gradients on the ridge regression."""
    width = rows.shape[1]
    residual, direction, image = np.zeros(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    for j in range(n):
        add_scaled(residual, rows, j, np.float32(left[j]))
    change[:] = 0
    direction[:] = residual
    size = initial = inner_product(residual, residual)
    for _ in range(steps):
        if not size > np.float32(1e-8) * initial:
            break
        for a in range(width):
            image[a] = np.float32(ridge) * direction[a]
        for j in range(n):
            add_scaled(image, rows, j, dot(rows, j, direction))
        along = size / inner_product(direction, image)
        for a in range(width):
            change[a] += along * direction[a]
            residual[a] -= along * image[a]
        smaller = inner_product(residual, residual)
        for a in range(width):
            direction[a] = residual[a] + smaller / size * direction[a]
        size = smaller


@helper
def add_outer(weights, X, i, shrink, change, factor):
    """weights += factor * outer(x, change), with x at length one and its constant."""
    bounds, columns, values = X
    for a in range(change.shape[0]):
        weights[CONSTANT, a] += factor * change[a]
    for j in range(bounds[i], bounds[i + 1]):
        for a in range(change.shape[0]):
            weights[columns[j], a] += factor * values[j] * shrink * change[a]


@helper
def is_new_key(seen_keys, lessons, X, i):
    """Whether a key, at length one, was in no lesson before; it is recorded. The record is cleared before half of its bits
    are set, so few new keys are mistaken for old ones."""
    if (lessons + 1) % (32 * SEEN_WORDS) == 0:
        seen_keys[:] = 0
    bounds, columns, values = X
    bits, scale = np.uint64(0), inverse_norm(X, i) * 2**20
    for j in range(bounds[i], bounds[i + 1]):
        bits += mix(np.uint64(columns[j]) ^ np.uint64(np.int64(values[j] * scale)) << np.uint64(32))
    bits = mix(bits)
    word, bit = np.int64(bits % np.uint64(seen_keys.shape[0])), np.uint64(1) << (bits >> np.uint64(58))
    new = seen_keys[word] & bit == 0
    seen_keys[word] |= bit
    return new


@helper
def add_moments(moments, components, given, n):
    """Add the products of one lesson to the running sums."""
    for a in range(COMPONENTS):
        with_rewards = 0.0
        for j in range(n):
            with_rewards += components[a, j] * given[j] / n
            for b in range(COMPONENTS):
                moments.products[a, b] += components[a, j] * components[b, j] / n
        moments.with_rewards[a] += with_rewards
        moments.squares[a] += with_rewards * with_rewards


@kernel
def learn_rows(table, aims, moments, settings, X, candidates, rewards):
    """Learn from the rewards (n, k) of queries, NaN where none was observed, one query after the other.

    `candidates` is (ids, fits), as in `rank_rows`. Returns from how many queries there was something to learn.
    """
    found, fits = candidates
    k, width = found.shape[1], aims.weights.shape[1]
    there, slots, given, left = np.empty(k, np.int64), np.empty(k, np.int64), np.empty(k), np.empty(k)
    components, rows = np.empty((COMPONENTS, k)), np.empty((k, width), np.float32)
    aim, change, vote = np.empty(width, np.float32), np.empty(width, np.float32), np.empty(width, np.float32)
    learned = 0
    for i in range(found.shape[0]):
        n = 0
        for j in range(k):
            if row_of_id(table, found[i, j]) != NONE and not np.isnan(rewards[i, j]):
                there[n], components[FIT, n], given[n] = found[i, j], fits[i, j], rewards[i, j]
                n += 1
        # Equal rewards tell nothing about the order of the hits.
        if n < 2 or not center_numbers(given, n) > 1e-6:
            continue
        find_slots(table, there[:n], slots)
        weighted_vote(table, slots, components[FIT], n, vote)
        compute_average_aim(aims, moments.lessons[0], X, i, aim, change)
        for j in range(n):
            components[VOTE, j], components[AIM, j] = dot(table.keys, slots[j], vote), dot(table.keys, slots[j], aim)
            rows[j] = table.keys[slots[j], :width]
        for a in range(COMPONENTS):
            center_numbers(components[a], n)
        size = center_rows(rows, n)
        weights = fit_component_weights(moments, AIM)
        compute_aim(aims.weights, X, i, aim)
        for j in range(n):
            explained = weights[FIT] * components[FIT, j]
            left[j] = given[j] - explained - weights[VOTE] * components[VOTE, j] - dot(rows, j, aim)
        if is_new_key(moments.seen_keys, moments.lessons[0], X, i):
            add_moments(moments, components, given, n)
        moments.lessons[0] += 1
        learned += 1
        if size > 0:
            solve_ridge(rows, n, left, settings.ridge * size, settings.steps, change)
            shrink = np.float32(inverse_norm(X, i))
            step = np.float32(1 / (1 + (1 if shrink > 0 else 0) + settings.damping))
            add_outer(aims.weights, X, i, shrink, change, step)
            age = np.float32((moments.lessons[0] * AGE_UNIT) ** 2)
            add_outer(aims.averaging, X, i, shrink, change, step * age)
    return learned
