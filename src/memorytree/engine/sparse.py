"""Bodies for sparse keys.

spans          int64 (slots, 2): where the key of each slot begins in the key pool, and its number of features
key_features   int32 (pool,), and key_weights, float32 (pool,): the key pool
tables         int64 (nodes, 3): FIRST, SIZE and USED of each router's map from features to weights
table_words    int32 (places, 2): the pool of these maps as (feature, weight) entries of 8 bytes, so that finding a weight
               reads one cache line; table_numbers is the same memory as float32
table_squares  float32 (places,): Adagrad's sums, stored apart as only learning reads them
offsets        float32 (nodes, 4): bias, threshold, norm and Adagrad's sum for the bias of each router

Every router has an exact open-addressing map of its own (`hash_map.py`), so weights never collide, maps near the leaves are
small, and the map of a removed node is reused. When the key pool is full it is rewritten leaf by leaf: the keys of a leaf
then lie together, and the space of removed keys is reclaimed.
"""

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.adagrad import EPSILON, adagrad_step
from memorytree.engine.arrays import (
    COUNT,
    LEFT,
    NODES,
    NONE,
    POOL,
    POOL_LIVE,
    START,
    TABLES,
)  # fmt: skip
from memorytree.engine.hash_map import SMALLEST_TABLE, find, home, place_in
from memorytree.engine.jit import blank, body_for, copy_run, fast_helper, helper, prefetch
from memorytree.engine.pool import grown, lengthened, pop_free, push_free, size_class
from memorytree.engine.rng import GAMMA, mix

# Columns of `tables`, of `table_words` and of `offsets`.
FIRST, SIZE, USED = range(3)
FEATURE, WEIGHT = range(2)
BIAS, THRESHOLD, LENGTH, BIAS_SQUARES = range(4)


@helper
def unsigned_range(first, last):
    """Return range(first, last) of unsigned integers: Numba then omits the check for negative indices in a hot loop."""
    return range(np.uint64(first), np.uint64(last))


@helper
def key_range(tree, slot):
    """Return the range of a stored key in the key pool, as unsigned integers."""
    return unsigned_range(tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1])


@body_for(dispatch.row_of, "sparse")
def row_of(tree, X, i):
    bounds, features, weights = X
    return features[bounds[i] : bounds[i + 1]], weights[bounds[i] : bounds[i + 1]]


@fast_helper
def sum_of_squares(weights):
    """Return the sum of squares (float64) of float32 weights."""
    total = 0.0
    for j in range(weights.shape[0]):
        total += np.float64(weights[j]) * weights[j]
    return total


@helper
def inverse_norm(X, i):
    """Return 1 / the norm of row i of a batch; 0 for a row of zeros."""
    bounds, _, weights = X
    total = sum_of_squares(weights[bounds[i] : bounds[i + 1]])
    return 1.0 / np.sqrt(total) if total > 0 else 0.0


@body_for(dispatch.prepare, "sparse")
def prepare(tree, x):
    features, weights = x
    # At least seven of eight places stay empty, so that most absent features are recognised at the first place.
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


@body_for(dispatch.load_key, "sparse")
def load_key(tree, slot):
    first = tree.spans[slot, 0]
    last = first + tree.spans[slot, 1]
    return tree.key_features[first:last], tree.key_weights[first:last]


@body_for(dispatch.copy_key, "sparse")
def copy_key(tree, slot):
    first, terms = tree.spans[slot, 0], tree.spans[slot, 1]
    features, weights = blank(terms, np.int32), blank(terms, np.float32)
    copy_run(features, 0, tree.key_features, first, terms)
    copy_run(weights, 0, tree.key_weights, first, terms)
    return features, weights


@helper
def repack(tree, size):
    """Rewrite the key pool leaf by leaf, into arrays of this size."""
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
def reserve_key_pool(tree, terms, spare):
    """Make room for keys with `terms` features in all; if the pool must be rewritten, for `spare` more."""
    size = tree.key_features.shape[0]
    if tree.counters[POOL] + terms > size:
        while size < tree.counters[POOL_LIVE] + terms + spare:
            size *= 2
        repack(tree, size)


