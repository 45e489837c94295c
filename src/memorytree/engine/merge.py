"""Several answers to one query become one, or a long one a short one."""

import numpy as np

from memorytree.engine.arrays import GENERATION, LEAF, NONE
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import blank, kernel
from memorytree.engine.search import HITS, PLACES, WANTED


@kernel
def merge_rows(first_tree, found, values, first, last, ids, scores, traces):
    """Rows first .. last - 1 of ids and scores: the k best of what all trees found, each memory once.

    The traces are those of the first tree, and tell where it keeps the hits.
    """
    trees, k = found.shape[0], ids.shape[1]
    at = blank(trees, np.int64)
    for i in range(first, last):
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
            # A memory has the same score in every tree, so if it is there already, then among the last equals.
            j = filled - 1
            while j >= 0 and scores[i, j] == value and ids[i, j] != id:
                j -= 1
            if j < 0 or ids[i, j] != id:
                ids[i, filled], scores[i, filled] = id, value
                filled += 1
        for j in range(filled, k):
            ids[i, j], scores[i, j] = NONE, -np.inf
        if traces.shape[0]:
            traces[i, HITS] = filled
            for j in range(filled):
                leaf = first_tree.rows[row_of_id(first_tree, ids[i, j]), LEAF]
                traces[i, PLACES + 2 * j] = leaf
                traces[i, PLACES + 2 * j + 1] = first_tree.nodes[leaf, GENERATION]


@kernel
def shorten(wide, found, ids, traces):
    """The traces of candidates `found` as traces of those among them that were chosen, `ids`."""
    wanted, k = found.shape[1], ids.shape[1]
    for i in range(ids.shape[0]):
        traces[i, :PLACES] = wide[i, :PLACES]
        traces[i, PLACES + 2 * k :] = wide[i, PLACES + 2 * wanted :]
        traces[i, WANTED], traces[i, HITS] = k, 0
        for j in range(k):
            if ids[i, j] != NONE:
                at = 0
                while found[i, at] != ids[i, j]:
                    at += 1
                traces[i, PLACES + 2 * j] = wide[i, PLACES + 2 * at]
                traces[i, PLACES + 2 * j + 1] = wide[i, PLACES + 2 * at + 1]
                traces[i, HITS] += 1
