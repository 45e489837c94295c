"""`scorer="tfidf"`: terms count by their rarity (sparse keys with term lists).

The weight of a term is its learned importance times the square of its rarity ln(1 + n / (m + 1/2)), where m of the n
memories that are stored now have the term. Nothing of this is stored in keys, so rarities are those at the time of the
query. The score is the share of the query's weight that the key has too, times the fourth root of the ratio of their squared
lengths: long keys match something of everything, but the full ratio, as in a cosine, would penalise them too much. A key
scores 1 against itself, and a key with more of the same terms scores higher.

Lengths are computed without rarity, so that the lengths stored in the lists stay valid as memories come and go.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import dispatch
from memorytree.engine.arrays import MEMORIES, NONE
from memorytree.engine.hash_map import place_of_term
from memorytree.engine.jit import body_for, helper
from memorytree.engine.sparse import key_range
from memorytree.engine.terms.lists import LEARNED, LENGTH, NO_FEATURE, OWN

Tfidf = namedtuple("Tfidf", "learns")


@helper
def rarity(tree, lists, term):
    """Return the rarity of a term among the memories stored now; NO_FEATURE stands for terms that no memory has."""
    documents = lists.lists[term, LENGTH] if term != NO_FEATURE else 0
    return np.log(1.0 + tree.counters[MEMORIES] / (documents + 0.5))


@body_for(dispatch.term_weight, "tfidf")
def term_weight(tree, lists, term):
    rare = rarity(tree, lists, term)
    return np.float32(lists.importance[term] * rare * rare)


@body_for(dispatch.weighted_distance, "sparse", "tfidf")
def weighted_distance(tree, slot, prepared, lists):
    terms, weights = tree.key_features, tree.key_weights
    key_squared = 0.0
    product = 0.0
    for j in key_range(tree, slot):
        term, weight = np.uint32(terms[j]), np.float64(weights[j])
        key_squared += lists.importance[term] * weight * weight
        place = place_of_term(prepared, term)
        if prepared.table[place] != NONE:
            product += np.float64(dispatch.term_weight(tree, lists, term)) * weight * prepared.values[place]
    if not key_squared * prepared.squared_length > 0:
        return 1.0
    return 1.0 - product / prepared.squared_length * np.sqrt(np.sqrt(prepared.learned_length / key_squared))


@body_for(dispatch.partial_score, "tfidf")
def partial_score(tree, lists, row, overlap):
    learned = np.float64(lists.norms[row, LEARNED])
    return overlap * lists.norms[row, OWN] / np.sqrt(learned) if learned > 0 else 0.0


@body_for(dispatch.compares_lengths, "tfidf")
def compares_lengths(tree):
    return False


@body_for(dispatch.estimated_distance, "tfidf")
def estimated_distance(tree, partial, prepared):
    if not prepared.squared_length > 0:
        return 1.0
    return 1.0 - partial * np.sqrt(np.sqrt(prepared.learned_length)) / prepared.squared_length


@body_for(dispatch.score, "tfidf")
def score(tree, distance):
    return 1.0 - distance
