"""Codes: keys as bytes, by which a search compares them; only the best candidates are compared by their keys.

codes      int8 (rows, width): round((x - centre) / step), cut off at +-127, for each row; the columns behind the d-th are 0,
           as codes are compared 32 numbers at a time. For the cosine x is divided by its length first. No rows where codes
           would be too coarse (`tuning.py`): keys are then compared by themselves
scaling    float32 (d + 1): the centre, and 1 / step; 0 where there are no codes
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import CACHE_LINE, DIMENSION, SLOT
from memorytree.engine.dispatch import code_factor, key_distance
from memorytree.engine.jit import body_for, byte_distance, helper, prefetch
from memorytree.engine.scorers.cosine import squared_length

LARGEST = 127  # number in a code

Query = namedtuple("Query", "x code skipped")
"""A query: the key, its code (int16, one row), and a row that is left out (NONE: none is). The code of a query may be larger
than those of stored keys, so that one from outside their range is compared well."""


@helper
def is_coded(tree):
    """Return whether keys are compared by their codes."""
    return tree.codes.shape[0] > 0


@body_for(dispatch.code_factor, "dense", "distance")
def whole_key(tree, x):
    return np.float32(1)


@body_for(dispatch.code_factor, "dense", "cosine")
def unit_key(tree, x):
    length = np.sqrt(squared_length(x))
    return np.float32(1 / length if length > 0 else 0)


@helper
def encode(tree, x, codes, row, largest):
    """Write the code of a key to a row of a matrix; returns how many of its numbers were cut off at `largest`."""
    d, scaling, factor = x.shape[0], tree.scaling, code_factor(tree, x)
    step, largest = scaling[d], np.float32(largest)
    cut_off = 0
    for j in range(d):
        value = np.rint((factor * x[j] - scaling[j]) * step)
        bounded = max(-largest, min(largest, value))
        cut_off += value != bounded
        codes[row, j] = np.int16(bounded)
    for j in range(d, codes.shape[1]):
        codes[row, j] = 0
    return cut_off


@helper
def largest_in_query(width):
    """Return the largest number in the code of a query for which squared distances of this width fit into 31 bits."""
    return min(np.int64(np.sqrt(2.0**31 / width)) - 2 * LARGEST, 2**14)


@helper
def code_distance(codes, row, other_codes, other):
    """Return the squared distance (float32) of two codes, rows of two matrices."""
    return np.float32(byte_distance(codes, row, other_codes, other))


@helper
def distance_to(tree, row, query):
    """Return the distance (float32) between the memory in a row and a query, as the graph measures it."""
    if is_coded(tree):
        return code_distance(tree.codes, row, query.code, 0)
    return np.float32(max(key_distance(tree, tree.rows[row, SLOT], query.x), 0.0))


@helper
def distance_between(tree, row, other):
    """Return the distance (float32) between the memories in two rows, as the graph measures it."""
    if is_coded(tree):
        return code_distance(tree.codes, row, tree.codes, other)
    return np.float32(max(key_distance(tree, tree.rows[row, SLOT], tree.keys[tree.rows[other, SLOT]]), 0.0))


@helper
def prefetch_code(tree, row):
    """Start loading what `distance_to` reads of a row."""
    if not is_coded(tree):
        prefetch_key(tree, np.int64(tree.rows[row, SLOT]))
        return
    codes = tree.codes
    start = row * codes.shape[1]
    end = start + codes.shape[1]
    while start < end:
        prefetch(codes, start)
        start += CACHE_LINE


@helper
def prefetch_key(tree, slot):
    """Start loading a key."""
    keys = tree.keys
    start = slot * keys.shape[1]
    end = start + tree.counters[DIMENSION]
    while start < end:
        prefetch(keys, start)
        start += CACHE_LINE // 4


@helper
def prefetch_links(neighbours, row):
    """Start loading the list of neighbours of a row."""
    start = row * neighbours.shape[1]
    end = start + neighbours.shape[1]
    while start < end:
        prefetch(neighbours, start)
        start += CACHE_LINE // 4
