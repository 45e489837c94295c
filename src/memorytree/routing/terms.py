"""`routing="terms"`: sparse keys are found through lists of memories by term, and rewards teach which terms tell.

A query reads the lists of its heaviest terms and scores the most promising of the memories in them exactly. Each list is
kept to the c log n memories in which its term weighs most, so a query takes logarithmic time. Every memory stays in the list
of at least one of its heaviest terms (`engine/terms.py`); that takes the place of a tree for those whom no list would admit,
and costs a list more than its limit only where many memories have nothing but the same few terms. A query that shares terms
with too few memories is completed by those used last.

Each term has an importance, 1 at first. Both scorers compare keys as if every weight had been multiplied by the root of its
term's importance, so a key always ranks itself highest. From the rewards of the memories that a query returned the
importances learn by the softmax of their cosines, under either scorer: rewarded ones are to take the probability of the
others. Lists keep the weights as they are; only which terms are the heaviest depends on what was learned.

With `expansion` a memory also gets terms beside those of its key: the ones of queries for which it was rewarded, so that it
is found by the words of these queries. They fade where it is returned for them without a reward.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from memorytree.engine.arrays import MEMORIES, NONE, SLOT, Settings
from memorytree.engine.core import ONE_LEAF, AnyCore, Core
from memorytree.engine.routers.principal import principal
from memorytree.engine.terms import admission, learning, query, rebuilding, search
from memorytree.engine.terms import lists as postings

Terms = namedtuple("Terms", "breadth reads scored homes temperature rate expansion learns")

# How much of an array is in use; the others are in use as a whole.
USED = {
    "names": postings.TERMS, "lists": postings.TERMS, "importance": postings.TERMS, "squares": postings.TERMS,
    "documents": postings.TERMS, "members": postings.POOL, "weights": postings.POOL,
}  # fmt: skip
OF_TERMS = tuple(name for name, counter in USED.items() if counter == postings.TERMS)
OF_ROWS = ("homes", "lengths", "given")


def terms(
    *,
    breadth: float = 16.0,
    reads: float = 48.0,
    scored: int = 32,
    homes: int = 8,
    temperature: float = 20.0,
    rate: float = 0.1,
    expansion: float = 0.0,
) -> Terms:
    """Term lists: `breadth` * log2 n entries a list; a query reads `reads` * log2 n of them and scores `scored` memories.

    A memory stays in the list of at least one of its `homes` heaviest terms. `temperature` is the factor inside the softmax
    of learning, `rate` Adagrad's step. `expansion`: by which part of the way the terms that a memory has
    learned move towards a query for which it got the reward 1.
    """
    return Terms(
        float(breadth), float(reads), int(scored), int(homes), float(temperature), float(rate), float(expansion), False
    )


class TermsCore(AnyCore):
    """Term lists over memories whose keys lie in a tree of a single leaf, with terms for features."""

    least_beam = 0

    def __init__(self, settings: Settings, routing: Terms, scorer: Any):
        self.settings = settings._replace(leaf_factor=ONE_LEAF, reroutes=0)
        self.routing = routing
        self.raw = Core(True, 0, self.settings, principal(), scorer)
        self.lists = postings.make(routing, postings.empty())

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def parts(self) -> dict[str, Core]:
        """The trees this consists of, by name."""
        return {"keys": self.raw}

    @property
    def shown(self) -> Core:
        """The tree to look at when somebody asks for its shape: a single leaf."""
        return self.raw

    def seen(self, X: Any) -> Any:
        """What that tree sees of a batch of keys: terms for features, and nothing of those that are none."""
        return self.in_terms(X, 0, len(X[0]) - 1)

    def in_terms(self, X: Any, first: int, last: int) -> Any:
        """The same for a range of rows."""
        return postings.to_terms(self.lists, X, first, last)

    @property
    def terms(self) -> int:
        """How many terms there are; the first stands for keys without any."""
        return int(postings.arrays_of(self.lists)["counters"][postings.TERMS])

    def weights(self, features: np.ndarray) -> np.ndarray:
        """How much some features count today: what has been learned of them, and how rare they are if the scorer asks."""
        return query.weights_of(self.raw.tree, self.lists, features)

    def entries_read(self, row: Any) -> int:
        """How many entries of lists a query for the first key of a batch looks at."""
        return int(query.entries_for(self.raw.tree, self.lists, row))

    def bytes_in_use(self) -> int:
        """Bytes of the lists and of what has been learned."""
        return sum(array.nbytes for array in self.lore().values()) + postings.arrays_of(self.lists)["places"].nbytes

    def bytes_in_all(self) -> int:
        """The same with the room for growth."""
        return sum(array.nbytes for array in postings.arrays_of(self.lists).values())

    def lore(self) -> dict[str, np.ndarray]:
        """The lists and what has been learned, as copies without room for growth; what is not in use is blank."""
        arrays = postings.arrays_of(self.lists)
        counters = arrays["counters"]
        used = {name: int(counters[counter]) for name, counter in USED.items()} | dict.fromkeys(OF_ROWS, len(self))
        lore = {name: array[: used.get(name)].copy() for name, array in arrays.items() if name != "places"}
        idle = ~_in_use(lore)
        lore["weights"][idle] = 0
        lore["members"][idle & ~_links(lore)] = 0
        lists = lore["lists"]
        lists[lists[:, postings.ROOM] == 0, postings.BEGIN] = 0
        return lore

    def recall(self, lore: dict[str, np.ndarray]) -> None:
        """Be what `lore` told; the keys are then still to be adopted, and `check_lists` to be asked."""
        blank = postings.empty()
        arrays = {"places": postings.build_map(lore["names"])}
        for name, template in blank.items():
            if name == "places":
                continue
            array = lore[name]
            if array.dtype != template.dtype or array.shape[1:] != template.shape[1:]:
                raise ValueError(f"{name} of the lists is not whole")
            length = int(lore["counters"][USED[name]]) if name in USED else len(array if name in OF_ROWS else template)
            if len(array) != length:
                raise ValueError(f"{name} of the lists holds {len(array)} rows instead of {length}")
            # Room doubles, so it may not be nothing.
            arrays[name] = np.concatenate([array, template[len(array) :]])
        self.lists = postings.make(self.routing, arrays)

    def place_of(self, id: int, learned: bool = False) -> tuple[dict[str, np.ndarray], int]:
        """Arrays that hold the key of a memory, with the terms it has learned if these are wanted, and its slot there."""
        arrays, slot = self.raw.place_of(id)
        first, count = arrays["spans"][slot].tolist()
        if not learned:
            count = int(postings.arrays_of(self.lists)["given"][arrays["slots"][slot]])
        features = postings.arrays_of(self.lists)["names"][arrays["key_features"][first : first + count]]
        weights = arrays["key_weights"][first : first + count]
        return {"spans": np.array([[0, count]]), "key_features": features, "key_weights": weights}, 0

    def copy(self) -> TermsCore:
        """A core of its own with the same content."""
        twin = self.aside()
        twin.raw = self.raw.copy()
        return twin

    def aside(self) -> TermsCore:
        """A twin with lists of its own, which are all that is made anew; keys stay where they are."""
        twin = TermsCore.__new__(TermsCore)
        twin.settings, twin.routing, twin.raw = self.settings, self.routing, self.raw
        arrays = {name: array.copy() for name, array in postings.arrays_of(self.lists).items()}
        twin.lists = postings.make(self.routing, arrays)
        return twin

    def insert(self, X: Any, ids: np.ndarray, progress: np.ndarray, last: int, removed: list) -> int:
        """Insert rows from where `progress` stands up to last - 1; `removed` gains (row, id) for each that had to go."""
        gone = np.empty((last - progress.item(), 2), np.int64)
        count = admission.insert_rows(self.raw.tree, self.lists, X, ids, progress, last, gone)
        removed += map(tuple, gone[:count].tolist())
        return NONE

    def label(self, ids: np.ndarray, labels: np.ndarray) -> None:
        """Labels change nothing here: lists know only terms."""
        self.raw.label(ids, labels)

    def fill(self, X: Any, ids: np.ndarray, labels: np.ndarray | None = None) -> None:
        """Put all rows into this empty core."""
        rebuilding.fill(self.raw.tree, self.lists, X, ids)
        rebuilding.rebuild(self.raw.tree, self.lists)

    def remove(self, id: int) -> int:
        """Remove a memory that is there."""
        admission.remove(self.raw.tree, self.lists, id)
        return NONE

    def reroute(self, times: int) -> None:
        """Offer so many memories to their lists again, in turn."""
        admission.reoffer(self.raw.tree, self.lists, times)

    def sweep(self) -> int:
        """Make all lists anew; the number of memories that are in other lists than before."""
        return int(rebuilding.rebuild(self.raw.tree, self.lists))

    def relearn(self, passes: int) -> None:
        """The same: importances learn from rewards only."""
        self.sweep()

    def compare(self, X: Any, first: int, last: int, ids: np.ndarray) -> np.ndarray:
        """How well the keys of memories ids[i] fit each row i of a range; -inf for those that are not there."""
        scores = np.empty((last - first, ids.shape[1]), np.float32)
        search.compare_rows(self.raw.tree, self.lists, X, (first, last), ids, scores)
        return scores

    def update(
        self, X: Any, traces: np.ndarray, ids: np.ndarray, rewards: np.ndarray, progress: np.ndarray, last: int
    ) -> Any:
        """Learn from the rewards of queries from where `progress` stands up to last - 1: (queries learned from, 0)."""
        first, learned = progress.item(), 0
        if not self.routing.expansion:
            learned = learning.learn_rows(self.raw.tree, self.lists, X, ids, rewards, (first, last))
        else:
            # In turn, so that a batch leaves what a loop would. Whatever teaches importances is taken up as well.
            for i in range(first, last):
                learning.learn_rows(self.raw.tree, self.lists, X, ids, rewards, (i, i + 1))
                learned += admission.expand_rows(self.raw.tree, self.lists, X, ids, rewards, i, i + 1)
        progress[0] = last
        return np.array([learned, 0])

    def query(self, X: Any, rows: tuple[int, int], *question: Any) -> None:
        """Answer a range of rows into the arrays given."""
        bounds, excluded, ids, scores, traces, beam, explore, draw = question  # as in `Core.query`
        output, options = (ids, scores, traces), (beam, float(explore), draw)
        search.query_rows(self.raw.tree, self.lists, X, rows, (bounds, excluded), output, options)


def _in_use(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Which places of the pool hold an entry."""
    edges = np.zeros(len(arrays["members"]) + 1, np.int64)
    lists = arrays["lists"][arrays["lists"][:, postings.LENGTH] > 0]
    np.add.at(edges, lists[:, postings.BEGIN], 1)
    np.add.at(edges, lists[:, postings.BEGIN] + lists[:, postings.LENGTH], -1)
    return np.cumsum(edges)[:-1] > 0


