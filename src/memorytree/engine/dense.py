"""Bodies for dense keys.

keys       float32 (slots, d): the key of each slot
routers    float32 (nodes, d + 3): the router of each node as [weights ..., bias, threshold, norm]
squares    float32 (nodes, d + 1): Adagrad's sums for weights and bias, where the routing learns
means      float32 (versions, d): versions of the mean of the inserted keys; total, float64 (d,), is their sum
"""

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.adagrad import EPSILON, fast_adagrad_step
from memorytree.engine.arrays import (
    DIMENSION,
    INSERTED,
    MEAN,
    MEAN_VERSIONS,
    VERSIONS,
)  # fmt: skip
from memorytree.engine.jit import blank, body_for, copy_run, fast_helper, helper
from memorytree.engine.pool import grown
from memorytree.engine.rng import GAMMA, mix


@fast_helper
def dot(matrix, row, x):
    """Return the dot product of a matrix row and x (float32): the only one by which dense keys and routers are compared."""
    total = np.float32(0)
    for j in range(x.shape[0]):
        total += matrix[row, j] * x[j]
    return total


@fast_helper
def squared_norm(matrix, row, width):
    """Return the sum of squares of the first `width` entries of a matrix row."""
    total = np.float32(0)
    for j in range(width):
        total += matrix[row, j] * matrix[row, j]
    return total


@body_for(dispatch.row_of, "dense")
def row_of(tree, X, i):
    return X[i]


@body_for(dispatch.prepare, "dense")
def prepare(tree, x):
    return x


@body_for(dispatch.load_key, "dense")
def load_key(tree, slot):
    return tree.keys[slot]


@body_for(dispatch.copy_key, "dense")
def copy_key(tree, slot):
    keys = tree.keys
    d = keys.shape[1]
    x = blank(d, np.float32)
    copy_run(x, 0, keys, slot * d, d)
    return x


@body_for(dispatch.store_key, "dense")
def store_key(tree, slot, x):
    copy_run(tree.keys, slot * x.shape[0], x, 0, x.shape[0])


@body_for(dispatch.move_key, "dense")
def move_key(tree, source, target):
    keys = tree.keys
    d = keys.shape[1]
    copy_run(keys, target * d, keys, source * d, d)


@body_for(dispatch.detach_keys, "dense")
def detach_keys(tree):
    detached = tree.keys
    tree.keys = blank(detached.shape, np.float32)
    return detached


@body_for(dispatch.move_detached_key, "dense")
def move_detached_key(tree, detached, source, target):
    d = detached.shape[1]
    copy_run(tree.keys, target * d, detached, source * d, d)


@body_for(dispatch.drop_key, "dense")
def drop_key(tree, slot):
    pass


@body_for(dispatch.same_key, "dense")
def same_key(tree, slot, other):
    keys = tree.keys
    for j in range(keys.shape[1]):
        if keys[slot, j] != keys[other, j]:
            return False
    return True


@body_for(dispatch.key_bits, "dense")
def key_bits(tree, x):
    bits = np.uint64(x.shape[0])
    for j in range(x.shape[0]):
        bits = mix(bits + GAMMA * np.uint64(np.float32(x[j] + np.float32(0)).view(np.uint32)))
    return bits


@body_for(dispatch.reserve_keys, "dense")
def reserve_keys(tree):
    tree.keys = grown(tree.keys, tree.slots.shape[0])


@body_for(dispatch.reserve_routers, "dense")
def reserve_routers(tree):
    tree.routers = grown(tree.routers, tree.nodes.shape[0])
    if tree.routing.learns:
        tree.squares = grown(tree.squares, tree.nodes.shape[0])


@body_for(dispatch.linear, "dense")
def linear(tree, node, x):
    routers = tree.routers
    return dot(routers, node, x) + routers[node, x.shape[0]]


@body_for(dispatch.reset_router, "dense")
def reset_router(tree, node):
    routers = tree.routers
    for j in range(routers.shape[1]):
        routers[node, j] = 0
    if tree.routing.learns:
        squares = tree.squares
        for j in range(squares.shape[1]):
            squares[node, j] = 0
    tree.nodes[node, MEAN] = tree.counters[VERSIONS] - 1


