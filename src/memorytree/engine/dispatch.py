"""The operations in which kinds of trees differ. Algorithms call these functions; `body_for` registers their bodies.

Notation: `tree` is a tree (`engine/arrays.py`). A dense key x is a float32 array of shape (d,); a sparse key x is a pair
(features, weights) of int32 and float32 arrays, sorted by feature. `prepared` is the result of `prepare`. A slot is the
position of a memory in a leaf, a row its number in the tables `rows` and `row_ids`.
"""


def row_of(tree, X, i):
    """Return row i of a batch of keys, as x."""


def prepare(tree, x):
    """Return x in the form in which it is compared with stored keys."""


def key_distance(tree, slot, prepared):
    """Return the scorer's distance (float64) between the key in a slot and the query; the smaller the better."""


def key_distances(tree, slots, count, prepared, distances):
    """Write the distances of the keys in slots[:count] to distances[:count] (dense keys)."""


def score(tree, distance):
    """Return the score that users see for a distance; the larger the better."""


def partial_score(tree, overlap, squared_length):
    """Return a score from a part of the dot product and the key's squared length; the larger the better (sparse keys)."""


def estimated_distance(tree, partial, prepared):
    """Return the distance that a partial score stands for; `prepared` is a `PreparedQuery` of term lists (sparse keys)."""


def term_weight(tree, lists, term):
    """Return the factor of a term when keys are compared: its learned importance, times what the scorer adds."""


def weighted_distance(tree, slot, prepared, lists):
    """Return `key_distance` with every feature multiplied by its term weight.

    The features of the stored key are terms; `prepared` is a `PreparedQuery` of term lists.
    """


def load_key(tree, slot):
    """Return the key in a slot as x, a view that is valid until keys are stored."""


def copy_key(tree, slot):
    """Return a copy of the key in a slot, as x."""


def store_key(tree, slot, x):
    """Write x to a slot."""


def move_key(tree, source, target):
    """Move a key between slots."""


def detach_keys(tree):
    """Return the key storage and replace it by an empty one of the same size; `move_detached_key` copies keys back."""


def move_detached_key(tree, detached, source, target):
    """Copy a key from slot `source` of a detached key storage to slot `target` of the tree."""


def drop_key(tree, slot):
    """Release the key in a slot."""


def same_key(tree, slot, other):
    """Return whether two slots hold equal keys."""


def key_bits(tree, x):
    """Return a 64-bit fingerprint of x."""


def reserve_keys(tree):
    """Grow the key storage to the number of slots."""


def reserve_routers(tree):
    """Grow the router storage to the number of nodes."""


def linear(tree, node, x):
    """Return the router's weighted sum plus bias: the prediction of its learner."""


def reset_router(tree, node):
    """Set all weights of a router to zero."""


def release_router(tree, node):
    """Free the storage of the router of a removed node."""


def add_to_router(tree, node, x, scale):
    """Add scale * x to the weights of a router."""


def router_norm(tree, node):
    """Return the Euclidean norm of the router's weights, as of the last `measure_router` or `learn`."""


def measure_router(tree, node):
    """Update the stored norm of a router after `add_to_router`."""


def set_threshold(tree, node, threshold):
    """Set the threshold up to which a router sends keys left."""


def threshold_of(tree, node):
    """Return the threshold of a router."""


def learn(tree, node, x, raw, y, weight):
    """Take one step of the router's learner towards y (-1 or 1) on x, for which it predicts `raw`.

    Returns whether anything changed.
    """


def update_mean(tree, x):
    """Add an inserted key to the running mean, where routers subtract the mean from keys."""


def record_key(tree, x):
    """Update the statistics that the routing keeps of all inserted keys."""


def step(tree, node, x, left_count, right_count):
    """Take one step of Insert at a node (Algorithm 4, lines 2-6); True is right."""


def cut(tree, node, order, first, last, sides, settle):
    """Make a router that divides the memories in slots order[first:last]; sides[i] becomes whether the i-th goes right.

    With `settle` every memory goes to the side that the finished router chooses; otherwise to the side chosen at its step of
    training. Returns False if the router cannot separate the keys.
    """


def search_tree(tree, x, prepared, beam, excluded, best_rows, best):
    """Find the memories nearest to x with a search of this breadth; returns how many of the k places are filled.

    best_rows (int64) and best (float64), both of shape (k,), receive rows and distances, nearest first.
    """


def code_factor(tree, x):
    """Return what a dense key is multiplied by before it is coded."""


def put_first(tree, order, first, last):
    """Move the slot of the memory that is in the graph to the front of slots order[first:last] with equal keys."""


def is_tuning_due(tree):
    """Return whether codes and effort of the neighbour graph are to be chosen anew."""


def reserve_neighbours(tree):
    """Grow the neighbour lists to the number of rows."""


def link_row(tree, row):
    """Add the edges of a newly placed memory to the neighbour graph."""


def unlink_row(tree, row):
    """Remove all edges of a memory that is about to be removed or to get another key."""


def renumber_neighbours(tree, row, new):
    """Replace a row number in the neighbour graph."""


def learn_from_reward(tree, node, x, right, probability, reward):
    """Run Algorithm 3, lines 4-6, at an explored internal node; returns whether anything was learned."""


def pop_random(tree):
    """Take a random memory out of the tree (Algorithm 7, Reroute, lines 1-2); returns (its row, its key)."""
