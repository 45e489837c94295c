"""Sparse keys: a slot's key is a span of one pool, a node's router an exact open-addressing map feature -> weight.

Every node has a table of its own in a shared pool (tables[node] = start, size, used): tables near the leaves are small
and stay in cache, a node that goes gives its table back, and no two weights ever collide. An entry is 8 bytes (feature,
weight), so that finding a weight touches one cache line; `table_words` and `table_numbers` are the same memory as integers
and as floats. Adagrad's sums of squares, which only learning reads, lie apart in `table_squares`. When the key pool is full
it is written anew leaf by leaf, so that the keys of a leaf lie together and the space of removed keys returns.
"""

import numpy as np

from memorytree.engine import declared
from memorytree.engine.compile import blank, body_for, copy_run, fast_helper, helper, prefetch
from memorytree.engine.dense import grown, lengthened
from memorytree.engine.rng import GAMMA, mix
from memorytree.engine.state import (
    COUNT,
    LEFT,
    NODES,
    NONE,
    POOL,
    POOL_LIVE,
    START,
    TABLES,
)  # fmt: skip

# Columns of `tables` and of `offsets`.
FIRST, SIZE, USED = range(3)
FEATURE, WEIGHT = range(2)
BIAS, THRESHOLD, LENGTH, BIAS_SQUARES = range(4)
SMALLEST_TABLE = 16
NEAR = 4  # a table that would be larger than this part of all features gets a place for each
_SHIFT = np.uint64(40)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@helper
def spread(feature):
    """A number from a feature whose last bits tell where its search begins in any table."""
    return np.int64((np.uint64(feature) * _SPREAD) >> _SHIFT)


@helper
def home(feature, size):
    """Where a feature's search begins in a table of this size (a power of two)."""
    return spread(feature) & (size - 1)


@helper
def find(words, first, size, feature):
    """The place of a feature in a table, or the empty place where it would go."""
    return find_from(home(feature, size), words, first, size, feature)


@helper
def find_from(place, words, first, size, feature):
    """The same where its home is known."""
    while (words[first + place, FEATURE] != feature) & (words[first + place, FEATURE] != NONE):  # one branch, not two
        place = (place + 1) & (size - 1)
    return first + place


@helper
def place_in(table, feature):
    """The same in the table of a query, which is a plain array of features."""
    place = home(feature, table.shape[0])
    while (table[place] != feature) & (table[place] != NONE):
        place = (place + 1) & (table.shape[0] - 1)
    return place


@helper
def place_of_term(prepared, term):
    """The same in a query of term lists, whose table may have a place for every term."""
    return np.uint64(term) if prepared.direct else np.uint64(place_in(prepared.table, term))


@helper
def entries(first, last):
    """The places from first on, before last, as numbers that cannot be negative: Numba then asks at none whether it is."""
    return range(np.uint64(first), np.uint64(last))


@helper
def entries_of(tree, slot):
    """The places of a stored key."""
    return entries(tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1])


@body_for(declared.row_of, "sparse")
def row_of(tree, X, i):
    bounds, features, weights = X
    return features[bounds[i] : bounds[i + 1]], weights[bounds[i] : bounds[i + 1]]


@fast_helper
def sum_of_squares(weights):
    total = 0.0
    for j in range(weights.shape[0]):
        total += np.float64(weights[j]) * weights[j]
    return total


@helper
def shrinking(X, i):
    """What makes row i of a batch as long as one; 0 for a row of zeros."""
    bounds, _, weights = X
    total = sum_of_squares(weights[bounds[i] : bounds[i + 1]])
    return 1.0 / np.sqrt(total) if total > 0 else 0.0


