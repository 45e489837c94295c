"""Learned comparison of memories without a tree: a learned metric, and attention over all of them."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from memorytree.errors import InvalidOption
from memorytree.lab.datasets import Dataset
from memorytree.lab.datasets.base import unit
from memorytree.lab.peers.approximate import Projection
from memorytree.lab.peers.base import Growing, Peer
from memorytree.lab.peers.exact import Exact

SHARPNESS = tuple(2.0**power for power in range(1, 9))
CHUNK = 200


class Nca(Exact):
    """Neighbourhood components analysis (scikit-learn) on some rows of each class, then exact 1-NN among all rows."""

    name, title = "nca", "NCA on a subsample, then 1-NN"
    kinds = frozenset({"classes"})
    needs = ("sklearn",)
    incremental = False
    defaults: ClassVar[dict[str, Any]] = {**Exact.defaults, "sample": 1500, "width": 64, "steps": 50}

    def fit(self, data: Dataset) -> None:
        from sklearn.neighbors import NeighborhoodComponentsAnalysis

        self.remember(data)
        width = self.options["width"]
        self.projection = Projection(data.train, width, self.seed, dense_too=True)
        rows = self.projection(data.train)
        some = some_of_each(data.truth, self.options["sample"], np.random.default_rng(self.seed))
        self.metric = NeighborhoodComponentsAnalysis(
            init="identity", max_iter=self.options["steps"], random_state=self.seed
        ).fit(rows[some], data.truth[some])
        self._hold(np.ascontiguousarray(self.metric.transform(rows), np.float32))

    def _seen(self, rows: Any) -> np.ndarray:
        return np.ascontiguousarray(self.metric.transform(self.projection(rows)), np.float32)

    def nearest(self, rows: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        return super().nearest(self._seen(rows), k)

    def learn_one(self, x: Any, truth: Any) -> None:
        super().learn_one(self._seen(x), truth)

    def bytes(self) -> int | None:
        return int(self.rows.rows.nbytes + self.lengths.rows.nbytes)


def some_of_each(classes: np.ndarray, wanted: int, chance: np.random.Generator) -> np.ndarray:
    """About so many rows of as many classes as possible, but two of each at the least: what is learned from are pairs."""
    order = chance.permutation(len(classes))
    seen = np.argsort(classes[order], kind="stable")
    _, first, count = np.unique(classes[order][seen], return_index=True, return_counts=True)
    number = np.arange(len(classes)) - np.repeat(first, count)  # of a row within its class
    kept = order[seen[number < max(2, wanted // len(first))]]
    _, group = np.unique(classes[kept], return_inverse=True)
    return np.asarray(kept[np.argsort(chance.permutation(group.max() + 1)[group], kind="stable")][:wanted])


class Attention(Peer):
    """The differentiable memory: softmax attention over all memories by cosine, its sharpness learned by the likelihood of
    training rows, each without itself. A class or label has the attention that its memories get; for retrieval the mean of
    the values attended to is read out, and the memory whose value is nearest to it is the answer."""

    name, title = "attention", "Attention over all memories"
    linear, grows = True, True
    defaults: ClassVar[dict[str, Any]] = {"sample": 500}

    def fit(self, data: Dataset) -> None:
        self.kind, self.answers = data.kind, data.answers
        self.held: Any = _unit(data.train) if data.sparse else Growing(_unit(data.train))
        self.truth: Any = Growing(data.truth) if data.kind == "classes" else data.truth
        some = np.random.default_rng(self.seed).permutation(data.rows)[: self.options["sample"]]
        alike = self._alike(data.train[some])
        alike[np.arange(len(some)), some] = -np.inf
        merits = [self._merit(_softmax(sharpness * alike), data.truth[some]) for sharpness in SHARPNESS]
        # Where nothing can be learned (one row a class), the sharpest, which is nearly 1-NN.
        self.sharpness = max(zip(merits, SHARPNESS, strict=True))[1]

    def learn_one(self, x: Any, truth: Any) -> None:
        if self.kind != "classes" or sp.issparse(self.held):
            raise InvalidOption(f"{self.name} takes one more row only of dense keys with classes")
        self.held.append(_unit(x)[0])
        self.truth.append(truth)
        self.answers = max(self.answers, int(truth) + 1)

    @property
    def table(self) -> Any:
        """What each memory says, a row for each."""
        if self.kind != "classes":
            return self.truth
        n = len(self.truth.rows)
        return sp.csr_matrix((np.ones(n, np.float32), self.truth.rows, np.arange(n + 1)), (n, self.answers))

    def _alike(self, rows: Any) -> np.ndarray:
        products = _unit(rows) @ (self.held if sp.issparse(self.held) else self.held.rows).T
        return np.asarray(products.toarray() if sp.issparse(products) else products, np.float32)

    def _merit(self, attention: np.ndarray, truth: Any) -> float:
        """How likely the truth is made, or how well values are read out."""
        read = attention @ self.table
        if self.kind == "classes":
            return float(np.mean(np.log(read[np.arange(len(read)), truth] + 1e-6)))
        if self.kind == "labels":
            true = truth.toarray() > 0
            return float(np.mean(np.log(np.where(true, read, 1 - read) + 1e-6)))
        return float(np.mean(np.sum(unit(read) * truth, axis=1)))

    def _read(self, rows: Any) -> np.ndarray:
        """What attention reads out: the shares of classes or labels, or values."""
        table = self.table
        parts = [
            _softmax(self.sharpness * self._alike(rows[first : first + CHUNK])) @ table
            for first in range(0, rows.shape[0], CHUNK)
        ]
        return np.concatenate(parts)

    def predict(self, rows: Any, k: int = 1) -> Any:
        read = self._read(rows)
        if self.kind == "classes":
            return read.argmax(axis=1)
        if self.kind == "retrieval":
            read = read @ self.truth.T
        return np.argsort(-read, axis=1, kind="stable")[:, :k]

    def label_sets(self, rows: Any) -> Any:
        return sp.csr_matrix(self._read(rows) > 0.5)


def _unit(rows: Any) -> Any:
    if not sp.issparse(rows):
        return unit(rows)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return (sp.diags(1 / np.maximum(lengths, 1e-30)) @ rows).tocsr().astype(np.float32)


def _softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), np.float32)
