"""How the importance of terms is learned from the rewards of queries."""

import numpy as np

from memorytree.engine import layout
from memorytree.engine.compile import blank, helper, kernel
from memorytree.engine.declared import row_of, term_weight
from memorytree.engine.lists import FURTHEST, LESSONS, TERMS
from memorytree.engine.sparse import entries_of, place_of_term
from memorytree.engine.state import NONE, SLOT
from memorytree.engine.term_search import known_terms, prepare


@helper
def cosine_of(tree, lists, slot, prepared):
    """(cosine, squared length) of a stored key, by importance; the query has length one."""
    terms, weights = tree.key_features, tree.key_weights
    product, squared_length = 0.0, 0.0
    for j in entries_of(tree, slot):
        term = np.uint32(terms[j])
        weight = np.float64(term_weight(tree, lists, term)) * weights[j]
        squared_length += weight * weights[j]
        product += weight * prepared.values[place_of_term(prepared, term)]
    return product / np.sqrt(squared_length) if squared_length > 0 else 0.0, squared_length


@helper
def add_to_gradient(lists, term, change, touched, count):
    """Change the gradient of a term, and put it among those that have one, if there is room for these: (how many have)."""
    old = lists.gradient[term]
    lists.gradient[term] = old + np.float32(change)
    if touched.shape[0] > 0:  # of all terms or of none, so that this takes no time
        touched[np.uint64(count)] = term
        count += old == 0
    return count


@helper
def add_gradient(tree, lists, slot, prepared, pull, cosine, squared_length, touched, count):
    """Add `pull` times the derivative of a memory's cosine by the logarithm of each term's importance.

    With u and v the two keys at length one it is u v - cosine (u^2 + v^2) / 2; u is what is prepared, and the part of u^2 is
    added by the caller. Returns how many terms have a gradient.
    """
    terms, weights = tree.key_features, tree.key_weights
    if not squared_length > 0:
        return count
    scale = 1 / np.sqrt(squared_length)  # of a very short key larger than numbers of 32 bits go; its weights are not
    across, along = np.float32(pull), np.float32(pull * cosine / 2)
    for j in entries_of(tree, slot):
        term = np.uint32(terms[j])
        own = np.float32(scale * weights[j])
        other = prepared.values[place_of_term(prepared, term)]
        change = term_weight(tree, lists, term) * own * (across * other - along * own)
        count = add_to_gradient(lists, term, change, touched, count)
    return count


@helper
def step_term(importance, squares, gradient, rate, term):
    """One step of Adagrad on the logarithm of the importance of a term; its gradient is used up.

    The first three parts of the exponential series do for it, as steps are short by default; down is the inverse of up, so
    that it stays down however long they are.
    """
    g = gradient[term]
    gradient[term] = 0
    squares[term] += g * g
    step = rate * abs(g) / np.sqrt(squares[term] + np.float32(1e-2))
    factor = np.float32(1) + step + np.float32(0.5) * step * step
    up, down = importance[term] * factor, importance[term] / factor  # both, so that there is no branch
    importance[term] = min(max(up if g < 0 else down, np.float32(1 / FURTHEST)), np.float32(FURTHEST))


@helper
def step_terms(lists, touched, count):
    """Such a step for all terms that have a gradient: those that were noted, or all if none were."""
    importance, squares, gradient, rate = lists.importance, lists.squares, lists.gradient, np.float32(lists.settings.rate)
    if touched.shape[0] > 0:
        for j in range(count):
            step_term(importance, squares, gradient, rate, np.uint32(touched[j]))
    else:
        for term in range(np.uint64(lists.counters[TERMS])):
            step_term(importance, squares, gradient, rate, term)


@kernel
def learn_rows(tree, lists, X, ids, rewards):
    """Learn the importance of terms from the rewards of queries (NaN: none observed).

    With p the softmax of the cosines (times `temperature`) of the memories that were returned, and t the part of it that was
    rewarded, the gradient of each cosine is p - t. Rewarded memories become the last to be forgotten. Returns from how many
    queries anything was learned: not where no memory was rewarded, nor where all were alike.
    """
    k = ids.shape[1]
    slots, given = blank(k, np.int64), blank(k, np.float64)
    cosines, lengths, pulls = blank(k, np.float64), blank(k, np.float64), blank(k, np.float64)
    room = blank(0, np.int32)
    learned = 0
    for i in range(ids.shape[0]):
        n, most, lowest, highest = 0, 1, 1.0, 0.0
        for j in range(k):
            if np.isnan(rewards[i, j]):
                continue
            row = layout.row_of_id(tree, ids[i, j])
            if row == NONE:
                continue
            if rewards[i, j] > 0:
                layout.refresh(tree, ids[i, j])
            slots[n], given[n] = tree.rows[row, SLOT], rewards[i, j]
            lowest, highest = min(lowest, given[n]), max(highest, given[n])
            most += tree.spans[slots[n], 1]
            n += 1
        if lowest >= highest:
            continue
        x = row_of(tree, X, i)
        terms, weights = known_terms(lists, x)
        prepared = prepare(tree, lists, x, terms, weights)
        if not prepared.squared_length > 0:
            continue
        scale = 1 / np.sqrt(prepared.squared_length)
        for term in terms:
            prepared.values[place_of_term(prepared, term)] = scale * prepared.values[place_of_term(prepared, term)]
        best = -np.inf
        for j in range(n):
            cosines[j], lengths[j] = cosine_of(tree, lists, slots[j], prepared)
            best = max(best, cosines[j])
        total, earned = 0.0, 0.0
        for j in range(n):
            pulls[j] = np.exp(lists.settings.temperature * (cosines[j] - best))
            total += pulls[j]
            earned += given[j] * pulls[j]
        if earned <= 0:
            continue
        strongest, own = 0.0, 0.0
        for j in range(n):
            pulls[j] = lists.settings.temperature * (pulls[j] / total - given[j] * pulls[j] / earned)
            strongest = max(strongest, abs(pulls[j]))
            own += pulls[j] * cosines[j]
        if strongest < 1e-6:
            continue
        most += terms.shape[0]
        if most > room.shape[0]:
            room = blank(2 * most, np.int32)
        # To go over all terms takes less time than to note so many.
        touched, count = room[: most if most < lists.counters[TERMS] else 0], 0
        for j in range(n):
            count = add_gradient(tree, lists, slots[j], prepared, pulls[j], cosines[j], lengths[j], touched, count)
        for j in range(terms.shape[0]):
            weight = np.float64(term_weight(tree, lists, terms[j])) * weights[j] * weights[j]
            count = add_to_gradient(lists, terms[j], -own * weight / (2 * prepared.squared_length), touched, count)
        step_terms(lists, touched, count)
        lists.counters[LESSONS] += 1
        learned += 1
    return learned
