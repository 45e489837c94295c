"""Entering memories in posting lists and removing them, and expansion of memories by rewarded queries.

Every memory is in the lists of all its terms; keys without terms share the list of term 0. A key may be followed by terms
that were added by rewards (`expand_terms`); searches treat them like those of the key.
"""

import numpy as np

from memorytree.engine import entry_points
from memorytree.engine.arrays import MEMORIES, NEXT_ID, NONE, ROOT, SLOT
from memorytree.engine.building import blocking_id
from memorytree.engine.dispatch import copy_key, drop_key, load_key, row_of, store_key
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.pool import lengthened
from memorytree.engine.storage import append_row, detach_row, free_row, new_row
from memorytree.engine.terms.calibration import calibration_due
from memorytree.engine.terms.lists import (
    LEARNED,
    NEXT,
    NO_FEATURE,
    OWN,
    add_entry,
    add_term,
    find_entry,
    impact_of,
    remove_entry,
    set_norms,
    term_of,
)

LEAST_ADDED = np.float32(0.01)
"""Terms that were added to a key are dropped when they weigh less than this."""
MOST_ADDED = 512
"""At most so many terms are added to a key."""


@helper
def measure(tree, lists, row):
    """Compute the lengths of a key, by the importances of now."""
    terms, weights = load_key(tree, tree.rows[row, SLOT])
    own, learned = 0.0, 0.0
    for j in range(terms.shape[0]):
        square = np.float64(weights[j]) * weights[j]
        own += square
        learned += np.float64(lists.importance[terms[j]]) * square
    set_norms(lists, row, np.sqrt(own), np.sqrt(learned))
    return np.sqrt(own)


@helper
def refresh_next(tree, lists, times):
    """Compute the lengths of the next memories in turn."""
    for _ in range(times if tree.counters[MEMORIES] > 0 else 0):
        row = lists.counters[NEXT] % tree.counters[MEMORIES]
        measure(tree, lists, row)
        lists.counters[NEXT] = row + 1


@helper
def enter(tree, lists, row):
    """Enter a memory that is in no list in the lists of all its terms."""
    norm = measure(tree, lists, row)
    terms, weights = load_key(tree, tree.rows[row, SLOT])
    for j in range(terms.shape[0]):
        add_entry(lists, np.int64(terms[j]), row, impact_of(weights[j], norm))
    if terms.shape[0] == 0:
        add_entry(lists, np.int64(NO_FEATURE), row, np.int8(0))


@helper
def withdraw(tree, lists, row):
    """Remove a memory from all lists."""
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(terms.shape[0]):
        remove_entry(lists, np.int64(terms[j]), row)
    if terms.shape[0] == 0:
        remove_entry(lists, np.int64(NO_FEATURE), row)


@helper
def renumber_member(tree, lists, row, new):
    """Change the row of a memory in all lists."""
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(max(terms.shape[0], 1)):
        term = np.int64(terms[j]) if terms.shape[0] else np.int64(NO_FEATURE)
        lists.members[find_entry(lists, term, row)] = new
    set_norms(lists, new, lists.norms[row, OWN], lists.norms[row, LEARNED])
    lists.given[new] = lists.given[row]


@helper
def remove_memory(tree, lists, row):
    """Remove a memory from lists and tree; the last row takes its number."""
    withdraw(tree, lists, row)
    last = tree.counters[MEMORIES] - 1
    if row != last:
        renumber_member(tree, lists, last, row)
    set_norms(lists, last, np.inf, np.inf)
    detach_row(tree, row)
    free_row(tree, row)


@helper
def store_memory(tree, lists, id, x):
    """Store a memory whose key is x, with terms for features; returns its row."""
    features, weights = x
    terms = blank(features.shape[0], np.int32)
    for j in range(features.shape[0]):
        term = term_of(lists, features[j])
        terms[j] = add_term(lists, features[j]) if term == NONE else term
    tree.counters[NEXT_ID] = max(tree.counters[NEXT_ID], id + 1)
    row = new_row(tree, id)
    append_row(tree, tree.counters[ROOT], row, (terms, weights))
    enter(tree, lists, row)
    lists.given[row] = features.shape[0]


