"""`scorer="cosine"`: the key that points most nearly the same way fits best; a key of zeros fits nothing."""

from collections import namedtuple

import numpy as np

from memorytree.engine import declared
from memorytree.engine.compile import body_for, helper
from memorytree.engine.dense import dot, squared_norm
from memorytree.engine.sparse import entries_of, place_in, place_of_term
from memorytree.engine.state import NONE

Cosine = namedtuple("Cosine", "learns")


def cosine() -> Cosine:
    """Cosine has nothing to set."""
    return Cosine(False)


@helper
def squared_length(x):
    total = 0.0
    for j in range(x.shape[0]):
        total += np.float64(x[j]) * x[j]
    return total


@helper
def turned_away(keys, slot, x, x_squared):
    """One less the cosine of a key and x."""
    lengths = np.sqrt(x_squared * squared_norm(keys, slot, x.shape[0]))
    return 1.0 - dot(keys, slot, x) / lengths if lengths != 0 else 1.0


@body_for(declared.dissimilarity, "dense", "cosine")
def dense_dissimilarity(tree, slot, prepared):
    return turned_away(tree.keys, slot, prepared, squared_length(prepared))


@body_for(declared.dissimilarities, "dense", "cosine")
def dense_dissimilarities(tree, slots, count, prepared, found):
    keys, x_squared = tree.keys, squared_length(prepared)
    for i in range(count):
        found[i] = turned_away(keys, slots[i], prepared, x_squared)


@body_for(declared.dissimilarity, "sparse", "cosine")
def sparse_dissimilarity(tree, slot, prepared):
    table, values, _, x_squared = prepared
    features, weights = tree.key_features, tree.key_weights
    first, last = tree.spans[slot, 0], tree.spans[slot, 0] + tree.spans[slot, 1]
    key_squared = 0.0
    product = 0.0
    for j in range(first, last):
        weight = np.float64(weights[j])
        place = place_in(table, features[j])
        key_squared += weight * weight
        if table[place] != NONE:
            product += weight * values[place]
    lengths = np.sqrt(x_squared * key_squared)
    return 1.0 - product / lengths if lengths > 0 else 1.0


@body_for(declared.term_weight, "cosine")
def term_weight(tree, lists, term):
    return lists.importance[term]


@body_for(declared.weighed_dissimilarity, "sparse", "cosine")
def weighed_dissimilarity(tree, slot, prepared, lists):
    importance, values = lists.importance, prepared.values
    terms, weights = tree.key_features, tree.key_weights
    key_squared = 0.0
    product = 0.0
    for j in entries_of(tree, slot):
        term = np.uint32(terms[j])
        weight = np.float64(importance[term]) * weights[j]
        key_squared += weight * weights[j]
        product += weight * values[place_of_term(prepared, term)]
    lengths = np.sqrt(prepared.squared_length * key_squared)
    # Rounding puts no other key before an equal one.
    return max(1.0 - product / lengths, 0.0) if lengths > 0 else 1.0


@body_for(declared.promise, "cosine")
def promise(tree, overlap, squared_length):
    return overlap * abs(overlap) / squared_length if squared_length > 0 else 0.0


@body_for(declared.guess, "cosine")
def guess(tree, promised, prepared):
    if not prepared.squared_length > 0:
        return 1.0
    return 1.0 - np.copysign(np.sqrt(abs(promised) / prepared.squared_length), promised)


@body_for(declared.score, "cosine")
def score(tree, badness):
    return 1.0 - badness
