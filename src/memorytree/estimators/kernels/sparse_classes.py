"""Scores of classes for sparse rows: similarity, centroid, evidence of columns and linear weights.

The linear weights are those of the multi-class support vector machine of Crammer and Singer, found by exact steps on the
dual coefficients of one row at a time, without a step size. The coefficients of a stored row are kept with its memory. When
the row is visited again its own contribution to every score is subtracted first: the dual coefficients from the linear
scores, the row itself from the centroid and the evidence of its class.
"""

import numpy as np

from memorytree.engine.hash_map import find
from memorytree.engine.jit import helper, kernel
from memorytree.engine.sparse import inverse_norm
from memorytree.estimators.kernels.classes import N_FEATURES, fill_row, find_candidate, mix
from memorytree.estimators.kernels.records import NO_LABEL, ClassHits
from memorytree.estimators.kernels.tables import COLUMN, FIRST, SIZE, find_or_add, max_growth, reserve
from memorytree.results import NO_ID

WEIGHT, SUM, TABLE_WIDTH = range(1, 4)  # columns of the tables behind the column of X
LINEAR, NEAREST, CENTROID, EVIDENCE = range(N_FEATURES)
MIXTURE_RATE = 0.1
HORIZON = 1024  # rows over which the running log losses decay
RIVALS = 4  # dual coefficients of a row: for its class and the strongest rivals
COST = 1.0
RESOLUTION = 1e4  # inverse of the average value from which a column counts as evidence
MIN_ROWS = 5  # classes with fewer rows have no linear weights: memories and centroid suffice


@kernel
def join(weights, classes, X, start):
    """Add rows, from `start` on, to the sums of their classes; returns the first row that the pool has no room for."""
    tables = weights.tables
    bounds, columns, values = X
    for i in range(start, classes.shape[0]):
        label, first, last = classes[i], bounds[i], bounds[i + 1]
        if tables.top[0] + max_growth(tables, label, last - first) > tables.words.shape[0]:
            return i
        reserve(tables, label, last - first)
        scale = inverse_norm(X, i)
        for j in range(first, last):
            entry = find_or_add(tables, label, columns[j])
            value = values[j] * scale
            weights.squares[label] += value * (2 * tables.numbers[entry, SUM] + value)
            tables.numbers[entry, SUM] += value
        weights.counts[label] += 1
    return classes.shape[0]


@helper
def collect_classes(hits, i, candidates, features):
    """Write the classes of the memories found for row i and their best similarities; returns how many there are."""
    n = 0
    for j in range(hits.ids.shape[1]):
        if hits.ids[i, j] == NO_ID:
            continue
        label = hits.classes[hits.ids[i, j]]
        if find_candidate(candidates, n, label) == n:
            candidates[n], features[n, NEAREST] = label, hits.scores[i, j]
            n += 1
    return n


@helper
def score_label(weights, label, row, own, with_evidence, features):
    """Write the linear score of a class, the cosine with its centroid and, if wanted, the evidence of the row's columns.

    Args:
        weights: `SparseClassWeights`.
        label: the class.
        row: (columns, values, scale) of the row.
        own: whether the row is one of the class's memories; it is then taken out of centroid and evidence.
        with_evidence: whether the evidence is wanted.
        features: (N_FEATURES,) float64, written to.
    """
    columns, values, scale = row
    tables = weights.tables
    words, numbers = tables.words, tables.numbers
    linear, along, evidence = 0.0, 0.0, 0.0
    first, size = tables.spans[label, FIRST], tables.spans[label, SIZE]
    per_row = RESOLUTION / max(weights.counts[label] - own, 1)
    square = weights.squares[label]
    if size > 0:
        for j in range(columns.shape[0]):
            entry = find(words, first, size, columns[j])
            if words[entry, COLUMN] != NO_LABEL:
                value = values[j] * scale
                linear += value * numbers[entry, WEIGHT]
                along += value * numbers[entry, SUM]
                others = numbers[entry, SUM] - own * value
                if with_evidence and others * value > 0:
                    evidence += abs(value) * np.log(1.0 + per_row * abs(others))
    if own:
        square += 1.0 - 2.0 * along
        along -= 1.0
    features[LINEAR], features[EVIDENCE] = linear, evidence / np.log(1.0 + RESOLUTION)
    features[CENTROID] = along / np.sqrt(square) if square > 1e-6 else 0.0


