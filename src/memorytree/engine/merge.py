"""Merge the answers of several trees to one query."""

import numpy as np

from memorytree.engine.jit import blank, kernel
from memorytree.engine.arrays import NONE


@kernel
def merge_rows(found, values, ids, scores):
    """Fill each row of ids and scores (n, k) with the k best of what all trees found, each memory once.

    Args:
        found: ids (trees, n, k), each row best first and padded with NONE.
        values: their scores, of the same shape.
    """
    trees, k = found.shape[0], ids.shape[1]
    at = blank(trees, np.int64)
    for i in range(ids.shape[0]):
        for tree in range(trees):
            at[tree] = 0
        filled = 0
        while filled < k:
            best = -1
            for tree in range(trees):
                there = at[tree] < k and found[tree, i, at[tree]] != NONE
                if there and (best < 0 or values[tree, i, at[tree]] > values[best, i, at[best]]):
                    best = tree
            if best < 0:
                break
            id, value = found[best, i, at[best]], values[best, i, at[best]]
            at[best] += 1
            # A memory has the same score in every tree, so a duplicate is among the last equal scores.
            j = filled - 1
            while j >= 0 and scores[i, j] == value and ids[i, j] != id:
                j -= 1
            if j < 0 or ids[i, j] != id:
                ids[i, filled], scores[i, filled] = id, value
                filled += 1
        for j in range(filled, k):
            ids[i, j], scores[i, j] = NONE, -np.inf
