"""Scores of classes: the votes of the memories that a query returned, mixed with one-against-some linear weights.

Only the labels that the returned memories carry are looked at, so a prediction costs the same however many classes there
are. Four figures speak for a label: its linear score on what is seen of the key, the logarithm of its share of the votes in
two elections, and its best similarity. In one election a vote weighs by how similar the memory is, in the other by how near
it is compared with the farthest one returned: where keys have few features or rows are many, all are similar. Four shared
coefficients mix the figures. The linear score of a label with m memories counts (m - 1) / m: weights that come from a single
memory know no more than that memory itself.
"""

from __future__ import annotations

import numpy as np

from memorytree.engine.arrays import NONE
from memorytree.engine.dense import dot
from memorytree.engine.jit import fast_helper, helper, kernel

LINEAR, SIMILAR, NEAR, NEAREST, FIGURES = range(5)
FIRST_MIX = (6.0, 1.0, 1.0, 1.0)
SHARPNESS = 12.0  # in the election by similarity a vote weighs exp(SHARPNESS * similarity)
LEAST_SHARE = 0.02  # of the votes, for labels that have next to none
LEAST_DISTANCE = 1e-6  # what single precision can tell apart
MIX_RATE, LINEAR_RATE = 0.05, 0.5
CONSTANT = 0.5  # seen of every key, beside a vector of length one


@helper
def gather(ids, scores, i, labels, found, figures):
    """The labels of the memories returned for query i into `found`, and what the votes say for each; how many there are."""
    best, farthest, similar, near, n = -np.inf, LEAST_DISTANCE, 0.0, 0.0, 0
    for j in range(ids.shape[1]):
        if ids[i, j] != NONE:
            best = max(best, np.float64(scores[i, j]))
            farthest = max(farthest, 1.0 - np.float64(scores[i, j]))
    for j in range(ids.shape[1]):
        if ids[i, j] == NONE:
            continue
        label, score = labels[ids[i, j]], np.float64(scores[i, j])
        c = 0
        while c < n and found[c] != label:
            c += 1
        if c == n:
            found[n], figures[n, SIMILAR], figures[n, NEAR], figures[n, NEAREST] = label, 0.0, 0.0, score
            n += 1
        figures[c, NEAREST] = max(figures[c, NEAREST], score)
        vote = np.exp(SHARPNESS * (score - best))
        figures[c, SIMILAR] += vote
        similar += vote
        vote = (farthest / max(1.0 - score, LEAST_DISTANCE)) ** 3
        figures[c, NEAR] += vote
        near += vote
    for c in range(n):
        figures[c, SIMILAR] = np.log(figures[c, SIMILAR] / similar + LEAST_SHARE)
        figures[c, NEAR] = np.log(figures[c, NEAR] / near + LEAST_SHARE)
    return n


@helper
def mix(linear, counts, mixture, seen, i, n, found, figures, results):
    """The score of each of n labels."""
    for c in range(n):
        figures[c, LINEAR] = dot(linear, found[c], seen[i]) * (1.0 - 1.0 / max(counts[found[c]], 1))
        results[c] = 0.0
        for figure in range(FIGURES):
            results[c] += mixture[figure] * figures[c, figure]


@helper
def to_probabilities(results, n):
    """Softmax in place."""
    best, total = -np.inf, 0.0
    for c in range(n):
        best = max(best, results[c])
    for c in range(n):
        results[c] = np.exp(results[c] - best)
        total += results[c]
    for c in range(n):
        results[c] /= total


@fast_helper
def step(linear, label, seen, i, width, size):
    """Move the first `width` weights of a label along what is seen of query i."""
    for a in range(width):
        linear[label, a] -= size * seen[i, a]


@kernel
def score_classes(ids, scores, labels, linear, counts, mixture, seen, found, chances):
    """For each query the labels of its memories (NONE behind the last) and their probabilities."""
    figures = np.empty((ids.shape[1], FIGURES), np.float64)
    results, here = np.empty(ids.shape[1], np.float64), np.empty(ids.shape[1], np.int64)
    for i in range(ids.shape[0]):
        n = gather(ids, scores, i, labels, here, figures)
        mix(linear, counts, mixture, seen, i, n, here, figures, results)
        to_probabilities(results, n)
        for c in range(ids.shape[1]):
            found[i, c] = here[c] if c < n else NONE
            chances[i, c] = results[c] if c < n else 0.0


