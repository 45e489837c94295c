"""Scores of classes for sparse rows: best similarity, centroid, evidence of features and one-against-some linear weights.

Only the labels that the returned memories carry are looked at. Four figures speak for a label: its linear score, the best
similarity among its memories, the cosine with its centroid, the sum of its rows, and the evidence of each feature by itself:
the logarithm of how much of it the label's rows have on average, as in naive Bayes. Four shared coefficients mix them; how
sure the probabilities may be is chosen by how well they would have foretold rows when these first came.
Every label has one exact open-addressing table of (feature, linear weight, sum); rows are taken at unit length.

The linear weights are those of the multi-class support vector machine of Crammer and Singer, found by exact steps on one
row's dual coefficients at a time: there is no step size. A row's coefficients are kept with it, so that on a later pass it
can take its own part out before it judges itself; its own memory and its share in the centroid are left out as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from memorytree.engine.arrays import NONE
from memorytree.engine.hash_map import find
from memorytree.engine.jit import helper, kernel
from memorytree.engine.sparse import inverse_norm
from memorytree.estimators.classes import to_probabilities, with_room
from memorytree.estimators.tables import FEATURE, FIRST, SIZE, UNKNOWN, place_of, room_for, widen

WEIGHT, SUM, WIDTH = range(1, 4)  # columns of the tables, behind the feature
LINEAR, NEAREST, CENTROID, EVIDENCE, FIGURES = range(5)
FIRST_MIX = (30.0, 10.0, 20.0, 10.0)
MIX_RATE = 0.1
DEGREES, HORIZON = 8, 1024  # of calm to choose from; over how many rows
RIVALS = 4  # dual coefficients a row may have: for the right label and its strongest rivals
COST = 1.0
FINE = 1e4  # one over the share of a feature that begins to count as evidence
# Labels with fewer rows than this have no linear weights: memories and centroid say it all.
ENOUGH_ROWS = 5


@kernel
def join(places, words, numbers, top, squares, counts, codes, X, i):
    """Add rows to the sums of their labels, from row i on; returns the first row for which the pool has no room left."""
    bounds, features, weights = X
    while i < codes.shape[0]:
        label, first, last = codes[i], bounds[i], bounds[i + 1]
        if top[0] + room_for(places, label, last - first, UNKNOWN) > words.shape[0]:
            return i
        widen(places, words, top, label, last - first, UNKNOWN)
        scale = inverse_norm(X, i)
        for j in range(first, last):
            place = place_of(places, words, label, features[j], UNKNOWN)
            value = weights[j] * scale
            squares[label] += value * (2 * numbers[place, SUM] + value)
            numbers[place, SUM] += value
        counts[label] += 1
        i += 1
    return i


@helper
def gather(ids, scores, i, labels, found, figures):
    """The labels of the memories returned for query i into `found`, with their best similarity; how many there are."""
    n = 0
    for j in range(ids.shape[1]):
        if ids[i, j] == NONE:
            continue
        c = 0
        while c < n and found[c] != labels[ids[i, j]]:
            c += 1
        if c == n:
            found[n], figures[n, NEAREST] = labels[ids[i, j]], scores[i, j]
            n += 1
    return n


@helper
def judge(tables, square, count, label, X, i, scale, own, all_figures, figures, c):
    """The linear score of a label, the cosine with its centroid and, if all figures are wanted, the evidence of the row's
    features; a row that is one of the label's own `count` is taken out of the last two."""
    places, words, numbers = tables
    bounds, features, weights = X
    linear, along, told = 0.0, 0.0, 0.0
    start, size = places[label, FIRST], places[label, SIZE]
    share = FINE / max(count - own, 1)
    if size > 0:
        for j in range(bounds[i], bounds[i + 1]):
            place = find(words, start, size, features[j])
            if words[place, FEATURE] != NONE:
                value = weights[j] * scale
                linear += value * numbers[place, WEIGHT]
                along += value * numbers[place, SUM]
                others = numbers[place, SUM] - own * value
                if all_figures and others * value > 0:
                    told += abs(value) * np.log(1.0 + share * abs(others))
    if own:
        square += 1.0 - 2.0 * along
        along -= 1.0
    figures[c, LINEAR], figures[c, EVIDENCE] = linear, told / np.log(1.0 + FINE)
    figures[c, CENTROID] = along / np.sqrt(square) if square > 1e-6 else 0.0


@helper
def mix(mixture, figures, n, calm, results):
    """The probability of each of n labels; the smaller `calm`, the less they differ."""
    for c in range(n):
        results[c] = 0.0
        for figure in range(FIGURES):
            results[c] += mixture[figure] * figures[c, figure]
        results[c] *= calm
    to_probabilities(results, n)


