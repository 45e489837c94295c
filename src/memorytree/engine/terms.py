"""Memories in lists by term: which list lets a memory in, and how every memory stays within reach.

A list holds at most `breadth` * log2 n entries. The lists of a memory's `homes` heaviest terms, in which the memory is, are
its homes; a query for the same key reads all of them. Where a heavier entry would drive a memory out of its last home, that
entry is pinned: it stays, and the list may grow by as many as are pinned in it. A memory that finds no home is pinned in the
shortest of those lists. Keys without terms share a list of their own, term 0.

A key may be followed by terms that its memory has learned to answer to (`take_up`); searching knows no difference.
"""

import numpy as np

from memorytree.engine import grow, kernels, layout
from memorytree.engine.compile import blank, helper, kernel
from memorytree.engine.declared import copy_key, drop_key, load_key, row_of, store_key, term_weight
from memorytree.engine.dense import lengthened
from memorytree.engine.lists import (
    BEGIN,
    ENTRIES,
    FLAGS,
    HOME,
    LENGTH,
    MOST,
    NEXT,
    NO_FEATURE,
    PINNED,
    PINS,
    POOL,
    ROOM,
    SMALLEST_RUN,
    TERMS,
    add_entry,
    add_term,
    drop_entry,
    place_in_list,
    rank,
    sift_down,
    take_run,
    term_of,
)
from memorytree.engine.rng import mix
from memorytree.engine.sparse import make_room
from memorytree.engine.state import MEMORIES, NEXT_ID, NONE, ROOT, SLOT


@helper
def limit(lists):
    """How many entries that are not pinned a list may hold."""
    return np.int64(lists.settings.breadth * np.log2(lists.counters[MOST] + 2.0))


@helper
def home_weight(tree, lists, x):
    """How much a term must weigh, by what it counts, to be among a memory's heaviest; all of them where it has few."""
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
    """Whether term j of a key is among its heaviest, which weigh at least `least`."""
    return abs(x[1][j]) * term_weight(tree, lists, x[0][j]) >= least


@helper
def admit(lists, term, row, weight, home, most):
    """Offer a memory to one list; whether it was let in."""
    length = lists.lists[term, LENGTH]
    while length >= most + lists.lists[term, PINS]:
        begin = lists.lists[term, BEGIN]
        lightest = lists.members[begin]
        if not abs(weight) > rank(lightest, lists.weights[begin]):
            return False
        if lightest & HOME and lists.homes[lightest >> FLAGS] == 1:
            # Its last home: it stays, and the next lightest is asked.
            lists.members[begin] = lightest | PINNED
            lists.lists[term, PINS] += 1
            sift_down(lists, begin, length, 0)
        else:
            lists.homes[lightest >> FLAGS] -= lightest & HOME
            lists.members[begin] = (row << FLAGS) + home
            lists.weights[begin] = weight
            sift_down(lists, begin, length, 0)
            return True
    add_entry(lists, term, (row << FLAGS) + home, weight)
    return True


@helper
def pin(tree, lists, row):
    """See that a memory that is in none of its homes is in the shortest of them."""
    x = load_key(tree, tree.rows[row, SLOT])
    least = home_weight(tree, lists, x)
    shortest, weight = np.int64(NO_FEATURE), np.float32(0)
    for j in range(x[0].shape[0]):
        nearer = shortest == NO_FEATURE or lists.lists[x[0][j], LENGTH] < lists.lists[shortest, LENGTH]
        if nearer and is_home(tree, lists, x, j, least):
            shortest, weight = np.int64(x[0][j]), x[1][j]
    add_entry(lists, shortest, (row << FLAGS) + HOME + PINNED, weight)
    lists.homes[row] = 1


@helper
def offer(tree, lists, row):
    """Offer a memory that is in no list to those of all its terms."""
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
def take_out(tree, lists, row):
    """Take a memory out of all lists."""
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(max(terms.shape[0], 1)):
        term = np.int64(terms[j]) if terms.shape[0] else np.int64(NO_FEATURE)
        place = place_in_list(lists, term, row)
        if place != NONE:
            drop_entry(lists, term, place)


@helper
def rename(tree, lists, row, new):
    """Let the lists know a memory by another row."""
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(max(terms.shape[0], 1)):
        term = np.int64(terms[j]) if terms.shape[0] else np.int64(NO_FEATURE)
        place = place_in_list(lists, term, row)
        if place != NONE:
            entry = lists.lists[term, BEGIN] + place
            lists.members[entry] = (new << FLAGS) + (lists.members[entry] & (HOME + PINNED))
    lists.homes[new] = lists.homes[row]
    lists.lengths[new] = lists.lengths[row]
    lists.given[new] = lists.given[row]


