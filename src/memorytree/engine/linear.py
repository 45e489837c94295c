"""The paper's scorer: linear in the products of the features of query and memory, trained by Adagrad on the squared loss.

Dense keys have a weight for every feature. Of sparse keys only features that have been in a lesson have one, in an
open-addressing table; the others have weight one.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import NONE, SLOT
from memorytree.engine.dispatch import load_key, row_of
from memorytree.engine.hash_map import place_in, row_of_id
from memorytree.engine.jit import body_for, fast_helper, kernel

Linear = namedtuple("Linear", "features weights squares bias")
"""What a tree stores of the scorer: the table of features (sparse keys), for each a weight and Adagrad's sum, and the bias
with its own sum. All float32, features int32."""

SMALLEST_SUM, LARGEST_SUM = 1e-12, 1e37


@kernel
def take_places(table, features):
    """Insert features into a table with spare capacity; returns their places."""
    places = np.empty(features.shape[0], np.int64)
    for i in range(features.shape[0]):
        places[i] = place_in(table, features[i])
        table[places[i]] = features[i]
    return places


@fast_helper
def weighted_product(weights, keys, slot, x):
    total = np.float32(0)
    for j in range(x.shape[0]):
        total += weights[j] * x[j] * keys[slot, j]
    return total


@body_for(dispatch.key_distance, "dense", "linear")
def dense_distance(tree, slot, prepared):
    return -np.float64(weighted_product(tree.scorer.weights, tree.keys, slot, prepared))


@body_for(dispatch.key_distance, "sparse", "linear")
def sparse_distance(tree, slot, prepared):
    table, values, _, _ = prepared
    learned, learned_weights = tree.scorer.features, tree.scorer.weights
    features, weights = tree.key_features, tree.key_weights
    first, last = tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1]
    total = 0.0
    for j in range(first, last):
        place = place_in(table, features[j])
        if table[place] != NONE:
            # A feature that was in no lesson has an empty place, whose weight is one.
            weight = learned_weights[place_in(learned, features[j])]
            total += np.float64(weight) * values[place] * weights[j]
    return -total


@body_for(dispatch.score, "linear")
def score(tree, distance):
    return tree.scorer.bias[0] - distance


def learn_reward(tree, slot, x, reward, rate):
    """One Adagrad step on the squared difference between the score of the memory in a slot and its reward."""


@fast_helper
def step(rate, error, weights, squares, j, value):
    g = np.float64(error) * value
    squares[j] = min(squares[j] + g * g, LARGEST_SUM)
    # No step is longer than the rate; the bound only matters where a sum is saturated.
    weights[j] -= rate * max(-1.0, min(1.0, g / np.sqrt(squares[j] + SMALLEST_SUM)))


@body_for(learn_reward, "dense")
def learn_reward_dense(tree, slot, x, reward, rate):
    _, weights, squares, bias = tree.scorer
    keys = tree.keys
    error = np.float32(weighted_product(weights, keys, slot, x) + bias[0] - np.float32(reward))
    for j in range(x.shape[0]):
        step(rate, error, weights, squares, j, x[j] * keys[slot, j])
    step(rate, error, bias[:1], bias[1:], 0, np.float32(1))


@body_for(learn_reward, "sparse")
def learn_reward_sparse(tree, slot, x, reward, rate):
    learned, weights, squares, bias = tree.scorer
    features, values = x
    key_features, key_values = load_key(tree, slot)
    error = -np.float32(reward)
    for step_now in (False, True):
        i, j = 0, 0
        while i < features.shape[0] and j < key_features.shape[0]:
            if features[i] < key_features[j]:
                i += 1
            elif features[i] > key_features[j]:
                j += 1
            else:
                place, product = place_in(learned, features[i]), values[i] * key_values[j]
                if step_now:
                    learned[place] = features[i]
                    step(rate, error, weights, squares, place, product)
                else:
                    error += weights[place] * product
                i += 1
                j += 1
        if not step_now:
            error += bias[0]
    step(rate, error, bias[:1], bias[1:], 0, np.float32(1))


@kernel
def learn_rows(tree, rate, X, ids, rewards):
    """Learn from the rewards (NaN: not observed) of queries, memory by memory; from how many queries."""
    learned = 0
    for i in range(ids.shape[0]):
        has_reward = False
        for j in range(ids.shape[1]):
            row = row_of_id(tree, ids[i, j])
            if row != NONE and not np.isnan(rewards[i, j]):
                learn_reward(tree, tree.rows[row, SLOT], row_of(tree, X, i), rewards[i, j], rate)
                has_reward = True
        learned += has_reward
    return learned


@kernel
def set_scorer(tree, scorer):
    """Replace the scorer of a tree by another of the same type."""
    tree.scorer = scorer
