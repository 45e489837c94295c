"""Binary heaps and short sorted lists in pairs of arrays: costs (or distances) and the items that they belong to.

A heap occupies `size` entries from index `first` on; the entry with the lowest cost is on top. `cost(value, item)` is a
helper that computes what the heap is ordered by; for most heaps it is the value itself.
"""

from memorytree.engine.jit import helper


@helper
def value_of(value, item):
    """Return the value: the cost of an entry of an ordinary heap."""
    return value


@helper
def sift_up(cost, values, items, first, place):
    """Move an entry up until its parent costs no more."""
    value, item = values[first + place], items[first + place]
    own = cost(value, item)
    while place > 0:
        parent = (place - 1) // 2
        if not cost(values[first + parent], items[first + parent]) > own:
            break
        values[first + place], items[first + place] = values[first + parent], items[first + parent]
        place = parent
    values[first + place], items[first + place] = value, item


@helper
def sift_down(cost, values, items, first, size, place):
    """Move an entry down until both its children cost no less."""
    value, item = values[first + place], items[first + place]
    own = cost(value, item)
    while 2 * place + 1 < size:
        child = 2 * place + 1
        least = cost(values[first + child], items[first + child])
        if child + 1 < size:
            other = cost(values[first + child + 1], items[first + child + 1])
            if other < least:
                child, least = child + 1, other
        if least >= own:
            break
        values[first + place], items[first + place] = values[first + child], items[first + child]
        place = child
    values[first + place], items[first + place] = value, item


@helper
def push(costs, items, size, cost, item):
    """Add an entry to a heap of `size` entries."""
    costs[size], items[size] = cost, item
    sift_up(value_of, costs, items, 0, size)


@helper
def replace_top(costs, items, size, cost, item):
    """Replace the top of a heap."""
    costs[0], items[0] = cost, item
    sift_down(value_of, costs, items, 0, size, 0)


@helper
def pop(costs, items, size):
    """Remove and return the top of a heap of `size` entries; it is overwritten."""
    cost, item = costs[0], items[0]
    replace_top(costs, items, size - 1, costs[size - 1], items[size - 1])
    return cost, item


@helper
def insert_sorted(values, items, size, value, item):
    """Insert an entry into ascending arrays of which `size` places are filled, behind equal values; returns its place.

    If the arrays are full the last entry is dropped; the value must then not exceed that of the last entry.
    """
    place = size if size < items.shape[0] else items.shape[0] - 1
    while place > 0 and values[place - 1] > value:
        values[place], items[place] = values[place - 1], items[place - 1]
        place -= 1
    values[place], items[place] = value, item
    return place