def _links(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Which places of the pool hold a link of a chain of free runs."""
    marked = np.zeros(len(arrays["members"]), bool)
    for begin in arrays["free"].tolist():
        while begin != NONE:
            marked[begin] = True
            link = int(arrays["members"][begin])
            begin = link if link == NONE else link * postings.SMALLEST_RUN
    return marked


def check_lists(core: TermsCore) -> None:
    """Raise ValueError, with the reason, if the lists contradict themselves or the memories."""
    arrays, keys = postings.arrays_of(core.lists), core.raw.arrays()
    counters, n = arrays["counters"], int(core.raw.counters[MEMORIES])
    terms, pool = int(counters[postings.TERMS]), int(counters[postings.POOL])
    _require(1 <= terms <= min(len(arrays[name]) for name in OF_TERMS), "terms")
    _require(0 <= pool <= min(len(arrays["members"]), len(arrays["weights"])), "the pool holds what is in use")
    _require(n <= min(len(arrays[name]) for name in OF_ROWS) and counters[postings.PEAK] >= n, "rows have homes")
    _check_terms({name: arrays[name][:terms] for name in ("names", "importance", "squares")}, arrays["places"])
    lists = arrays["lists"][:terms]
    _check_runs(lists, arrays, pool, core.routing.breadth)
    _check_entries(lists, arrays, keys, n, terms)


def _require(truth: Any, what: str) -> None:
    if not truth:
        raise ValueError(f"the term lists contradict themselves: {what}")


def _all_differ(ordered: np.ndarray) -> bool:
    return bool(np.all(ordered[1:] != ordered[:-1]))


def _check_terms(of_terms: dict[str, np.ndarray], places: np.ndarray) -> None:
    """The map leads from every name to its term and nowhere else."""
    names = of_terms["names"][1:]
    taken = places[places[:, postings.FEATURE] != NONE]
    _require(np.all(names >= 0) and _all_differ(np.sort(names)) and len(names) == len(taken), "every feature has one term")
    terms, features = taken[:, postings.TERM], taken[:, postings.FEATURE]
    _require(np.all((terms > 0) & (terms <= len(names))), "the map leads to terms")
    _require(np.array_equal(names[terms - 1], features), "the map leads to the right terms")
    importance, squares = of_terms["importance"], of_terms["squares"]
    _require(np.all((importance > 0) & np.isfinite(importance)), "importances are positive numbers")
    _require(np.all((squares >= 0) & np.isfinite(squares)), "squares are numbers")


def _check_runs(lists: np.ndarray, arrays: dict[str, np.ndarray], pool: int, breadth: float) -> None:
    """Lists lie in runs of their own, and every run is in use or free. No list is longer than it may be."""
    begin, room, length, pins = lists.T
    _require(np.all((lists >= 0).all(axis=1) & (length <= room) & (pins <= length) & (begin + room <= pool)), "lists fit")
    _require(np.all(room & (room - 1) == 0) and np.all((room > 0) == (length > 0)), "room is a power of two")
    most = int(breadth * np.log2(arrays["counters"][postings.PEAK] + 2.0))
    _require(np.all(length - pins <= most), "lists keep to their limit")
    _require(length.sum() == arrays["counters"][postings.ENTRIES], "the number of entries is known")
    runs = [np.column_stack([begin[room > 0], room[room > 0]])]
    for kind, head in enumerate(arrays["free"].tolist()):
        chain = 0
        while head != NONE:
            _require(0 <= head < pool and chain <= pool, "the chains of free runs end")
            runs.append(np.array([[head, 1 << kind]]))
            chain += 1
            link = int(arrays["members"][head])
            head = link if link == NONE else link * postings.SMALLEST_RUN
    every = np.concatenate(runs)
    every = every[np.argsort(every[:, 0])]
    ends = np.concatenate([[0], every.sum(axis=1)])
    _require(np.array_equal(ends[:-1], every[:, 0]) and ends[-1] == pool, "runs cover the pool without overlap")


def _check_entries(
    lists: np.ndarray, arrays: dict[str, np.ndarray], keys: dict[str, np.ndarray], n: int, terms: int
) -> None:
    """Every entry leads to a living memory that has the term with that weight; every memory has a home."""
    begin, length = lists[:, postings.BEGIN], lists[:, postings.LENGTH]
    term = np.repeat(np.arange(terms), length)
    offset = np.arange(len(term)) - np.repeat(np.cumsum(length) - length, length)
    at = begin[term] + offset
    members, weights = arrays["members"][at], arrays["weights"][at]
    rows = members >> postings.FLAGS
    _require(np.all((rows >= 0) & (rows < n)), "entries lead to memories")
    ranks = np.where(members & postings.PINNED, np.inf, np.abs(weights))
    parents = np.flatnonzero(offset > 0)
    _require(np.all(ranks[parents - offset[parents] + (offset[parents] - 1) // 2] <= ranks[parents]), "lists are heaps")
    pins = np.bincount(term[(members & postings.PINNED) > 0], minlength=terms)
    _require(np.array_equal(pins, lists[:, postings.PINS]), "pinned entries are counted")
    spans = keys["spans"][keys["rows"][:n, SLOT]]
    owner = np.repeat(np.arange(n), spans[:, 1])
    inside = np.repeat(spans[:, 0] - (np.cumsum(spans[:, 1]) - spans[:, 1]), spans[:, 1]) + np.arange(len(owner))
    bare = np.flatnonzero(spans[:, 1] == 0)
    given = arrays["given"][:n]
    _require(np.all((given >= 0) & (given <= spans[:, 1])), "keys are as long as they were given, or longer")
    key_terms, key_weights = keys["key_features"][inside], keys["key_weights"][inside]
    _require(np.all((key_terms > 0) & (key_terms < terms)), "keys are made of terms")
    documents = np.bincount(key_terms, minlength=terms)
    _require(np.array_equal(documents, arrays["documents"][:terms]), "memories are counted by term")
    codes = np.concatenate([owner * terms + key_terms, bare * terms])
    values = np.concatenate([key_weights, np.zeros(len(bare), np.float32)])
    # Both in order, so that one is found in the other from front to back: far quicker than anyhow.
    order, mine = np.argsort(codes, kind="stable"), rows.astype(np.int64) * terms + term
    codes, order_of_mine = codes[order], np.argsort(mine, kind="stable")
    mine = mine[order_of_mine]
    found = np.minimum(np.searchsorted(codes, mine), max(len(codes) - 1, 0))
    _require(len(codes) or not len(mine), "entries lead to memories")
    _require(np.array_equal(codes[found], mine), "memories have the terms in whose lists they are")
    _require(np.array_equal(values[order[found]], weights[order_of_mine]), "lists know the weights of terms")
    _require(_all_differ(mine), "no memory is twice in a list")
    homes = np.bincount(rows[(members & postings.HOME) > 0], minlength=n)
    _require(np.array_equal(homes, arrays["homes"][:n]) and np.all(homes > 0), "every memory has a home")
    _require(np.all((members & postings.HOME > 0) | (members & postings.PINNED == 0)), "only homes are pinned")