@helper
def forget(tree, lists, row):
    """A memory goes; the last row takes its number."""
    take_out(tree, lists, row)
    terms, _ = load_key(tree, tree.rows[row, SLOT])
    for j in range(terms.shape[0]):
        lists.documents[terms[j]] -= 1
    last = tree.counters[MEMORIES] - 1
    if row != last:
        rename(tree, lists, last, row)
    layout.detach(tree, row)
    layout.free_row(tree, row)


@helper
def store(tree, lists, id, x):
    """Store a memory, its features as terms; returns its row."""
    features, weights = x
    terms = blank(features.shape[0], np.int32)
    for j in range(features.shape[0]):
        term = term_of(lists, features[j])
        terms[j] = add_term(lists, features[j]) if term == NONE else term
        lists.documents[terms[j]] += 1
    tree.counters[NEXT_ID] = max(tree.counters[NEXT_ID], id + 1)
    row = layout.new_row(tree, id)
    layout.append(tree, tree.counters[ROOT], row, (terms, weights))
    if row >= lists.homes.shape[0]:
        lists.homes = lengthened(lists.homes, 2 * row)
        lists.lengths = lengthened(lists.lengths, 2 * row)
        lists.given = lengthened(lists.given, 2 * row)
    lists.homes[row] = 0
    lists.given[row] = features.shape[0]
    lists.counters[MOST] = max(lists.counters[MOST], row + 1)
    return row


# A memory learns at most so many terms beside those of its key, and forgets one that weighs less.
MOST_LEARNED = 512
LEAST_LEARNED = np.float32(0.01)


@helper
def take_up(tree, lists, row, x, reward):
    """Let a memory learn the terms of a query: those that its key was not given move towards the weight in the query times
    the reward, so that they fade where the memory was of no use."""
    features, asked = x
    slot, given = tree.rows[row, SLOT], np.int64(lists.given[row])
    own_terms, own_weights = copy_key(tree, slot)
    length = own_terms.shape[0]
    if reward <= 0 and length == given:
        return
    take_out(tree, lists, row)
    terms, weights = lengthened(own_terms, length + features.shape[0]), lengthened(own_weights, length + features.shape[0])
    for j in range(features.shape[0]):
        term, place = term_of(lists, features[j]), 0
        while place < length and terms[place] != term:
            place += 1
        if place == length and (reward <= 0 or length - given >= MOST_LEARNED):
            continue
        if place == length:
            terms[length] = add_term(lists, features[j]) if term == NONE else term
            weights[length] = 0
            lists.documents[terms[length]] += 1
            length += 1
        if place >= given:
            weights[place] += np.float32(lists.settings.uptake) * (np.float32(reward) * asked[j] - weights[place])
    kept = given
    for place in range(given, length):
        if weights[place] < LEAST_LEARNED:
            lists.documents[terms[place]] -= 1
        else:
            terms[kept], weights[kept] = terms[place], weights[place]
            kept += 1
    drop_key(tree, slot)
    store_key(tree, slot, (terms[:kept], weights[:kept]))
    offer(tree, lists, row)


# ---- doors that write


@kernel
def insert_rows(tree, lists, X, ids, progress, last, removed):
    """Insert rows from progress[0] up to last - 1; ids[i] is the id to take or NONE, and afterwards the id taken.

    Rows of `removed` become (row, id) of the memories that had to go; returns how many.
    """
    gone = 0
    while progress[0] < last:
        i = progress[0]
        if ids[i] == NONE:
            ids[i] = tree.counters[NEXT_ID]
        obstacle = grow.in_the_way(tree, ids[i])
        if obstacle != NONE:
            forget(tree, lists, layout.row_of_id(tree, obstacle))
            removed[gone, 0], removed[gone, 1] = i, obstacle
            gone += 1
        row = store(tree, lists, ids[i], row_of(tree, X, i))
        offer(tree, lists, row)
        # After every row, so that a batch leaves what a loop would.
        if kernels.has_gaps(tree):
            kernels.close_gaps(tree)
        progress[0] += 1
    return gone


@kernel
def fill_rows(tree, lists, X, ids):
    """Store rows, with different ids, in an empty tree; the lists are left to `rebuild`."""
    make_room(tree, X[0][ids.shape[0]] - X[0][0], 0)
    for i in range(ids.shape[0]):
        if ids[i] == NONE:
            ids[i] = tree.counters[NEXT_ID]
        store(tree, lists, ids[i], row_of(tree, X, i))
        if kernels.has_gaps(tree):
            kernels.close_gaps(tree)


@kernel
def remove(tree, lists, id):
    """Remove a memory that is there."""
    forget(tree, lists, layout.row_of_id(tree, id))
    if kernels.has_gaps(tree):
        kernels.close_gaps(tree)


