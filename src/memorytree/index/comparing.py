"""Gaps between sparse keys, as an index with weights of terms compares them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memorytree.index.base import Array, KeyBatch, Scores


def weighted_gaps(key: KeyBatch, others: list[KeyBatch], weights: Callable[[Array], Array]) -> Scores:
    """1 - the cosine of a sparse key and others, (n,); 0 for equal keys, 1 where one of them is all zeros.

    Args:
        key: a batch of one.
        others: batches of one.
        weights: the weights of features; a key is multiplied by their roots.
    """
    assert isinstance(key, tuple)
    rows = [(other[1], other[2]) for other in others if isinstance(other, tuple)]
    counts = np.array([len(features) for features, _ in rows])
    features, values = (np.concatenate(column) for column in zip(*rows, strict=True))
    _, own, own_values = key
    order = np.argsort(own)
    own, own_values = own[order], own_values[order].astype(np.float64)
    every = weights(np.concatenate([own, features])).astype(np.float64)
    own_weights, their_weights = every[: len(own)], every[len(own) :]
    place = np.minimum(np.searchsorted(own, features), max(len(own) - 1, 0))
    shared = own[place] == features if len(own) else np.zeros(len(features), bool)
    products = np.zeros(len(features))
    products[shared] = their_weights[shared] * values[shared] * own_values[place[shared]]
    row = np.repeat(np.arange(len(rows)), counts)
    overlap = np.bincount(row, products, len(rows))
    lengths = np.bincount(row, their_weights * values * values.astype(np.float64), len(rows))
    both = np.sqrt(lengths * np.sum(own_weights * own_values * own_values))
    cosines = np.divide(overlap, both, out=np.zeros(len(rows)), where=both > 0)
    return np.maximum(1 - cosines, 0.0).astype(np.float32)
