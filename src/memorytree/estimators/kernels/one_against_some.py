"""One against some: linear weights of each label, learned from the rows that have it and from those that wrongly have it as
candidate.

The weights of a label are those of a support vector machine with squared hinge loss, found by exact steps on one dual
coefficient at a time, without a step size. Labels are independent of each other, so each learns from all of its rows in turn
while its weights are in cache. Every label has two sets of weights, each learned from one half of the rows; a prediction
takes their mean. A row can therefore be scored, however often it was learned from, by weights that never used it: the
mixture and the threshold learn from these scores. A half has weights only for columns of its rows that have the label.
"""

from math import gcd

import numpy as np

from memorytree.engine.hash_map import find_from, spread
from memorytree.engine.jit import fast_helper, helper, kernel, prefetch
from memorytree.engine.rng import below, seeded
from memorytree.engine.sparse import inverse_norm, sum_of_squares, unsigned_range
from memorytree.estimators.kernels.records import NO_LABEL
from memorytree.estimators.kernels.tables import FIRST, SIZE, find_or_add, max_growth, reserve
from memorytree.estimators.kernels.votes import MAX_CANDIDATES, choose, count_labels, count_votes, empty_ballot, with_room

HALVES = 2
WEIGHTS = 1  # first column of the tables behind the column of X: a weight for each half
COST = 0.5
SLACK = 1.0 / (2.0 * COST)
AHEAD = 3  # how many labels ahead weights are prefetched
PREFETCHED_ROWS = 4  # for how many rows of a label
TINY = np.float32(1e-30)  # weight of an allocated column that has learned nothing; a weight of 0 marks one not allocated


# ---- scores


@helper
def find_weight(tables, label, column):
    """The entry of a column in the table of a label that has one; an empty entry has weight 0."""
    start, size = tables.spans[label, FIRST], tables.spans[label, SIZE]
    if size >= tables.n_columns:
        return np.uint64(start + column)
    return np.uint64(find_from(spread(column) & (size - 1), tables.words, start, size, column))


@helper
def prefetch_weights(tables, label, X, i):
    """Prefetch the weights of a label for row i."""
    words = tables.words
    bounds, columns, _ = X
    start, size = tables.spans[label, FIRST], tables.spans[label, SIZE]
    if 0 < size < tables.n_columns:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            home = (start + (spread(columns[j]) & (size - 1))) * words.shape[1]
            prefetch(words, home)
            prefetch(words, home + 2 * words.shape[1] - 1)  # the next entry, which a collision needs


@fast_helper
def linear_score(weights, label, X, i, scale):
    """The linear score of a label for row i: the mean of both halves."""
    tables, bias = weights.tables, weights.bias
    bounds, columns, values = X
    numbers, total = tables.numbers, np.float32(0)
    if tables.spans[label, SIZE] > 0:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            entry = find_weight(tables, label, columns[j])
            total += values[j] * (numbers[entry, WEIGHTS] + numbers[entry, WEIGHTS + 1])
    return 0.5 * (bias[label, 0] + bias[label, 1] + scale * total)


@fast_helper
def linear_score_of_half(half, weights, label, X, i, scale):
    """The linear score of a label for row i by one half."""
    tables = weights.tables
    bounds, columns, values = X
    total = np.float32(0)
    if tables.spans[label, SIZE] > 0:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            total += values[j] * tables.numbers[find_weight(tables, label, columns[j]), WEIGHTS + half]
    return weights.bias[label, half] + scale * total


# ---- the pairs of row and label to learn from


@helper
def number_label(label, number_of, labels, n):
    """Give a label a number unless it has one; returns how many labels have one."""
    if number_of[label] != NO_LABEL:
        return n
    number_of[label], labels[n] = n, label
    return n + 1


