"""Learning the importance of terms from the rewards of queries."""

from collections import namedtuple

import numpy as np

from memorytree.engine.adagrad import adagrad_step
from memorytree.engine.arrays import NONE, SLOT
from memorytree.engine.dispatch import row_of, term_weight
from memorytree.engine.hash_map import place_of_term, row_of_id
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.sparse import key_range
from memorytree.engine.storage import mark_used
from memorytree.engine.terms.lists import LEARNED, MAX_IMPORTANCE, TERMS
from memorytree.engine.terms.query import known_terms, prepare

EPSILON = np.float32(1e-2)  # makes the first steps shorter than Adagrad's usual ones

Hits = namedtuple("Hits", "slots rewards cosines squared_lengths pulls")
"""The rewarded hits of a query, arrays of shape (k,): slots (int64); rewards, cosines, squared lengths of their keys and
derivatives of the loss by their cosines (float64)."""


@helper
def cosine_of(tree, lists, slot, prepared):
    """Return (cosine, squared length) of a stored key, by term weights; the query has length 1."""
    terms, weights = tree.key_features, tree.key_weights
    product, squared_length = 0.0, 0.0
    for j in key_range(tree, slot):
        term = terms[j]
        weight = np.float64(term_weight(tree, lists, term)) * weights[j]
        squared_length += weight * weights[j]
        product += weight * prepared.values[place_of_term(prepared, term)]
    return product / np.sqrt(squared_length) if squared_length > 0 else 0.0, squared_length


@helper
def add_to_gradient(lists, term, change, touched, count):
    """Add to the gradient of a term, and the term to `touched` if that has room; returns how many it holds."""
    old = lists.gradient[term]
    lists.gradient[term] = old + np.float32(change)
    if touched.shape[0] > 0:  # it has room for all terms or for none, so the branch is predicted
        touched[count] = term
        count += old == 0
    return count


@helper
def add_hit(tree, lists, prepared, hits, j, touched, count):
    """Add the gradient of hit j: its pull times the derivative of its cosine by the logarithm of each importance.

    With u and v the query and the key at length 1 the derivative is u v - cosine (u^2 + v^2) / 2. The part of u^2 is added
    by the caller. Returns how many terms `touched` holds.
    """
    terms, weights = tree.key_features, tree.key_weights
    pull, cosine, squared_length = hits.pulls[j], hits.cosines[j], hits.squared_lengths[j]
    if not squared_length > 0:
        return count
    scale = 1 / np.sqrt(squared_length)  # may exceed float32 for a very short key; its scaled weights do not
    across, along = np.float32(pull), np.float32(pull * cosine / 2)
    for place in key_range(tree, hits.slots[j]):
        term = terms[place]
        own = np.float32(scale * weights[place])
        other = prepared.values[place_of_term(prepared, term)]
        change = term_weight(tree, lists, term) * own * (across * other - along * own)
        count = add_to_gradient(lists, term, change, touched, count)
    return count


@helper
def step_term(importance, squares, gradient, rate, term):
    """Take one step of Adagrad on the logarithm of the importance of a term, and clear its gradient.

    The exponential is replaced by the first three terms of its series, as steps are short by default. A step down divides by
    what a step up multiplies by, so importances stay positive however long steps are.
    """
    g = gradient[term]
    gradient[term] = 0
    squares[term], change = adagrad_step(squares[term], g, rate, EPSILON)
    step = abs(change)
    factor = np.float32(1) + step + np.float32(0.5) * step * step
    up, down = importance[term] * factor, importance[term] / factor  # both, so that there is no branch
    importance[term] = min(max(up if g < 0 else down, np.float32(1 / MAX_IMPORTANCE)), np.float32(MAX_IMPORTANCE))


@helper
def step_terms(lists, touched, count):
    """Take such a step for the first `count` terms of `touched`, or for all terms if it has no room."""
    importance, squares, gradient, rate = lists.importance, lists.squares, lists.gradient, np.float32(lists.settings.rate)
    if touched.shape[0] > 0:
        for j in range(count):
            step_term(importance, squares, gradient, rate, touched[j])
    else:
        for term in range(lists.counters[TERMS]):
            step_term(importance, squares, gradient, rate, term)


