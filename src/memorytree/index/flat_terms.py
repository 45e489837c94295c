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
from memorytree.index.flat_entries import Entries, EntryRows
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
        places: (all terms,) the place of each term in `values` and `factors`; 0 if the query has it not.
        values: (t + 1,) the weights of its terms, behind a 0.
        factors: (t + 1,) by what the weight of a stored key is multiplied in a product, likewise.
        features: how many features it has, with terms or without.
        squares: the sum of its squares, by weights of terms; `learned_squares` by importances only.
    """

    terms: Ids
    places: NDArray[np.int32]
    values: Distances
    factors: Distances
    features: int
    squares: float
    learned_squares: float


class FlatTerms(FlatKeys[TermQuery]):
    """Sparse keys, compared as `TermIndex` compares them.

    Args:
        scorer: "distance", "cosine" or "tfidf".
        learning: how weights of terms learn.

    Attributes:
        entries: the (term, weight) entries of each row.
        given: (rows,) how many entries belong to the key; terms that rewards have added follow them.
        lengths: (rows,) sums of squares, by importances.
        names: (terms,) the feature of each term.
        importance, gradients: (terms,) what rewards have taught, and Adagrad's sums of squared gradients.
        memories: (terms,) how many memories have each term.
        learned: the number of queries whose rewards changed importances.
    """

    sparse: ClassVar[bool] = True

    def __init__(self, scorer: str, learning: TermLearning):
        self.scorer, self.learning, self.by_angle = scorer, learning, scorer != "distance"
        self.entries = EntryRows()
        self.given, self.lengths = np.zeros(LEAST_ROWS, np.int64), np.zeros(LEAST_ROWS)
        self.names, self.memories = np.full(LEAST_ROWS, -1, np.int32), np.zeros(LEAST_ROWS, np.int64)
        self.importance, self.gradients = np.ones(LEAST_ROWS, np.float32), np.zeros(LEAST_ROWS, np.float32)
        self.n_terms = 1
        self.learned = 0
        self.term_of: dict[int, int] = {}

    def __len__(self) -> int:
        return self.entries.n

    # ---- writing

    def append(self, keys: KeyBatch, i: int) -> None:
        features, weights = _entries(keys, i)
        row = self.entries.add_row()
        self.given, self.lengths = grown(self.given, row + 1), grown(self.lengths, row + 1)
        self.given[row] = len(features)
        self.write(row, self.numbered(features), weights)

    def numbered(self, features: NDArray[np.int32]) -> Ids:
        """The terms of features; those without a term get one."""
        known = self.term_of
        terms = [known.setdefault(feature, len(known) + 1) for feature in features.tolist()]
        if (count := len(known) + 1) > self.n_terms:
            room = len(self.names)
            self.names, self.memories = grown(self.names, count), grown(self.memories, count)
            self.importance, self.gradients = grown(self.importance, count), grown(self.gradients, count)
            self.importance[room:] = 1
            self.names[terms] = features
            self.n_terms = count
        return np.array(terms, np.int64)

    def write(self, row: int, terms: Ids, weights: NDArray[np.float32]) -> None:
        """Replace the entries of a row."""
        self._clear(row)
        self.entries.write(row, terms, weights)
        self.memories[terms] += 1
        self.lengths[row] = _total(self.importance[terms].astype(np.float64) * weights * weights)

    def _clear(self, row: int) -> None:
        self.memories[self.entries.entries(np.array([row])).terms] -= 1
        self.entries.clear(row)

    def remove(self, row: int) -> None:
        self._clear(row)
        self.entries.remove_row(row)
        last = self.entries.n
        self.given[row], self.lengths[row] = self.given[last], self.lengths[last]

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
        n = self.entries.n
        return self.learned > 0 or bool(np.any(self.given[:n] != self.entries.spans[:n, 1]))

    def measure(self) -> None:
        """Compute the lengths of all rows by the present importances."""
        used = slice(self.entries.used)
        weights = self.entries.weights[used]
        squares = self.importance[self.entries.terms[used]].astype(np.float64) * weights * weights
        self.lengths[: self.entries.n] = self.entries.sums(squares)

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
        rarity = np.log(1.0 + self.entries.n / (self.memories[terms] + 0.5))
        return (importance * rarity * rarity).astype(np.float32)

    def query_key(self, keys: KeyBatch, i: int) -> TermQuery:
        features, weights = _entries(keys, i)
        terms, has_term = self.known(features)
        known, unknown = weights[has_term].astype(np.float64), weights[~has_term].astype(np.float64)
        term_weights = self.term_weights(terms).astype(np.float64)
        # Unknown features come last, so that a key and its equal get bitwise the same length.
        rest = float(self.term_weights(np.array([UNKNOWN]))[0]) * unknown * unknown
        places = np.zeros(self.n_terms, np.int32)
        places[terms] = np.arange(1, len(terms) + 1)
        values, factors = np.concatenate([[0.0], known]), np.concatenate([[0.0], term_weights * known])
        squares = _total(np.concatenate([term_weights * known * known, rest]))
        learned = _total(np.concatenate([self.importance[terms] * known * known, unknown * unknown]))
        return TermQuery(terms, places, values, factors, len(features), squares, learned)

    def queries(self, keys: KeyBatch, start: int, stop: int, rows: Ids | None) -> Iterator[tuple[TermQuery, Bounds]]:
        n, used = self.entries.n, slice(self.entries.used)
        if rows is None:
            chosen = Entries(self.entries.terms[used], self.entries.weights[used], self.entries.spans[:n, 1])
            sums, lengths = self.entries.sums, self.lengths[:n]
        else:
            chosen = self.entries.entries(rows)
            sums, lengths = chosen.sums, self.lengths[rows]
        for i in range(start, stop):
            query = self.query_key(keys, i)
            factors = np.zeros(self.n_terms)
            factors[query.terms] = query.factors[1:]
            distances = self._from_products(query, sums(factors[chosen.terms] * chosen.weights), lengths)
            error = TOLERANCE * (query.squares + lengths) + LEAST if self.scorer == "distance" else 0.0
            yield query, Bounds(distances - error, distances + error)

    def distances(self, query: TermQuery, rows: Ids) -> Distances:
        chosen = self.entries.entries(rows)
        places, weights = query.places[chosen.terms], chosen.weights
        if self.scorer != "distance":
            return self._from_products(query, chosen.sums(query.factors[places] * weights), self.lengths[rows])
        importance, values = self.importance[chosen.terms].astype(np.float64), query.values[places]
        total = chosen.sums(importance * (values - weights) * (values - weights))
        matched = chosen.sums((places > 0).astype(np.float64))
        matched_squares = chosen.sums(importance * values * values)
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
            spans = self.entries.spans
            idle &= (spans[: self.entries.n] if rows is None else spans[rows])[:, 1] > 0
        return idle

    def bits(self, keys: KeyBatch, i: int) -> int:
        features, weights = _entries(keys, i)
        words = np.ascontiguousarray(weights).view(np.uint32).tolist()
        pairs = (word for pair in zip(features.tolist(), words, strict=True) for word in pair)
        return hash_numbers(len(features), (word & BITS for word in pairs))

    def key(self, row: int) -> SparseBatch:
        _, features, weights = self.compared(row)
        given = int(self.given[row])
        return np.array([0, given]), features[:given], weights[:given]

    def compared(self, row: int) -> SparseBatch:
        return self.rows_as_batch(np.array([row]))

    def feature_weights(self, features: Array) -> Array:
        terms = [self.term_of.get(feature, UNKNOWN) for feature in features.tolist()]
        return self.term_weights(np.array(terms, np.int64))

    def size(self) -> int:
        return self.entries.live

    def outline(self) -> OutlineTerms:
        memories = self.memories[: self.n_terms]
        order = np.argsort(-memories, kind="stable")
        order = order[memories[order] > 0]
        return OutlineTerms(self.names[order], memories[order].astype(np.int32), self.importance[order])

    def rows_as_batch(self, rows: Ids) -> SparseBatch:
        at, counts = self.entries.places(rows), self.entries.spans[rows, 1]
        bounds = np.concatenate([[0], np.cumsum(counts)])
        return bounds, self.names[self.entries.terms[at]], self.entries.weights[at]

    def every_feature(self) -> SparseBatch:
        names = self.names[1 : self.n_terms]
        return np.array([0, len(names)]), names.copy(), np.ones(len(names), np.float32)

    # ---- state

    def nbytes(self) -> tuple[int, int, int]:
        used, allocated = self.entries.nbytes()
        of_rows = self.given.itemsize + self.lengths.itemsize
        of_terms = sum(array.itemsize for array in (self.names, self.importance, self.gradients, self.memories))
        used += of_rows * self.entries.n + of_terms * self.n_terms
        return 8 * self.entries.live, used, allocated + of_rows * len(self.given) + of_terms * len(self.names)

    def copy(self) -> Self:
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray | dict | EntryRows):
                setattr(twin, name, value.copy())
        return twin

    def state_dict(self) -> dict[str, Array]:
        n, at = self.entries.n, self.entries.places(np.arange(self.entries.n))
        return {
            "counts": self.entries.spans[:n, 1].copy(),
            "given": self.given[:n].copy(),
            "terms": self.entries.terms[at].astype(np.int32),
            "weights": self.entries.weights[at],
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
        self.entries = EntryRows.of(terms.astype(np.int64), state["weights"], counts)
        self.given, self.lengths = grown(state["given"], LEAST_ROWS), np.zeros(max(len(counts), LEAST_ROWS))
        self.names, self.gradients = grown(names, LEAST_ROWS), grown(state["gradients"], LEAST_ROWS)
        self.importance = grown(state["importance"], LEAST_ROWS)
        self.importance[len(names) :] = 1
        self.memories = grown(np.bincount(terms, minlength=len(names)), LEAST_ROWS)
        self.n_terms, self.learned = len(names), state["learned"].item()
        self.term_of = {feature: term for term, feature in enumerate(names[1:].tolist(), 1)}
        self.measure()
        return len(counts)

    def check(self) -> None:
        n, used = self.entries.n, slice(self.n_terms)
        importance, gradients = self.importance[used], self.gradients[used]
        counts, given = self.entries.spans[:n, 1], self.given[:n]
        entries = self.entries.entries(np.arange(n))
        pairs = np.sort(entries.owners() * self.n_terms + entries.terms)
        names = self.names[1 : self.n_terms]
        require(len(self.term_of) == len(names) and np.all(names >= 0), "every feature has one term")
        require(np.all((importance > 0) & np.isfinite(importance)), "importances are positive numbers")
        require(np.all((gradients >= 0) & np.isfinite(gradients)) and self.learned >= 0, "sums of squares are numbers")
        require(np.all((given >= 0) & (given <= counts)), "keys are as long as they were given, or longer")
        require(np.all(pairs[1:] != pairs[:-1]), "no key has a term twice")
        require(np.all(np.isfinite(entries.weights)), "weights are finite numbers")


def _entries(keys: KeyBatch, i: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Features and weights of key i of a batch."""
    assert isinstance(keys, tuple)
    bounds, features, weights = keys
    here = slice(bounds[i], bounds[i + 1])
    return features[here], weights[here]


def _total(values: Distances) -> float:
    """The sum, in the order of sums by row."""
    return float(np.add.reduceat(values, [0])[0]) if len(values) else 0.0
