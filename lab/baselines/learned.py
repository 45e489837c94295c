"""Learned similarity without a tree: a learned metric, and attention over all memories."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lab.baselines.approximate import DenseProjection
from lab.baselines.base import Baseline, GrowableArray
from lab.baselines.exact import Exact
from lab.datasets import Dataset, Rows, Truth
from lab.datasets.base import unit
from memorytree.errors import InvalidOption

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

        self.store_truth(data)
        width = self.options["width"]
        self.projection = DenseProjection(data.train, width, self.seed, dense_too=True)
        rows = self.projection(data.train)
        some = some_of_each(data.truth, self.options["sample"], np.random.default_rng(self.seed))
        self.metric = NeighborhoodComponentsAnalysis(
            init="identity", max_iter=self.options["steps"], random_state=self.seed
        ).fit(rows[some], data.truth[some])
        self.index_keys(np.ascontiguousarray(self.metric.transform(rows), np.float32))

    def _transform(self, rows: Rows) -> np.ndarray:
        return np.ascontiguousarray(self.metric.transform(self.projection(rows)), np.float32)

    def nearest(self, rows: Rows, k: int) -> tuple[np.ndarray, np.ndarray]:
        return super().nearest(self._transform(rows), k)

    def learn_one(self, x: Rows, truth: Truth) -> None:
        super().learn_one(self._transform(x), truth)

    def bytes(self) -> int | None:
        return int(self.rows.rows.nbytes + self.lengths.rows.nbytes)


def some_of_each(classes: np.ndarray, wanted: int, chance: np.random.Generator) -> np.ndarray:
    """Return about `wanted` rows of as many classes as possible, at least two of each: NCA learns from pairs."""
    order = chance.permutation(len(classes))
    by_class = np.argsort(classes[order], kind="stable")
    _, first, count = np.unique(classes[order][by_class], return_index=True, return_counts=True)
    number = np.arange(len(classes)) - np.repeat(first, count)  # of a row within its class
    kept = order[by_class[number < max(2, wanted // len(first))]]
    _, group = np.unique(classes[kept], return_inverse=True)
    return np.asarray(kept[np.argsort(chance.permutation(group.max() + 1)[group], kind="stable")][:wanted])


class Attention(Baseline):
    """The differentiable memory: softmax attention over all memories by cosine.

    The sharpness is learned by the likelihood of training rows, each without itself. The score of a class or label is the
    attention on its memories; for retrieval, the prediction is the memory whose value is nearest to the attention-weighted
    mean of all values.
    """

    name, title = "attention", "Attention over all memories"
    linear, grows = True, True
    defaults: ClassVar[dict[str, Any]] = {"sample": 500}

    def fit(self, data: Dataset) -> None:
        self.kind, self.answers = data.kind, data.answers
        self.memory_keys: Any = _unit(data.train) if data.sparse else GrowableArray(_unit(data.train))
        self.truth: Any = GrowableArray(data.truth) if data.kind == "classes" else data.truth
        some = np.random.default_rng(self.seed).permutation(data.rows)[: self.options["sample"]]
        similarities = self._similarities(data.train[some])
        similarities[np.arange(len(some)), some] = -np.inf
        merits = [self._merit(_softmax(sharpness * similarities), data.truth[some]) for sharpness in SHARPNESS]
        # If all merits are equal (one row a class), this takes the largest sharpness, which is nearly 1-NN.
        self.sharpness = max(zip(merits, SHARPNESS, strict=True))[1]

    def learn_one(self, x: Rows, truth: Truth) -> None:
        if self.kind != "classes" or sp.issparse(self.memory_keys):
            raise InvalidOption(f"{self.name} learns single rows only with dense keys and classes")
        self.memory_keys.append(_unit(x)[0])
        self.truth.append(truth)
        self.answers = max(self.answers, int(truth) + 1)

    @property
    def table(self) -> Any:
        """The class, label set or value of each memory as a row."""
        if self.kind != "classes":
            return self.truth
        n = len(self.truth.rows)
        return sp.csr_matrix((np.ones(n, np.float32), self.truth.rows, np.arange(n + 1)), (n, self.answers))

    def _similarities(self, rows: Rows) -> np.ndarray:
        products = _unit(rows) @ (self.memory_keys if sp.issparse(self.memory_keys) else self.memory_keys.rows).T
        return np.asarray(products.toarray() if sp.issparse(products) else products, np.float32)

    def _merit(self, attention: np.ndarray, truth: Truth) -> float:
        """Return the mean log-likelihood of the truth, or the mean cosine of values."""
        read = attention @ self.table
        if self.kind == "classes":
            return float(np.mean(np.log(read[np.arange(len(read)), truth] + 1e-6)))
        if self.kind == "labels":
            true = truth.toarray() > 0
            return float(np.mean(np.log(np.where(true, read, 1 - read) + 1e-6)))
        return float(np.mean(np.sum(unit(read) * truth, axis=1)))

    def _read(self, rows: Rows) -> np.ndarray:
        """Return the attention-weighted mean of `table` for each row: shares of classes or labels, or values."""
        table = self.table
        parts = [
            _softmax(self.sharpness * self._similarities(rows[first : first + CHUNK])) @ table
            for first in range(0, rows.shape[0], CHUNK)
        ]
        return np.concatenate(parts)

    def predict(self, rows: Rows, k: int = 1) -> Truth:
        read = self._read(rows)
        if self.kind == "classes":
            return read.argmax(axis=1)
        if self.kind == "retrieval":
            read = read @ self.truth.T
        return np.argsort(-read, axis=1, kind="stable")[:, :k]

    def label_sets(self, rows: Rows) -> Truth:
        return sp.csr_matrix(self._read(rows) > 0.5)


def _unit(rows: Rows) -> Any:
    if not sp.issparse(rows):
        return unit(rows)
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return (sp.diags(1 / np.maximum(lengths, 1e-30)) @ rows).tocsr().astype(np.float32)


def _softmax(scores: np.ndarray) -> np.ndarray:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), np.float32)