@helper
def collect_hits(tree, ids, rewards, unobserved, hits):
    """Collect the stored hits of one query with their rewards, and mark those with an observed reward > 0 as used.

    ids (int64) and rewards (float64) have the shape (k,). Hits without a reward count as `unobserved`, or not at all if that
    is NaN. Returns (how many hits, number of their features + 1); no hits if
    all rewards are equal or none is positive, as nothing can be learned then.
    """
    n, features, lowest, highest = 0, 1, 1.0, 0.0
    for j in range(ids.shape[0]):
        reward = unobserved if np.isnan(rewards[j]) else rewards[j]
        if np.isnan(reward):
            continue
        row = row_of_id(tree, ids[j])
        if row == NONE:
            continue
        if rewards[j] > 0:
            mark_used(tree, ids[j])
        hits.slots[n], hits.rewards[n] = tree.rows[row, SLOT], reward
        lowest, highest = min(lowest, reward), max(highest, reward)
        features += tree.spans[hits.slots[n], 1]
        n += 1
    return n if lowest < highest else 0, features


@helper
def prepare_unit(tree, lists, x, terms, weights):
    """Return the prepared query with its values scaled to length 1."""
    prepared = prepare(tree, lists, x, terms, weights)
    if prepared.squared_length > 0:
        scale = 1 / np.sqrt(prepared.squared_length)
        for term in terms:
            place = place_of_term(prepared, term)
            prepared.values[place] = scale * prepared.values[place]
    return prepared


@helper
def compute_pulls(tree, lists, prepared, hits, n):
    """Compute the derivatives of the loss by the cosines of the first n hits.

    With p the softmax of the cosines times `temperature`, and t the share of each hit in the rewarded part of it, the
    derivative by a cosine is temperature * (p - t). Returns (whether they matter, the sum of pull * cosine).
    """
    temperature, best = lists.settings.temperature, -np.inf
    for j in range(n):
        hits.cosines[j], hits.squared_lengths[j] = cosine_of(tree, lists, hits.slots[j], prepared)
        best = max(best, hits.cosines[j])
    total, rewarded = 0.0, 0.0
    for j in range(n):
        hits.pulls[j] = np.exp(temperature * (hits.cosines[j] - best))
        total += hits.pulls[j]
        rewarded += hits.rewards[j] * hits.pulls[j]
    if rewarded <= 0:
        return False, 0.0
    strongest, own = 0.0, 0.0
    for j in range(n):
        hits.pulls[j] = temperature * (hits.pulls[j] / total - hits.rewards[j] * hits.pulls[j] / rewarded)
        strongest = max(strongest, abs(hits.pulls[j]))
        own += hits.pulls[j] * hits.cosines[j]
    return strongest >= 1e-6, own


@kernel
def learn_rows(tree, lists, X, ids, rewards, unobserved):
    """Learn the importance of terms from the rewards of queries.

    ids (int64) and rewards (float64, NaN where none was observed) have the shape (n, k); unobserved is the reward that is
    assumed for hits without one, or NaN to leave them out. Memories with a reward > 0 are
    marked as used. Returns from how many queries anything was learned: none where all rewards are equal.
    """
    k = ids.shape[1]
    hits = Hits(
        blank(k, np.int64), blank(k, np.float64), blank(k, np.float64), blank(k, np.float64), blank(k, np.float64)
    )  # fmt: skip
    scratch = blank(0, np.int32)
    learned = 0
    for i in range(ids.shape[0]):
        n, features = collect_hits(tree, ids[i], rewards[i], unobserved, hits)
        if n == 0:
            continue
        x = row_of(tree, X, i)
        terms, weights = known_terms(lists, x)
        prepared = prepare_unit(tree, lists, x, terms, weights)
        if not prepared.squared_length > 0:
            continue
        matters, own = compute_pulls(tree, lists, prepared, hits, n)
        if not matters:
            continue
        features += terms.shape[0]
        if features > scratch.shape[0]:
            scratch = blank(2 * features, np.int32)
        # If they may be as many as all terms, stepping through all terms takes less time than collecting them.
        touched, count = scratch[: features if features < lists.counters[TERMS] else 0], 0
        for j in range(n):
            count = add_hit(tree, lists, prepared, hits, j, touched, count)
        for j in range(terms.shape[0]):
            weight = np.float64(term_weight(tree, lists, terms[j])) * weights[j] * weights[j]
            count = add_to_gradient(lists, terms[j], -own * weight / (2 * prepared.squared_length), touched, count)
        step_terms(lists, touched, count)
        lists.counters[LEARNED] += 1
        learned += 1
    return learned
