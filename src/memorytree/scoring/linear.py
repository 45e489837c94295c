"""`scorer="linear"`: the paper's f, linear in the products of the features of query and memory, trained by Adagrad on the
squared loss to predict the reward. It begins as the plain product of the two keys.

There is a weight for every feature of dense keys. Of sparse keys only features that have been in a lesson have one, in an
open-addressing table; the others weigh one.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import NONE, SLOT
from memorytree.engine.core import AnyCore, Core
from memorytree.engine.dispatch import load_key, row_of
from memorytree.engine.hash_map import SMALLEST_TABLE, place_in, row_of_id
from memorytree.engine.jit import body_for, fast_helper, kernel
from memorytree.scoring.around import CoreAround

Linear = namedtuple("Linear", "rate")
Product = namedtuple("Product", "features weights squares bias")
"""What has been learned, as trees know it: the table of features (sparse keys), for each a weight and Adagrad's sum; and the
bias with its own."""

LEAST, MOST = 1e-12, 1e37  # of Adagrad's sums


def linear(*, rate: float = 0.1) -> Linear:
    """The paper's scorer; `rate` is Adagrad's step."""
    return Linear(float(rate))


def untaught(size: int) -> Product:
    """Weights of one."""
    features = np.full(size, NONE, np.int32)
    return Product(features, np.ones(size, np.float32), np.zeros(size, np.float32), np.zeros(2, np.float32))


@kernel
def take_places(table, features):
    """Where features lie in a table that has room for them."""
    places = np.empty(features.shape[0], np.int64)
    for i in range(features.shape[0]):
        places[i] = place_in(table, features[i])
        table[places[i]] = features[i]
    return places


def with_room(features: np.ndarray, weights: np.ndarray, squares: np.ndarray, bias: np.ndarray, more: int) -> Product:
    """What has been learned of some features, and room for more of them: half of the table stays empty."""
    size = SMALLEST_TABLE
    while size < 2 * (len(features) + more):
        size *= 2
    product = untaught(size)
    places = take_places(product.features, features)
    product.weights[places], product.squares[places], product.bias[:] = weights, squares, bias
    return product


@fast_helper
def weighed_product(weights, keys, slot, x):
    total = np.float32(0)
    for j in range(x.shape[0]):
        total += weights[j] * x[j] * keys[slot, j]
    return total


@body_for(dispatch.key_distance, "dense", "product")
def dense_dissimilarity(tree, slot, prepared):
    return -np.float64(weighed_product(tree.scorer.weights, tree.keys, slot, prepared))


@body_for(dispatch.key_distance, "sparse", "product")
def sparse_dissimilarity(tree, slot, prepared):
    table, values, _, _ = prepared
    learned, learned_weights = tree.scorer.features, tree.scorer.weights
    features, weights = tree.key_features, tree.key_weights
    first, last = tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1]
    total = 0.0
    for j in range(first, last):
        place = place_in(table, features[j])
        if table[place] != NONE:
            # A feature without a lesson finds an empty place, whose weight is one.
            weight = learned_weights[place_in(learned, features[j])]
            total += np.float64(weight) * values[place] * weights[j]
    return -total


@body_for(dispatch.score, "product")
def score(tree, badness):
    return tree.scorer.bias[0] - badness


def teach(tree, slot, x, reward, rate):
    """One step towards the reward of the memory in a slot."""


@fast_helper
def step(rate, error, weights, squares, j, value):
    g = np.float64(error) * value
    squares[j] = min(squares[j] + g * g, MOST)
    # No step is longer than the rate; the bound matters only where a sum is at its end.
    weights[j] -= rate * max(-1.0, min(1.0, g / np.sqrt(squares[j] + LEAST)))


@body_for(teach, "dense")
def teach_dense(tree, slot, x, reward, rate):
    _, weights, squares, bias = tree.scorer
    keys = tree.keys
    error = np.float32(weighed_product(weights, keys, slot, x) + bias[0] - np.float32(reward))
    for j in range(x.shape[0]):
        step(rate, error, weights, squares, j, x[j] * keys[slot, j])
    step(rate, error, bias[:1], bias[1:], 0, np.float32(1))


@body_for(teach, "sparse")
def teach_sparse(tree, slot, x, reward, rate):
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
def lessons(tree, rate, X, ids, rewards, first, last):
    """Learn from the rewards of queries first .. last - 1 (NaN: none observed), memory by memory; from how many queries."""
    learned = 0
    for i in range(first, last):
        taught = False
        for j in range(ids.shape[1]):
            row = row_of_id(tree, ids[i, j])
            if row != NONE and not np.isnan(rewards[i, j]):
                teach(tree, tree.rows[row, SLOT], row_of(tree, X, i), rewards[i, j], rate)
                taught = True
        learned += taught
    return learned


@kernel
def exchange(tree, scorer):
    """Give a tree another scorer of the same kind."""
    tree.scorer = scorer


class LinearCore(CoreAround, AnyCore):
    """A tree and the weights by which its candidates are ranked."""

    def __init__(self, base: Core, rate: float):
        super().__init__(base)
        self._rate = rate
        self._promised = 0  # features that may be in the table (sparse keys)

    @classmethod
    def make(cls, sparse: bool, dimension: int, settings: Any, routing: Any, scorer: Linear) -> LinearCore:
        """A core without memories."""
        product = untaught(SMALLEST_TABLE if sparse else dimension)
        return cls(Core(sparse, dimension, settings, routing, product), scorer.rate)

    def copy(self) -> LinearCore:
        """A core of its own with the same content."""
        twin = LinearCore(self.base.copy(), self._rate)
        twin._promised = self._promised
        twin._rank_by(Product(*(array.copy() for array in self.base.scorer)))
        return twin

    def _rank_by(self, product: Product) -> None:
        self.base.scorer = product
        exchange(self.base.tree, product)

    def lore(self) -> dict[str, np.ndarray]:
        """What has been learned; sparse keys' features in order, so that what is equal looks equal."""
        features, weights, squares, bias = self.base.scorer
        if not self.base.sparse:
            return {"weights": weights, "squares": squares, "bias": bias}
        known = np.flatnonzero(squares > 0)
        known = known[np.argsort(features[known])]
        return {"features": features[known], "weights": weights[known], "squares": squares[known], "bias": bias}

    def bytes_in_all(self) -> int:
        """Bytes of the weights, with the room for growth."""
        return sum(array.nbytes for array in self.base.scorer)

    def recall(self, lore: dict[str, np.ndarray]) -> None:
        """Be what `lore` told; the tree is then still to be adopted."""
        weights, squares, bias = (lore[name] for name in ("weights", "squares", "bias"))
        if any(array.dtype != np.float32 or not np.all(np.isfinite(array)) for array in (weights, squares, bias)):
            raise ValueError("the weights of the scorer are not whole")
        # Earlier files have a weight for every feature up to the last that was in a lesson.
        features = lore.get("features", np.arange(len(weights), dtype=np.int32))
        if not len(features) == len(weights) == len(squares) or bias.shape != (2,):
            raise ValueError("the weights of the scorer do not belong together")
        if self.base.sparse:
            taught = squares > 0
            self._rank_by(with_room(features[taught], weights[taught], squares[taught], bias, 0))
            self._promised = np.count_nonzero(taught)
        else:
            product = untaught(len(self.base.scorer.weights))
            product.weights[features], product.squares[features], product.bias[:] = weights, squares, bias
            self._rank_by(product)

    def _make_room(self, features: np.ndarray) -> None:
        """Make room for lessons about these features. Only when room is short is it counted how many there really are."""
        self._promised += len(features)
        if 2 * self._promised > len(self.base.scorer.features):
            known = self.lore()
            there, distinct = len(known["features"]), len(np.unique(features))
            self._rank_by(with_room(**known, more=max(there, distinct)))
            self._promised = there + distinct

    def update(
        self, X: Any, traces: np.ndarray, ids: np.ndarray, rewards: np.ndarray, progress: np.ndarray, last: int
    ) -> Any:
        """Let the scorer learn, then the routers."""
        first = progress.item() // (1 + self.settings.reroutes)
        if self.base.sparse:
            self._make_room(X[1][X[0][first] : X[0][last]])
        learned = lessons(self.base.tree, self._rate, X, ids, rewards, first, last)
        counts = self.base.update(X, traces, ids, rewards, progress, last)
        counts[0] += learned
        return counts
