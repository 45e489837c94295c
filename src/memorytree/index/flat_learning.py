"""What a flat index learns of terms, as `engine/terms` does: importances, and terms that memories take over from queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memorytree.index.base import Ids

if TYPE_CHECKING:
    from memorytree.index.flat_terms import FlatTerms, TermQuery

MAX_IMPORTANCE = np.float32(1e4)
"""Of a term; its inverse is the least importance."""
EPSILON = np.float32(1e-2)
"""Makes the first steps shorter than Adagrad's usual ones."""
LEAST_PULL = 1e-6
MOST_ADDED, LEAST_ADDED = 512, np.float32(0.01)
"""At most so many terms are added to a key, and none that weighs less."""


class TermLearning(NamedTuple):
    """Options.

    Attributes:
        temperature: the factor inside the softmax.
        rate: the step of Adagrad.
        expansion: by which part of the difference added terms move towards a query that was rewarded with 1.
    """

    temperature: float
    rate: float
    expansion: float


def learn_importances(keys: FlatTerms, query: TermQuery, rows: Ids, rewards: NDArray[np.float64]) -> bool:
    """Learn from the rewards of the hits of a query; whether there was anything to learn.

    Args:
        keys: the keys.
        query: the key of the query.
        rows: (k,) the rows of the hits.
        rewards: (k,) their rewards.
    """
    if not len(rows) or not rewards.min() < rewards.max() or not query.squares > 0:
        return False
    hits = keys.entries.entries(rows)
    term_weights, owners = keys.term_weights(hits.terms), hits.owners()
    unit = (query.values / np.sqrt(query.squares)).astype(np.float32)[query.places[hits.terms]]
    products = hits.sums(term_weights * hits.weights * unit)
    lengths = np.sqrt(hits.sums(term_weights.astype(np.float64) * hits.weights * hits.weights))
    cosines = np.divide(products, lengths, out=np.zeros(len(rows)), where=lengths > 0)
    pulls = _pulls(cosines, rewards, keys.learning.temperature)
    if not np.abs(pulls).max() >= LEAST_PULL:
        return False
    # With u and v the query and the key at length 1, the derivative of their cosine is u v - cosine (u^2 + v^2) / 2.
    scales = np.divide(1.0, lengths, out=np.zeros(len(rows)), where=lengths > 0)
    own = (scales[owners] * hits.weights).astype(np.float32)
    across, along = pulls.astype(np.float32), (pulls * cosines / 2).astype(np.float32)
    changes = term_weights * own * (across[owners] * unit - along[owners] * own)
    of_query = keys.term_weights(query.terms).astype(np.float64)
    share = (pulls * cosines).sum() / (2 * query.squares)
    changes = np.concatenate([changes, -share * of_query * query.values[1:] ** 2])
    touched, places = np.unique(np.concatenate([hits.terms, query.terms]), return_inverse=True)
    _step(keys, touched, np.bincount(places, changes, len(touched)).astype(np.float32))
    keys.measure()
    return True


def _pulls(cosines: NDArray[np.float64], rewards: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """The derivatives of the loss by the cosines.

    They are temperature * (p - t), with p the softmax and t the share of each hit in the rewarded part of it.
    """
    strengths = np.exp(temperature * (cosines - cosines.max()))
    rewarded = rewards * strengths
    if not rewarded.sum() > 0:
        return np.zeros(len(cosines))
    return temperature * (strengths / strengths.sum() - rewarded / rewarded.sum())


def _step(keys: FlatTerms, terms: Ids, gradient: NDArray[np.float32]) -> None:
    """Take one step of Adagrad on the logarithms of importances.

    The exponential is replaced by the first three terms of its series; a step down divides by what a step up multiplies by.
    """
    squares = keys.gradients[terms] + gradient * gradient
    keys.gradients[terms] = squares
    step = np.abs(np.float32(keys.learning.rate) * gradient / np.sqrt(squares + EPSILON))
    factor = np.float32(1) + step + np.float32(0.5) * step * step
    importance = keys.importance[terms]
    moved = np.where(gradient < 0, importance * factor, importance / factor)
    keys.importance[terms] = np.clip(moved, 1 / MAX_IMPORTANCE, MAX_IMPORTANCE)


def expand(keys: FlatTerms, row: int, features: NDArray[np.int32], weights: NDArray[np.float32], reward: float) -> None:
    """Move the added terms of a memory towards the weights of a query times the reward; without a reward they fade.

    The terms of the key itself stay as they are.
    """
    given, (bounds, stored, stored_weights) = int(keys.given[row]), keys.compared(row)
    if reward <= 0 and bounds[1] == given:
        return
    own = set(stored[:given].tolist())
    added = dict(zip(stored[given:].tolist(), stored_weights[given:], strict=True))
    rate, reward32 = np.float32(keys.learning.expansion), np.float32(reward)
    for feature, weight in zip(features.tolist(), weights, strict=True):
        if feature in own or (feature not in added and (reward <= 0 or len(added) >= MOST_ADDED)):
            continue
        before = added.get(feature, np.float32(0))
        added[feature] = before + rate * (reward32 * weight - before)
    # Also terms that are too light get a number, and can be learned as terms of queries.
    terms = keys.numbered(np.array([*stored[:given].tolist(), *added], np.int32))
    values = np.concatenate([stored_weights[:given], np.array(list(added.values()), np.float32)])
    kept = (np.arange(len(terms)) < given) | (values >= LEAST_ADDED)
    keys.write(row, terms[kept], values[kept])