@kernel
def score_sparse(ids, scores, classes, weights, inverse_temperature, X):
    """The classes of the memories found for each row and their probabilities.

    Args:
        ids, scores, classes: as in `ClassHits`.
        weights: `SparseClassWeights`.
        inverse_temperature: factor of the mixture inside the softmax.
        X: the rows, (bounds, columns, values).

    Returns:
        As in `ClassScores`.
    """
    bounds, columns, values = X
    hits, counts, features = ClassHits(ids, scores, classes), weights.counts, np.empty((ids.shape[1], N_FEATURES))
    all_candidates, probabilities = np.empty(ids.shape, np.int64), np.empty(ids.shape)
    for i in range(ids.shape[0]):
        candidates = all_candidates[i]
        n = collect_classes(hits, i, candidates, features)
        row = columns[bounds[i] : bounds[i + 1]], values[bounds[i] : bounds[i + 1]], inverse_norm(X, i)
        most = 0
        for c in range(n):
            most = max(most, counts[candidates[c]])
        for c in range(n):
            if most > 1:
                score_label(weights, candidates[c], row, False, True, features[c])
            else:
                features[c, EVIDENCE] = 0.0
            if counts[candidates[c]] == 1:
                # The only memory of a class is its centroid, and it has no linear weights.
                features[c, LINEAR], features[c, CENTROID] = 0.0, features[c, NEAREST]
        mix(weights.mixture, features, n, inverse_temperature, probabilities[i])
        fill_row(candidates, probabilities[i], n)
    return all_candidates, probabilities


@helper
def update_log_losses(weights, features, n, true):
    """Add the log loss of the true class at each temperature to the running sums."""
    log_losses, results = weights.log_losses, np.empty(n)
    for halvings in range(log_losses.shape[0]):
        mix(weights.mixture, features, n, 0.5**halvings, results)
        log_losses[halvings] -= log_losses[halvings] / HORIZON + np.log(results[true] + 1e-30)


@helper
def learn_mixture(weights, features, n, true):
    """One Adagrad step on the shared coefficients, by the softmax over n candidates."""
    results = np.empty(n)
    mix(weights.mixture, features, n, 1.0, results)
    for f in range(N_FEATURES):
        g = -features[true, f]
        for c in range(n):
            g += results[c] * features[c, f]
        weights.mixture_squares[f] += g * g
        rate = MIXTURE_RATE * g / np.sqrt(weights.mixture_squares[f] + 1e-8)
        weights.mixture[f] = max(0.0, weights.mixture[f] - rate)


@helper
def solve_dual(features, n, true, chosen, duals):
    """Write the exact dual coefficients of a row of unit length for its class and the strongest rivals.

    Args:
        features: of n candidates; only the linear scores are read.
        n: how many candidates there are.
        true: the position of the row's class.
        chosen: (RIVALS,) int64, written to: the positions that have coefficients.
        duals: (RIVALS,) float64, written to.

    Returns:
        How many coefficients there are.
    """
    chosen[0], m = true, 1
    for c in range(n):
        if c == true or (m == RIVALS and features[c, LINEAR] <= features[chosen[m - 1], LINEAR]):
            continue
        place = m if m < RIVALS else m - 1
        m = min(m + 1, RIVALS)
        while place > 1 and features[chosen[place - 1], LINEAR] < features[c, LINEAR]:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = c
    # A rival costs its score plus one, and the true class may rise by COST: find the level at which both balance.
    heights = np.empty(m)
    for q in range(m):
        height = features[chosen[q], LINEAR] + (COST if q == 0 else 1.0)
        place = q
        while place > 0 and heights[place - 1] < height:
            heights[place] = heights[place - 1]
            place -= 1
        heights[place] = height
    level, r = heights[0] - COST, 1
    while r < m and level / r < heights[r]:
        level += heights[r]
        r += 1
    level /= r
    for q in range(m):
        duals[q] = min(COST if q == 0 else 0.0, level - features[chosen[q], LINEAR] - (0.0 if q == 0 else 1.0))
    return m


@helper
def add_candidate(candidates, features, n, label):
    """Append a class without a similar memory if it is missing; returns how many candidates there are."""
    if find_candidate(candidates, n, label) < n:
        return n
    candidates[n], features[n, NEAREST] = label, 0.0
    return n + 1