@kernel
def collect_candidates(hits, truth, X, n_labels, candidates, scales):
    """Write the candidates of each row, and the factor that gives it unit length.

    Args:
        hits: `LabelHits`.
        truth: `LabelLists`, the true labels of the rows.
        X: the rows, (bounds, columns, values).
        n_labels: all labels are below this.
        candidates: `Candidates`, written to.
        scales: (n,) float64, written to.

    Returns:
        The labels by number.
    """
    numbers, right, missed = candidates
    number_of = np.full(n_labels, NO_LABEL, np.int32)
    labels, seen = np.empty(min(n_labels, numbers.size + missed.shape[0]), np.int64), 0
    ballot = empty_ballot(n_labels)
    slots = ballot.slots
    for i in range(hits.ids.shape[0]):
        scales[i] = inverse_norm(X, i)
        ballot = with_room(ballot, count_labels(hits, i))
        n = choose(ballot, count_votes(hits, i, ballot))
        for t in range(truth.bounds[i], truth.bounds[i + 1]):
            slots[truth.labels[t]] = 1
        for c in range(n):
            label = ballot.labels[ballot.chosen[c]]
            seen = number_label(label, number_of, labels, seen)
            numbers[i, c], right[i, c] = number_of[label], slots[label] != NO_LABEL
            slots[label] = NO_LABEL
        for c in range(n, MAX_CANDIDATES):
            numbers[i, c], right[i, c] = NO_LABEL, False
        for t in range(truth.bounds[i], truth.bounds[i + 1]):
            label, missed[t] = truth.labels[t], NO_LABEL
            if slots[label] != NO_LABEL:
                seen = number_label(label, number_of, labels, seen)
                missed[t] = number_of[label]
            slots[label] = NO_LABEL
    return labels[:seen]


@kernel
def group_pairs(candidates, bounds, starts):
    """The pairs of row and label ordered by label, as in `LabelPairs`; `starts` is written to."""
    numbers, _, missed = candidates
    starts[:] = 0
    for i in range(numbers.shape[0]):
        for c in range(MAX_CANDIDATES):
            if numbers[i, c] != NO_LABEL:
                starts[numbers[i, c] + 1] += 1
        for t in range(bounds[i], bounds[i + 1]):
            if missed[t] != NO_LABEL:
                starts[missed[t] + 1] += 1
    for label in range(starts.shape[0] - 1):
        starts[label + 1] += starts[label]
    filled, pairs = starts.copy(), np.empty(starts[-1], np.int64)
    for i in range(numbers.shape[0]):
        for c in range(MAX_CANDIDATES):
            if numbers[i, c] != NO_LABEL:
                pairs[filled[numbers[i, c]]] = i * MAX_CANDIDATES + c
                filled[numbers[i, c]] += 1
        for t in range(bounds[i], bounds[i + 1]):
            if missed[t] != NO_LABEL:
                pairs[filled[missed[t]]] = -1 - i
                filled[missed[t]] += 1
    return pairs


@helper
def row_of(pair):
    """The row of a pair."""
    return pair // MAX_CANDIDATES if pair >= 0 else -1 - pair