@body_for(declared.prepare, "sparse")
def prepare(tree, x):
    features, weights = x
    # Seven of eight places stay empty, so that most features of other keys are seen to be absent at the first look.
    size = SMALLEST_TABLE
    while size < 8 * features.shape[0]:
        size *= 2
    table = blank(size, np.int32)
    for place in range(size):
        table[place] = NONE
    values = blank(size, np.float32)
    for j in range(features.shape[0]):
        place = place_in(table, features[j])
        table[place] = features[j]
        values[place] = weights[j]
    return table, values, features.shape[0], sum_of_squares(weights)


@body_for(declared.load_key, "sparse")
def load_key(tree, slot):
    first = tree.spans[slot, 0]
    last = first + tree.spans[slot, 1]
    return tree.key_features[first:last], tree.key_weights[first:last]


@body_for(declared.copy_key, "sparse")
def copy_key(tree, slot):
    first, terms = tree.spans[slot, 0], tree.spans[slot, 1]
    features, weights = blank(terms, np.int32), blank(terms, np.float32)
    copy_run(features, 0, tree.key_features, first, terms)
    copy_run(weights, 0, tree.key_weights, first, terms)
    return features, weights


@helper
def repack(tree, size):
    """Write the key pool anew, leaf by leaf, into arrays of this size."""
    features = blank(size, np.int32)
    weights = blank(size, np.float32)
    old_features, old_weights, spans, nodes = tree.key_features, tree.key_weights, tree.spans, tree.nodes
    end = 0
    for node in range(tree.counters[NODES]):
        if nodes[node, LEFT] == NONE:
            for slot in range(nodes[node, START], nodes[node, START] + nodes[node, COUNT]):
                first, terms = spans[slot, 0], spans[slot, 1]
                copy_run(features, end, old_features, first, terms)
                copy_run(weights, end, old_weights, first, terms)
                spans[slot, 0] = end
                end += terms
    tree.key_features, tree.key_weights = features, weights
    tree.counters[POOL] = end


@helper
def make_room(tree, terms, spare):
    """See that keys with so many features in all can be stored; if the pool must be written anew, so many more."""
    size = tree.key_features.shape[0]
    if tree.counters[POOL] + terms > size:
        while size < tree.counters[POOL_LIVE] + terms + spare:
            size *= 2
        repack(tree, size)


@body_for(declared.store_key, "sparse")
def store_key(tree, slot, x):
    features, weights = x
    terms = features.shape[0]
    counters = tree.counters
    make_room(tree, terms, counters[POOL_LIVE] + terms)
    first = counters[POOL]
    copy_run(tree.key_features, first, features, 0, terms)
    copy_run(tree.key_weights, first, weights, 0, terms)
    tree.spans[slot, 0] = first
    tree.spans[slot, 1] = terms
    counters[POOL] += terms
    counters[POOL_LIVE] += terms


@body_for(declared.move_key, "sparse")
def move_key(tree, source, target):
    tree.spans[target, 0] = tree.spans[source, 0]
    tree.spans[target, 1] = tree.spans[source, 1]


@body_for(declared.keys_apart, "sparse")
def keys_apart(tree):
    apart = tree.spans
    tree.spans = blank(apart.shape, np.int64)
    return apart


@body_for(declared.move_from, "sparse")
def move_from(tree, apart, source, target):
    tree.spans[target, 0] = apart[source, 0]
    tree.spans[target, 1] = apart[source, 1]


@body_for(declared.drop_key, "sparse")
def drop_key(tree, slot):
    tree.counters[POOL_LIVE] -= tree.spans[slot, 1]


@body_for(declared.same_key, "sparse")
def same_key(tree, slot, other):
    spans = tree.spans
    if spans[slot, 1] != spans[other, 1]:
        return False
    for j in range(spans[slot, 1]):
        here, there = spans[slot, 0] + j, spans[other, 0] + j
        if tree.key_features[here] != tree.key_features[there] or tree.key_weights[here] != tree.key_weights[there]:
            return False
    return True


