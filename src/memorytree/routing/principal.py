"""`routing="principal"`: a full leaf is cut along its top principal direction at the median.

The router then stays as it is, so a memory is always found where it was put. A subtree is rebuilt when its heavier side
outgrows 3/4, which keeps the depth logarithmic on every stream, and when it has grown 64-fold, because a direction found
among its first few dozen memories is a poor one for thousands.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import declared
from memorytree.engine.compile import blank, body_for, helper
from memorytree.engine.declared import (
    add_to_router,
    load_key,
    reset_router,
    same_key,
)  # fmt: skip
from memorytree.engine.rng import below, mix
from memorytree.engine.route import cut_at_median, margin
from memorytree.engine.state import LABEL, NONE

Principal = namedtuple("Principal", "center learns rebuilds neighbours", defaults=(0,))

# A direction is judged from this many members at the most, by this many power iterations.
SAMPLE = 256
ITERATIONS = 3


def principal(*, neighbours: int = 0) -> Principal:
    """Principal routing. With `neighbours` every memory knows so many others at the most, and a search goes from one to the
    next (`engine/neighbours.py`): an insertion takes ten times as long, and a search finds much more in the same time."""
    return Principal(False, False, True, neighbours)


@body_for(declared.note_key, "principal")
def note_key(tree, x):
    pass


@body_for(declared.step, "principal")
def step(tree, node, x, left_count, right_count):
    return margin(tree, node, x) > 0


@body_for(declared.learn_from_reward, "principal")
def learn_from_reward(tree, node, x, right, probability, reward):
    return False


@body_for(declared.lift_random, "principal")
def lift_random(tree):
    # Routers that stay as they are have nothing to reroute; no tree of this kind asks for it while inserting.
    return np.int64(0), load_key(tree, 0)


@helper
def point_between(tree, node, slot, other):
    """The direction from one key to another, which tells at least these two apart."""
    reset_router(tree, node)
    add_to_router(tree, node, load_key(tree, other), 1.0)
    add_to_router(tree, node, load_key(tree, slot), -1.0)


@helper
def average_by_label(tree, sample, projections, mean):
    """Where memories have labels, let each speak with the voice of its label: the direction is then the one along which
    labels differ most, and memories of one label stay together. Those that are alone with their label, or have none, say
    nothing if at least a quarter are not: their voice is mostly noise."""
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
        place = np.int64(mix(np.uint64(label))) & (size - 1)
        while labels[place] != label and labels[place] != NONE:
            place = (place + 1) & (size - 1)
        labels[place], places[i] = label, place
        totals[place] += projections[i]
        counts[place] += 1
    in_company = 0
    for i in range(sample.shape[0]):
        in_company += places[i] != NONE and counts[places[i]] > 1
    for i in range(sample.shape[0]):
        if places[i] != NONE and counts[places[i]] > 1:
            projections[i] = totals[places[i]] / counts[places[i]]
        elif 4 * in_company >= sample.shape[0]:
            projections[i] = mean


@helper
def turn_along_spread(tree, node, sample, iterations):
    """Turn the router towards the top principal direction of the sample, by power iteration.

    router = the sum of projection * key; as centred projections add up to zero, the mean key need not be known.
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


@body_for(declared.cut, "principal")
def cut(tree, node, order, first, last, sides, settle):
    # Power iteration begins at the direction between two random members: trees of a forest then cut differently.
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
    # Where the main direction of the sample tells no two members apart, the direction between two that differ does.
    for iterations in (ITERATIONS, 0):
        point_between(tree, node, one, other)
        turn_along_spread(tree, node, sample, iterations)
        if cut_at_median(tree, node, order, first, last, sides):
            return True
    return False
