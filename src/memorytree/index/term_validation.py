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
    "members": postings.POOL, "impacts": postings.POOL,
}  # fmt: skip
"""Which counter says how much of an array is in use; other arrays are in use as a whole, or have a row for each memory."""
OF_TERMS = tuple(name for name, counter in USED.items() if counter == postings.TERMS)
OF_ROWS = ("norms", "given")


def blank_unused(arrays: Mapping[str, Array]) -> None:
    """Set what is not in use to zero, so that equal lists have equal states and removed memories leave no trace."""
    idle = ~_in_use(arrays)
    arrays["impacts"][idle] = 0
    arrays["members"][idle & ~_links(arrays)] = 0
    lists = arrays["lists"]
    lists[lists[:, postings.ROOM] == 0, postings.BEGIN] = 0


def check_lists(arrays: Mapping[str, Array], keys: Mapping[str, Array], n: int) -> None:
    """Raise ValueError, with the reason, if term lists contradict themselves or the stored keys.

    Gap, to be closed with the validation of hostile files: chains of free runs that leave the pool.

    Args:
        arrays: the arrays of the lists.
        keys: the arrays of the table of keys.
        n: the number of memories.
    """
    counters = arrays["counters"]
    terms, pool = int(counters[postings.TERMS]), int(counters[postings.POOL])
    require(1 <= terms <= min(len(arrays[name]) for name in OF_TERMS), "terms")
    require(0 <= pool <= min(len(arrays["members"]), len(arrays["impacts"])), "the pool holds what is in use")
    require(n <= min(len(arrays[name]) for name in OF_ROWS), "rows have lengths")
    require(counters[postings.LESSONS] >= 0 and 0 <= counters[postings.NEXT] <= 2**62, "counters are not negative")
    _check_terms({name: arrays[name][:terms] for name in ("names", "importance", "squares")}, arrays["places"])
    lists = arrays["lists"][:terms]
    _check_runs(lists, arrays, pool)
    _check_entries(lists, arrays, keys, n)
    _check_effort(arrays)
    require(counters[postings.LESSONS] > 0 or np.all(arrays["importance"][:terms] == 1), "importances change by lessons")


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


def _check_effort(arrays: Mapping[str, Array]) -> None:
    """The tables of the last calibration are numbers that it could have measured."""
    reads, recalls = arrays["reads"], arrays["recalls"]
    require(np.all((reads >= 0) & np.isfinite(reads)), "entries are counted")
    require(not np.any(np.isnan(arrays["usual"])), "usual distances are numbers")
    require(np.all((recalls >= 0) & (recalls <= 1)), "recalls are parts")
    require(np.all(arrays["counters"][[postings.CALIBRATED, postings.CALIBRATED_LESSONS]] >= 0), "calibrations are counted")


def _check_runs(lists: Array, arrays: Mapping[str, Array], pool: int) -> None:
    """Lists lie in runs of their own, and every run is in use or free."""
    begin, room, length = lists.T
    sizes = postings.run_sizes()
    require(np.all((lists >= 0).all(axis=1) & (length <= room) & (begin + room <= pool)), "lists fit")
    require(np.all(np.isin(room, sizes)) and np.all((room > 0) == (length > 0)), "lists have runs of the right size")
    require(length.sum() == arrays["counters"][postings.ENTRIES], "the number of entries is counted")
    runs = [np.column_stack([begin[room > 0], room[room > 0]])]
    for kind, head in enumerate(arrays["free"].tolist()):
        chain = 0
        while head != NONE:
            require(0 <= head < pool and chain <= pool, "the chains of free runs end")
            runs.append(np.array([[head, sizes[kind]]]))
            chain += 1
            link = int(arrays["members"][head])
            head = link if link == NONE else link * postings.SMALLEST_RUN
    every = np.concatenate(runs)
    every = every[np.argsort(every[:, 0])]
    ends = np.concatenate([[0], every.sum(axis=1)])
    require(np.array_equal(ends[:-1], every[:, 0]) and ends[-1] == pool, "runs cover the pool without overlap")


def _check_entries(lists: Array, arrays: Mapping[str, Array], keys: Mapping[str, Array], n: int) -> None:
    """Every memory is once in the list of each of its terms, with the right impact, and in no other list."""
    terms = len(lists)
    begin, length = lists[:, postings.BEGIN], lists[:, postings.LENGTH]
    term = np.repeat(np.arange(terms), length)
    at = begin[term] + np.arange(len(term)) - np.repeat(np.cumsum(length) - length, length)
    rows, impacts = arrays["members"][at].astype(np.int64), arrays["impacts"][at].astype(np.float64)
    require(np.all((rows >= 0) & (rows < n)), "entries of lists lead to memories")
    spans = keys["spans"][keys["rows"][:n, SLOT]]
    owner = np.repeat(np.arange(n), spans[:, 1])
    inside = np.repeat(spans[:, 0] - (np.cumsum(spans[:, 1]) - spans[:, 1]), spans[:, 1]) + np.arange(len(owner))
    bare = np.flatnonzero(spans[:, 1] == 0)
    given = arrays["given"][:n]
    require(np.all((given >= 0) & (given <= spans[:, 1])), "keys are as long as they were given, or longer")
    key_terms, weights = keys["key_features"][inside].astype(np.int64), keys["key_weights"][inside].astype(np.float64)
    require(np.all((key_terms > 0) & (key_terms < terms)), "keys are made of terms")
    own, learned = np.sqrt(np.bincount(owner, weights**2, minlength=n)), arrays["norms"][:n, postings.LEARNED]
    require(np.allclose(arrays["norms"][:n, postings.OWN], own, rtol=1e-5, atol=1e-44), "lists hold the lengths of keys")
    require(np.all((learned >= 0) & np.isfinite(learned)), "lists hold lengths that are numbers")
    codes = np.concatenate([owner * terms + key_terms, bare * terms])
    order, in_lists = np.argsort(codes, kind="stable"), rows * terms + term
    by_code = np.argsort(in_lists, kind="stable")
    require(np.array_equal(codes[order], in_lists[by_code]), "lists hold the memories that have their terms")
    parts = np.divide(weights, own[owner], out=np.zeros_like(weights), where=own[owner] > 0)
    expected = np.concatenate([np.sqrt(np.abs(parts)) * np.sign(parts), np.zeros(len(bare))]) * postings.LARGEST_IMPACT
    # Rounding may differ in the last bit.
    require(np.all(np.abs(expected[order] - impacts[by_code]) <= 0.51), "lists hold the impacts of terms")
