"""Candidate lists: ascending uint64 arrays of (distance, row, whether the row was expanded), each packed into one number.

The upper 32 bits are the bits of the distance, a float32 that is not negative, so that packed candidates are ordered by
distance; then come 31 bits of the row, and the lowest bit is set once the row was expanded.
"""

import numpy as np

from memorytree.engine.jit import helper, shift_up

EXPANDED = np.uint64(1)
_LOWER = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@helper
def pack(distance, row):
    """Return the candidate for a row at a distance (float32, at least 0)."""
    bits = np.uint64(np.float32(distance).view(np.uint32))
    return (bits << _32) | (np.uint64(row) << EXPANDED)


@helper
def row_in(candidate):
    """Return the row of a candidate."""
    return np.int64((candidate & _LOWER) >> EXPANDED)


@helper
def distance_in(candidate):
    """Return the distance (float32) of a candidate."""
    return np.uint32(candidate >> _32).view(np.float32)


@helper
def insert_candidate(candidates, size, candidate):
    """Insert a candidate into a list of which `size` places are filled; returns (new size, place).

    A full list drops its last candidate. If the list is full of nearer ones or holds the row already, nothing changes and the
    place is the length of the array.
    """
    capacity = candidates.shape[0]
    if size == capacity and candidate >= candidates[capacity - 1]:
        return size, capacity
    low, high = np.int64(0), np.int64(size)
    while low < high:
        middle = (low + high) >> 1
        if candidates[middle] < candidate:
            low = middle + 1
        else:
            high = middle
    # Equal rows have equal distances; they differ in the lowest bit at most, so they are next to each other.
    if low < size and candidates[low] | EXPANDED == candidate | EXPANDED:
        return size, capacity
    if low > 0 and candidates[low - 1] | EXPANDED == candidate | EXPANDED:
        return size, capacity
    last = size if size < capacity else capacity - 1
    shift_up(candidates, low, last)
    candidates[low] = candidate
    return last + 1, low


@helper
def is_new(visited, row):
    """Add a row to the table of visited rows; returns False if it is there.

    The table (uint32, a power of two, zero where empty) forgets a row when another one takes its place. A row that is
    visited twice costs time only, so nothing may rely on the table to leave rows out.
    """
    place = (row * 2654435761 >> 12) & (visited.shape[0] - 1)
    if visited[place] == row + 1:
        return False
    visited[place] = row + 1
    return True
