"""One against some: linear weights for each label, learned from the rows that have it and from those to which memories
brought it in vain.

The weights of a label are those of a support vector machine with squared hinge loss, found by exact steps on one dual
coefficient at a time: there is no step size. Labels do not know of each other, so they learn one after the other, each from
all of its rows, while its weights are at hand. Every label has two sets of weights, learned from one half of the rows each,
and a prediction takes their mean. So a row can be judged, however often it was learned from, by weights that it never
touched: this is what the mixture and the threshold learn from. A half has weights only for the features of rows that it saw
with the label; rows are taken at unit length.
"""

from __future__ import annotations

from math import gcd

import numpy as np

from memorytree.engine.arrays import NONE
from memorytree.engine.hash_map import find_from, spread
from memorytree.engine.jit import fast_helper, helper, kernel, prefetch
from memorytree.engine.rng import below, seeded
from memorytree.engine.sparse import inverse_norm, sum_of_squares, unsigned_range
from memorytree.estimators.tables import FIRST, SIZE, place_of, room_for, widen
from memorytree.estimators.votes import CANDIDATES, POWERS, choose, gather, labels_brought

HALVES = 2
WEIGHTS = 1  # first column of the tables behind the feature: a weight for each half
COST = 0.5
SLACK = 1.0 / (2.0 * COST)
AHEAD, A_FEW = 3, 4  # how many labels before its turn the weights of a label are fetched, and for how many rows
KNOWN = np.float32(1e-30)  # the weight, next to nothing, of a feature of which a half has learned nothing yet


@helper
def place_in(tables, label, feature):
    """The place of a feature among the weights of a label that has any; an empty place has no weight."""
    places, words, _, dimension = tables
    start, size = places[label, FIRST], places[label, SIZE]
    if size >= dimension:
        return np.uint64(start + feature)
    return np.uint64(find_from(spread(feature) & (size - 1), words, start, size, feature))


@helper
def fetch(tables, label, X, i):
    """Have the weights of a label for row i at hand."""
    places, words, _, dimension = tables
    bounds, features, _ = X
    start, size = places[label, FIRST], places[label, SIZE]
    if 0 < size < dimension:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            home = (start + (spread(features[j]) & (size - 1))) * words.shape[1]
            prefetch(words, home)
            prefetch(words, home + 2 * words.shape[1] - 1)  # and the place behind it, which may be needed as well


@fast_helper
def linear(tables, bias, label, X, i, scale):
    """The linear score of a label: the mean of what both halves say."""
    bounds, features, weights = X
    numbers, total = tables[2], np.float32(0)
    if tables[0][label, SIZE] > 0:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            place = place_in(tables, label, features[j])
            total += weights[j] * (numbers[place, WEIGHTS] + numbers[place, WEIGHTS + 1])
    return 0.5 * (bias[label, 0] + bias[label, 1] + scale * total)


@fast_helper
def linear_by(half, tables, bias, label, X, i, scale):
    """The same by one half."""
    bounds, features, weights = X
    total = np.float32(0)
    if tables[0][label, SIZE] > 0:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            total += weights[j] * tables[2][place_in(tables, label, features[j]), WEIGHTS + half]
    return bias[label, half] + scale * total


@helper
def take_down(tables, label, X, i, scale, own, width, column, at, spots, values):
    """What a half knows of row i, from `at` on: the places of its `own` weights, which lie in a column of a table of this
    width, and the row's; returns the end."""
    places, _, _, dimension = tables
    bounds, features, weights = X
    first, size, at = places[label, FIRST], places[label, SIZE], np.uint64(at)
    width, column = np.uint64(width), np.uint64(column)
    if size >= dimension:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            spot = np.uint64(np.uint32(features[j])) * width + column
            spots[at], values[at] = spot, scale * weights[j]
            at += np.uint64(own[spot] != 0)
    elif size > 0:
        for j in unsigned_range(bounds[i], bounds[i + 1]):
            spot = np.uint64(np.int64(place_in(tables, label, features[j])) - first) * width + column
            spots[at], values[at] = spot, scale * weights[j]
            at += np.uint64(own[spot] != 0)
    return np.int64(at)


@helper
def dot(own, spots, values, first, last):
    """The score of a row by weights, in two sums side by side: neither waits for the other."""
    one, other = np.float32(0), np.float32(0)
    even = np.uint64(last - (last - first) % 2)
    for j in range(np.uint64(first), even, np.uint64(2)):
        one += values[j] * own[spots[j]]
        other += values[j + np.uint64(1)] * own[spots[j + np.uint64(1)]]
    if even < np.uint64(last):
        one += values[even] * own[spots[even]]
    return one + other


