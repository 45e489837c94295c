"""Dense keys: a slot's key is a row of one float32 matrix, a node's router a row of another.

A router row is [weights ..., bias, threshold, length]. `squares` holds Adagrad's sums, where the routing learns.
"""

import numpy as np

from memorytree.engine import declared
from memorytree.engine.compile import blank, body_for, copy_run, fast_helper, helper
from memorytree.engine.rng import GAMMA, mix
from memorytree.engine.state import (
    DIMENSION,
    INSERTED,
    MEAN,
    MEAN_VERSIONS,
    VERSIONS,
)  # fmt: skip


@fast_helper
def dot(matrix, row, x):
    """The one dot product: whoever compares a key with a router or a key goes through here."""
    total = np.float32(0)
    for j in range(x.shape[0]):
        total += matrix[row, j] * x[j]
    return total


@fast_helper
def squared_norm(matrix, row, width):
    total = np.float32(0)
    for j in range(width):
        total += matrix[row, j] * matrix[row, j]
    return total


@helper
def lengthened(array, size):
    """A longer copy of a one-dimensional array."""
    longer = blank(size, array.dtype)
    copy_run(longer, 0, array, 0, array.shape[0])
    return longer


@helper
def grown(matrix, height):
    """A taller copy of a matrix."""
    taller = blank((height, matrix.shape[1]), matrix.dtype)
    copy_run(taller, 0, matrix, 0, matrix.shape[0] * matrix.shape[1])
    return taller


@body_for(declared.row_of, "dense")
def row_of(tree, X, i):
    return X[i]


@body_for(declared.prepare, "dense")
def prepare(tree, x):
    return x


@body_for(declared.load_key, "dense")
def load_key(tree, slot):
    return tree.keys[slot]


@body_for(declared.copy_key, "dense")
def copy_key(tree, slot):
    keys = tree.keys
    d = keys.shape[1]
    x = blank(d, np.float32)
    copy_run(x, 0, keys, slot * d, d)
    return x


@body_for(declared.store_key, "dense")
def store_key(tree, slot, x):
    copy_run(tree.keys, slot * x.shape[0], x, 0, x.shape[0])


@body_for(declared.move_key, "dense")
def move_key(tree, source, target):
    keys = tree.keys
    d = keys.shape[1]
    copy_run(keys, target * d, keys, source * d, d)


@body_for(declared.keys_apart, "dense")
def keys_apart(tree):
    apart = tree.keys
    tree.keys = blank(apart.shape, np.float32)
    return apart


@body_for(declared.move_from, "dense")
def move_from(tree, apart, source, target):
    d = apart.shape[1]
    copy_run(tree.keys, target * d, apart, source * d, d)


@body_for(declared.drop_key, "dense")
def drop_key(tree, slot):
    pass


@body_for(declared.same_key, "dense")
def same_key(tree, slot, other):
    keys = tree.keys
    for j in range(keys.shape[1]):
        if keys[slot, j] != keys[other, j]:
            return False
    return True


@body_for(declared.key_bits, "dense")
def key_bits(tree, x):
    bits = np.uint64(x.shape[0])
    for j in range(x.shape[0]):
        bits = mix(bits + GAMMA * np.uint64(np.float32(x[j] + np.float32(0)).view(np.uint32)))
    return bits


@body_for(declared.reserve_keys, "dense")
def reserve_keys(tree):
    tree.keys = grown(tree.keys, tree.slots.shape[0])


@body_for(declared.reserve_routers, "dense")
def reserve_routers(tree):
    tree.routers = grown(tree.routers, tree.nodes.shape[0])
    if tree.routing.learns:
        tree.squares = grown(tree.squares, tree.nodes.shape[0])


@body_for(declared.linear, "dense")
def linear(tree, node, x):
    routers = tree.routers
    return dot(routers, node, x) + routers[node, x.shape[0]]


