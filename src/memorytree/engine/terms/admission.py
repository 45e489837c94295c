"""Admission of memories to term lists, and expansion of memories by rewarded queries.

A list holds at most `breadth` * log2 n entries. The lists of a memory's `homes` heaviest terms that it is in are its homes;
a query with the same key reads all of them. Where a heavier entry would remove a memory from its last home, the entry is
pinned instead: it stays, and the limit of the list grows by its number of pinned entries. A memory that enters no home is
pinned in the shortest of those lists. Keys without terms share the list of term 0.

A key may be followed by terms that were added by rewards (`expand_terms`); searches treat them like those of the key.
"""

import numpy as np

from memorytree.engine import entry_points
from memorytree.engine.arrays import MEMORIES, NEXT_ID, NONE, ROOT, SLOT
from memorytree.engine.building import blocking_id
from memorytree.engine.dispatch import copy_key, drop_key, load_key, row_of, store_key, term_weight
from memorytree.engine.hash_map import row_of_id
from memorytree.engine.jit import blank, helper, kernel
from memorytree.engine.pool import lengthened
from memorytree.engine.storage import append_row, detach_row, free_row, new_row
from memorytree.engine.terms.lists import (
    BEGIN,
    FLAGS,
    HOME,
    LENGTH,
    NEXT,
    NO_FEATURE,
    PEAK,
    PINNED,
    PINS,
    add_entry,
    add_term,
    entry_cost,
    find_entry,
    remove_entry,
    sift_entry_down,
    term_of,
)


@helper
def limit(lists):
    """Return how many entries that are not pinned a list may hold."""
    return np.int64(lists.settings.breadth * np.log2(lists.counters[PEAK] + 2.0))


@helper
def home_weight(tree, lists, x):
    """Return the least weighted weight of a memory's `homes` heaviest terms; -1 if it has no more terms than that."""
    terms, weights = x
    homes = lists.settings.homes
    if terms.shape[0] <= homes:
        return np.float32(-1)
    heaviest = blank(homes, np.float32)
    filled = 0
    for j in range(terms.shape[0]):
        weight = abs(weights[j]) * term_weight(tree, lists, terms[j])
        if filled < homes:
            place = filled
            filled += 1
        elif weight > heaviest[homes - 1]:
            place = homes - 1
        else:
            continue
        while place > 0 and heaviest[place - 1] < weight:
            heaviest[place] = heaviest[place - 1]
            place -= 1
        heaviest[place] = weight
    return heaviest[homes - 1]


@helper
def is_home(tree, lists, x, j, least):
    """Return whether term j of a key is among its heaviest, whose weighted weights are at least `least`."""
    return abs(x[1][j]) * term_weight(tree, lists, x[0][j]) >= least


@helper
def admit(lists, term, row, weight, home, most):
    """Try to add a memory to a list whose limit is `most`; returns whether it was added. `home` is HOME or 0."""
    length = lists.lists[term, LENGTH]
    while length >= most + lists.lists[term, PINS]:
        begin = lists.lists[term, BEGIN]
        lightest = lists.members[begin]
        if not abs(weight) > entry_cost(lists.weights[begin], lightest):
            return False
        if lightest & HOME and lists.homes[lightest >> FLAGS] == 1:
            # The list is its last home: pin it, and compare with the next lightest.
            lists.members[begin] = lightest | PINNED
            lists.lists[term, PINS] += 1
            sift_entry_down(lists, begin, length, 0)
        else:
            lists.homes[lightest >> FLAGS] -= lightest & HOME
            lists.members[begin] = (row << FLAGS) + home
            lists.weights[begin] = weight
            sift_entry_down(lists, begin, length, 0)
            return True
    add_entry(lists, term, (row << FLAGS) + home, weight)
    return True


@helper
def pin(tree, lists, row):
    """Add a memory that is in none of its homes to the shortest of them, pinned."""
    x = load_key(tree, tree.rows[row, SLOT])
    least = home_weight(tree, lists, x)
    shortest, weight = np.int64(NO_FEATURE), np.float32(0)
    for j in range(x[0].shape[0]):
        is_shorter = shortest == NO_FEATURE or lists.lists[x[0][j], LENGTH] < lists.lists[shortest, LENGTH]
        if is_shorter and is_home(tree, lists, x, j, least):
            shortest, weight = np.int64(x[0][j]), x[1][j]
    add_entry(lists, shortest, (row << FLAGS) + HOME + PINNED, weight)
    lists.homes[row] = 1


@helper
def offer(tree, lists, row):
    """Try to add a memory that is in no list to the lists of all its terms."""
    x = load_key(tree, tree.rows[row, SLOT])
    terms, weights = x
    lists.homes[row] = 0
    length = 0.0
    most, least = limit(lists), home_weight(tree, lists, x)
    for j in range(terms.shape[0]):
        term = np.int64(terms[j])
        length += np.float64(lists.importance[term]) * weights[j] * weights[j]
        home = HOME if is_home(tree, lists, x, j, least) else 0
        if admit(lists, term, row, weights[j], home, most):
            lists.homes[row] += home
    lists.lengths[row] = length
    if lists.homes[row] == 0:
        pin(tree, lists, row)