@kernel
def learn_classes(ids, scores, labels, truth, stored, linear, squares, counts, mixture, mixture_squares, seen):
    """Learn from the true label of each query, one after the other; `stored` tells whether they are memories themselves.

    Half of the gradient of the linear weights comes from the softmax of the linear scores alone and half from that of the
    whole mixture: from the mixture alone the linear weights would starve where votes are good, from themselves alone they
    would waste their strength on what votes settle. A true label that no memory brought is added to the linear half only.
    """
    k = ids.shape[1]
    # Rows that come as they like may come label by label: the constant's weight would follow whichever came last.
    width = linear.shape[1] if stored else linear.shape[1] - 1
    figures = np.empty((k + 1, FIGURES), np.float64)
    whole, alone, found = np.empty(k + 1, np.float64), np.empty(k + 1, np.float64), np.empty(k + 1, np.int64)
    for i in range(ids.shape[0]):
        n = gather(ids, scores, i, labels, found, figures)
        true, lowest = NONE, 1.0
        for c in range(n):
            lowest = min(lowest, figures[c, NEAREST])
            if found[c] == truth[i]:
                true = c
        brought = true != NONE
        if not brought and counts[truth[i]] < (2 if stored else 1):
            continue  # nothing is to be learned from a label without other memories
        if not brought:
            true = n
            found[n], figures[n, NEAREST] = truth[i], lowest
            figures[n, SIMILAR] = figures[n, NEAR] = np.log(LEAST_SHARE)
            n += 1
        mix(linear, counts, mixture, seen, i, n, found, figures, whole)
        for c in range(n):
            alone[c] = mixture[LINEAR] * figures[c, LINEAR]
        to_probabilities(whole, n)
        to_probabilities(alone, n)
        whole[true] -= 1.0
        alone[true] -= 1.0
        for c in range(n):
            g = mixture[LINEAR] * (0.5 * (whole[c] + alone[c]) if brought else alone[c])
            if abs(g) > 1e-4:
                squares[found[c]] += g * g
                step(linear, found[c], seen, i, width, np.float32(LINEAR_RATE * g / np.sqrt(squares[found[c]])))
        if brought:
            for figure in range(FIGURES):
                g = 0.0
                for c in range(n):
                    g += whole[c] * figures[c, figure]
                mixture_squares[figure] += g * g
                mixture[figure] -= MIX_RATE * g / np.sqrt(mixture_squares[figure])


def with_room(arrays: tuple[np.ndarray, ...], size: int) -> tuple[np.ndarray, ...]:
    """Arrays of one length, doubled until they have this much; what is new is zero."""
    while len(arrays[0]) < size:
        arrays = tuple(np.concatenate([array, np.zeros_like(array)]) for array in arrays)
    return arrays


def with_constant(seen: np.ndarray) -> np.ndarray:
    """What is seen of keys, and a constant behind it: its weight tells how likely a label is beforehand, and, with the
    number that tells how far a key lies from the mean, which labels lie inside of others."""
    return np.hstack([seen, np.full((len(seen), 1), CONSTANT, np.float32)])


class ClassModel:
    """What has been learned of the classes; labels are numbers here, in the order in which they first came."""

    def __init__(self, width: int):
        self.linear = np.zeros((16, width + 1), np.float32)  # the last weight is the constant's
        self.squares = np.zeros(16, np.float64)
        self.counts = np.zeros(16, np.int64)
        self.mixture = np.array(FIRST_MIX)
        self.mixture_squares = np.ones(FIGURES)

    def make_room(self, classes: int) -> None:
        """Be ready for labels below `classes`."""
        self.linear, self.squares, self.counts = with_room((self.linear, self.squares, self.counts), classes)

    def in_space(self, width: int) -> ClassModel:
        """A model that knows how often each label came, and has everything else still to learn, in another space."""
        twin = ClassModel(width)
        twin.make_room(len(self.counts))
        twin.counts[:] = self.counts
        return twin

    def join(self, codes: np.ndarray, ids: np.ndarray, seen: np.ndarray) -> None:
        """Rows with these labels have become memories."""
        np.add.at(self.counts, codes, 1)

    def learn(
        self,
        ids: np.ndarray,
        scores: np.ndarray,
        labels: np.ndarray,
        truth: np.ndarray,
        seen: np.ndarray,
        own: np.ndarray | None,
        first_pass: bool,
    ) -> None:
        """Learn from the true labels of queries; `own` are their memories where they are stored. labels[id]: a memory's."""
        learned = self.linear, self.squares, self.counts, self.mixture, self.mixture_squares
        learn_classes(ids, scores, labels, truth, own is not None, *learned, with_constant(seen))

    def score(
        self, ids: np.ndarray, scores: np.ndarray, labels: np.ndarray, seen: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """For each query the labels of its memories (-1 behind the last) and their probabilities."""
        found, chances = np.empty(ids.shape, np.int64), np.empty(ids.shape, np.float64)
        learned = self.linear, self.counts, self.mixture
        score_classes(ids, scores, labels, *learned, with_constant(seen), found, chances)
        return found, chances
