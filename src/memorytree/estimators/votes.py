"""What the memories that a query returned vote for: their labels, at most `CANDIDATES`, those with the most votes."""

import numpy as np

from memorytree.engine import search
from memorytree.engine.arrays import NONE
from memorytree.engine.jit import helper, prefetch

CANDIDATES = 32
POWERS = 4  # similarity to the powers 1, 2, 4, 8
BEST = POWERS  # column of `votes` behind those: the best similarity
LEAST_SIMILARITY = 1e-3  # what a memory counts for at least: where none is similar all have the same vote


@helper
def gather(ids, scores, i, sets, slot_of, found, votes, totals):
    """The labels of the memories returned for query i into `found`, and their votes; returns how many there are."""
    starts, sizes, pool = sets
    n = 0
    for p in range(POWERS):
        totals[p] = 0.0
    for j in range(ids.shape[1]):
        if ids[i, j] == NONE:
            continue
        one = max(np.float64(scores[i, j]), LEAST_SIMILARITY)
        two = one * one
        four = two * two
        eight = four * four
        totals[0] += one
        totals[1] += two
        totals[2] += four
        totals[3] += eight
        start = starts[ids[i, j]]
        for at in range(start, start + sizes[ids[i, j]]):
            c = slot_of[pool[at]]
            if c == NONE:
                c = n
                n += 1
                slot_of[pool[at]] = c
                found[c] = pool[at]
                for column in range(POWERS + 1):
                    votes[c, column] = 0.0
            votes[c, 0] += one
            votes[c, 1] += two
            votes[c, 2] += four
            votes[c, 3] += eight
            votes[c, BEST] = max(votes[c, BEST], one)
    for c in range(n):
        slot_of[found[c]] = NONE
    return n


@helper
def choose(votes, n, heights, chosen):
    """The places of those of n labels that have the most votes; returns how many there are."""
    if n <= CANDIDATES:
        for c in range(n):
            chosen[c] = c
        return n
    for c in range(n):
        if c < CANDIDATES:
            search.push(heights, chosen, c, votes[c, 1], c)
        elif votes[c, 1] > heights[0]:
            search.replace_top(heights, chosen, CANDIDATES, votes[c, 1], c)
    return CANDIDATES


@helper
def labels_brought(ids, i, sets):
    """How many labels the memories returned for query i have, counting each as often as it occurs; have them at hand."""
    starts, sizes, pool = sets
    for j in range(ids.shape[1]):
        if ids[i, j] != NONE:
            prefetch(starts, ids[i, j])
            prefetch(sizes, ids[i, j])
    total = 0
    for j in range(ids.shape[1]):
        if ids[i, j] != NONE:
            total += sizes[ids[i, j]]
            prefetch(pool, starts[ids[i, j]])
    return total