@helper
def expand_terms(tree, lists, row, x, reward):
    """Move the added terms of a memory towards the weights of a query times the reward.

    The terms of the key itself stay as they are. Without a reward the added terms fade.
    """
    features, query_weights = x
    slot, given = tree.rows[row, SLOT], np.int64(lists.given[row])
    own_terms, own_weights = copy_key(tree, slot)
    length = own_terms.shape[0]
    if reward <= 0 and length == given:
        return
    withdraw(tree, lists, row)
    terms, weights = lengthened(own_terms, length + features.shape[0]), lengthened(own_weights, length + features.shape[0])
    for j in range(features.shape[0]):
        term, place = term_of(lists, features[j]), 0
        while place < length and terms[place] != term:
            place += 1
        if place == length and (reward <= 0 or length - given >= MOST_ADDED):
            continue
        if place == length:
            terms[length] = add_term(lists, features[j]) if term == NONE else term
            weights[length] = 0
            length += 1
        if place >= given:
            weights[place] += np.float32(lists.settings.expansion) * (np.float32(reward) * query_weights[j] - weights[place])
    kept = given
    for place in range(given, length):
        if weights[place] >= LEAST_ADDED:
            terms[kept], weights[kept] = terms[place], weights[place]
            kept += 1
    drop_key(tree, slot)
    store_key(tree, slot, (terms[:kept], weights[:kept]))
    enter(tree, lists, row)


# ---- entry points that write


@kernel
def insert_rows(tree, lists, X, ids, progress, last, removed):
    """Insert rows progress[0] .. last - 1 of a batch, or up to the row after which lists must be calibrated.

    ids[i] is the id to use or NONE, and afterwards the id used. removed (int64, (n, 2)) receives (row of the batch, id) of
    the memories that were replaced or evicted. Returns (how many, whether lists must be calibrated).
    """
    count, due = 0, False
    while progress[0] < last:
        i = progress[0]
        if ids[i] == NONE:
            ids[i] = tree.counters[NEXT_ID]
        obstacle = blocking_id(tree, ids[i])
        if obstacle != NONE:
            remove_memory(tree, lists, row_of_id(tree, obstacle))
            removed[count, 0], removed[count, 1] = i, obstacle
            count += 1
        store_memory(tree, lists, ids[i], row_of(tree, X, i))
        # After every row, so that a batch leaves the same arrays as a loop.
        if entry_points.needs_compaction(tree):
            entry_points.compact(tree)
        progress[0] += 1
        due = calibration_due(tree, lists)
        if due:
            break
    return count, due


@kernel
def remove(tree, lists, id):
    """Remove a stored memory; returns whether lists must be calibrated."""
    remove_memory(tree, lists, row_of_id(tree, id))
    if entry_points.needs_compaction(tree):
        entry_points.compact(tree)
    return calibration_due(tree, lists)


@kernel
def expand_rows(tree, lists, X, ids, rewards):
    """Expand memories by the terms of queries (`expand_terms`); returns how many queries had a reward > 0.

    ids (int64) and rewards (float64, NaN where none was observed) have the shape (n, k).
    """
    rewarded = 0
    for i in range(ids.shape[0]):
        x = row_of(tree, X, i)
        highest = 0.0
        for j in range(ids.shape[1]):
            row = row_of_id(tree, ids[i, j])
            if row != NONE and not np.isnan(rewards[i, j]):
                expand_terms(tree, lists, row, x, rewards[i, j])
                highest = max(highest, rewards[i, j])
        rewarded += highest > 0
    return rewarded


@kernel
def refresh(tree, lists, times):
    """Compute the lengths of memories, in turn, by the importances of now."""
    refresh_next(tree, lists, times)
