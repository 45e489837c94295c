"""Scores of labels where a row has several: votes of the memories that a query returned, and one-against-some weights.

Only the labels that the returned memories carry are looked at, at most `CANDIDATES` of them, those with the most votes.
Figures speak for a label: its linear score (`one_against_some.py`); its share of the votes, weighted by similarity to the
powers 1, 2, 4 and 8, and the logarithms of these; its best similarity; how frequent it is. A shared logistic regression
mixes them into the probability of the label.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from memorytree.engine.arrays import NONE
from memorytree.engine.dense import dot
from memorytree.engine.jit import helper, kernel, prefetch
from memorytree.engine.sparse import inverse_norm
from memorytree.estimators.classes import with_room
from memorytree.estimators.one_against_some import AHEAD, HALVES, bring, fetch, group, linear, plant, solve
from memorytree.estimators.votes import BEST, CANDIDATES, POWERS, choose, gather, labels_brought

LINEAR, SHARE = 0, 1  # places of the figures: the first two blocks behind the linear score have one for each power
LOG_SHARE, NEAREST = SHARE + POWERS, SHARE + 2 * POWERS
FREQUENCY, CONSTANT, FIGURES = NEAREST + 1, NEAREST + 2, NEAREST + 3
FIRST_MIX = (1.0, *(0.0, 0.0, 0.0, 1.0), *(0.3, 0.3, 0.2, 0.2), 0.0, 0.0, 0.5)
LEAST_SHARE = 0.01  # what is added to a share before its logarithm is taken
HORIZON = 2048  # over how many rows the mixture remembers
STEADINESS = 5.0  # of the mixture at first
BINS = 200  # of probabilities, for choosing a threshold
ROOM = 2**19  # rows of the pool of weights at first; it takes no memory before it is written to


@helper
def fetch_labels(tables, bias, counts, labels, chosen, n):
    """Have at hand where the weights of labels lie, and what else is known of these."""
    for c in range(n):
        prefetch(tables[0], labels[chosen[c]] * 3)
        prefetch(bias, labels[chosen[c]] * HALVES)
        prefetch(counts, labels[chosen[c]])


@helper
def tell(votes, c, totals, count, figures, f):
    """The figures of a label but for its linear score, and their place f."""
    for p in range(POWERS):
        share = votes[c, p] / totals[p]
        figures[SHARE + p, f] = share
        figures[LOG_SHARE + p, f] = np.log(share + LEAST_SHARE)
    figures[NEAREST, f] = votes[c, BEST]
    figures[FREQUENCY, f] = np.log(count + 1.0)
    figures[CONSTANT, f] = 1.0


@helper
def likely(total):
    """The probability that a sum of figures stands for."""
    return 1.0 / (1.0 + np.exp(-total))


@kernel
def score_labels(tables, bias, counts, mixture, sets, ids, scores, X, found, chances):
    """For each query the labels that its memories bring (NONE behind the last) and their probabilities, highest first."""
    slot_of = np.full(counts.shape[0], NONE, np.int32)
    brought, votes = np.empty(0, np.int64), np.empty((0, POWERS + 1))
    heights, chosen, totals = np.empty(CANDIDATES), np.empty(CANDIDATES, np.int64), np.empty(POWERS)
    figures = np.empty((FIGURES, 1))
    for i in range(ids.shape[0]):
        room = labels_brought(ids, i, sets)
        if room > brought.shape[0]:
            brought, votes = np.empty(2 * room, np.int64), np.empty((2 * room, POWERS + 1))
        n = choose(votes, gather(ids, scores, i, sets, slot_of, brought, votes, totals), heights, chosen)
        fetch_labels(tables, bias, counts, brought, chosen, n)
        scale = inverse_norm(X, i)
        # Fetched all at once, more weights would be on their way than a processor keeps track of.
        for c in range(min(AHEAD, n)):
            fetch(tables, brought[chosen[c]], X, i)
        for c in range(n):
            if c + AHEAD < n:
                fetch(tables, brought[chosen[c + AHEAD]], X, i)
            label = brought[chosen[c]]
            tell(votes, chosen[c], totals, counts[label], figures, 0)
            figures[LINEAR, 0] = linear(tables, bias, label, X, i, scale)
            total = 0.0
            for figure in range(FIGURES):
                total += mixture[figure] * figures[figure, 0]
            probability = likely(total)
            place = c
            while place > 0 and chances[i, place - 1] < probability:
                chances[i, place], found[i, place] = chances[i, place - 1], found[i, place - 1]
                place -= 1
            chances[i, place], found[i, place] = probability, label
        for c in range(n, CANDIDATES):
            chances[i, c], found[i, c] = 0.0, NONE


@kernel
def tell_rows(counts, sets, ids, scores, right, others, rows, stored, bounds, figures, truths):
    """The figures of the labels that memories brought to rows, and which are right; those of rows[j] begin at bounds[j].

    `stored`: the rows are counted among those of their labels.
    """
    slot_of = np.full(counts.shape[0], NONE, np.int32)
    brought, votes = np.empty(0, np.int64), np.empty((0, POWERS + 1))
    heights, chosen, totals = np.empty(CANDIDATES), np.empty(CANDIDATES, np.int64), np.empty(POWERS)
    bounds[0] = 0
    for j in range(rows.shape[0]):
        i, first = rows[j], bounds[j]
        room = labels_brought(ids, i, sets)
        if room > brought.shape[0]:
            brought, votes = np.empty(2 * room, np.int64), np.empty((2 * room, POWERS + 1))
        n = choose(votes, gather(ids, scores, i, sets, slot_of, brought, votes, totals), heights, chosen)
        for c in range(n):
            count = counts[brought[chosen[c]]] - (1 if right[i, c] and stored else 0)
            tell(votes, chosen[c], totals, count, figures, first + c)
            figures[LINEAR, first + c], truths[first + c] = others[i, c], right[i, c]
        bounds[j + 1] = first + n


@kernel
def mix_labels(mixture, gradient, curvature, outcomes, figures, truths):
    """Note what the mixture makes of labels whose figures were told: for the next step of its coefficients, and for choosing
    a threshold. The curvature is symmetric; what lies on its diagonal and below is added to."""
    n = truths.shape[0]
    totals, errors, spreads = np.zeros(n, np.float32), np.empty(n, np.float32), np.empty(n, np.float32)
    for a in range(FIGURES):
        own, weight = figures[a], np.float32(mixture[a])
        for f in range(n):
            totals[f] += weight * own[f]
    for f in range(n):
        probability = likely(np.float64(totals[f]))
        errors[f], spreads[f] = probability - truths[f], probability * (1.0 - probability)
        outcomes[np.int64(truths[f]), max(min(np.int64(probability * BINS), BINS - 1), 0)] += 1
    for a in range(FIGURES):
        own = figures[a]
        gradient[a] += dot(figures, a, errors)
        for f in range(n):
            totals[f] = spreads[f] * own[f]
        for b in range(a + 1):
            curvature[a, b] += dot(figures, b, totals)


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


class Lesson(NamedTuple):
    """Queries whose labels are known: what their memories bring, and pairs of rows and labels to learn from."""

    sets: Any  # of each memory its labels
    ids: np.ndarray  # the memories that were returned
    scores: np.ndarray
    X: Any
    halves: np.ndarray  # which half of the weights each row teaches
    judged: np.ndarray  # whether the other half, which does not learn from the row, is to say what it makes of it
    scales: np.ndarray  # what makes each row as long as one
    right: np.ndarray  # whether the labels that were brought are right
    misses: np.ndarray  # how many true labels of each row are not among those that were brought
    labels: np.ndarray  # all that occur in pairs
    starts: np.ndarray  # where the pairs of each of them begin
    pairs: np.ndarray
    others: np.ndarray  # of rows that are judged: the linear score of each label that was brought, by the other half


class Told(NamedTuple):
    """Figures of the labels that were brought to some rows of a lesson."""

    bounds: np.ndarray  # where those of each row begin
    figures: np.ndarray
    truths: np.ndarray  # whether the labels are right
    misses: np.ndarray  # how many true labels of each row are not among them


class LabelModel:
    """What has been learned of the labels; they are numbers here."""

    def __init__(self, labels: int, dimension: int) -> None:
        self.dimension = dimension  # how many features there are
        self.places = np.zeros((16, 3), np.int64)
        self.words = np.empty((ROOM, 1 + HALVES), np.int32)
        self.top = np.zeros(1, np.int64)  # how much of the pool is taken
        self.bias = np.zeros((16, HALVES), np.float64)
        self.counts = np.zeros(16, np.int64)
        self.mixture = np.array(FIRST_MIX)
        self.curvature = STEADINESS * np.eye(FIGURES)
        self.outcomes = np.zeros((2, BINS))  # how many wrong and right labels had which probability
        self.missed = 0  # true labels that were no candidates
        self.make_room(labels)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: nothing of the pool that is not taken."""
        return {**vars(self), "words": self.words[: self.top[0]].copy()}

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

    def lesson(
        self, sets: Any, ids: np.ndarray, scores: np.ndarray, truth: Any, X: Any, halves: np.ndarray, judged: Any = None
    ) -> Lesson:
        """What there is to learn from the true labels of some queries; sets[id]: the labels of a memory.

        `judged`: the rows whose figures are going to be told, by default all.
        """
        n = len(ids)
        brought, right = np.empty((n, CANDIDATES), np.int32), np.empty((n, CANDIDATES), np.bool_)
        missed, scales = np.empty(len(truth[1]), np.int32), np.empty(n)
        labels = bring(sets, ids, scores, truth, X, len(self.counts), brought, right, missed, scales)
        starts = np.empty(len(labels) + 1, np.int64)
        pairs = group(brought, missed, truth[0], starts)
        planted = 0
        while (planted := plant(self._tables, self.top, labels, starts, pairs, right, X, halves, planted)) < len(pairs):
            # Nothing is written to the new half before it is used, so it takes no memory until then.
            wider = np.empty((max(2 * len(self.words), ROOM), self.words.shape[1]), np.int32)
            wider[: self.top[0]] = self.words[: self.top[0]]
            self.words = wider
        misses = np.diff(np.concatenate([[0], np.cumsum(missed != NONE)])[truth[0]])
        others, told = np.zeros((n, CANDIDATES), np.float32), np.zeros(n, np.bool_)
        told[slice(None) if judged is None else judged] = True
        return Lesson(sets, ids, scores, X, halves, told, scales, right, misses, labels, starts, pairs, others)

    def learn(self, lesson: Lesson, span: tuple[int, int], passes: int, seed: int) -> None:
        """Learn the weights of lesson.labels[span[0]] .. lesson.labels[span[1] - 1], each once."""
        pairs = lesson.labels, lesson.starts, lesson.pairs, lesson.right
        rows = lesson.X, lesson.scales, lesson.halves, lesson.judged
        solve(self._tables, self.bias, *pairs, *rows, *span, passes, seed, lesson.others)

    def tell(self, lesson: Lesson, rows: np.ndarray, stored: bool) -> Told:
        """The figures of some rows of a lesson; `stored`: the rows are counted among those of their labels."""
        room = len(rows) * CANDIDATES
        told = Told(
            np.empty(len(rows) + 1, np.int64), np.empty((FIGURES, room), np.float32), np.empty(room, np.bool_),
            lesson.misses[rows],
        )  # fmt: skip
        hits = lesson.sets, lesson.ids, lesson.scores, lesson.right, lesson.others
        tell_rows(self.counts, *hits, rows, stored, told.bounds, told.figures, told.truths)
        return told

    def mix(self, told: Told, first: int, last: int) -> None:
        """Learn to mix the figures of the labels of rows first .. last - 1 of those that were told."""
        gradient, lower = np.zeros(FIGURES), np.zeros((FIGURES, FIGURES))
        labels = slice(*told.bounds[[first, last]].tolist())
        # Side by side, so that the processor takes many at a time.
        figures = np.ascontiguousarray(told.figures[:, labels])
        mix_labels(self.mixture, gradient, lower, self.outcomes, figures, told.truths[labels])
        self.curvature += min((last - first) / HORIZON, 0.5) * (STEADINESS * np.eye(FIGURES) - self.curvature)
        self.curvature += lower + np.tril(lower, -1).T
        # A step of Newton's method, by the curvature of the rows of late.
        self.mixture -= np.clip(np.linalg.solve(self.curvature, gradient), -1, 1)
        self.missed += int(told.misses[first:last].sum())

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
