"""Learners without memories: a linear model of each class, of each label or of the values, and label trees."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lab.baselines.base import Baseline, ColumnSubset
from lab.datasets import Dataset, Rows, Truth
from memorytree.estimators.metrics import mean_reward


class Linear(Baseline):
    """A linear support vector machine for each class or label against all others (liblinear).

    For retrieval, a ridge map from keys to the features of values, then the memory with the nearest value; the penalty is
    chosen on a tenth of the rows.
    """

    name, title = "linear", "Linear, one against all"
    needs = ("sklearn",)
    linear = True
    defaults: ClassVar[dict[str, Any]] = {"C": None, "penalties": (1.0, 3.0, 10.0)}

    def fit(self, data: Dataset) -> None:
        self.kind, self.answers = data.kind, data.answers
        if data.kind == "retrieval":
            return self._fit_map(data.train, data.truth)
        from sklearn.multiclass import OneVsRestClassifier
        from sklearn.svm import LinearSVC

        machine = LinearSVC(C=self.options["C"] or (1.0 if data.kind == "classes" else 0.5), random_state=self.seed)
        if data.kind == "classes":
            machine.fit(data.train, data.truth)
            self.known, machines = machine.classes_, [machine]
        else:
            self.known = np.flatnonzero(np.diff(data.truth.tocsc().indptr))
            machines = OneVsRestClassifier(machine).fit(data.train, data.truth[:, self.known]).estimators_
        # One matrix, so that one product computes all margins.
        self.weights = np.concatenate([one.coef_ for one in machines]).T.astype(np.float32)
        self.bias = np.concatenate([one.intercept_ for one in machines]).astype(np.float32)
        if self.weights.shape[1] < len(self.known):  # liblinear has one machine for two classes
            self.weights, self.bias = np.hstack([-self.weights, self.weights]), np.hstack([-self.bias, self.bias])
        return None

    def _fit_map(self, keys: Rows, values: np.ndarray) -> None:
        from sklearn.kernel_ridge import KernelRidge

        self.narrow = ColumnSubset(keys) if sp.issparse(keys) else np.asarray
        keys = self.narrow(keys)
        self.values, tenth = values, keys.shape[0] // 10

        def merit(penalty: float) -> float:
            model = KernelRidge(alpha=penalty).fit(keys[tenth:], values[tenth:])
            found = (model.predict(keys[:tenth]) @ values[tenth:].T).argmax(axis=1)
            return mean_reward(values[:tenth], values[tenth:][found])

        best = max(self.options["penalties"], key=merit)
        # The primal form of the same map: prediction does not read the training rows.
        self.weights = keys.T @ KernelRidge(alpha=best).fit(keys, values).dual_coef_

    def predict(self, rows: Rows, k: int = 1) -> Truth:
        if self.kind == "classes":
            return self.known[self.margins(rows).argmax(axis=1)]
        if self.kind == "labels":
            return self.known[np.argsort(-self.margins(rows), axis=1)[:, :k]]
        scores = (self.narrow(rows) @ self.weights) @ self.values.T
        return scores.argmax(axis=1)[:, None] if k == 1 else np.argsort(-scores, axis=1)[:, :k]

    def margins(self, rows: Rows) -> np.ndarray:
        """Return the margin of each row for each class or label."""
        return np.asarray(rows @ self.weights + self.bias)

    def label_sets(self, rows: Rows) -> Truth:
        taken = sp.csr_matrix(self.margins(rows) > 0)
        return sp.csr_matrix((taken.data, self.known[taken.indices], taken.indptr), (rows.shape[0], self.answers))


class Plt(Baseline):
    """napkinXC's probabilistic label tree. (Its online variant, OPLT, is not part of the Python package.)"""

    name, title = "plt", "napkinXC PLT"
    kinds = frozenset({"classes", "labels"})
    needs = ("napkinxc",)
    logarithmic = True

    def fit(self, data: Dataset) -> None:
        from napkinxc.models import PLT

        self.kind, self.answers = data.kind, data.answers
        self.folder = tempfile.TemporaryDirectory()
        self.model = PLT(str(Path(self.folder.name) / "model"), seed=self.seed, threads=1)
        sets = data.truth[:, None].tolist() if data.kind == "classes" else data.truth.tolil().rows.tolist()
        self.model.fit(sp.csr_matrix(data.train), sets)
        self.model.load()

    def predict(self, rows: Rows, k: int = 1) -> Truth:
        found = self.model.predict(sp.csr_matrix(rows), top_k=k)
        ranked = np.array([(list(own) + k * [-1])[:k] for own in found], np.int64)
        return ranked[:, 0] if self.kind == "classes" else ranked

    def label_sets(self, rows: Rows) -> Truth:
        found = self.model.predict(sp.csr_matrix(rows), top_k=0, threshold=0.5)
        bounds = np.cumsum([0, *map(len, found)])
        columns = np.array([label for own in found for label in own], np.int64)
        return sp.csr_matrix((np.ones(len(columns), np.int64), columns, bounds), (len(found), self.answers))
