"""Open-addressing hash maps with linear probing. Table sizes are powers of two; NONE marks an empty place.

A map of plain keys is an integer array of shape (size,). A map of entries has shape (n, 2), with the key in column 0; it may
be a part of a pool and then occupies the rows first .. first + size - 1.
"""

import numpy as np

from memorytree.engine.arrays import IDS, NONE
from memorytree.engine.jit import blank, helper
from memorytree.engine.rng import mix

KEY = 0  # column of the key in a map of entries
SMALLEST_TABLE = 16
# Where a table would have more than this part of all features as its size, it gets a place for each feature instead.
DIRECT_TABLE_RATIO = 4
_SHIFT = np.uint64(40)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@helper
def spread(key):
    """Return a hash of a number whose lowest bits are the place where its search begins in a table of any size."""
    return np.int64((np.uint64(key) * _MULTIPLIER) >> _SHIFT)


@helper
def home(key, size):
    """Return the place where the search for a key begins in a table of this size."""
    return spread(key) & (size - 1)


@helper
def probe(keys, place, key):
    """Return the first place, from `place` on and cyclically, that holds the key or nothing."""
    while (keys[place] != key) & (keys[place] != NONE):  # & compiles to one branch instead of two
        place = (place + 1) & (keys.shape[0] - 1)
    return place


@helper
def place_in(keys, key):
    """Return the place of a key in a map of plain keys, or the empty place where it belongs."""
    return probe(keys, home(key, keys.shape[0]), key)


@helper
def find(entries, first, size, key):
    """Return the row of a key in a map of entries, or the empty row where it belongs."""
    return find_from(home(key, size), entries, first, size, key)


@helper
def find_from(place, entries, first, size, key):
    """Return what `find` returns, given the home of the key."""
    while (entries[first + place, KEY] != key) & (entries[first + place, KEY] != NONE):
        place = (place + 1) & (size - 1)
    return first + place


@helper
def place_of_term(prepared, term):
    """Return the place of a term in the table of a query of term lists, as an unsigned index."""
    return np.uint64(term) if prepared.direct else np.uint64(place_in(prepared.table, term))


@helper
def find_id(tree, id):
    """Return the place of an id in the map of ids, or the empty place where it belongs."""
    return probe(tree.id_keys, np.int64(mix(np.uint64(id))) & (tree.id_keys.shape[0] - 1), id)


@helper
def row_of_id(tree, id):
    """Return the row of a memory, or NONE."""
    if id < 0:
        return np.int64(NONE)
    place = find_id(tree, id)
    return np.int64(tree.id_rows[place]) if tree.id_keys[place] == id else np.int64(NONE)


@helper
def add_id(tree, id, row):
    """Map an id to its row. At least half of the map stays empty."""
    if 2 * (tree.counters[IDS] + 1) > tree.id_keys.shape[0]:
        keys, rows = tree.id_keys, tree.id_rows
        tree.id_keys = blank(2 * keys.shape[0], np.int64)
        tree.id_rows = blank(2 * keys.shape[0], np.int32)
        for place in range(tree.id_keys.shape[0]):
            tree.id_keys[place] = NONE
        for old in range(keys.shape[0]):
            if keys[old] != NONE:
                place = find_id(tree, keys[old])
                tree.id_keys[place] = keys[old]
                tree.id_rows[place] = rows[old]
    place = find_id(tree, id)
    tree.id_keys[place] = id
    tree.id_rows[place] = row
    tree.counters[IDS] += 1


@helper
def remove_id(tree, id):
    """Remove an id from the map and move later entries into the gap, so that every search still ends where it should."""
    mask = tree.id_keys.shape[0] - 1
    gap = find_id(tree, id)
    place = gap
    while True:
        place = (place + 1) & mask
        other = tree.id_keys[place]
        if other == NONE:
            break
        start = np.int64(mix(np.uint64(other))) & mask
        # An entry may move into the gap only if its own search does not begin behind the gap.
        if (place - start) & mask >= (place - gap) & mask:
            tree.id_keys[gap] = other
            tree.id_rows[gap] = tree.id_rows[place]
            gap = place
    tree.id_keys[gap] = NONE
    tree.counters[IDS] -= 1
