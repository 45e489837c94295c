"""`scorer="tfidf"`: what a key and a query have in common counts by how few memories have it (sparse keys, term lists).

A term's weight is its importance, learned from rewards, times the square of its rarity: ln(1 + n / (m + 1/2)) where m of
the n memories that are there now have the term. Nothing of this lies in stored keys: memories come and go, and a query sees
the rarities of its moment. The score is the share of the query's weight that the key has in common with it, times the root
of how much longer the query is: long keys have something of everything, but the full ratio, as in a cosine, would hold too
much against them. A key scores 1 under itself; one that has more of the same scores higher.

Lengths are taken without rarity, so that what a list knows of a memory does not go stale as others come.
"""

from collections import namedtuple

import numpy as np

from memorytree.engine import declared
from memorytree.engine.compile import body_for, helper
from memorytree.engine.sparse import entries_of, place_of_term
from memorytree.engine.state import MEMORIES, NONE

Tfidf = namedtuple("Tfidf", "learns")


def tfidf() -> Tfidf:
    """There is nothing to set."""
    return Tfidf(False)


@helper
def rarity(tree, lists, term):
    return np.log(1.0 + tree.counters[MEMORIES] / (lists.documents[term] + 0.5))


@body_for(declared.term_weight, "tfidf")
def term_weight(tree, lists, term):
    rare = rarity(tree, lists, term)
    return np.float32(lists.importance[term] * rare * rare)


@body_for(declared.weighed_dissimilarity, "sparse", "tfidf")
def weighed_dissimilarity(tree, slot, prepared, lists):
    terms, weights = tree.key_features, tree.key_weights
    key_squared = 0.0
    product = 0.0
    for j in entries_of(tree, slot):
        term, weight = np.uint32(terms[j]), np.float64(weights[j])
        key_squared += lists.importance[term] * weight * weight
        place = place_of_term(prepared, term)
        if prepared.table[place] != NONE:
            product += np.float64(declared.term_weight(tree, lists, term)) * weight * prepared.values[place]
    if not key_squared * prepared.squared_length > 0:
        return 1.0
    return 1.0 - product / prepared.squared_length * np.sqrt(np.sqrt(prepared.learned_length / key_squared))


@body_for(declared.promise, "tfidf")
def promise(tree, overlap, squared_length):
    return overlap / np.sqrt(np.sqrt(squared_length)) if squared_length > 0 else 0.0


@body_for(declared.guess, "tfidf")
def guess(tree, promised, prepared):
    if not prepared.squared_length > 0:
        return 1.0
    return 1.0 - promised * np.sqrt(np.sqrt(prepared.learned_length)) / prepared.squared_length


@body_for(declared.score, "tfidf")
def score(tree, badness):
    return 1.0 - badness