@helper
def is_right(pair, right):
    """Whether the row of a pair has its label."""
    return pair < 0 or right[pair // MAX_CANDIDATES, pair % MAX_CANDIDATES]


@kernel
def allocate_weights(tables, grouped, rows, start):
    """Allocate weights for the columns of rows that have a label, in the half of each row, from pair `start` on.

    Args:
        tables: `FeatureTables`.
        grouped: `LabelPairs`.
        rows: `TrainingRows`.
        start: the first pair.

    Returns:
        The first pair that the pool has no room for.
    """
    bounds, columns, _ = rows.X
    starts, pairs, halves = grouped.starts, grouped.pairs, rows.halves
    for number, label in enumerate(grouped.labels):
        for at in range(max(start, starts[number]), starts[number + 1]):
            if not is_right(pairs[at], grouped.right):
                continue
            i = row_of(pairs[at])
            if tables.top[0] + max_growth(tables, label, bounds[i + 1] - bounds[i]) > tables.words.shape[0]:
                return at
            reserve(tables, label, bounds[i + 1] - bounds[i])
            for j in range(bounds[i], bounds[i + 1]):
                entry = find_or_add(tables, label, columns[j])
                if tables.numbers[entry, WEIGHTS + halves[i]] == 0:
                    tables.numbers[entry, WEIGHTS + halves[i]] = TINY
    return pairs.shape[0]


# ---- the dual solver


@helper
def dot(own, slots, values, first, last):
    """The product of a row and weights, as two interleaved sums: consecutive additions are independent."""
    one, other = np.float32(0), np.float32(0)
    even = np.uint64(last - (last - first) % 2)
    for j in range(np.uint64(first), even, np.uint64(2)):
        one += values[j] * own[slots[j]]
        other += values[j + np.uint64(1)] * own[slots[j + np.uint64(1)]]
    if even < np.uint64(last):
        one += values[even] * own[slots[even]]
    return one + other


@helper
def add(own, slots, values, first, last, change):
    """Add `change` times a row to weights."""
    for j in unsigned_range(first, last):
        own[slots[j]] += change * values[j]


@helper
def gather_row(tables, label, row, strided, at, gathered):
    """Write the slots of a half's weights for row i, and the row's values, from `at` on.

    Args:
        tables: `FeatureTables`.
        label: the label.
        row: (X, i, scale).
        strided: (own, width, offset): the weights of a half lie `width` apart in `own`, from `offset` on.
        at: where to begin.
        gathered: (slots, values), written to.

    Returns:
        The end of what was written.
    """
    X, i, scale = row
    own, width, offset = strided
    slots, gathered_values = gathered
    bounds, columns, values = X
    first, size, at = tables.spans[label, FIRST], tables.spans[label, SIZE], np.uint64(at)
    width, offset = np.uint64(width), np.uint64(offset)
    if size >= tables.n_columns:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            slot = np.uint64(np.uint32(columns[j])) * width + offset
            slots[at], gathered_values[at] = slot, scale * values[j]
            at += np.uint64(own[slot] != 0)
    elif size > 0:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            slot = np.uint64(np.int64(find_weight(tables, label, columns[j])) - first) * width + offset
            slots[at], gathered_values[at] = slot, scale * values[j]
            at += np.uint64(own[slot] != 0)
    return np.int64(at)


@helper
def solve_dual(own, bias, problem, n, max_iter, stream):
    """Find the weights and the bias that fit n rows best, in max_iter passes over these; returns the bias.

    Each pass starts at any row and advances by a random step that is coprime to n, so that it visits every row once. This
    works about as well as a random permutation.

    Args:
        own: the weights of one half, written to.
        bias: the bias to begin with.
        problem: (slots, values, ends, sides, duals, squares): row q has the weights own[slots[j]] and values[j] for j from
            ends[q] to ends[q + 1] - 1, and sides[q] is 1.0 if it has the label, else -1.0; the last two are written to.
        n: how many rows there are.
        max_iter: how many passes.
        stream: state of the random numbers.
    """
    slots, values, ends, sides, duals, squares = problem
    for q in range(n):
        squares[q] = 1.0 + sum_of_squares(values[ends[q] : ends[q + 1]])
        duals[q] = 0.0
    for _ in range(max_iter if n > 0 else 0):
        q, step = below(stream, n), 1 + below(stream, n)
        while gcd(step, n) > 1:
            step = 1 + below(stream, n)
        for _ in range(n):
            q += step if q + step < n else step - n
            margin = sides[q] * (bias + dot(own, slots, values, ends[q], ends[q + 1]))
            better = duals[q] - (margin - 1.0 + duals[q] * SLACK) / (squares[q] + SLACK)
            change = max(better, 0.0) - duals[q]
            if change != 0:
                duals[q] += change
                bias += sides[q] * change
                add(own, slots, values, ends[q], ends[q + 1], np.float32(sides[q] * change))
    for slot in slots[: ends[n]]:
        if own[slot] == 0:  # back at zero: the column stays allocated
            own[slot] = TINY
    return bias


@helper
def prefetch_label(tables, grouped, rows, number):
    """Prefetch the weights of a label for its first rows."""
    first = grouped.starts[number]
    for at in range(first, min(first + PREFETCHED_ROWS, grouped.starts[number + 1])):
        prefetch_weights(tables, grouped.labels[number], rows.X, row_of(grouped.pairs[at]))


@helper
def count_entries(pairs, bounds):
    """How many entries the rows of some pairs have in all."""
    total = 0
    for pair in pairs:
        total += bounds[row_of(pair) + 1] - bounds[row_of(pair)]
    return total


@helper
def gather_half(tables, grouped, number, half, rows, strided, problem):
    """Write the problem of one half of a label, as `solve_dual` takes it; returns how many rows it has."""
    slots, values, ends, sides, _, _ = problem
    n, ends[0] = 0, 0
    for at in range(grouped.starts[number], grouped.starts[number + 1]):
        i = row_of(grouped.pairs[at])
        if rows.halves[i] == half:
            row = rows.X, i, rows.scales[i]
            ends[n + 1] = gather_row(tables, grouped.labels[number], row, strided, ends[n], (slots, values))
            sides[n] = 1.0 if is_right(grouped.pairs[at], grouped.right) else -1.0
            n += 1
    return n


@helper
def score_judged(weights, grouped, number, rows, other_scores):
    """Write the scores of a label for the rows that are judged, by the half that does not learn from each."""
    for at in range(grouped.starts[number], grouped.starts[number + 1]):
        pair = grouped.pairs[at]
        i = row_of(pair)
        if pair >= 0 and rows.judged[i]:
            score = linear_score_of_half(1 - rows.halves[i], weights, grouped.labels[number], rows.X, i, rows.scales[i])
            other_scores[i, pair % MAX_CANDIDATES] = score


@kernel
def solve_labels(weights, grouped, rows, span, max_iter, seed, other_scores):
    """Learn the weights of some labels, and score the rows that are judged by the half that does not learn from them.

    Args:
        weights: `LabelWeights`.
        grouped: `LabelPairs`.
        rows: `TrainingRows`.
        span: (first, last): the labels are grouped.labels[first:last].
        max_iter: passes over the rows of a label.
        seed: of the order of the rows.
        other_scores: (n, MAX_CANDIDATES) float32, written to.
    """
    tables, bias, starts = weights.tables, weights.bias, grouped.starts
    flat, table_width = tables.numbers.reshape(-1), tables.words.shape[1]
    ends, sides, duals, squares = np.empty(1, np.int64), np.empty(0), np.empty(0), np.empty(0)
    slots, values, beside = np.empty(0, np.uint32), np.empty(0, np.float32), np.empty(0, np.float32)
    for number in range(span[0], span[1]):
        if number + AHEAD < span[1]:
            prefetch_label(tables, grouped, rows, number + AHEAD)
        label, n = grouped.labels[number], starts[number + 1] - starts[number]
        room = 1 + count_entries(grouped.pairs[starts[number] : starts[number + 1]], rows.X[0])
        if n > sides.shape[0]:
            ends, sides, duals, squares = np.empty(2 * n + 1, np.int64), np.empty(2 * n), np.empty(2 * n), np.empty(2 * n)
        if room > slots.shape[0]:
            slots, values = np.empty(2 * room, np.uint32), np.empty(2 * room, np.float32)
        problem = slots, values, ends, sides, duals, squares
        first, size = tables.spans[label, FIRST], tables.spans[label, SIZE]
        table = tables.numbers[first : first + size]
        contiguous = room >= size  # many rows: copy the weights of a half side by side, where they share cache lines
        if contiguous and size > beside.shape[0]:
            beside = np.empty(2 * size, np.float32)
        for half in range(HALVES):
            own, width, offset = flat[first * table_width :], table_width, WEIGHTS + half
            if contiguous:
                beside[:size] = table[:, WEIGHTS + half]
                own, width, offset = beside[:], 1, 0
            count = gather_half(tables, grouped, number, half, rows, (own, width, offset), problem)
            stream = seeded(seed, n)  # independent of the label's number
            bias[label, half] = solve_dual(own, bias[label, half], problem, count, max_iter, stream)
            if contiguous:
                table[:, WEIGHTS + half] = beside[:size]
        score_judged(weights, grouped, number, rows, other_scores)
