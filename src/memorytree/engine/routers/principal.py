"""`routing="principal"`: a full leaf is cut at the median of its top principal direction.

Routers never change afterwards, so a memory is always found where it was put. A subtree is rebuilt when its heavier side
holds more than 3/4, which keeps the depth logarithmic for every stream, and when it has grown 64-fold, because a direction
computed from its first few dozen memories fits thousands badly (`building.is_outgrown`).
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import LABEL, NONE
from memorytree.engine.dispatch import (
    add_to_router,
    load_key,
    reset_router,
    same_key,
)  # fmt: skip
from memorytree.engine.hash_map import place_in
from memorytree.engine.jit import blank, body_for, helper
from memorytree.engine.rng import below
from memorytree.engine.routing import cut_at_median, margin

Principal = namedtuple("Principal", "center learns rebuilds neighbours", defaults=(0,))
"""Options as those of `Paper`, and how many neighbours a memory is linked to at most (`engine/neighbours.py`; 0: none)."""

# A direction is computed from at most this many members, by this many power iterations.
SAMPLE = 256
ITERATIONS = 3


@body_for(dispatch.record_key, "principal")
def record_key(tree, x):
    pass


@body_for(dispatch.step, "principal")
def step(tree, node, x, left_count, right_count):
    return margin(tree, node, x) > 0


@body_for(dispatch.learn_from_reward, "principal")
def learn_from_reward(tree, node, x, right, probability, reward):
    return False


@body_for(dispatch.pop_random, "principal")
def pop_random(tree):
    # Never called: routers do not change, so options allow no reroutes.
    return np.int64(0), load_key(tree, 0)


@helper
def point_between(tree, node, slot, other):
    """Set the router to the direction from the key in one slot to another key, which separates at least these two."""
    reset_router(tree, node)
    add_to_router(tree, node, load_key(tree, other), 1.0)
    add_to_router(tree, node, load_key(tree, slot), -1.0)


@helper
def average_by_label(tree, sample, projections, mean):
    """Replace each projection by the mean of its label, in place.

    The router then turns to the direction along which labels differ most. Memories without a label, or whose label occurs
    once, get the overall mean if at least a quarter of the sample shares labels; otherwise they keep their projections.
    sample is int64 of shape (n,), slots; projections is float64 of shape (n,).
    """
    size = 8
    while size < 2 * sample.shape[0]:
        size *= 2
    # np.full and np.zeros would each be compiled for this alone.
    labels, places = blank(size, np.int64), blank(sample.shape[0], np.int64)
    totals, counts = blank(size, np.float64), blank(size, np.float64)
    labels[:], places[:], totals[:], counts[:] = NONE, NONE, 0.0, 0.0
    for i in range(sample.shape[0]):
        label = np.int64(tree.rows[tree.slots[sample[i]], LABEL])
        if label == NONE:
            continue
        place = place_in(labels, label)
        labels[place], places[i] = label, place
        totals[place] += projections[i]
        counts[place] += 1
    labelled = 0
    for i in range(sample.shape[0]):
        labelled += places[i] != NONE and counts[places[i]] > 1
    for i in range(sample.shape[0]):
        if places[i] != NONE and counts[places[i]] > 1:
            projections[i] = totals[places[i]] / counts[places[i]]
        elif 4 * labelled >= sample.shape[0]:
            projections[i] = mean


@helper
def turn_along_spread(tree, node, sample, iterations):
    """Turn the router towards the top principal direction of the sample (slots), by power iteration.

    The router becomes the sum of projection * key. Centred projections add up to zero, so the mean key is not needed.
    """
    projections = blank(sample.shape[0], np.float64)
    for _ in range(iterations):
        mean = 0.0
        for i in range(sample.shape[0]):
            projections[i] = margin(tree, node, load_key(tree, sample[i]))
            mean += projections[i] / sample.shape[0]
        average_by_label(tree, sample, projections, mean)
        scale = 0.0
        for i in range(sample.shape[0]):
            projections[i] -= mean
            scale = max(scale, abs(projections[i]))
        if scale == 0:
            return
        reset_router(tree, node)
        for i in range(sample.shape[0]):
            add_to_router(tree, node, load_key(tree, sample[i]), projections[i] / scale)


@body_for(dispatch.cut, "principal")
def cut(tree, node, order, first, last, sides, settle):
    # Power iteration begins at the direction between two random members, so that the trees of a forest differ.
    one = order[first + below(tree.stream, last - first)]
    start = below(tree.stream, last - first)
    different = 0
    while different < last - first and same_key(tree, one, order[first + (start + different) % (last - first)]):
        different += 1
    if different == last - first:
        return False
    other = order[first + (start + different) % (last - first)]
    size = min(last - first, SAMPLE)
    sample = blank(size, np.int64)
    for i in range(size):
        sample[i] = order[first + i * (last - first) // size]
    # If the principal direction of the sample separates no members, use the direction between two that differ.
    for iterations in (ITERATIONS, 0):
        point_between(tree, node, one, other)
        turn_along_spread(tree, node, sample, iterations)
        if cut_at_median(tree, node, order, first, last, sides):
            return True
    return False
