"""`routing="paper"`: linear routers that are trained while memories pass through them (Algorithms 3 to 5).

A router learns by Adagrad on the hinge loss: it stays unchanged where its margin is at least 1 already. `exact=True` selects
a perceptron with dyadic steps instead, whose arithmetic on small dyadic keys is exact, so that tests can compare the engine
with the reference bit by bit.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import building, dispatch
from memorytree.engine.arrays import COUNT, LEFT, MISTAKES, RIGHT, UPDATES
from memorytree.engine.dispatch import learn, linear, load_key, reset_router, threshold_of, update_mean
from memorytree.engine.jit import body_for, helper
from memorytree.engine.routing import cut_at_median, margin

Paper = namedtuple("Paper", "balance rate exact center learns rebuilds")
"""Options: the paper's alpha; the step size; whether routers are perceptrons with dyadic steps; whether the running mean of
all keys is subtracted (dense keys); whether routers learn from rewards; whether subtrees are rebuilt."""


@helper
def balance_term(balance, left_count, right_count):
    """Return alpha times the balance term of Algorithms 3 and 4."""
    return balance * (np.log(left_count + 1.0) - np.log(right_count + 1.0))


@body_for(dispatch.record_key, "paper")
def record_key(tree, x):
    update_mean(tree, x)


@body_for(dispatch.step, "paper")
def step(tree, node, x, left_count, right_count):
    balance = tree.routing.balance
    raw = linear(tree, node, x)
    g = raw - threshold_of(tree, node)
    target_right = (1.0 - balance) * min(max(np.float64(g), -1.0), 1.0) + balance_term(balance, left_count, right_count) > 0
    if learn(tree, node, x, raw, 1.0 if target_right else -1.0, 1.0):
        g = margin(tree, node, x)
    goes_right = g > 0
    # Theorem 1 counts the mistakes that remain after the update.
    tree.nodes[node, UPDATES] += 1
    if goes_right != target_right:
        tree.nodes[node, MISTAKES] += 1
    return goes_right


@body_for(dispatch.cut, "paper")
def cut(tree, node, order, first, last, sides, settle):
    if building.all_equal(tree, order, first, last):
        return False
    reset_router(tree, node)
    tree.nodes[node, UPDATES] = 0
    tree.nodes[node, MISTAKES] = 0
    right_count = 0
    for i in range(first, last):
        sides[i] = dispatch.step(tree, node, load_key(tree, order[i]), i - first - right_count, right_count)
        right_count += sides[i]
    if settle:
        right_count = 0
        for i in range(first, last):
            sides[i] = margin(tree, node, load_key(tree, order[i])) > 0
            right_count += sides[i]
    if 0 < right_count < last - first:
        return True
    return cut_at_median(tree, node, order, first, last, sides)


@body_for(dispatch.pop_random, "paper")
def pop_random(tree):
    return building.pop_random(tree)


@body_for(dispatch.learn_from_reward, "paper")
def learn_from_reward(tree, node, x, right, probability, reward):
    nodes = tree.nodes
    balance = tree.routing.balance
    # Line 4: an unbiased estimate of the reward of right minus the reward of left.
    difference = reward / probability * (1.0 if right else -1.0)
    left_count, right_count = nodes[nodes[node, LEFT], COUNT], nodes[nodes[node, RIGHT], COUNT]
    y = (1.0 - balance) * difference + balance_term(balance, left_count, right_count)
    return learn(tree, node, x, linear(tree, node, x), 1.0 if y > 0 else -1.0, abs(y))
