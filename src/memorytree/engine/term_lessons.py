"""How the importance of terms is learned from the rewards of queries."""

import numpy as np

from memorytree.engine import layout
from memorytree.engine.compile import blank, helper, kernel
from memorytree.engine.declared import row_of, term_weight
from memorytree.engine.lists import FURTHEST, LESSONS
from memorytree.engine.sparse import entries_of, place_of_term
from memorytree.engine.state import NONE, SLOT
from memorytree.engine.term_search import known_terms, prepare


@helper
def cosine_of(tree, lists, slot, prepared):
    """(cosine, squared length) of a stored key, by importance."""
    terms, weights = tree.key_features, tree.key_weights
    product, squared_length = 0.0, 0.0
    for j in entries_of(tree, slot):
        term = np.uint32(terms[j])
        weight = np.float64(term_weight(tree, lists, term)) * weights[j]
        squared_length += weight * weights[j]
        product += weight * prepared.values[place_of_term(prepared, term)]
    lengths = np.sqrt(squared_length * prepared.squared_length)
    return product / lengths if lengths > 0 else 0.0, squared_length


@helper
def add_to_gradient(lists, term, change, touched, count):
    """Change the gradient of a term, and put it among those that have one: (how many have). Takes no branch."""
    old = lists.gradient[term]
    touched[np.uint64(count)] = term
    lists.gradient[term] = old + np.float32(change)
    return count + (old == 0)


@helper
def add_gradient(tree, lists, slot, prepared, pull, cosine, squared_length, touched, count):
    """Add `pull` times the derivative of a memory's cosine by the logarithm of each term's importance.

    With u and v the two keys at length one it is u v - cosine (u^2 + v^2) / 2; the part of u^2 is added by the caller.
    Returns how many terms have a gradient.
    """
    terms, weights = tree.key_features, tree.key_weights
    if not squared_length * prepared.squared_length > 0:
        return count
    # Of a very short key these are larger than numbers of 32 bits go; what becomes of its weights is not.
    key_scale, query_scale = 1 / np.sqrt(squared_length), 1 / np.sqrt(prepared.squared_length)
    across, along = np.float32(pull), np.float32(pull * cosine / 2)
    for j in entries_of(tree, slot):
        term = np.uint32(terms[j])
        own = np.float32(key_scale * weights[j])
        other = np.float32(query_scale * prepared.values[place_of_term(prepared, term)])
        change = term_weight(tree, lists, term) * own * (across * other - along * own)
        count = add_to_gradient(lists, term, change, touched, count)
    return count


@helper
def step_terms(lists, touched, count):
    """One step of Adagrad on the logarithm of the importance of terms; their gradient is used up.

    The first three parts of the exponential series do for it, as steps are short by default; down is the inverse of up, so
    that it stays down however long they are.
    """
    least, most, rate = np.float32(1 / FURTHEST), np.float32(FURTHEST), np.float32(lists.settings.rate)
    importance, squares, gradient = lists.importance, lists.squares, lists.gradient
    for j in range(count):
        term = np.uint32(touched[j])
        g = gradient[term]
        gradient[term] = 0
        squares[term] += g * g
        step = rate * abs(g) / np.sqrt(squares[term] + np.float32(1e-2))
        factor = np.float32(1) + step + np.float32(0.5) * step * step
        changed = importance[term] * factor if g < 0 else importance[term] / factor
        importance[term] = min(max(changed, least), most)


@kernel
def learn_rows(tree, lists, X, ids, rewards, first, last):
    """Learn the importance of terms from the rewards of queries first .. last - 1 (NaN: none observed).

    With p the softmax of the cosines (times `temperature`) of the memories that were returned, and t the part of it that was
    rewarded, the gradient of each cosine is p - t. Rewarded memories become the last to be forgotten. Returns from how many
    queries anything was learned: not where no memory was rewarded, nor where all were alike.
    """
    k = ids.shape[1]
    slots, given = blank(k, np.int64), blank(k, np.float64)
    cosines, lengths, pulls = blank(k, np.float64), blank(k, np.float64), blank(k, np.float64)
    touched = blank(0, np.int32)
    learned = 0
    for i in range(first, last):
        n, most, lowest, highest = 0, 1, 1.0, 0.0
        for j in range(k):
            row = layout.row_of_id(tree, ids[i, j])
            if row == NONE or np.isnan(rewards[i, j]):
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
        if strongest < 1e-6 or not prepared.squared_length > 0:
            continue
        most += terms.shape[0]
        if most > touched.shape[0]:
            touched = blank(2 * most, np.int32)
        count = 0
        for j in range(n):
            count = add_gradient(tree, lists, slots[j], prepared, pulls[j], cosines[j], lengths[j], touched, count)
        for j in range(terms.shape[0]):
            weight = np.float64(term_weight(tree, lists, terms[j])) * weights[j] * weights[j]
            count = add_to_gradient(lists, terms[j], -own * weight / (2 * prepared.squared_length), touched, count)
        step_terms(lists, touched, count)
        lists.counters[LESSONS] += 1
        learned += 1
    return learned