@body_for(dispatch.release_router, "dense")
def release_router(tree, node):
    pass


@body_for(dispatch.add_to_router, "dense")
def add_to_router(tree, node, x, scale):
    routers = tree.routers
    factor = np.float32(scale)
    for j in range(x.shape[0]):
        routers[node, j] += factor * x[j]


@body_for(dispatch.measure_router, "dense")
def measure_router(tree, node):
    routers = tree.routers
    d = tree.counters[DIMENSION]
    routers[node, d + 2] = np.sqrt(squared_norm(routers, node, d))


@body_for(dispatch.router_norm, "dense")
def router_norm(tree, node):
    return tree.routers[node, tree.counters[DIMENSION] + 2]


@body_for(dispatch.set_threshold, "dense")
def set_threshold(tree, node, threshold):
    tree.routers[node, tree.counters[DIMENSION] + 1] = threshold


@body_for(dispatch.threshold_of, "dense")
def threshold_of(tree, node):
    return tree.routers[node, tree.counters[DIMENSION] + 1]


@fast_helper
def learn_adagrad(router, squares, x, mean, gradient, rate):
    """Take one step of Adagrad on g = gradient * (x - mean), in place.

    router is float32 of shape (d + 3,), squares of (d + 1,), x and mean of (d,). The mean is folded into the bias.
    """
    d = x.shape[0]
    shift = np.float32(0)
    length = np.float32(0)
    for j in range(d):
        squares[j], change = fast_adagrad_step(squares[j], gradient * (x[j] - mean[j]), rate, EPSILON)
        weight = router[j] - change
        router[j] = weight
        shift += change * mean[j]
        length += weight * weight
    squares[d], change = fast_adagrad_step(squares[d], gradient, rate, EPSILON)
    router[d] += shift - change
    router[d + 2] = np.sqrt(length)


@fast_helper
def learn_perceptron(router, x, mean, change):
    """Add change * (x - mean) to the weights, in place, with the mean folded into the bias; shapes as in `learn_adagrad`."""
    d = x.shape[0]
    shift = np.float32(0)
    length = np.float32(0)
    for j in range(d):
        weight = router[j] + change * (x[j] - mean[j])
        router[j] = weight
        shift += change * (x[j] - mean[j]) * mean[j]
        length += weight * weight
    router[d] += change - shift
    router[d + 2] = np.sqrt(length)


@body_for(dispatch.learn, "dense")
def learn(tree, node, x, raw, y, weight):
    routing = tree.routing
    if y * raw > 0 if routing.exact else y * raw >= 1:
        return False
    version = tree.nodes[node, MEAN]
    if routing.exact:
        change = routing.rate * min(np.floor(weight * 4 + 0.5) / 4, 4.0) * y
        learn_perceptron(tree.routers[node], x, tree.means[version], np.float32(change))
    else:
        gradient, rate = np.float32(-weight * y), np.float32(routing.rate)
        learn_adagrad(tree.routers[node], tree.squares[node], x, tree.means[version], gradient, rate)
    return True


@helper
def publish_mean(tree):
    """Store the current mean as a new version, which routers made from now on use."""
    version = tree.counters[VERSIONS]
    if version < MEAN_VERSIONS:
        for j in range(tree.total.shape[0]):
            tree.means[version, j] = tree.total[j] / tree.counters[INSERTED]
        tree.counters[VERSIONS] += 1


@body_for(dispatch.update_mean, "dense")
def update_mean(tree, x):
    if not tree.routing.center:
        return
    total = tree.total
    for j in range(x.shape[0]):
        total[j] += x[j]
    tree.counters[INSERTED] += 1
    inserted = tree.counters[INSERTED]
    # A new version at 8, 16, 32 ... keys. Older versions stay, as every router goes on using the one it was made with.
    if inserted >= 8 and inserted & (inserted - 1) == 0:
        publish_mean(tree)