@body_for(dispatch.store_key, "sparse")
def store_key(tree, slot, x):
    features, weights = x
    terms = features.shape[0]
    counters = tree.counters
    reserve_key_pool(tree, terms, counters[POOL_LIVE] + terms)
    first = counters[POOL]
    copy_run(tree.key_features, first, features, 0, terms)
    copy_run(tree.key_weights, first, weights, 0, terms)
    tree.spans[slot, 0] = first
    tree.spans[slot, 1] = terms
    counters[POOL] += terms
    counters[POOL_LIVE] += terms


@body_for(dispatch.move_key, "sparse")
def move_key(tree, source, target):
    tree.spans[target, 0] = tree.spans[source, 0]
    tree.spans[target, 1] = tree.spans[source, 1]


@body_for(dispatch.detach_keys, "sparse")
def detach_keys(tree):
    detached = tree.spans
    tree.spans = blank(detached.shape, np.int64)
    return detached


@body_for(dispatch.move_detached_key, "sparse")
def move_detached_key(tree, detached, source, target):
    tree.spans[target, 0] = detached[source, 0]
    tree.spans[target, 1] = detached[source, 1]


@body_for(dispatch.drop_key, "sparse")
def drop_key(tree, slot):
    tree.counters[POOL_LIVE] -= tree.spans[slot, 1]


@body_for(dispatch.same_key, "sparse")
def same_key(tree, slot, other):
    spans = tree.spans
    if spans[slot, 1] != spans[other, 1]:
        return False
    for j in range(spans[slot, 1]):
        here, there = spans[slot, 0] + j, spans[other, 0] + j
        if tree.key_features[here] != tree.key_features[there] or tree.key_weights[here] != tree.key_weights[there]:
            return False
    return True


@body_for(dispatch.key_bits, "sparse")
def key_bits(tree, x):
    features, weights = x
    bits = np.uint64(features.shape[0])
    for j in range(features.shape[0]):
        bits = mix(bits + GAMMA * np.uint64(features[j]))
        bits = mix(bits + GAMMA * np.uint64(np.float32(weights[j]).view(np.uint32)))
    return bits


@body_for(dispatch.reserve_keys, "sparse")
def reserve_keys(tree):
    tree.spans = grown(tree.spans, tree.slots.shape[0])


@body_for(dispatch.reserve_routers, "sparse")
def reserve_routers(tree):
    known = tree.tables.shape[0]
    tree.tables = grown(tree.tables, tree.nodes.shape[0])
    tree.offsets = grown(tree.offsets, tree.nodes.shape[0])
    for node in range(known, tree.nodes.shape[0]):
        for j in range(tree.tables.shape[1]):
            tree.tables[node, j] = 0


@helper
def allocate_table(tree, size):
    """Return the first place of an empty map of this size: a free one, or a new one at the end of the pool."""
    first = pop_free(tree.free_tables, size_class(size), tree.table_words[:, FEATURE], SMALLEST_TABLE)
    if first == NONE:
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
def free_table(tree, first, size):
    """Return a map to the free ones of its size."""
    push_free(tree.free_tables, size_class(size), tree.table_words[:, FEATURE], SMALLEST_TABLE, first)


@helper
def widen_table(tree, node, more):
    """Make room for `more` features in the map of a node; a third of it stays empty."""
    old_first, old_size, used = tree.tables[node, FIRST], tree.tables[node, SIZE], tree.tables[node, USED]
    if 3 * (used + more) <= 2 * old_size:
        return
    size = SMALLEST_TABLE
    while 2 * size < 3 * (used + more):
        size *= 2
    first = allocate_table(tree, size)
    words = tree.table_words
    for place in range(old_first, old_first + old_size):
        feature = words[place, FEATURE]
        if feature != NONE:
            target = find(words, first, size, feature)
            words[target, FEATURE] = feature
            words[target, WEIGHT] = words[place, WEIGHT]
            tree.table_squares[target] = tree.table_squares[place]
    if old_size:
        free_table(tree, old_first, old_size)
    tree.tables[node, FIRST] = first
    tree.tables[node, SIZE] = size


