"""`routing="paper"`: routers that train themselves while memories pass (Algorithms 3 to 5).

A router is linear and learns by Adagrad on the hinge loss: a margin of 1 is enough, and a router that is sure stays as it
is. `exact=True` takes a perceptron with dyadic steps instead, whose arithmetic on small dyadic keys has no rounding: the
engine can then be compared with the reference bit by bit.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import declared, grow
from memorytree.engine.compile import body_for, helper
from memorytree.engine.declared import learn, linear, load_key, note_mean, reset_router, threshold_of
from memorytree.engine.route import cut_at_median, margin
from memorytree.engine.state import COUNT, LEFT, MISTAKES, RIGHT, UPDATES

Paper = namedtuple("Paper", "balance rate exact center learns rebuilds")


def paper(*, balance: float = 0.9, rate: float = 0.03, exact: bool = False, center: bool = False) -> Paper:
    """The paper's routing. balance = alpha; rate is the learner's step."""
    return Paper(float(balance), float(rate), bool(exact), bool(center), True, False)


@helper
def pull(balance, left_count, right_count):
    """alpha times the balance term of Algorithms 3 and 4."""
    return balance * (np.log(left_count + 1.0) - np.log(right_count + 1.0))


@body_for(declared.note_key, "paper")
def note_key(tree, x):
    note_mean(tree, x)


@body_for(declared.step, "paper")
def step(tree, node, x, left_count, right_count):
    balance = tree.routing.balance
    raw = linear(tree, node, x)
    g = raw - threshold_of(tree, node)
    wants_right = (1.0 - balance) * min(max(np.float64(g), -1.0), 1.0) + pull(balance, left_count, right_count) > 0
    if learn(tree, node, x, raw, 1.0 if wants_right else -1.0, 1.0):
        g = margin(tree, node, x)
    goes_right = g > 0
    # Theorem 1 counts mistakes right after the update.
    tree.nodes[node, UPDATES] += 1
    if goes_right != wants_right:
        tree.nodes[node, MISTAKES] += 1
    return goes_right


@body_for(declared.cut, "paper")
def cut(tree, node, order, first, last, sides, settle):
    if grow.all_equal(tree, order, first, last):
        return False
    reset_router(tree, node)
    tree.nodes[node, UPDATES] = 0
    tree.nodes[node, MISTAKES] = 0
    right_count = 0
    for i in range(first, last):
        sides[i] = declared.step(tree, node, load_key(tree, order[i]), i - first - right_count, right_count)
        right_count += sides[i]
    if settle:
        right_count = 0
        for i in range(first, last):
            sides[i] = margin(tree, node, load_key(tree, order[i])) > 0
            right_count += sides[i]
    if 0 < right_count < last - first:
        return True
    return cut_at_median(tree, node, order, first, last, sides)


@body_for(declared.lift_random, "paper")
def lift_random(tree):
    return grow.lift_random(tree)


@body_for(declared.learn_from_reward, "paper")
def learn_from_reward(tree, node, x, right, probability, reward):
    nodes = tree.nodes
    balance = tree.routing.balance
    # Line 4: an unbiased estimate of the reward of right minus the reward of left.
    difference = reward / probability * (1.0 if right else -1.0)
    left_count, right_count = nodes[nodes[node, LEFT], COUNT], nodes[nodes[node, RIGHT], COUNT]
    y = (1.0 - balance) * difference + pull(balance, left_count, right_count)
    return learn(tree, node, x, linear(tree, node, x), 1.0 if y > 0 else -1.0, abs(y))
