"""The sparse keys of a flat index: entries of all rows one behind another, and weights of terms that learn from rewards.

Features are numbered in the order in which they are stored; these numbers are terms, and term 0 stands for features that no
memory has had. Distances are those of `TermIndex`: every weight is multiplied by the root of its term's importance, with
"tfidf" also by its rarity.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from memorytree.index.base import Array, Ids, KeyBatch, Scores, SparseBatch
from memorytree.index.flat_keys import LEAST_ROWS, Bounds, Distances, FlatKeys, grown
from memorytree.index.flat_learning import TermLearning, expand, learn_importances
from memorytree.index.requirements import require
from memorytree.index.ties import BITS, hash_numbers
from memorytree.results import OutlineTerms

UNKNOWN = 0
"""The term of features that no memory has had."""
TOLERANCE = 1e-9
"""The largest relative error of a distance that is computed from products."""
LEAST = 1e-300
"""Only an equal key has the distance 0."""


class TermQuery(NamedTuple):
    """A sparse query.

    Attributes:
        terms: (t,) those of its features that have terms.
        weights: (t,) their weights.
        values: (all terms,) the weight of each term.
        factors: (all terms,) by what the weight of a stored key is multiplied in a product.
        features: how many features it has, with terms or without.
        squares: the sum of its squares, by weights of terms; `learned_squares` by importances only.
    """

    terms: Ids
    weights: Distances
    values: Distances
    factors: Distances
    features: int
    squares: float
    learned_squares: float


class TermKeys(FlatKeys[TermQuery]):
    """Sparse keys, compared as `TermIndex` compares them.

    Args:
        scorer: "distance", "cosine" or "tfidf".
        learning: how weights of terms learn.

    Attributes:
        n: the number of rows.
        spans: (rows, 2) where the entries of each row begin, and how many there are.
        given: (rows,) how many of these belong to the key; terms that rewards have added follow them.
        terms, weights, owners: (entries,) term, weight and row of each entry; unused entries have the weight 0.
        names: (terms,) the feature of each term.
        importance, gradients: (terms,) what rewards have taught, and Adagrad's sums of squared gradients.
        memories: (terms,) how many memories have each term.
        lengths: (rows,) sums of squares, by importances.
        learned: the number of queries whose rewards changed importances.
    """

    sparse: ClassVar[bool] = True

    def __init__(self, scorer: str, learning: TermLearning):
        self.scorer, self.learning, self.by_angle = scorer, learning, scorer != "distance"
        self.n = self.used = self.live = self.learned = 0
        self.spans, self.given = np.zeros((LEAST_ROWS, 2), np.int64), np.zeros(LEAST_ROWS, np.int64)
        self.lengths = np.zeros(LEAST_ROWS)
        self.terms, self.weights = np.zeros(LEAST_ROWS, np.int64), np.zeros(LEAST_ROWS, np.float32)
        self.owners = np.zeros(LEAST_ROWS, np.int64)
        self.n_terms = 1
        self.names, self.memories = np.full(LEAST_ROWS, -1, np.int32), np.zeros(LEAST_ROWS, np.int64)
        self.importance, self.gradients = np.ones(LEAST_ROWS, np.float32), np.zeros(LEAST_ROWS, np.float32)
        self.term_of: dict[int, int] = {}

    def __len__(self) -> int:
        return self.n

    # ---- writing

    def append(self, keys: KeyBatch, i: int) -> None:
        features, weights = _entries(keys, i)
        row = self.n
        for name in ("spans", "given", "lengths"):
            setattr(self, name, grown(getattr(self, name), row + 1))
        self.n += 1
        self.spans[row] = 0
        self.given[row] = len(features)
        self.write(row, self.numbered(features), weights)

    def numbered(self, features: NDArray[np.int32]) -> Ids:
        """The terms of features; those without a term get one."""
        known = self.term_of
        terms = [known.setdefault(feature, len(known) + 1) for feature in features.tolist()]
        if (count := len(known) + 1) > self.n_terms:
            room = len(self.names)
            for name in ("names", "importance", "gradients", "memories"):
                setattr(self, name, grown(getattr(self, name), count))
            self.importance[room:] = 1
            self.names[terms] = features
            self.n_terms = count
        return np.array(terms, np.int64)

    def write(self, row: int, terms: Ids, weights: Array) -> None:
        """Replace the entries of a row."""
        self._erase(row)
        if self.used + len(terms) > len(self.terms):
            self._make_room(len(terms))
        start = self.used
        self.used += len(terms)
        self.live += len(terms)
        here = slice(start, self.used)
        self.spans[row] = start, len(terms)
        self.terms[here], self.weights[here], self.owners[here] = terms, weights, row
        self.memories[terms] += 1
        self.lengths[row] = _total(self.importance[terms].astype(np.float64) * self.weights[here] * self.weights[here])

    def _erase(self, row: int) -> None:
        """Clear the entries of a row."""
        start, length = self.spans[row].tolist()
        here = slice(start, start + length)
        self.memories[self.terms[here]] -= 1
        self.terms[here] = self.weights[here] = self.owners[here] = 0
        self.live -= length
        self.spans[row] = 0

    def _make_room(self, more: int) -> None:
        """Move entries together if at least half are unused, and double the room if that is not enough."""
        if 2 * self.live <= self.used:
            at, owners = self._places(np.arange(self.n))
            self.spans[: self.n, 0] = np.cumsum(self.spans[: self.n, 1]) - self.spans[: self.n, 1]
            self.terms[: self.live], self.weights[: self.live] = self.terms[at], self.weights[at]
            self.owners[: self.live] = owners
            for array in (self.terms, self.weights, self.owners):
                array[self.live :] = 0
            self.used = self.live
        for name in ("terms", "weights", "owners"):
            setattr(self, name, grown(getattr(self, name), self.used + more))

    def remove(self, row: int) -> None:
        self._erase(row)
        self.n -= 1
        if row != self.n:
            start, length = self.spans[self.n].tolist()
            self.owners[start : start + length] = row
            for array in (self.spans, self.given, self.lengths):
                array[row] = array[self.n]

    def learn(self, keys: KeyBatch, i: int, rows: Ids, rewards: Distances) -> int:
        learned = int(learn_importances(self, self.query_key(keys, i), rows, rewards))
        self.learned += learned
        if not self.learning.expansion:
            return learned
        features, weights = _entries(keys, i)
        for row, reward in zip(rows.tolist(), rewards.tolist(), strict=True):
            expand(self, row, features, weights, reward)
        return int(np.any(rewards > 0))

    def has_learned(self) -> bool:
        """Whether rewards have changed importances, or added terms to keys."""
        return self.learned > 0 or bool(np.any(self.given[: self.n] != self.spans[: self.n, 1]))

    def measure(self) -> None:
        """Compute the lengths of all rows by the present importances."""
        used = slice(self.used)
        squares = self.importance[self.terms[used]].astype(np.float64) * self.weights[used] * self.weights[used]
        self.lengths[: self.n] = sums(self.owners[used], squares, self.n)

    # ---- reading

    def known(self, features: NDArray[np.int32]) -> tuple[Ids, NDArray[np.bool_]]:
        """(the terms of those features that have one, which do)."""
        terms = np.array([self.term_of.get(feature, UNKNOWN) for feature in features.tolist()], np.int64)
        has_term = terms != UNKNOWN
        return terms[has_term], has_term

    def term_weights(self, terms: Ids) -> NDArray[np.float32]:
        """The weights of terms."""
        importance: NDArray[np.float32] = self.importance[terms]
        if self.scorer != "tfidf":
            return importance
        rarity = np.log(1.0 + self.n / (self.memories[terms] + 0.5))
        return (importance * rarity * rarity).astype(np.float32)

    def query_key(self, keys: KeyBatch, i: int) -> TermQuery:
        features, weights = _entries(keys, i)
        terms, has_term = self.known(features)
        known, unknown = weights[has_term].astype(np.float64), weights[~has_term].astype(np.float64)
        term_weights = self.term_weights(terms).astype(np.float64)
        # Unknown features come last, so that a key and its equal get bitwise the same length.
        rest = float(self.term_weights(np.array([UNKNOWN]))[0]) * unknown * unknown
        values, factors = np.zeros(self.n_terms), np.zeros(self.n_terms)
        values[terms], factors[terms] = known, term_weights * known
        squares = _total(np.concatenate([term_weights * known * known, rest]))
        learned = _total(np.concatenate([self.importance[terms] * known * known, unknown * unknown]))
        return TermQuery(terms, known, values, factors, len(features), squares, learned)

    def queries(self, keys: KeyBatch, start: int, stop: int, rows: Ids | None) -> Iterator[tuple[TermQuery, Bounds]]:
        used = slice(self.used)
        if rows is None:
            terms, weights, owners = self.terms[used], self.weights[used].astype(np.float64), self.owners[used]
            lengths = self.lengths[: self.n]
        else:
            terms, weights, owners = self.entries_of(rows)
            lengths = self.lengths[rows]
        for i in range(start, stop):
            query = self.query_key(keys, i)
            products = sums(owners, query.factors[terms] * weights, len(lengths))
            distances = self._from_products(query, products, lengths)
            error = TOLERANCE * (query.squares + lengths) + LEAST if self.scorer == "distance" else 0.0
            yield query, Bounds(distances - error, distances + error)

    def distances(self, query: TermQuery, rows: Ids) -> Distances:
        terms, weights, owners = self.entries_of(rows)
        if self.scorer != "distance":
            products = sums(owners, query.factors[terms] * weights, len(rows))
            return self._from_products(query, products, self.lengths[rows])
        asked = np.zeros(self.n_terms)
        asked[query.terms] = 1
        importance, values = self.importance[terms].astype(np.float64), query.values[terms]
        total = sums(owners, importance * (values - weights) * (values - weights), len(rows))
        matched = sums(owners, asked[terms], len(rows))
        matched_squares = sums(owners, importance * values * values, len(rows))
        # The features that only the query has.
        return total + np.where(matched < query.features, np.maximum(query.squares - matched_squares, LEAST), 0.0)

    def _from_products(self, query: TermQuery, products: Distances, lengths: Distances) -> Distances:
        """Distances from products with the query and the lengths of keys."""
        if self.scorer == "distance":
            return query.squares + lengths - 2.0 * products
        squares = query.squares * lengths
        distances, positive = np.ones(len(lengths)), squares > 0
        if self.scorer == "cosine":
            distances[positive] -= products[positive] / np.sqrt(squares[positive])
            return np.maximum(distances, 0.0)
        ratio = np.sqrt(np.sqrt(query.learned_squares / lengths[positive]))
        distances[positive] -= products[positive] / query.squares * ratio
        return distances

    def scores(self, distances: Distances) -> Scores:
        return (0.0 - np.sqrt(distances) if self.scorer == "distance" else 1.0 - distances).astype(np.float32)

    def unrelated(self, query: TermQuery, bounds: Bounds, rows: Ids | None) -> NDArray[np.bool_] | None:
        if self.scorer == "distance":
            return None
        idle = bounds.low == 1.0
        if not query.features:  # keys without features are like this one
            idle &= (self.spans[: self.n] if rows is None else self.spans[rows])[:, 1] > 0
        return idle

    def bits(self, keys: KeyBatch, i: int) -> int:
        features, weights = _entries(keys, i)
        words = np.ascontiguousarray(weights).view(np.uint32).tolist()
        pairs = (word for pair in zip(features.tolist(), words, strict=True) for word in pair)
        return hash_numbers(len(features), (word & BITS for word in pairs))

    def key(self, row: int) -> SparseBatch:
        return self.first_entries(row, int(self.given[row]))

    def compared(self, row: int) -> SparseBatch:
        return self.first_entries(row)

    def feature_weights(self, features: Array) -> Array:
        terms = [self.term_of.get(feature, UNKNOWN) for feature in features.tolist()]
        return self.term_weights(np.array(terms, np.int64))

    def size(self) -> int:
        return self.live

    def outline(self) -> OutlineTerms:
        memories = self.memories[: self.n_terms]
        order = np.argsort(-memories, kind="stable")
        order = order[memories[order] > 0]
        return OutlineTerms(self.names[order], memories[order].astype(np.int32), self.importance[order])

    def rows_as_batch(self, rows: Ids) -> SparseBatch:
        at, _ = self._places(rows)
        bounds = np.concatenate([[0], np.cumsum(self.spans[rows, 1])])
        return bounds, self.names[self.terms[at]], self.weights[at]

    def every_feature(self) -> SparseBatch:
        names = self.names[1 : self.n_terms]
        return np.array([0, len(names)]), names.copy(), np.ones(len(names), np.float32)

    def first_entries(self, row: int, count: int | None = None) -> SparseBatch:
        """The first entries of a row, or all, with features, as a batch of one."""
        start, length = self.spans[row].tolist()
        here = slice(start, start + (length if count is None else count))
        return np.array([0, here.stop - start]), self.names[self.terms[here]], self.weights[here].copy()

    def entries_of(self, rows: Ids) -> tuple[Ids, Distances, Ids]:
        """The terms and weights of all entries of some rows, and the position of the row that each belongs to."""
        at, owners = self._places(rows)
        return self.terms[at], self.weights[at].astype(np.float64), owners

    def _places(self, rows: Ids) -> tuple[Ids, Ids]:
        """Where the entries of some rows are, row by row, and the position of the row that each belongs to."""
        starts, lengths = self.spans[rows].T
        ends = np.cumsum(lengths)
        owners = np.repeat(np.arange(len(rows)), lengths)
        at = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
        return at, owners

    # ---- state

    def nbytes(self) -> tuple[int, int, int]:
        of_rows = sum(array.itemsize * array[:1].size for array in (self.spans, self.given, self.lengths))
        of_entries = self.terms.itemsize + self.weights.itemsize + self.owners.itemsize
        of_terms = sum(array.itemsize for array in (self.names, self.importance, self.gradients, self.memories))
        used = of_rows * self.n + of_entries * self.live + of_terms * self.n_terms
        allocated = of_rows * len(self.given) + of_entries * len(self.terms) + of_terms * len(self.names)
        return 8 * self.live, used, allocated

    def copy(self) -> Self:
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray | dict):
                setattr(twin, name, value.copy())
        return twin

    def state_dict(self) -> dict[str, Array]:
        at, _ = self._places(np.arange(self.n))
        return {
            "counts": self.spans[: self.n, 1].copy(),
            "given": self.given[: self.n].copy(),
            "terms": self.terms[at].astype(np.int32),
            "weights": self.weights[at],
            "names": self.names[: self.n_terms].copy(),
            "importance": self.importance[: self.n_terms].copy(),
            "gradients": self.gradients[: self.n_terms].copy(),
            "learned": np.array([self.learned]),
        }

    def load_state_dict(self, state: Mapping[str, Array]) -> int:
        for name, array in self.state_dict().items():
            if state[name].dtype != array.dtype or state[name].ndim != 1:
                raise ValueError(f"{name} is {state[name].dtype} {state[name].shape}, not a list of {array.dtype}")
        counts, terms, names = state["counts"], state["terms"], state["names"]
        require(len(counts) == len(state["given"]) and np.all(counts >= 0), "every key has a length")
        require(counts.sum() == len(terms) == len(state["weights"]), "every entry belongs to a key")
        require(0 < len(names) == len(state["importance"]) == len(state["gradients"]), "every term has a name and a weight")
        require(not len(terms) or 0 < terms.min() <= terms.max() < len(names), "keys are made of terms")
        require(len(state["learned"]) == 1, "the number of queries learned from")
        self.n, self.n_terms, self.used = len(counts), len(names), len(terms)
        self.live, self.learned = self.used, int(state["learned"][0])
        rows, entries, of_terms = (max(count, LEAST_ROWS) for count in (self.n, self.used, self.n_terms))
        self.spans = grown(np.column_stack([np.cumsum(counts) - counts, counts]), rows)
        self.given, self.lengths = grown(state["given"], rows), np.zeros(rows)
        self.terms, self.weights = grown(terms.astype(np.int64), entries), grown(state["weights"], entries)
        self.owners = grown(np.repeat(np.arange(self.n), counts), entries)
        self.names, self.gradients = grown(names, of_terms), grown(state["gradients"], of_terms)
        self.importance = grown(state["importance"], of_terms)
        self.importance[self.n_terms :] = 1
        self.memories = grown(np.bincount(terms, minlength=self.n_terms), of_terms)
        self.term_of = {feature: term for term, feature in enumerate(names[1:].tolist(), 1)}
        self.measure()
        return self.n

    def check(self) -> None:
        used = slice(self.n_terms)
        importance, gradients = self.importance[used], self.gradients[used]
        counts, given = self.spans[: self.n, 1], self.given[: self.n]
        at, owners = self._places(np.arange(self.n))
        pairs = np.sort(owners * self.n_terms + self.terms[at])
        require(
            len(self.term_of) == self.n_terms - 1 and np.all(self.names[1 : self.n_terms] >= 0), "every feature has one term"
        )
        require(np.all((importance > 0) & np.isfinite(importance)), "importances are positive numbers")
        require(np.all((gradients >= 0) & np.isfinite(gradients)) and self.learned >= 0, "sums of squares are numbers")
        require(np.all((given >= 0) & (given <= counts)), "keys are as long as they were given, or longer")
        require(np.all(pairs[1:] != pairs[:-1]), "no key has a term twice")
        require(np.all(np.isfinite(self.weights[at])), "weights are finite numbers")


def _entries(keys: KeyBatch, i: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Features and weights of key i of a batch."""
    assert isinstance(keys, tuple)
    bounds, features, weights = keys
    here = slice(bounds[i], bounds[i + 1])
    return features[here], weights[here]


def sums(owners: Ids, values: Distances, n: int) -> Distances:
    """The sums of the values of each of n owners, in order, so that equal keys get equal sums."""
    return np.asarray(np.bincount(owners, values, n)[:n], np.float64)


def _total(values: Distances) -> float:
    """The sum, in order."""
    return float(values.cumsum()[-1]) if len(values) else 0.0