@kernel
def take_up_rows(tree, lists, X, ids, rewards):
    """Let memories learn the terms of queries by their rewards; returns how many queries earned any."""
    earned = 0
    for i in range(ids.shape[0]):
        x = row_of(tree, X, i)
        highest = 0.0
        for j in range(ids.shape[1]):
            row = layout.row_of_id(tree, ids[i, j])
            if row != NONE and not np.isnan(rewards[i, j]):
                take_up(tree, lists, row, x, rewards[i, j])
                highest = max(highest, rewards[i, j])
        earned += highest > 0
    return earned


@kernel
def offer_again(tree, lists, times):
    """Take memories out of their lists and offer them again, in turn: fills what removals have left open."""
    for _ in range(times if tree.counters[MEMORIES] > 0 else 0):
        row = lists.counters[NEXT] % tree.counters[MEMORIES]
        take_out(tree, lists, row)
        offer(tree, lists, row)
        lists.counters[NEXT] = row + 1


@helper
def fingerprints(lists, memories):
    """For each memory a number that tells which lists it is in."""
    prints = np.zeros(memories, np.uint64)
    for term in range(lists.counters[TERMS]):
        begin = lists.lists[term, BEGIN]
        for entry in range(begin, begin + lists.lists[term, LENGTH]):
            prints[lists.members[entry] >> FLAGS] ^= mix(np.uint64(term + 1))
    return prints


@helper
def write_down(tree, lists):
    """All memories by term: (where those of each term begin, members, weights); their lengths are noted on the way."""
    starts = np.zeros(lists.counters[TERMS] + 1, np.int64)
    for term in range(lists.counters[TERMS]):
        starts[term + 1] = starts[term] + lists.documents[term]
    ends = starts.copy()
    members, weights = blank(starts[-1], np.int32), blank(starts[-1], np.float32)
    for row in range(tree.counters[MEMORIES]):
        x = load_key(tree, tree.rows[row, SLOT])
        least, length = home_weight(tree, lists, x), 0.0
        for j in range(x[0].shape[0]):
            term, weight = np.uint32(x[0][j]), x[1][j]
            length += np.float64(lists.importance[term]) * weight * weight
            home = HOME if is_home(tree, lists, x, j, least) else 0
            members[ends[term]], weights[ends[term]] = (row << FLAGS) + home, weight
            ends[term] += 1
        lists.lengths[row], lists.homes[row] = length, 0
    return starts, members, weights


@helper
def run_for(length):
    """How long a run is that so many entries fit into."""
    room = SMALLEST_RUN
    while room < length:
        room *= 2
    return room


@helper
def keep_heaviest(lists, term, members, weights, most):
    """Make the list of a term, which is empty, of the heaviest of these; of equal ones the first."""
    n, room, more = weights.shape[0], run_for(min(weights.shape[0], most)), 0
    if n == 0:
        return
    least, left = np.float32(-1), most
    if n > most:
        least = np.partition(np.abs(weights), n - most)[n - most]
        for j in range(n):
            left -= abs(weights[j]) > least
    begin = take_run(lists, room)
    for j in range(n):
        heavier = abs(weights[j]) > least
        if heavier or (abs(weights[j]) == least and left > 0):
            left -= not heavier
            lists.members[begin + more], lists.weights[begin + more] = members[j], weights[j]
            lists.homes[members[j] >> FLAGS] += members[j] & HOME
            more += 1
    lists.lists[term, BEGIN], lists.lists[term, ROOM], lists.lists[term, LENGTH] = begin, room, more
    lists.counters[ENTRIES] += more
    for j in range(more // 2 - 1, -1, -1):
        sift_down(lists, begin, more, j)


@kernel
def rebuild(tree, lists):
    """Make all lists anew, by today's importance of terms; returns how many memories are in other lists now.

    Term by term, not memory by memory as they came: no list is written to more than once for each that stays in it.
    """
    memories = tree.counters[MEMORIES]
    before = fingerprints(lists, memories)
    for term in range(lists.counters[TERMS]):
        for column in range(lists.lists.shape[1]):
            lists.lists[term, column] = 0
    for kind in range(lists.free.shape[0]):
        lists.free[kind] = NONE
    lists.counters[POOL] = 0
    lists.counters[ENTRIES] = 0
    lists.counters[MOST] = memories
    most = limit(lists)
    starts, members, weights = write_down(tree, lists)
    room = 0
    for term in range(lists.counters[TERMS]):
        room += run_for(min(lists.documents[term], most))
    if room > lists.members.shape[0]:
        lists.members, lists.weights = blank(room, np.int32), blank(room, np.float32)
    for term in range(lists.counters[TERMS]):
        first, last = starts[term], starts[term + 1]
        keep_heaviest(lists, term, members[first:last], weights[first:last], most)
    for row in range(memories):
        if lists.homes[row] == 0:
            pin(tree, lists, row)
    after = fingerprints(lists, memories)
    changed = 0
    for row in range(memories):
        changed += before[row] != after[row]
    return changed