@helper
def add(own, spots, values, first, last, change):
    """Add `change` times a row to weights."""
    for j in unsigned_range(first, last):
        own[spots[j]] += change * values[j]


@helper
def settle(own, bias, spots, values, ends, sides, n, passes, stream, alphas, lengths):
    """Find the weights, and the bias, which is returned, that fit n rows best: go over these so many times.

    Each time goes from any row in steps of any length that leads to all others: about as good as an order of chance.
    """
    for q in range(n):
        lengths[q] = 1.0 + sum_of_squares(values[ends[q] : ends[q + 1]])
        alphas[q] = 0.0
    for _ in range(passes if n > 0 else 0):
        q, step = below(stream, n), 1 + below(stream, n)
        while gcd(step, n) > 1:
            step = 1 + below(stream, n)
        for _ in range(n):
            q += step if q + step < n else step - n
            given = sides[q] * (bias + dot(own, spots, values, ends[q], ends[q + 1]))
            better = alphas[q] - (given - 1.0 + alphas[q] * SLACK) / (lengths[q] + SLACK)
            change = max(better, 0.0) - alphas[q]
            if change != 0:
                alphas[q] += change
                bias += sides[q] * change
                add(own, spots, values, ends[q], ends[q + 1], np.float32(sides[q] * change))
    for spot in spots[: ends[n]]:
        if own[spot] == 0:  # learned and unlearned again
            own[spot] = KNOWN
    return bias


@helper
def give_number(label, number_of, labels, met):
    """Have a label numbered; returns how many are."""
    if number_of[label] != NONE:
        return met
    number_of[label], labels[met] = met, label
    return met + 1


@kernel
def bring(sets, ids, scores, truth, X, most, brought, right, missed, scales):
    """The labels that its memories bring to each query, and which are right; the true ones that they miss; its scale.

    All that occur are numbered in the order in which they are met; `brought` and `missed` hold these numbers (NONE for no
    label, or for one that was not missed). Returns the labels by number.
    """
    slot_of, number_of = np.full(most, NONE, np.int32), np.full(most, NONE, np.int32)
    labels, met = np.empty(min(most, brought.size + missed.shape[0]), np.int64), 0
    found, votes = np.empty(0, np.int64), np.empty((0, POWERS + 1))
    heights, chosen, totals = np.empty(CANDIDATES), np.empty(CANDIDATES, np.int64), np.empty(POWERS)
    bounds, true_labels = truth
    for i in range(ids.shape[0]):
        scales[i] = inverse_norm(X, i)
        room = labels_brought(ids, i, sets)
        if room > found.shape[0]:
            found, votes = np.empty(2 * room, np.int64), np.empty((2 * room, POWERS + 1))
        n = choose(votes, gather(ids, scores, i, sets, slot_of, found, votes, totals), heights, chosen)
        for t in range(bounds[i], bounds[i + 1]):
            slot_of[true_labels[t]] = 1
        for c in range(n):
            label = found[chosen[c]]
            met = give_number(label, number_of, labels, met)
            brought[i, c], right[i, c] = number_of[label], slot_of[label] != NONE
            slot_of[label] = NONE
        for c in range(n, CANDIDATES):
            brought[i, c], right[i, c] = NONE, False
        for t in range(bounds[i], bounds[i + 1]):
            label, missed[t] = true_labels[t], NONE
            if slot_of[label] != NONE:
                met = give_number(label, number_of, labels, met)
                missed[t] = number_of[label]
            slot_of[label] = NONE
    return labels[:met]


@kernel
def group(brought, missed, bounds, starts):
    """Pairs of a row and a label, by the number of the label from starts[number] on: a place in `brought`, or -1 - row."""
    starts[:] = 0
    for i in range(brought.shape[0]):
        for c in range(CANDIDATES):
            if brought[i, c] != NONE:
                starts[brought[i, c] + 1] += 1
        for t in range(bounds[i], bounds[i + 1]):
            if missed[t] != NONE:
                starts[missed[t] + 1] += 1
    for label in range(starts.shape[0] - 1):
        starts[label + 1] += starts[label]
    filled, pairs = starts.copy(), np.empty(starts[-1], np.int64)
    for i in range(brought.shape[0]):
        for c in range(CANDIDATES):
            if brought[i, c] != NONE:
                pairs[filled[brought[i, c]]] = i * CANDIDATES + c
                filled[brought[i, c]] += 1
        for t in range(bounds[i], bounds[i + 1]):
            if missed[t] != NONE:
                pairs[filled[missed[t]]] = -1 - i
                filled[missed[t]] += 1
    return pairs