@helper
def place_of(tree, node, feature):
    """Return the place of a feature in the map of a node, which has room for it; a new feature gets the weight 0."""
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
    """Return the dot product of a router and x (float32): the only one by which sparse keys and routers are compared."""
    features, weights = x
    total = np.float32(0)
    if size == 0:
        return total
    # All searches begin at known places, whose cache lines are loaded in parallel.
    for j in range(features.shape[0]):
        prefetch(words, (first + home(features[j], size)) * words.shape[1])
    for j in range(features.shape[0]):
        place = find(words, first, size, features[j])
        if words[place, FEATURE] != NONE:
            total += numbers[place, WEIGHT] * weights[j]
    return total


@body_for(dispatch.linear, "sparse")
def linear(tree, node, x):
    tables = tree.tables
    total = weighted_sum(tree.table_words, tree.table_numbers, tables[node, FIRST], tables[node, SIZE], x)
    return total + tree.offsets[node, BIAS]


@body_for(dispatch.reset_router, "sparse")
def reset_router(tree, node):
    first, size = tree.tables[node, FIRST], tree.tables[node, SIZE]
    for place in range(first, first + size):
        tree.table_words[place, FEATURE] = NONE
    tree.tables[node, USED] = 0
    for j in range(tree.offsets.shape[1]):
        tree.offsets[node, j] = 0


@body_for(dispatch.release_router, "sparse")
def release_router(tree, node):
    if tree.tables[node, SIZE]:
        free_table(tree, tree.tables[node, FIRST], tree.tables[node, SIZE])
    tree.tables[node, FIRST] = 0
    tree.tables[node, SIZE] = 0
    tree.tables[node, USED] = 0


@body_for(dispatch.add_to_router, "sparse")
def add_to_router(tree, node, x, scale):
    features, weights = x
    widen_table(tree, node, features.shape[0])
    factor = np.float32(scale)
    for j in range(features.shape[0]):
        place = place_of(tree, node, features[j])
        tree.table_numbers[place, WEIGHT] += factor * weights[j]


@body_for(dispatch.measure_router, "sparse")
def measure_router(tree, node):
    first, size = tree.tables[node, FIRST], tree.tables[node, SIZE]
    length = 0.0
    for place in range(first, first + size):
        if tree.table_words[place, FEATURE] != NONE:
            length += np.float64(tree.table_numbers[place, WEIGHT]) * tree.table_numbers[place, WEIGHT]
    tree.offsets[node, LENGTH] = np.sqrt(length)


@body_for(dispatch.router_norm, "sparse")
def router_norm(tree, node):
    return tree.offsets[node, LENGTH]


@body_for(dispatch.set_threshold, "sparse")
def set_threshold(tree, node, threshold):
    tree.offsets[node, THRESHOLD] = threshold


@body_for(dispatch.threshold_of, "sparse")
def threshold_of(tree, node):
    return tree.offsets[node, THRESHOLD]


@body_for(dispatch.learn, "sparse")
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
            squares[place], decrease = adagrad_step(squares[place], gradient * weights[j], rate, EPSILON)
            new = old - decrease
        numbers[place, WEIGHT] = new
        squared_length += new * new - old * old
    offsets[node, LENGTH] = np.sqrt(max(squared_length, np.float32(0)))
    if routing.exact:
        offsets[node, BIAS] += change
    else:
        offsets[node, BIAS_SQUARES], decrease = adagrad_step(offsets[node, BIAS_SQUARES], gradient, rate, EPSILON)
        offsets[node, BIAS] -= decrease
    return True


@body_for(dispatch.update_mean, "sparse")
def update_mean(tree, x):
    pass