@body_for(declared.reset_router, "dense")
def reset_router(tree, node):
    routers = tree.routers
    for j in range(routers.shape[1]):
        routers[node, j] = 0
    if tree.routing.learns:
        squares = tree.squares
        for j in range(squares.shape[1]):
            squares[node, j] = 0
    tree.nodes[node, MEAN] = tree.counters[VERSIONS] - 1


@body_for(declared.release_router, "dense")
def release_router(tree, node):
    pass


@body_for(declared.add_to_router, "dense")
def add_to_router(tree, node, x, scale):
    routers = tree.routers
    factor = np.float32(scale)
    for j in range(x.shape[0]):
        routers[node, j] += factor * x[j]


@body_for(declared.measure_router, "dense")
def measure_router(tree, node):
    routers = tree.routers
    d = tree.counters[DIMENSION]
    routers[node, d + 2] = np.sqrt(squared_norm(routers, node, d))


@body_for(declared.router_norm, "dense")
def router_norm(tree, node):
    return tree.routers[node, tree.counters[DIMENSION] + 2]


@body_for(declared.set_threshold, "dense")
def set_threshold(tree, node, threshold):
    tree.routers[node, tree.counters[DIMENSION] + 1] = threshold


@body_for(declared.threshold_of, "dense")
def threshold_of(tree, node):
    return tree.routers[node, tree.counters[DIMENSION] + 1]


@fast_helper
def adagrad_step(routers, squares, node, x, means, version, gradient, rate):
    """weights -= rate * g / sqrt(sum of g^2), g = gradient * (x - mean); the mean is folded into the bias at once."""
    d = x.shape[0]
    shift = np.float32(0)
    length = np.float32(0)
    for j in range(d):
        g = gradient * (x[j] - means[version, j])
        squares[node, j] += g * g
        change = rate * g / np.sqrt(squares[node, j] + np.float32(1e-30))
        weight = routers[node, j] - change
        routers[node, j] = weight
        shift += change * means[version, j]
        length += weight * weight
    squares[node, d] += gradient * gradient
    routers[node, d] += shift - rate * gradient / np.sqrt(squares[node, d] + np.float32(1e-30))
    routers[node, d + 2] = np.sqrt(length)


@fast_helper
def perceptron_step(routers, node, x, means, version, change):
    """weights += change * (x - mean), the mean folded into the bias."""
    d = x.shape[0]
    shift = np.float32(0)
    length = np.float32(0)
    for j in range(d):
        weight = routers[node, j] + change * (x[j] - means[version, j])
        routers[node, j] = weight
        shift += change * (x[j] - means[version, j]) * means[version, j]
        length += weight * weight
    routers[node, d] += change - shift
    routers[node, d + 2] = np.sqrt(length)


@body_for(declared.learn, "dense")
def learn(tree, node, x, raw, y, weight):
    routing = tree.routing
    if y * raw > 0 if routing.exact else y * raw >= 1:
        return False
    version = tree.nodes[node, MEAN]
    if routing.exact:
        change = routing.rate * min(np.floor(weight * 4 + 0.5) / 4, 4.0) * y
        perceptron_step(tree.routers, node, x, tree.means, version, np.float32(change))
    else:
        gradient, rate = np.float32(-weight * y), np.float32(routing.rate)
        adagrad_step(tree.routers, tree.squares, node, x, tree.means, version, gradient, rate)
    return True


@helper
def publish_mean(tree):
    """A new version of the mean, for the routers that are made from now on."""
    version = tree.counters[VERSIONS]
    if version < MEAN_VERSIONS:
        for j in range(tree.total.shape[0]):
            tree.means[version, j] = tree.total[j] / tree.counters[INSERTED]
        tree.counters[VERSIONS] += 1


@body_for(declared.note_mean, "dense")
def note_mean(tree, x):
    if not tree.routing.center:
        return
    total = tree.total
    for j in range(x.shape[0]):
        total[j] += x[j]
    tree.counters[INSERTED] += 1
    inserted = tree.counters[INSERTED]
    # The mean is renewed at 8, 16, 32 ... keys: a version for each, so that a router always knows which it was made with.
    if inserted >= 8 and inserted & (inserted - 1) == 0:
        publish_mean(tree)
