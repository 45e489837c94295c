"""What the features of a key contribute to the scores of hits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from memorytree.index.base import KeyBatch, QueryResult, ScoredHit
from memorytree.results import NO_ID


def by_feature(row: KeyBatch) -> dict[int, float]:
    """The key of a batch of one as {feature: weight}."""
    if isinstance(row, tuple):
        return dict(zip(row[1].tolist(), row[2].tolist(), strict=True))
    return dict(enumerate(row[0].tolist()))


def pairs_of(found: QueryResult) -> list[tuple[int, float]]:
    """(id, score) of the hits of the first row."""
    pairs = zip(found.ids[0].tolist(), found.scores[0].tolist(), strict=True)
    return [(id, score) for id, score in pairs if id != NO_ID]


def without_parts(found: QueryResult) -> list[ScoredHit]:
    """The hits of the first row, whose scores have no parts."""
    return [ScoredHit(id, score, {}, {"score": score}) for id, score in pairs_of(found)]


def of_features(row: KeyBatch, found: QueryResult, key_of: Callable[[int], KeyBatch], by_angle: bool) -> list[ScoredHit]:
    """The hits of the first row, with the contribution of each feature.

    Args:
        row: the key of the query, as a batch of one.
        found: the hits.
        key_of: the key of a memory by id, as a batch of one.
        by_angle: the score is an overlap divided by lengths; otherwise minus the distance.

    Returns:
        A hit for each id; its contributions add up to its score.
    """
    x = by_feature(row)
    hits = []
    for id, score in pairs_of(found):
        z = by_feature(key_of(id))
        if by_angle:
            shares = {feature: x[feature] * z[feature] for feature in x.keys() & z.keys()}
        else:
            shares = {feature: (x.get(feature, 0.0) - z.get(feature, 0.0)) ** 2 for feature in x.keys() | z.keys()}
        total = sum(shares.values()) or 1.0
        parts = {feature: share * score / total for feature, share in shares.items()}
        hits.append(ScoredHit(id, score, parts))
    return hits


def weighted(row: KeyBatch, weights: Callable[[np.ndarray], np.ndarray]) -> KeyBatch:
    """A sparse key with every feature multiplied by the root of its weight."""
    assert isinstance(row, tuple)
    bounds, features, values = row
    return bounds, features, values * np.sqrt(weights(features))
