"""Growing arrays, and free lists for pools of runs.

A pool is an array that is divided into runs. The free runs of one size class form a chain: `free[kind]` is the first, and
the first entry of each run holds the next (NONE at the end). Runs begin at multiples of `unit`; links are divided by it.
"""

import numpy as np

from memorytree.engine.arrays import NONE
from memorytree.engine.jit import blank, copy_run, helper

# Extents of slots come in multiples of STEP slots up to STEP * FINE_CLASSES; from there on sizes double.
STEP, FINE_CLASSES = 4, 48


@helper
def lengthened(array, size):
    """Return a longer copy of a one-dimensional array; the new elements are uninitialised."""
    longer = blank(size, array.dtype)
    copy_run(longer, 0, array, 0, array.shape[0])
    return longer


@helper
def grown(matrix, height):
    """Return a copy of a matrix with more rows; the new rows are uninitialised."""
    taller = blank((height, matrix.shape[1]), matrix.dtype)
    copy_run(taller, 0, matrix, 0, matrix.shape[0] * matrix.shape[1])
    return taller


@helper
def pop_free(free, kind, links, unit):
    """Take the first free run of a size class; returns its first place, or NONE if there is none."""
    first = np.int64(free[kind])
    if first != NONE:
        link = np.int64(links[first])
        free[kind] = link if link == NONE else link * unit
    return first


@helper
def push_free(free, kind, links, unit, first):
    """Return a run, which begins at `first`, to its size class."""
    link = np.int64(free[kind])
    links[first] = link if link == NONE else link // unit
    free[kind] = first


@helper
def size_class(size):
    """Return the binary logarithm of a power of two."""
    power = 0
    while 1 << power < size:
        power += 1
    return power


@helper
def extent_class(size):
    """Return the class of the smallest extent that holds this many slots."""
    if size <= STEP * FINE_CLASSES:
        return (size + STEP - 1) // STEP
    kind = FINE_CLASSES
    room = STEP * FINE_CLASSES
    while room < size:
        room *= 2
        kind += 1
    return kind


@helper
def extent_room(kind):
    """Return the number of slots of an extent of this class."""
    return STEP * kind if kind <= FINE_CLASSES else (STEP * FINE_CLASSES) << (kind - FINE_CLASSES)
