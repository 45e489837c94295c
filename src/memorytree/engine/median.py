"""Selection and the threshold nearest to the median."""

import numpy as np

from memorytree.engine.jit import helper


@helper
def nth_smallest(values, n):
    """Return the value at index n of the sorted values (quickselect; reorders `values`)."""
    low, high = 0, values.shape[0] - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            break
    return values[n]


@helper
def median_cut(values):
    """Return (True, threshold) that halves float32 values of shape (n,) as evenly as possible, (False, 0) if all are equal.

    Values up to the threshold are left of the cut. The threshold lies midway between two neighbouring values.
    """
    n = values.shape[0]
    middle = nth_smallest(values.copy(), n // 2)
    below, upto = 0, 0
    previous, following = -np.inf, np.inf
    for value in values:
        if value < middle:
            below += 1
            previous = max(previous, np.float64(value))
        elif value > middle:
            following = min(following, np.float64(value))
        else:
            upto += 1
    upto += below
    if below == 0 and upto == n:
        return False, np.float32(0)
    # Of two equally even cuts take the lower one.
    if upto == n or (below > 0 and abs(2 * below - n) <= abs(2 * upto - n)):
        low, high = np.float32(previous), np.float32(middle)
    else:
        low, high = np.float32(middle), np.float32(following)
    threshold = np.float32((np.float64(low) + np.float64(high)) / 2)
    return True, threshold if low <= threshold < high else low
