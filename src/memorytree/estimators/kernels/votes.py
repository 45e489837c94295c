"""Votes of the memories that a query returned for their labels; the labels with the most votes become candidates."""

from typing import NamedTuple

import numpy as np

from memorytree.engine.heap import push, replace_top
from memorytree.engine.jit import helper, prefetch
from memorytree.estimators.kernels.records import NO_LABEL
from memorytree.results import NO_ID

MAX_CANDIDATES = 32
POWERS = 4  # a vote weighs the similarity to the powers 1, 2, 4 and 8
BEST = POWERS  # column of `Ballot.votes` behind those: the best similarity
LEAST_SIMILARITY = 1e-3  # lower bound of a similarity, so that all votes are equal where no memory is similar


class Ballot(NamedTuple):
    """Working memory to count the votes for one row after another."""

    slots: np.ndarray  # (labels,) int32, position of a label in `labels` while a row is counted; NO_LABEL otherwise
    labels: np.ndarray  # labels of the memories of one row
    votes: np.ndarray  # (len(labels), POWERS + 1)
    totals: np.ndarray  # (POWERS,) sums of the votes of all memories
    heights: np.ndarray  # (MAX_CANDIDATES,) heap of the votes of the chosen labels
    chosen: np.ndarray  # (MAX_CANDIDATES,) positions of the chosen labels


@helper
def empty_ballot(n_labels):
    """Working memory for labels below n_labels."""
    return Ballot(
        np.full(n_labels, NO_LABEL, np.int32),
        np.empty(0, np.int64),
        np.empty((0, POWERS + 1)),
        np.empty(POWERS),
        np.empty(MAX_CANDIDATES),
        np.empty(MAX_CANDIDATES, np.int64),
    )


@helper
def count_labels(hits, i):
    """How many labels the memories found for row i have, repetitions included. Prefetches them."""
    starts, sizes, pool = hits.sets
    ids = hits.ids
    for j in range(ids.shape[1]):
        if ids[i, j] != NO_ID:
            prefetch(starts, ids[i, j])
            prefetch(sizes, ids[i, j])
    total = 0
    for j in range(ids.shape[1]):
        if ids[i, j] != NO_ID:
            total += sizes[ids[i, j]]
            prefetch(pool, starts[ids[i, j]])
    return total


@helper
def with_room(ballot, n):
    """The ballot, with larger arrays if a row may have more than its present number of labels."""
    if n <= ballot.labels.shape[0]:
        return ballot
    labels, votes = np.empty(2 * n, np.int64), np.empty((2 * n, POWERS + 1))
    return Ballot(ballot.slots, labels, votes, ballot.totals, ballot.heights, ballot.chosen)


@helper
def count_votes(hits, i, ballot):
    """Write the labels of the memories found for row i, their votes and the totals; returns how many labels there are."""
    starts, sizes, pool = hits.sets
    slots, labels, votes, totals = ballot.slots, ballot.labels, ballot.votes, ballot.totals
    ids = hits.ids
    n = 0
    for p in range(POWERS):
        totals[p] = 0.0
    for j in range(ids.shape[1]):
        if ids[i, j] == NO_ID:
            continue
        one = max(np.float64(hits.scores[i, j]), LEAST_SIMILARITY)
        two = one * one
        four = two * two
        eight = four * four
        totals[0] += one
        totals[1] += two
        totals[2] += four
        totals[3] += eight
        start = starts[ids[i, j]]
        for at in range(start, start + sizes[ids[i, j]]):
            c = slots[pool[at]]
            if c == NO_LABEL:
                c = n
                n += 1
                slots[pool[at]] = c
                labels[c] = pool[at]
                for column in range(POWERS + 1):
                    votes[c, column] = 0.0
            votes[c, 0] += one
            votes[c, 1] += two
            votes[c, 2] += four
            votes[c, 3] += eight
            votes[c, BEST] = max(votes[c, BEST], one)
    for c in range(n):
        slots[labels[c]] = NO_LABEL
    return n


@helper
def choose(ballot, n):
    """Write the positions of those of n labels that have the most votes; returns how many are chosen."""
    votes, heights, chosen = ballot.votes, ballot.heights, ballot.chosen
    if n <= MAX_CANDIDATES:
        for c in range(n):
            chosen[c] = c
        return n
    for c in range(n):
        if c < MAX_CANDIDATES:
            push(heights, chosen, c, votes[c, 1], c)
        elif votes[c, 1] > heights[0]:
            replace_top(heights, chosen, MAX_CANDIDATES, votes[c, 1], c)
    return MAX_CANDIDATES