@helper
def row_of(pair):
    """The row of a pair."""
    return pair // CANDIDATES if pair >= 0 else -1 - pair


@helper
def is_right(pair, right):
    """Whether the row of a pair has its label."""
    return pair < 0 or right[pair // CANDIDATES, pair % CANDIDATES]


@kernel
def plant(tables, top, labels, starts, pairs, right, X, halves, begin):
    """Have the halves know the features of rows that have a label, pairs[begin] and so on; returns where room ends."""
    places, words, numbers, dimension = tables
    bounds, features, _ = X
    for number, label in enumerate(labels):
        for at in range(max(begin, starts[number]), starts[number + 1]):
            if not is_right(pairs[at], right):
                continue
            i = row_of(pairs[at])
            if top[0] + room_for(places, label, bounds[i + 1] - bounds[i], dimension) > words.shape[0]:
                return at
            widen(places, words, top, label, bounds[i + 1] - bounds[i], dimension)
            for j in range(bounds[i], bounds[i + 1]):
                place = place_of(places, words, label, features[j], dimension)
                if numbers[place, WEIGHTS + halves[i]] == 0:
                    numbers[place, WEIGHTS + halves[i]] = KNOWN
    return pairs.shape[0]


@kernel
def solve(tables, bias, labels, starts, pairs, right, X, scales, halves, judged, first, last, passes, seed, others):
    """Learn the weights of labels[first] .. labels[last - 1]; others[i, c] becomes the score by the half without
    row i, if that is judged."""
    places, words, numbers, _ = tables
    bounds, flat = X[0], numbers.reshape(-1)
    ends, sides, alphas, lengths = np.empty(1, np.int64), np.empty(0), np.empty(0), np.empty(0)
    spots, values, beside = np.empty(0, np.uint32), np.empty(0, np.float32), np.empty(0, np.float32)
    for number in range(first, last):
        soon = number + AHEAD
        if soon < last:
            for at in range(starts[soon], min(starts[soon] + A_FEW, starts[soon + 1])):
                fetch(tables, labels[soon], X, row_of(pairs[at]))
        label, mine = labels[number], pairs[starts[number] : starts[number + 1]]
        n, room = mine.shape[0], 1
        for pair in mine:
            room += bounds[row_of(pair) + 1] - bounds[row_of(pair)]
        if n > sides.shape[0]:
            ends, sides, alphas, lengths = np.empty(2 * n + 1, np.int64), np.empty(2 * n), np.empty(2 * n), np.empty(2 * n)
        if room > spots.shape[0]:
            spots, values = np.empty(2 * room, np.uint32), np.empty(2 * room, np.float32)
        table = numbers[places[label, FIRST] : places[label, FIRST] + places[label, SIZE]]
        size = table.shape[0]
        many = room >= size  # then the weights of a half are laid side by side, so that all are at hand
        if many and size > beside.shape[0]:
            beside = np.empty(2 * size, np.float32)
        for half in range(HALVES):
            own, width, column = flat[places[label, FIRST] * words.shape[1] :], words.shape[1], WEIGHTS + half
            if many:
                beside[:size] = table[:, WEIGHTS + half]
                own, width, column = beside[:], 1, 0
            rows, ends[0] = 0, 0
            for pair in mine:
                i = row_of(pair)
                if halves[i] == half:
                    ends[rows + 1] = take_down(tables, label, X, i, scales[i], own, width, column, ends[rows], spots, values)
                    sides[rows] = 1.0 if is_right(pair, right) else -1.0
                    rows += 1
            stream = seeded(seed, n)  # whatever the number of the label
            bias[label, half] = settle(
                own, bias[label, half], spots, values, ends, sides, rows, passes, stream, alphas, lengths
            )
            if many:
                table[:, WEIGHTS + half] = beside[:size]
        for pair in mine:
            i = row_of(pair)
            if pair >= 0 and judged[i]:
                others[i, pair % CANDIDATES] = linear_by(1 - halves[i], tables, bias, label, X, i, scales[i])