@helper
def note_surprise(surprises, mixture, figures, n, true):
    """Note how surprising the right label is with each degree of calm."""
    results = np.empty(n)
    for degree in range(surprises.shape[0]):
        mix(mixture, figures, n, 0.5**degree, results)
        surprises[degree] -= surprises[degree] / HORIZON + np.log(results[true] + 1e-30)


@kernel
def score_classes(tables, squares, counts, mixture, calm, ids, scores, labels, X, found, chances):
    """For each query the labels of its memories (NONE behind the last) and their probabilities."""
    k = ids.shape[1]
    figures, here, results = np.empty((k, FIGURES)), np.empty(k, np.int64), np.empty(k)
    for i in range(ids.shape[0]):
        n = gather(ids, scores, i, labels, here, figures)
        scale = inverse_norm(X, i)
        most = 0
        for c in range(n):
            most = max(most, counts[here[c]])
        for c in range(n):
            if most > 1:
                judge(tables, squares[here[c]], counts[here[c]], here[c], X, i, scale, False, True, figures, c)
            else:  # every label has one memory, which says it all
                figures[c, EVIDENCE] = 0.0
            if counts[here[c]] == 1:
                # The centroid is that one memory, and there are no linear weights.
                figures[c, LINEAR], figures[c, CENTROID] = 0.0, figures[c, NEAREST]
        mix(mixture, figures, n, calm, results)
        for c in range(k):
            found[i, c] = here[c] if c < n else NONE
            chances[i, c] = results[c] if c < n else 0.0


@helper
def learn_mixture(mixture, mixture_squares, figures, n, true):
    """One Adagrad step on the shared coefficients, by the softmax over the labels that memories brought."""
    results = np.empty(n)
    mix(mixture, figures, n, 1.0, results)
    for figure in range(FIGURES):
        g = -figures[true, figure]
        for c in range(n):
            g += results[c] * figures[c, figure]
        mixture_squares[figure] += g * g
        mixture[figure] = max(0.0, mixture[figure] - MIX_RATE * g / np.sqrt(mixture_squares[figure] + 1e-8))


@helper
def solve(figures, n, true, chosen, duals):
    """The dual coefficients of a row of unit length for the right label and its strongest rivals, exactly; how many."""
    chosen[0], m = true, 1
    for c in range(n):
        if c == true or (m == RIVALS and figures[c, LINEAR] <= figures[chosen[m - 1], LINEAR]):
            continue
        place = m if m < RIVALS else m - 1
        m = min(m + 1, RIVALS)
        while place > 1 and figures[chosen[place - 1], LINEAR] < figures[c, LINEAR]:
            chosen[place] = chosen[place - 1]
            place -= 1
        chosen[place] = c
    # A rival costs one more than its score, the right label may rise by COST: the level is where rising meets sinking.
    heights = np.empty(m)
    for q in range(m):
        height = figures[chosen[q], LINEAR] + (COST if q == 0 else 1.0)
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
        duals[q] = min(COST if q == 0 else 0.0, level - figures[chosen[q], LINEAR] - (0.0 if q == 0 else 1.0))
    return m


@kernel
def learn_classes(
    tables, top, squares, counts, mixture, mixture_squares, surprises, owners, alphas,
    ids, scores, labels, truth, own, first_pass, X, i,
):  # fmt: skip
    """Learn from the true labels of queries, from query i on; own[i] is its memory or NONE.

    Returns the first query for which the pool has no room left.
    """
    places, words, numbers = tables
    bounds, features, weights = X
    k = ids.shape[1]
    most = k + 1 + RIVALS
    figures, found = np.empty((most, FIGURES)), np.empty(most, np.int64)
    before, after = np.empty(most), np.empty(most)
    chosen, duals = np.empty(RIVALS, np.int64), np.empty(RIVALS)
    while i < ids.shape[0]:
        first, last = bounds[i], bounds[i + 1]
        stored = own[i] != NONE
        label = truth[i]
        # Nothing is to be learned from a label without other memories; nor from one with too few for linear weights, once
        # the first pass has mixed the figures.
        alone = counts[label] <= (1 if stored else 0) or first == last
        if alone or (not first_pass and counts[label] < ENOUGH_ROWS):
            i += 1
            continue
        brought = n = gather(ids, scores, i, labels, found, figures)
        true = NONE
        for c in range(n):
            if found[c] == label:
                true = c
        if true == NONE:
            true = n
            found[n], figures[n, NEAREST] = label, 0.0
            n += 1
        if stored:
            for m in range(RIVALS):
                c = 0
                while c < n and found[c] != owners[own[i], m]:
                    c += 1
                if c == n and owners[own[i], m] != NONE:
                    found[n], figures[n, NEAREST] = owners[own[i], m], 0.0
                    n += 1
        room = top[0]
        for c in range(n):
            room += room_for(places, found[c], last - first, UNKNOWN)
        if room > words.shape[0]:
            return i
        scale = inverse_norm(X, i)
        for c in range(n):
            in_sum = stored and found[c] == label
            judge(tables, squares[found[c]], counts[found[c]], found[c], X, i, scale, in_sum, first_pass, figures, c)
            before[c], after[c] = 0.0, 0.0
            if stored:
                for m in range(RIVALS):
                    if owners[own[i], m] == found[c]:
                        before[c] = alphas[own[i], m]
                        figures[c, LINEAR] -= before[c]
        if first_pass and true < brought:
            note_surprise(surprises, mixture, figures, brought, true)
            learn_mixture(mixture, mixture_squares, figures, brought, true)
        if counts[label] >= ENOUGH_ROWS and n > 1:
            m = solve(figures, n, true, chosen, duals)
            for q in range(m):
                after[chosen[q]] = duals[q]
            if stored:
                for q in range(RIVALS):
                    owners[own[i], q] = found[chosen[q]] if q < m and duals[q] != 0 else NONE
                    alphas[own[i], q] = duals[q] if q < m else 0.0
            for c in range(n):
                change = (after[c] - before[c]) * scale
                if change != 0:
                    widen(places, words, top, found[c], last - first, UNKNOWN)
                    for j in range(first, last):
                        numbers[place_of(places, words, found[c], features[j], UNKNOWN), WEIGHT] += change * weights[j]
        i += 1
    return i