@body_for(declared.key_bits, "sparse")
def key_bits(tree, x):
    features, weights = x
    bits = np.uint64(features.shape[0])
    for j in range(features.shape[0]):
        bits = mix(bits + GAMMA * np.uint64(features[j]))
        bits = mix(bits + GAMMA * np.uint64(np.float32(weights[j]).view(np.uint32)))
    return bits


@body_for(declared.reserve_keys, "sparse")
def reserve_keys(tree):
    tree.spans = grown(tree.spans, tree.slots.shape[0])


@body_for(declared.reserve_routers, "sparse")
def reserve_routers(tree):
    known = tree.tables.shape[0]
    tree.tables = grown(tree.tables, tree.nodes.shape[0])
    tree.offsets = grown(tree.offsets, tree.nodes.shape[0])
    for node in range(known, tree.nodes.shape[0]):
        for j in range(tree.tables.shape[1]):
            tree.tables[node, j] = 0


@helper
def class_of(size):
    """Binary logarithm of a power of two."""
    power = 0
    while 1 << power < size:
        power += 1
    return power


@helper
def take_table(tree, size):
    """Room for a table: one given back earlier, or a new one at the end of the pool."""
    kind = class_of(size)
    first = tree.free_tables[kind]
    if first != NONE:
        link = np.int64(tree.table_words[first, FEATURE])
        tree.free_tables[kind] = link if link == NONE else link * SMALLEST_TABLE
    else:
        room = tree.table_words.shape[0]
        first = tree.counters[TABLES]
        if first + size > room:
            while first + size > room:
                room *= 2
            tree.table_words = grown(tree.table_words, room)
            tree.table_numbers = tree.table_words.view(np.float32)
            tree.table_squares = lengthened(tree.table_squares, room)
        tree.counters[TABLES] += size
    words = tree.table_words
    for place in range(first, first + size):
        words[place, FEATURE] = NONE
    return first


@helper
def give_table(tree, first, size):
    """Return a table; the free ones of a size form a chain through their first place (in units of the smallest table)."""
    kind = class_of(size)
    link = tree.free_tables[kind]
    tree.table_words[first, FEATURE] = link if link == NONE else link // SMALLEST_TABLE
    tree.free_tables[kind] = first


@helper
def widen_table(tree, node, more):
    """Make sure that `more` features can be added to a node's table with a third of it staying empty."""
    old_first, old_size, used = tree.tables[node, FIRST], tree.tables[node, SIZE], tree.tables[node, USED]
    if 3 * (used + more) <= 2 * old_size:
        return
    size = SMALLEST_TABLE
    while 2 * size < 3 * (used + more):
        size *= 2
    first = take_table(tree, size)
    words = tree.table_words
    for place in range(old_first, old_first + old_size):
        feature = words[place, FEATURE]
        if feature != NONE:
            target = find(words, first, size, feature)
            words[target, FEATURE] = feature
            words[target, WEIGHT] = words[place, WEIGHT]
            tree.table_squares[target] = tree.table_squares[place]
    if old_size:
        give_table(tree, old_first, old_size)
    tree.tables[node, FIRST] = first
    tree.tables[node, SIZE] = size


@helper
def place_of(tree, node, feature):
    """The place of a feature in a node's table, made if it is not there. `widen_table` has seen to room."""
    words = tree.table_words
    place = find(words, tree.tables[node, FIRST], tree.tables[node, SIZE], feature)
    if words[place, FEATURE] == NONE:
        words[place, FEATURE] = feature
        tree.table_numbers[place, WEIGHT] = 0
        tree.table_squares[place] = 0
        tree.tables[node, USED] += 1
    return place


@helper
def weighted_sum(words, numbers, first, size, x):
    """The one dot product of a router and a key."""
    features, weights = x
    total = np.float32(0)
    if size == 0:
        return total
    # Where each search begins is known before the first is over: the places are fetched side by side.
    for j in range(features.shape[0]):
        prefetch(words, (first + home(features[j], size)) * words.shape[1])
    for j in range(features.shape[0]):
        place = find(words, first, size, features[j])
        if words[place, FEATURE] != NONE:
            total += numbers[place, WEIGHT] * weights[j]
    return total


