"""The few operations in which kinds of trees differ. Algorithms call these; `body_for` gives them their bodies.

For dense keys x is a float32 array; for sparse keys it is a pair (features, weights), sorted by feature.
"""


def row_of(tree, X, i):
    """Row i of a batch of keys, as x."""


def prepare(tree, x):
    """x in the form in which it is compared with stored keys."""


def dissimilarity(tree, slot, prepared):
    """How badly the key in a slot fits, the less the better (the scorer's business)."""


def dissimilarities(tree, slots, count, prepared, found):
    """The same for the first `count` slots of a list, into `found` (dense keys)."""


def score(tree, badness):
    """The score that a user sees for a dissimilarity, the more the better."""


def promise(tree, overlap, squared_length):
    """How well a memory might fit of which only a part of the dot product is known, and its squared length: the more the
    better (sparse keys)."""


def guess(tree, promised, prepared):
    """The dissimilarity that a promise stands for; `prepared` is that of engine/term_search.py (sparse keys)."""


def term_weight(tree, lists, term):
    """How much a term counts where keys are compared: its importance, learned from rewards, and what else the scorer knows
    of it."""


def weighed_dissimilarity(tree, slot, prepared, lists):
    """`dissimilarity` with every feature counted by its weight; the key's features are terms, and `prepared` is that of
    engine/term_search.py."""


def load_key(tree, slot):
    """The key in a slot as x, a view that stays valid until keys are stored."""


def copy_key(tree, slot):
    """The key in a slot as x, a copy."""


def store_key(tree, slot, x):
    """Put x into a slot."""


def move_key(tree, source, target):
    """Move a key between slots."""


def keys_apart(tree):
    """Set the stored keys aside and give the tree fresh places for as many; `move_from` brings them back."""


def move_from(tree, apart, source, target):
    """Move a key that was set aside into a slot."""


def drop_key(tree, slot):
    """A key has gone."""


def same_key(tree, slot, other):
    """Whether two slots hold equal keys."""


def key_bits(tree, x):
    """A 64-bit fingerprint of x."""


def reserve_keys(tree):
    """Give key storage as many places as there are slots."""


def reserve_routers(tree):
    """Give router storage as many places as there are nodes."""


def linear(tree, node, x):
    """The router's weighted sum and bias: what its learner predicts."""


def reset_router(tree, node):
    """A fresh router: g = 0 everywhere."""


def release_router(tree, node):
    """The node has gone."""


def add_to_router(tree, node, x, scale):
    """router += scale * x."""


def router_norm(tree, node):
    """The length of the router's weights, as last measured or learned."""


def measure_router(tree, node):
    """Bring the length of the router up to date after `add_to_router`."""


def set_threshold(tree, node, threshold):
    """g routes left up to this threshold."""


def threshold_of(tree, node):
    """The threshold of a node's router."""


def learn(tree, node, x, raw, y, weight):
    """One step of the router's learner towards y (-1 or 1) on x, for which it predicts `raw`; whether anything changed."""


def note_mean(tree, x):
    """A key has been inserted: keep the running mean up to date, where routers see keys less their mean."""


def note_key(tree, x):
    """A key has been inserted: keep what the routing knows of all keys up to date."""


def step(tree, node, x, left_count, right_count):
    """One step of Insert at a node (Algorithm 4, lines 2-6): True is right."""


def cut(tree, node, order, first, last, sides, settle):
    """Make a router that parts the memories in slots order[first:last]; sides[i] tells where the i-th goes.

    With `settle` every memory goes where the finished router would send it. False: the keys cannot be told apart.
    """


def seek(tree, x, prepared, beam, excluded, best_rows, best):
    """Find the memories that fit x best by a search of this breadth, into the sorted lists `best_rows` and `best`; returns
    the length of the lists."""


def reserve_neighbours(tree):
    """Give lists of neighbours as many places as there are rows."""


def meet_neighbours(tree, row):
    """A memory has been placed: let it and its neighbours know each other."""


def leave_neighbours(tree, row):
    """A memory is about to go, or to get another key."""


def renumber_neighbours(tree, row, new):
    """A memory is known by another row number."""


def learn_from_reward(tree, node, x, right, probability, reward):
    """Algorithm 3, lines 4-6, at an explored internal node; whether anything was learned."""


def lift_random(tree):
    """Algorithm 7, Reroute, lines 1-2: take a random memory out of the tree; (its row, its key)."""