class SparseClassModel:
    """What has been learned of the classes; labels are numbers here, in the order in which they first came."""

    def __init__(self) -> None:
        self.places = np.zeros((16, 3), np.int64)
        self.words = np.empty((1024, WIDTH), np.int32)
        self.top = np.zeros(1, np.int64)  # how much of the pool is taken
        self.squares = np.zeros(16, np.float64)  # of the length of each label's sum
        self.counts = np.zeros(16, np.int64)
        self.mixture = np.array(FIRST_MIX)
        self.mixture_squares = np.zeros(FIGURES)
        self.surprises = np.zeros(DEGREES)  # by rows when they first came; each degree is half as sure
        self.owners = np.full((16, RIVALS), NONE, np.int64)  # of a memory's dual coefficients: the labels
        self.alphas = np.zeros((16, RIVALS), np.float64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be what was pickled; earlier versions knew fewer figures."""
        self.__dict__.update(state)
        missing = FIGURES - len(self.mixture)
        self.mixture, self.mixture_squares = (np.pad(one, (0, missing)) for one in (self.mixture, self.mixture_squares))

    @property
    def _tables(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.places, self.words, self.words.view(np.float32)

    def make_room(self, classes: int) -> None:
        """Be ready for labels below `classes`."""
        self.places, self.squares, self.counts = with_room((self.places, self.squares, self.counts), classes)

    def _grow(self, room: int = 0) -> None:
        """Make the pool twice as large, and large enough for so much more."""
        taken = self.top[0]
        words = np.empty((max(2 * len(self.words), taken + room), WIDTH), np.int32)
        words[:taken] = self.words[:taken]
        self.words = words

    def join(self, codes: np.ndarray, ids: np.ndarray, X: Any) -> None:
        """Rows with these labels have become memories."""
        while len(self.owners) <= ids.max():
            self.owners = np.concatenate([self.owners, np.full_like(self.owners, NONE)])
            self.alphas = np.concatenate([self.alphas, np.zeros_like(self.alphas)])
        room = 4 * len(X[1])  # what tables come to, more or less, if no label has met any of the features before
        if len(self.words) - self.top[0] < room:
            self._grow(room)
        done = 0
        while (done := join(*self._tables, self.top, self.squares, self.counts, codes, X, done)) < len(codes):
            self._grow()
        if len(self.words) > max(4 * self.top[0], 1024):
            self.words = self.words[: max(2 * self.top[0], 1024)].copy()  # few features were new

    def learn(
        self,
        ids: np.ndarray,
        scores: np.ndarray,
        labels: np.ndarray,
        truth: np.ndarray,
        X: Any,
        own: np.ndarray | None,
        first_pass: bool,
    ) -> None:
        """Learn from the true labels of queries; `own` are their memories where they are stored."""
        own = np.full(len(truth), NONE) if own is None else own
        mixing, duals = (self.mixture, self.mixture_squares, self.surprises), (self.owners, self.alphas)
        question = ids, scores, labels, truth, own, first_pass, X
        done = 0
        while True:
            state = self._tables, self.top, self.squares, self.counts
            done = learn_classes(*state, *mixing, *duals, *question, done)
            if done == len(truth):
                return
            self._grow()

    def score(self, ids: np.ndarray, scores: np.ndarray, labels: np.ndarray, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """For each query the labels of its memories (-1 behind the last) and their probabilities."""
        found, chances = np.empty(ids.shape, np.int64), np.empty(ids.shape, np.float64)
        calm = 0.5 ** int(self.surprises.argmin())
        score_classes(self._tables, self.squares, self.counts, self.mixture, calm, ids, scores, labels, X, found, chances)
        return found, chances
