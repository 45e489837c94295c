"""Validation of the arrays of term lists, and their form in files."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from memorytree.engine.arrays import NONE, SLOT
from memorytree.engine.terms import lists as postings
from memorytree.index.base import Array
from memorytree.index.validation import require

USED = {
    "names": postings.TERMS, "lists": postings.TERMS, "importance": postings.TERMS, "squares": postings.TERMS,
    "documents": postings.TERMS, "members": postings.POOL, "weights": postings.POOL,
}  # fmt: skip
"""Which counter says how much of an array is in use; other arrays are in use as a whole, or have a row for each memory."""
OF_TERMS = tuple(name for name, counter in USED.items() if counter == postings.TERMS)
OF_ROWS = ("homes", "lengths", "given")


def blank_unused(arrays: Mapping[str, Array]) -> None:
    """Set what is not in use to zero, so that equal lists have equal states and removed memories leave no trace."""
    idle = ~_in_use(arrays)
    arrays["weights"][idle] = 0
    arrays["members"][idle & ~_links(arrays)] = 0
    lists = arrays["lists"]
    lists[lists[:, postings.ROOM] == 0, postings.BEGIN] = 0


def check_lists(arrays: Mapping[str, Array], keys: Mapping[str, Array], n: int, breadth: float) -> None:
    """Raise ValueError, with the reason, if term lists contradict themselves or the stored keys.

    Gaps, to be closed with the validation of hostile files: flags of members, chains of free runs that leave the pool, and
    lengths of keys by importance.

    Args:
        arrays: the arrays of the lists.
        keys: the arrays of the table of keys.
        n: the number of memories.
        breadth: the option that limits the length of lists.
    """
    counters = arrays["counters"]
    terms, pool = int(counters[postings.TERMS]), int(counters[postings.POOL])
    require(1 <= terms <= min(len(arrays[name]) for name in OF_TERMS), "terms")
    require(0 <= pool <= min(len(arrays["members"]), len(arrays["weights"])), "the pool holds what is in use")
    require(n <= min(len(arrays[name]) for name in OF_ROWS) and counters[postings.PEAK] >= n, "rows have homes")
    _check_terms({name: arrays[name][:terms] for name in ("names", "importance", "squares")}, arrays["places"])
    lists = arrays["lists"][:terms]
    _check_runs(lists, arrays, pool, breadth)
    _check_entries(lists, arrays, keys, n)


def _in_use(arrays: Mapping[str, Array]) -> Array:
    """Which places of the pool hold an entry."""
    edges = np.zeros(len(arrays["members"]) + 1, np.int64)
    lists = arrays["lists"][arrays["lists"][:, postings.LENGTH] > 0]
    np.add.at(edges, lists[:, postings.BEGIN], 1)
    np.add.at(edges, lists[:, postings.BEGIN] + lists[:, postings.LENGTH], -1)
    return np.cumsum(edges)[:-1] > 0


def _links(arrays: Mapping[str, Array]) -> Array:
    """Which places of the pool hold a link of a chain of free runs."""
    marked = np.zeros(len(arrays["members"]), bool)
    for begin in arrays["free"].tolist():
        while begin != NONE:
            marked[begin] = True
            link = int(arrays["members"][begin])
            begin = link if link == NONE else link * postings.SMALLEST_RUN
    return marked


def _all_differ(ordered: Array) -> bool:
    return bool(np.all(ordered[1:] != ordered[:-1]))


def _check_terms(of_terms: Mapping[str, Array], places: Array) -> None:
    """The map leads from every name to its term and nowhere else."""
    names = of_terms["names"][1:]
    taken = places[places[:, postings.FEATURE] != NONE]
    require(np.all(names >= 0) and _all_differ(np.sort(names)) and len(names) == len(taken), "every feature has one term")
    terms, features = taken[:, postings.TERM], taken[:, postings.FEATURE]
    require(np.all((terms > 0) & (terms <= len(names))), "the map leads to terms")
    require(np.array_equal(names[terms - 1], features), "the map leads to the right terms")
    importance, squares = of_terms["importance"], of_terms["squares"]
    require(np.all((importance > 0) & np.isfinite(importance)), "importances are positive numbers")
    require(np.all((squares >= 0) & np.isfinite(squares)), "squares are numbers")


def _check_runs(lists: Array, arrays: Mapping[str, Array], pool: int, breadth: float) -> None:
    """Lists lie in runs of their own, and every run is in use or free. No list is longer than it may be."""
    begin, room, length, pins = lists.T
    require(np.all((lists >= 0).all(axis=1) & (length <= room) & (pins <= length) & (begin + room <= pool)), "lists fit")
    require(np.all(room & (room - 1) == 0) and np.all((room > 0) == (length > 0)), "room is a power of two")
    most = int(breadth * np.log2(arrays["counters"][postings.PEAK] + 2.0))
    require(np.all(length - pins <= most), "lists keep to their limit")
    require(length.sum() == arrays["counters"][postings.ENTRIES], "the number of entries is counted")
    runs = [np.column_stack([begin[room > 0], room[room > 0]])]
    for kind, head in enumerate(arrays["free"].tolist()):
        chain = 0
        while head != NONE:
            require(0 <= head < pool and chain <= pool, "the chains of free runs end")
            runs.append(np.array([[head, 1 << kind]]))
            chain += 1
            link = int(arrays["members"][head])
            head = link if link == NONE else link * postings.SMALLEST_RUN
    every = np.concatenate(runs)
    every = every[np.argsort(every[:, 0])]
    ends = np.concatenate([[0], every.sum(axis=1)])
    require(np.array_equal(ends[:-1], every[:, 0]) and ends[-1] == pool, "runs cover the pool without overlap")


def _check_entries(lists: Array, arrays: Mapping[str, Array], keys: Mapping[str, Array], n: int) -> None:
    """Every entry links to a stored memory that has the term with that weight; every memory has a home."""
    terms = len(lists)
    begin, length = lists[:, postings.BEGIN], lists[:, postings.LENGTH]
    term = np.repeat(np.arange(terms), length)
    offset = np.arange(len(term)) - np.repeat(np.cumsum(length) - length, length)
    at = begin[term] + offset
    members, weights = arrays["members"][at], arrays["weights"][at]
    rows = members >> postings.FLAGS
    require(np.all((rows >= 0) & (rows < n)), "entries lead to memories")
    ranks = np.where(members & postings.PINNED, np.inf, np.abs(weights))
    parents = np.flatnonzero(offset > 0)
    require(np.all(ranks[parents - offset[parents] + (offset[parents] - 1) // 2] <= ranks[parents]), "lists are heaps")
    pins = np.bincount(term[(members & postings.PINNED) > 0], minlength=terms)
    require(np.array_equal(pins, lists[:, postings.PINS]), "pinned entries are counted")
    spans = keys["spans"][keys["rows"][:n, SLOT]]
    owner = np.repeat(np.arange(n), spans[:, 1])
    inside = np.repeat(spans[:, 0] - (np.cumsum(spans[:, 1]) - spans[:, 1]), spans[:, 1]) + np.arange(len(owner))
    bare = np.flatnonzero(spans[:, 1] == 0)
    given = arrays["given"][:n]
    require(np.all((given >= 0) & (given <= spans[:, 1])), "keys are as long as they were given, or longer")
    key_terms, key_weights = keys["key_features"][inside], keys["key_weights"][inside]
    require(np.all((key_terms > 0) & (key_terms < terms)), "keys are made of terms")
    documents = np.bincount(key_terms, minlength=terms)
    require(np.array_equal(documents, arrays["documents"][:terms]), "memories are counted by term")
    codes = np.concatenate([owner * terms + key_terms, bare * terms])
    values = np.concatenate([key_weights, np.zeros(len(bare), np.float32)])
    # Searching in sorted order is far quicker.
    order, own = np.argsort(codes, kind="stable"), rows.astype(np.int64) * terms + term
    codes, own_order = codes[order], np.argsort(own, kind="stable")
    own = own[own_order]
    found = np.minimum(np.searchsorted(codes, own), max(len(codes) - 1, 0))
    require(len(codes) or not len(own), "entries lead to memories")
    require(np.array_equal(codes[found], own), "memories have the terms in whose lists they are")
    require(np.array_equal(values[order[found]], weights[own_order]), "lists hold the weights of terms")
    require(_all_differ(own), "no memory is twice in a list")
    homes = np.bincount(rows[(members & postings.HOME) > 0], minlength=n)
    require(np.array_equal(homes, arrays["homes"][:n]) and np.all(homes > 0), "every memory has a home")
    require(np.all((members & postings.HOME > 0) | (members & postings.PINNED == 0)), "only homes are pinned")