@helper
def withdraw(tree, lists, row):
    """Remove a memory from all lists."""
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(max(terms.shape[0], 1)):
        term = np.int64(terms[j]) if terms.shape[0] else np.int64(NO_FEATURE)
        place = find_entry(lists, term, row)
        if place != NONE:
            remove_entry(lists, term, place)


@helper
def renumber_member(tree, lists, row, new):
    """Change the row of a memory in all lists."""
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(max(terms.shape[0], 1)):
        term = np.int64(terms[j]) if terms.shape[0] else np.int64(NO_FEATURE)
        place = find_entry(lists, term, row)
        if place != NONE:
            entry = lists.lists[term, BEGIN] + place
            lists.members[entry] = (new << FLAGS) + (lists.members[entry] & (HOME + PINNED))
    lists.homes[new] = lists.homes[row]
    lists.lengths[new] = lists.lengths[row]
    lists.given[new] = lists.given[row]


@helper
def remove_memory(tree, lists, row):
    """Remove a memory from lists and tree; the last row takes its number."""
    withdraw(tree, lists, row)
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(terms.shape[0]):
        lists.documents[terms[j]] -= 1
    last = tree.counters[MEMORIES] - 1
    if row != last:
        renumber_member(tree, lists, last, row)
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
        lists.documents[terms[j]] += 1
    tree.counters[NEXT_ID] = max(tree.counters[NEXT_ID], id + 1)
    row = new_row(tree, id)
    append_row(tree, tree.counters[ROOT], row, (terms, weights))
    if row >= lists.homes.shape[0]:
        lists.homes = lengthened(lists.homes, 2 * row)
        lists.lengths = lengthened(lists.lengths, 2 * row)
        lists.given = lengthened(lists.given, 2 * row)
    lists.homes[row] = 0
    lists.given[row] = features.shape[0]
    lists.counters[PEAK] = max(lists.counters[PEAK], row + 1)
    return row


# At most this many terms are added to a key, and those that weigh less than LEAST_ADDED are dropped.
MOST_ADDED = 512
LEAST_ADDED = np.float32(0.01)


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
            lists.documents[terms[length]] += 1
            length += 1
        if place >= given:
            weights[place] += np.float32(lists.settings.expansion) * (np.float32(reward) * query_weights[j] - weights[place])
    kept = given
    for place in range(given, length):
        if weights[place] < LEAST_ADDED:
            lists.documents[terms[place]] -= 1
        else:
            terms[kept], weights[kept] = terms[place], weights[place]
            kept += 1
    drop_key(tree, slot)
    store_key(tree, slot, (terms[:kept], weights[:kept]))
    offer(tree, lists, row)


# ---- entry points that write


@helper
def store_next(tree, lists, X, ids, i):
    """Store row i of a batch; ids[i] is the id to use or NONE, and afterwards the id used. Returns its row in the tree."""
    if ids[i] == NONE:
        ids[i] = tree.counters[NEXT_ID]
    return store_memory(tree, lists, ids[i], row_of(tree, X, i))


@kernel
def insert_rows(tree, lists, X, ids, progress, last, removed):
    """Insert rows progress[0] .. last - 1 of a batch; ids as in `store_next`.

    removed (int64, (n, 2)) receives (row of the batch, id) of the memories that were replaced or evicted; returns how many.
    """
    count = 0
    while progress[0] < last:
        i = progress[0]
        if ids[i] == NONE:
            ids[i] = tree.counters[NEXT_ID]
        obstacle = blocking_id(tree, ids[i])
        if obstacle != NONE:
            remove_memory(tree, lists, row_of_id(tree, obstacle))
            removed[count, 0], removed[count, 1] = i, obstacle
            count += 1
        offer(tree, lists, store_next(tree, lists, X, ids, i))
        # After every row, so that a batch leaves the same arrays as a loop.
        if entry_points.needs_compaction(tree):
            entry_points.compact(tree)
        progress[0] += 1
    return count


@kernel
def remove(tree, lists, id):
    """Remove a stored memory."""
    remove_memory(tree, lists, row_of_id(tree, id))
    if entry_points.needs_compaction(tree):
        entry_points.compact(tree)


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
def reoffer(tree, lists, times):
    """Remove memories, in turn, from their lists and offer them again, which fills the places of removed memories."""
    for _ in range(times if tree.counters[MEMORIES] > 0 else 0):
        row = lists.counters[NEXT] % tree.counters[MEMORIES]
        withdraw(tree, lists, row)
        offer(tree, lists, row)
        lists.counters[NEXT] = row + 1
