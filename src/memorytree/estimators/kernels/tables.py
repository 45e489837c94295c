"""One open-addressing hash table from columns to values for each label, all in one pool.

Space is taken only for pairs of label and column that occur together. A table that is full moves to the end of the pool; the
table that is last there grows in place. A table whose size comes near the number of columns gets an entry for each column,
at the column's number, and needs no search.
"""

import numpy as np

from memorytree.engine.hash_map import DIRECT_TABLE_RATIO, find_from, spread
from memorytree.engine.jit import helper
from memorytree.estimators.kernels.records import NO_LABEL

FIRST, SIZE, USED = range(3)  # columns of `FeatureTables.spans`
COLUMN = 0  # column of `FeatureTables.words` that holds the column of X
SMALLEST_TABLE = 16
UNBOUNDED = np.int64(2**62)  # n_columns of tables that never hold an entry for each column


@helper
def max_growth(tables, label, more):
    """The most entries that `reserve` may take from the pool."""
    size = 4 * (tables.spans[label, USED] + more + SMALLEST_TABLE)
    return max(size, 2 * tables.n_columns) if DIRECT_TABLE_RATIO * size >= tables.n_columns else size


@helper
def find_entry(tables, first, size, column):
    """The entry of a column in the table that begins at `first`, or the empty entry where it would go."""
    home = np.int64(column) if size >= tables.n_columns else spread(column) & (size - 1)
    return find_from(home, tables.words, first, size, column)


@helper
def clear(words, first, size):
    """Make entries empty."""
    for entry in range(first, first + size):
        words[entry, COLUMN] = NO_LABEL
        for j in range(1, words.shape[1]):
            words[entry, j] = 0


@helper
def reserve(tables, label, more):
    """Make a label's table large enough for `more` columns with half of it empty.

    The caller has checked that the pool has `max_growth` entries left.
    """
    spans, words = tables.spans, tables.words
    old, old_size, used = spans[label, FIRST], spans[label, SIZE], spans[label, USED]
    if 2 * (used + more) <= old_size or old_size >= tables.n_columns:
        return
    size = SMALLEST_TABLE
    while size < 2 * (used + more):
        size *= 2
    if DIRECT_TABLE_RATIO * size >= tables.n_columns:
        while size < tables.n_columns:
            size *= 2
    first = tables.top[0]
    tables.top[0] += size
    clear(words, first, size)
    for entry in range(old, old + old_size):
        if words[entry, COLUMN] != NO_LABEL:
            target = find_entry(tables, first, size, words[entry, COLUMN])
            for j in range(words.shape[1]):
                words[target, j] = words[entry, j]
    if old_size > 0 and old + old_size == first:  # it was the last table: move it back over its old entries
        for entry in range(size):
            for j in range(words.shape[1]):
                words[old + entry, j] = words[first + entry, j]
        first = old
        tables.top[0] = old + size
    spans[label, FIRST], spans[label, SIZE] = first, size


@helper
def find_or_add(tables, label, column):
    """The entry of a column in a label's table, added if it is missing; `reserve` has made room for it."""
    entry = find_entry(tables, tables.spans[label, FIRST], tables.spans[label, SIZE], column)
    if tables.words[entry, COLUMN] == NO_LABEL:
        tables.words[entry, COLUMN] = column
        tables.spans[label, USED] += 1
    return entry
