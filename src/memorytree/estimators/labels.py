"""Scores of labels where a row has several: votes of the memories that a query returned, and one-against-some weights.

Only the labels that the returned memories carry are looked at, at most `CANDIDATES` of them, those with the most votes.
Figures speak for a label: its linear score; its share of the votes, weighted by similarity to the powers 1, 2, 4 and 8, and
the logarithms of these; its best similarity; how frequent it is. A shared logistic regression mixes them into the
probability of the label.

The linear weights of a label are those of a support vector machine with squared hinge loss, found by exact steps on one dual
coefficient at a time: there is no step size. Its negatives are the rows to which memories brought the label in vain. Every
label has two sets of weights, learned from one half of the rows each, and a prediction takes their mean. So a row can be
judged, however often it was learned from, by weights that it never touched: this is what the mixture and the threshold learn
from. A half has weights only for the features of rows that it saw with the label; rows are taken at unit length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memorytree.engine.compile import fast_helper, helper, kernel, prefetch
from memorytree.engine.sparse import find_from, shrinking, spread
from memorytree.engine.state import NONE
from memorytree.estimators.classes import with_room
from memorytree.estimators.tables import FEATURE, FIRST, SIZE, USED, room_for, widen
from memorytree.estimators.votes import BEST, CANDIDATES, POWERS, choose, gather, labels_brought

LINEAR, SHARE = 0, 1  # places of the figures: the first two blocks behind the linear score have one for each power
LOG_SHARE, NEAREST = SHARE + POWERS, SHARE + 2 * POWERS
FREQUENCY, CONSTANT, FIGURES = NEAREST + 1, NEAREST + 2, NEAREST + 3
FIRST_MIX = (1.0, *(0.0, 0.0, 0.0, 1.0), *(0.3, 0.3, 0.2, 0.2), 0.0, 0.0, 0.5)
LEAST_SHARE = 0.01  # what is added to a share before its logarithm is taken
AHEAD = 3  # how many labels before it is looked at the weights of a label are fetched
WEIGHTS = 1  # first column of the tables behind the feature: a weight for each half
COST = 0.5
HORIZON = 2048  # over how many rows the mixture remembers
STEADINESS = 5.0  # of the mixture at first
BINS = 200  # of probabilities, for choosing a threshold


@fast_helper
def judge(tables, bias, label, X, i, scale, half, spreads):
    """(linear score by the weights of a half, by those of the other half, squared length of what that half knows)."""
    places, words, numbers, dimension = tables
    bounds, features, weights = X
    mine, others, known = 0.0, 0.0, 0.0
    start, size = places[label, FIRST], places[label, SIZE]
    if size >= dimension:
        for j in range(bounds[i], bounds[i + 1]):
            place = start + features[j]
            weight = numbers[place, WEIGHTS + half]
            mine += weights[j] * weight
            others += weights[j] * numbers[place, WEIGHTS + 1 - half]
            known += weights[j] * weights[j] if weight != 0 else np.float32(0)
    elif size > 0:
        for j in range(bounds[i], bounds[i + 1]):
            place = find_from(spreads[j - bounds[i]] & (size - 1), words, start, size, features[j])
            weight = numbers[place, WEIGHTS + half]
            mine += weights[j] * weight
            others += weights[j] * numbers[place, WEIGHTS + 1 - half]
            known += weights[j] * weights[j] if weight != 0 else np.float32(0)
    return bias[label, half] + scale * mine, bias[label, 1 - half] + scale * others, 1.0 + scale * scale * known


@fast_helper
def linear(tables, label, X, i, spreads):
    """The linear score of a label by both halves together, of a row as long as it is; an empty place has no weight."""
    places, words, numbers, dimension = tables
    bounds, features, weights = X
    start, size = places[label, FIRST], places[label, SIZE]
    total = np.float32(0)
    if size >= dimension:
        for j in range(bounds[i], bounds[i + 1]):
            place = start + features[j]
            total += weights[j] * (numbers[place, WEIGHTS] + numbers[place, WEIGHTS + 1])
    elif size > 0:
        for j in range(bounds[i], bounds[i + 1]):
            place = find_from(spreads[j - bounds[i]] & (size - 1), words, start, size, features[j])
            total += weights[j] * (numbers[place, WEIGHTS] + numbers[place, WEIGHTS + 1])
    return np.float64(total)


@helper
def spread_features(X, i, spreads):
    """What `spread` makes of the features of a row, into an array that is made longer if need be."""
    bounds, features, _ = X
    if bounds[i + 1] - bounds[i] > spreads.shape[0]:
        spreads = np.empty(2 * (bounds[i + 1] - bounds[i]), np.int64)
    for j in range(bounds[i], bounds[i + 1]):
        spreads[j - bounds[i]] = spread(features[j])
    return spreads


@helper
def fetch_labels(tables, bias, counts, labels, chosen, n):
    """Have at hand where the weights of labels lie, and what else is known of these."""
    for c in range(n):
        prefetch(tables[0], labels[chosen[c]] * 3)
        prefetch(bias, labels[chosen[c]] * 2)
        prefetch(counts, labels[chosen[c]])


@helper
def fetch_weights(tables, labels, chosen, first, last, spreads, features):
    """Have some weights of labels `first` .. `last` - 1 at hand: each lies elsewhere, but all places are known.

    This is done a few labels ahead: fetched all at once, more would be on their way than a processor keeps track of.
    """
    places, words, _, dimension = tables
    for c in range(first, last):
        start, size = places[labels[chosen[c]], FIRST], places[labels[chosen[c]], SIZE]
        if 0 < size < dimension:
            for j in range(features):
                home = (start + (spreads[j] & (size - 1))) * words.shape[1]
                prefetch(words, home)
                prefetch(words, home + 2 * words.shape[1] - 1)  # and the place behind it, which may be needed as well


@helper
def tell(votes, c, totals, count, figures, f):
    """The figures of a label but for its linear score, and their place f."""
    for p in range(POWERS):
        share = votes[c, p] / totals[p]
        figures[f, SHARE + p] = share
        figures[f, LOG_SHARE + p] = np.log(share + LEAST_SHARE)
    figures[f, NEAREST] = votes[c, BEST]
    figures[f, FREQUENCY] = np.log(count + 1.0)
    figures[f, CONSTANT] = 1.0


@helper
def chance(mixture, figures, f):
    """The probability of a label."""
    total = 0.0
    for figure in range(FIGURES):
        total += mixture[figure] * figures[f, figure]
    return 1.0 / (1.0 + np.exp(-total))


@kernel
def score_labels(tables, bias, counts, mixture, sets, ids, scores, X, found, chances):
    """For each query the labels that its memories bring (NONE behind the last) and their probabilities, highest first."""
    slot_of = np.full(counts.shape[0], NONE, np.int32)
    brought, votes = np.empty(0, np.int64), np.empty((0, POWERS + 1))
    heights, chosen, totals = np.empty(CANDIDATES), np.empty(CANDIDATES, np.int64), np.empty(POWERS)
    figures, spreads = np.empty((1, FIGURES)), np.empty(0, np.int64)
    for i in range(ids.shape[0]):
        spreads = spread_features(X, i, spreads)
        room = labels_brought(ids, i, sets)
        if room > brought.shape[0]:
            brought, votes = np.empty(2 * room, np.int64), np.empty((2 * room, POWERS + 1))
        n = choose(votes, gather(ids, scores, i, sets, slot_of, brought, votes, totals), heights, chosen)
        fetch_labels(tables, bias, counts, brought, chosen, n)
        scale, features = shrinking(X, i), X[0][i + 1] - X[0][i]
        fetch_weights(tables, brought, chosen, 0, min(AHEAD, n), spreads, features)
        for c in range(n):
            fetch_weights(tables, brought, chosen, c + AHEAD, min(c + AHEAD + 1, n), spreads, features)
            label = brought[chosen[c]]
            tell(votes, chosen[c], totals, counts[label], figures, 0)
            both = bias[label, 0] + bias[label, 1] + scale * linear(tables, label, X, i, spreads)
            figures[0, LINEAR] = 0.5 * both
            probability = chance(mixture, figures, 0)
            place = c
            while place > 0 and chances[i, place - 1] < probability:
                chances[i, place], found[i, place] = chances[i, place - 1], found[i, place - 1]
                place -= 1
            chances[i, place], found[i, place] = probability, label
        for c in range(n, CANDIDATES):
            chances[i, c], found[i, c] = 0.0, NONE


@helper
def add_row(tables, top, bias, label, X, i, scale, half, right, change, spreads):
    """Add `change` times a row to the weights of a half; only a row that has the label brings it features that are new."""
    places, words, numbers, dimension = tables
    bounds, features, weights = X
    bias[label, half] += change
    if right:
        widen(places, words, top, label, bounds[i + 1] - bounds[i], dimension)
    start, size = places[label, FIRST], places[label, SIZE]
    if size == 0:
        return
    change *= scale
    for j in range(bounds[i], bounds[i + 1]):
        if size >= dimension:
            place = start + features[j]
        else:
            place = find_from(spreads[j - bounds[i]] & (size - 1), words, start, size, features[j])
        if right and words[place, FEATURE] == NONE:
            words[place, FEATURE] = features[j]
            places[label, USED] += 1
        if right or numbers[place, WEIGHTS + half] != 0:
            numbers[place, WEIGHTS + half] += change * weights[j]


@helper
def note(mixture, gradient, curvature, outcomes, figures, f, right):
    """Note what the mixture makes of a label, for the next step of its coefficients and for choosing a threshold."""
    probability = chance(mixture, figures, f)
    error = probability - (1.0 if right else 0.0)
    spread = probability * (1.0 - probability)
    for a in range(FIGURES):
        gradient[a] += error * figures[f, a]
        for b in range(FIGURES):
            curvature[a, b] += spread * figures[f, a] * figures[f, b]
    outcomes[1 if right else 0, min(np.int64(probability * BINS), BINS - 1)] += 1


@kernel
def learn_labels(
    tables, top, bias, counts, mixture, gradient, curvature, outcomes,
    sets, ids, scores, truth, X, rows, halves, stored, alphas, spots, at,
):  # fmt: skip
    """Learn from the true labels of queries rows[at], rows[at + 1] ...

    spots[i] is where the dual coefficients of query i begin among `alphas`: first those of the labels that memories bring,
    then those of the true labels that they do not. `stored` tells whether a row is counted among those of its labels.
    Returns the first place in `rows` for which the pool has no room left.
    """
    places, words, _, dimension = tables
    slot_of = np.full(counts.shape[0], NONE, np.int32)
    brought, votes = np.empty(0, np.int64), np.empty((0, POWERS + 1))
    heights, chosen, totals = np.empty(CANDIDATES), np.empty(CANDIDATES, np.int64), np.empty(POWERS)
    figures, spreads = np.empty((1, FIGURES)), np.empty(0, np.int64)
    while at < rows.shape[0]:
        i = rows[at]
        spreads = spread_features(X, i, spreads)
        bounds, true_labels = truth
        room = top[0]
        for t in range(bounds[i], bounds[i + 1]):
            room += room_for(places, true_labels[t], X[0][i + 1] - X[0][i], dimension)
        if room > words.shape[0]:
            return at
        room = labels_brought(ids, i, sets) + 1
        if room > brought.shape[0]:
            brought, votes = np.empty(2 * room, np.int64), np.empty((2 * room, POWERS + 1))
        n = choose(votes, gather(ids, scores, i, sets, slot_of, brought, votes, totals), heights, chosen)
        fetch_labels(tables, bias, counts, brought, chosen, n)
        features = X[0][i + 1] - X[0][i]
        fetch_weights(tables, brought, chosen, 0, min(AHEAD, n), spreads, features)
        for t in range(bounds[i], bounds[i + 1]):
            slot_of[true_labels[t]] = 1
        scale, half = shrinking(X, i), halves[i]
        squared_length = 2.0 if scale > 0 else 1.0
        for c in range(n):
            fetch_weights(tables, brought, chosen, c + AHEAD, min(c + AHEAD + 1, n), spreads, features)
            label = brought[chosen[c]]
            right = slot_of[label] != NONE
            slot_of[label] = NONE
            mine, others, known = judge(tables, bias, label, X, i, scale, half, spreads)
            tell(votes, chosen[c], totals, counts[label] - (1 if right and stored else 0), figures, 0)
            figures[0, LINEAR] = others
            note(mixture, gradient, curvature, outcomes, figures, 0, right)
            alpha, side = alphas[spots[i] + c], 1.0 if right else -1.0
            slack = 1.0 / (2.0 * COST)
            better = alpha - (side * mine - 1.0 + alpha * slack) / ((squared_length if right else known) + slack)
            change = max(better, 0.0) - alpha
            if change != 0:
                alphas[spots[i] + c] += change
                add_row(tables, top, bias, label, X, i, scale, half, right, side * change, spreads)
        spot = spots[i] + n
        for t in range(bounds[i], bounds[i + 1]):
            label = true_labels[t]
            if slot_of[label] == NONE:
                continue
            slot_of[label] = NONE
            mine, _, _ = judge(tables, bias, label, X, i, scale, half, spreads)
            alpha, slack = alphas[spot], 1.0 / (2.0 * COST)
            change = max(alpha - (mine - 1.0 + alpha * slack) / (squared_length + slack), 0.0) - alpha
            if change != 0:
                alphas[spot] += change
                add_row(tables, top, bias, label, X, i, scale, half, True, change, spreads)
            spot += 1
        at += 1
    return at


@kernel
def reward_rows(sets, ids, truth, labels, rewards):
    """The F1 score between the labels of each query and those of each memory returned for it; NaN where there is none."""
    starts, sizes, pool = sets
    bounds, true_labels = truth
    marked = np.zeros(labels, np.bool_)
    for i in range(ids.shape[0]):
        for t in range(bounds[i], bounds[i + 1]):
            marked[true_labels[t]] = True
        for j in range(ids.shape[1]):
            if ids[i, j] == NONE:
                rewards[i, j] = np.nan
                continue
            start, size = starts[ids[i, j]], sizes[ids[i, j]]
            common = 0
            for at in range(start, start + size):
                common += marked[pool[at]]
            rewards[i, j] = 2.0 * common / max(size + bounds[i + 1] - bounds[i], 1)
        for t in range(bounds[i], bounds[i + 1]):
            marked[true_labels[t]] = False


class LabelModel:
    """What has been learned of the labels; they are numbers here."""

    def __init__(self, labels: int, dimension: int) -> None:
        self.dimension = dimension  # how many features there are
        self.places = np.zeros((16, 3), np.int64)
        self.words = np.empty((1024, WEIGHTS + 2), np.int32)
        self.top = np.zeros(1, np.int64)  # how much of the pool is taken
        self.bias = np.zeros((16, 2), np.float64)
        self.counts = np.zeros(16, np.int64)
        self.mixture = np.array(FIRST_MIX)
        self.curvature = STEADINESS * np.eye(FIGURES)
        self.outcomes = np.zeros((2, BINS))  # how many wrong and right labels had which probability
        self.missed = 0  # true labels that no memory brought
        self.make_room(labels)

    @property
    def _tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        return self.places, self.words, self.words.view(np.float32), self.dimension

    def make_room(self, labels: int) -> None:
        """Be ready for labels below `labels`."""
        self.places, self.bias, self.counts = with_room((self.places, self.bias, self.counts), labels)

    def in_space(self, dimension: int) -> LabelModel:
        """A model that knows how often each label came, and has everything else still to learn, in another space."""
        twin = LabelModel(len(self.counts), dimension)
        twin.counts[:] = self.counts
        return twin

    def join(self, labels: np.ndarray) -> None:
        """Rows with these labels, one after the other, have become memories."""
        self.counts += np.bincount(labels, minlength=len(self.counts))

    def recount(self, labels: np.ndarray) -> None:
        """These are the labels of all rows that are memories now."""
        self.counts[:] = np.bincount(labels, minlength=len(self.counts))

    def rewards(self, sets: Any, ids: np.ndarray, truth: Any) -> np.ndarray:
        """The F1 score between the labels of each query and those of its memories."""
        rewards = np.empty(ids.shape)
        reward_rows(sets, ids, truth, len(self.counts), rewards)
        return rewards

    def learn(
        self,
        sets: Any,
        ids: np.ndarray,
        scores: np.ndarray,
        truth: Any,
        X: Any,
        rows: np.ndarray,
        halves: np.ndarray,
        stored: bool,
        alphas: np.ndarray,
        spots: np.ndarray,
    ) -> None:
        """Learn from the true labels of some queries, in the order of `rows`; sets[id]: the labels of a memory."""
        gradient = np.zeros(FIGURES)
        self.curvature += min(len(rows) / HORIZON, 0.5) * (STEADINESS * np.eye(FIGURES) - self.curvature)
        noted = self.outcomes[1].sum()
        done = 0
        while True:
            weights = self._tables, self.top, self.bias, self.counts
            mixing = self.mixture, gradient, self.curvature, self.outcomes
            done = learn_labels(*weights, *mixing, sets, ids, scores, truth, X, rows, halves, stored, alphas, spots, done)
            if done == len(rows):
                break
            # Nothing is written to the new half before it is used, so it takes no memory until then.
            wider = np.empty((2 * len(self.words), self.words.shape[1]), np.int32)
            wider[: len(self.words)] = self.words
            self.words = wider
        self.missed += int((truth[0][rows + 1] - truth[0][rows]).sum() - (self.outcomes[1].sum() - noted))
        # A step of Newton's method, by the curvature of the rows of late.
        self.mixture -= np.clip(np.linalg.solve(self.curvature, gradient), -1, 1)

    def score(self, sets: Any, ids: np.ndarray, scores: np.ndarray, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """For each query the labels that its memories bring (-1 behind the last) and their probabilities, highest first."""
        found = np.empty((len(ids), CANDIDATES), np.int64)
        chances = np.empty((len(ids), CANDIDATES), np.float64)
        score_labels(self._tables, self.bias, self.counts, self.mixture, sets, ids, scores, X, found, chances)
        return found, chances

    def forget_outcomes(self) -> None:
        """Choose thresholds by what is learned from now on."""
        self.outcomes[:], self.missed = 0, 0

    def best_for_f1(self) -> float:
        """The threshold that would have made the F1 score of all decisions the highest."""
        right, wrong = (self.outcomes[kind, ::-1].cumsum()[::-1] for kind in (1, 0))
        if not right[0]:
            return 0.5
        scores = 2 * right / (right + wrong + self.outcomes[1].sum() + self.missed)
        return float(np.argmax(scores) / BINS)