@helper
def collect_for_training(hits, targets, i, weights, candidates, features):
    """Write the classes found for row i, then its true class and the classes of its dual coefficients.

    Returns:
        How many classes were found, and how many there are in all.
    """
    memory = targets.memories[i]
    found = collect_classes(hits, i, candidates, features)
    n = add_candidate(candidates, features, found, targets.classes[i])
    if memory != NO_ID:
        for m in range(RIVALS):
            if weights.owners[memory, m] != NO_LABEL:
                n = add_candidate(candidates, features, n, weights.owners[memory, m])
    return found, n


@helper
def has_room(tables, candidates, n, more):
    """Whether the pool has room for `more` columns of each of n classes."""
    room = tables.top[0]
    for c in range(n):
        room += max_growth(tables, candidates[c], more)
    return room <= tables.words.shape[0]


@helper
def subtract_duals(weights, memory, candidates, n, features, duals):
    """Take a memory's own dual coefficients out of the linear scores of n candidates, and write them to `duals`."""
    for c in range(n):
        duals[c] = 0.0
        if memory != NO_ID:
            for m in range(RIVALS):
                if weights.owners[memory, m] == candidates[c]:
                    duals[c] = weights.duals[memory, m]
                    features[c, LINEAR] -= duals[c]


@helper
def keep_duals(weights, memory, candidates, chosen, duals, m):
    """Store the m dual coefficients of a memory."""
    for q in range(RIVALS):
        weights.owners[memory, q] = candidates[chosen[q]] if q < m and duals[q] != 0 else NO_LABEL
        weights.duals[memory, q] = duals[q] if q < m else 0.0


@helper
def dual_of(c, chosen, duals, m):
    """The dual coefficient of a candidate among m coefficients, 0 if it has none."""
    for q in range(m):
        if chosen[q] == c:
            return duals[q]
    return 0.0


@helper
def add_row(tables, label, row, change):
    """Add `change` times a row to the linear weights of a class; the pool has room for it."""
    columns, values, scale = row
    change *= scale
    if change != 0:
        reserve(tables, label, columns.shape[0])
        for j in range(columns.shape[0]):
            tables.numbers[find_or_add(tables, label, columns[j]), WEIGHT] += change * values[j]


@kernel
def learn_sparse(hits, targets, weights, first_pass, X, start):
    """Learn from the true class of each row, from row `start` on; returns the first row that the pool has no room for.

    Args:
        hits: `ClassHits`.
        targets: `ClassTargets`.
        weights: `SparseClassWeights`.
        first_pass: whether the rows have not been learned from before; the mixture and the log losses learn only then.
        X: the rows, (bounds, columns, values).
        start: the first row.
    """
    bounds, columns, values = X
    tables, counts = weights.tables, weights.counts
    most = hits.ids.shape[1] + 1 + RIVALS
    features, candidates = np.empty((most, N_FEATURES)), np.empty(most, np.int64)
    before, chosen, duals = np.empty(most), np.empty(RIVALS, np.int64), np.empty(RIVALS)
    for i in range(start, hits.ids.shape[0]):
        first, last = bounds[i], bounds[i + 1]
        label, memory = targets.classes[i], targets.memories[i]
        stored = memory != NO_ID
        # There is nothing to learn about a class without other memories; after the first pass, which has learned the
        # mixture, nor about a class with too few rows for linear weights.
        alone = counts[label] <= (1 if stored else 0) or first == last
        if alone or (not first_pass and counts[label] < MIN_ROWS):
            continue
        found, n = collect_for_training(hits, targets, i, weights, candidates, features)
        true = find_candidate(candidates, n, label)
        if not has_room(tables, candidates, n, last - first):
            return i
        row = columns[first:last], values[first:last], inverse_norm(X, i)
        for c in range(n):
            own = stored and candidates[c] == label
            score_label(weights, candidates[c], row, own, first_pass, features[c])
        subtract_duals(weights, memory, candidates, n, features, before)
        if first_pass and true < found:
            update_log_losses(weights, features, found, true)
            learn_mixture(weights, features, found, true)
        if counts[label] >= MIN_ROWS and n > 1:
            m = solve_dual(features, n, true, chosen, duals)
            if stored:
                keep_duals(weights, memory, candidates, chosen, duals, m)
            for c in range(n):
                add_row(tables, candidates[c], row, dual_of(c, chosen, duals, m) - before[c])
    return hits.ids.shape[0]