@body_for(declared.linear, "sparse")
def linear(tree, node, x):
    tables = tree.tables
    total = weighted_sum(tree.table_words, tree.table_numbers, tables[node, FIRST], tables[node, SIZE], x)
    return total + tree.offsets[node, BIAS]


@body_for(declared.reset_router, "sparse")
def reset_router(tree, node):
    first, size = tree.tables[node, FIRST], tree.tables[node, SIZE]
    for place in range(first, first + size):
        tree.table_words[place, FEATURE] = NONE
    tree.tables[node, USED] = 0
    for j in range(tree.offsets.shape[1]):
        tree.offsets[node, j] = 0


@body_for(declared.release_router, "sparse")
def release_router(tree, node):
    if tree.tables[node, SIZE]:
        give_table(tree, tree.tables[node, FIRST], tree.tables[node, SIZE])
    tree.tables[node, FIRST] = 0
    tree.tables[node, SIZE] = 0
    tree.tables[node, USED] = 0


@body_for(declared.add_to_router, "sparse")
def add_to_router(tree, node, x, scale):
    features, weights = x
    widen_table(tree, node, features.shape[0])
    factor = np.float32(scale)
    for j in range(features.shape[0]):
        place = place_of(tree, node, features[j])
        tree.table_numbers[place, WEIGHT] += factor * weights[j]


@body_for(declared.measure_router, "sparse")
def measure_router(tree, node):
    first, size = tree.tables[node, FIRST], tree.tables[node, SIZE]
    length = 0.0
    for place in range(first, first + size):
        if tree.table_words[place, FEATURE] != NONE:
            length += np.float64(tree.table_numbers[place, WEIGHT]) * tree.table_numbers[place, WEIGHT]
    tree.offsets[node, LENGTH] = np.sqrt(length)


@body_for(declared.router_norm, "sparse")
def router_norm(tree, node):
    return tree.offsets[node, LENGTH]


@body_for(declared.set_threshold, "sparse")
def set_threshold(tree, node, threshold):
    tree.offsets[node, THRESHOLD] = threshold


@body_for(declared.threshold_of, "sparse")
def threshold_of(tree, node):
    return tree.offsets[node, THRESHOLD]


@body_for(declared.learn, "sparse")
def learn(tree, node, x, raw, y, weight):
    features, weights = x
    routing = tree.routing
    if y * raw > 0 if routing.exact else y * raw >= 1:
        return False
    widen_table(tree, node, features.shape[0])
    numbers, squares, offsets = tree.table_numbers, tree.table_squares, tree.offsets
    squared_length = offsets[node, LENGTH] * offsets[node, LENGTH]
    gradient, rate = np.float32(-weight * y), np.float32(routing.rate)
    change = np.float32(routing.rate * min(np.floor(weight * 4 + 0.5) / 4, 4.0) * y)
    for j in range(features.shape[0]):
        place = place_of(tree, node, features[j])
        old = numbers[place, WEIGHT]
        if routing.exact:
            new = old + change * weights[j]
        else:
            g = gradient * weights[j]
            squares[place] += g * g
            new = old - rate * g / np.sqrt(squares[place] + np.float32(1e-30))
        numbers[place, WEIGHT] = new
        squared_length += new * new - old * old
    offsets[node, LENGTH] = np.sqrt(max(squared_length, np.float32(0)))
    if routing.exact:
        offsets[node, BIAS] += change
    else:
        offsets[node, BIAS_SQUARES] += gradient * gradient
        offsets[node, BIAS] -= rate * gradient / np.sqrt(offsets[node, BIAS_SQUARES] + np.float32(1e-30))
    return True


@body_for(declared.note_mean, "sparse")
def note_mean(tree, x):
    pass
