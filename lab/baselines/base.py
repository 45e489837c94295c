"""The interface of a baseline: a system that learns from training rows and predicts for other rows.

A baseline of your own is a class of a few lines. This one predicts the class whose mean is nearest:

    class NearestMean(Baseline):
        name, title = "nearest-mean", "Nearest class mean"
        kinds, keys = frozenset({"classes"}), frozenset({"dense"})

        def fit(self, data):
            self.means = np.stack([data.train[data.truth == c].mean(axis=0) for c in range(data.truth.max() + 1)])

        def predict(self, rows, k=1):
            return (self.means @ rows.T - (self.means**2).sum(axis=1)[:, None] / 2).argmax(axis=0)

`measure("package.module:NearestMean", "omniglot-15")` runs it; `BASELINES[NearestMean.name] = NearestMean` gives it a short
name for `measure`, and `./mt lab run few-shot --baseline package.module:NearestMean` adds it to the tables. Each run is a
process of its own that imports the class, so the class must be in a module. See docs/lab.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lab.datasets import Dataset, Rows, Truth
from memorytree.errors import InvalidOption
from memorytree.estimators.metrics import hamming_loss

ALL_KINDS = frozenset({"classes", "labels", "retrieval"})


class Baseline(ABC):
    """A system that the lab measures.

    Attributes:
        name: on the command line.
        title: in tables.
        kinds: of data sets that it can take: "classes", "labels", "retrieval".
        keys: that it can take: "dense", "sparse".
        needs: modules that it imports; if one is not installed, the status of a run is "missing".
        reads: "rows" for keys; "texts" for the texts of the keys; "either" for texts if there are any, else keys.
        linear: whether its time is linear in the memories or the classes; it then runs with one seed.
        logarithmic: whether it claims logarithmic time.
        incremental: whether `learn_one` works, also without a `fit` before it.
        grows: whether `learn_one` works after a `fit`.
        batches: whether it predicts many rows faster than one at a time.
        defaults: its options with their default values; other options are an error.
        excluded_s: CPU seconds of `fit` that are not learning, such as writing files in its own format.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    kinds: ClassVar[frozenset[str]] = ALL_KINDS
    keys: ClassVar[frozenset[str]] = frozenset({"dense", "sparse"})
    needs: ClassVar[tuple[str, ...]] = ()
    reads: ClassVar[str] = "rows"
    linear: ClassVar[bool] = False
    logarithmic: ClassVar[bool] = False
    incremental: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    batches: ClassVar[bool] = True
    defaults: ClassVar[dict[str, Any]] = {}
    excluded_s: float = 0.0

    def __init__(self, seed: int = 0, **options: Any):
        unknown = [name for name in options if name not in self.defaults]
        if unknown:
            known = ", ".join(self.defaults) or "none"
            raise InvalidOption(f"{self.name} has no option {', '.join(unknown)}; it has {known}")
        self.seed = seed
        self.options = {**self.defaults, **options}

    # ---- learning

    def prepare(self, data: Dataset) -> None:  # noqa: B027  (optional: most baselines need no preparation)
        """Do what is not timed before `fit`: compile, store the number of classes."""

    @abstractmethod
    def fit(self, data: Dataset) -> None:
        """Learn from all training rows."""

    def learn_one(self, x: Rows, truth: Truth) -> None:
        """Learn one more row: a matrix of one row, and its class, label set or features."""
        raise InvalidOption(f"{self.name} cannot learn one row at a time")

    # ---- predicting

    def encode(self, rows: Rows) -> Rows:
        """Convert rows to the form that this baseline reads; this is not timed. `predict` takes either form."""
        return rows

    @abstractmethod
    def predict(self, rows: Rows, k: int = 1) -> Truth:
        """Predict rows.

        Returns:
            Classes (n,); or, best first, label numbers padded with -1 or numbers of training rows, (n, k). None if it
            cannot rank labels.
        """

    def label_sets(self, rows: Rows) -> Truth:
        """Predict label sets as a CSR indicator matrix; None if it cannot."""
        return None

    def hamming(self, rows: Rows, truth: Truth) -> float | None:
        """Return the mean number of wrong labels a row; None if it predicts no label sets."""
        sets = self.label_sets(rows)
        return None if sets is None else hamming_loss(truth, sets)

    # ---- optional, for the table of desiderata

    def nearest_ids(self, rows: Rows, k: int = 1) -> np.ndarray | None:
        """Return the numbers of the nearest training rows, (n, k), best first; None if it stores no rows."""
        return None

    def remove(self, row: int) -> None:
        """Remove the training row with this number."""
        raise InvalidOption(f"{self.name} cannot remove rows")

    def bytes(self) -> int | None:
        """Return its size after learning, without the data set; None if the growth of the process is to be used."""
        return None


class ColumnSubset:
    """Reduces sparse rows to the columns that occur in some rows: hashed keys have a million columns, most of them empty."""

    def __init__(self, rows: Rows):
        used = np.unique(rows.indices)
        self.width = len(used)
        self._column = np.full(rows.shape[1], -1, np.int32)
        self._column[used] = np.arange(len(used))

    def __call__(self, rows: Rows) -> Rows:
        columns = self._column[rows.indices]
        known = columns >= 0
        bounds = np.concatenate([[0], np.cumsum(known)])[rows.indptr]
        return sp.csr_matrix((rows.data[known], columns[known], bounds), (rows.shape[0], self.width))


class GrowableArray:
    """An array to which rows can be appended; it refers to the given array until the first row is appended."""

    def __init__(self, rows: np.ndarray):
        self._buffer, self._count = rows, len(rows)

    @property
    def rows(self) -> np.ndarray:
        """The rows."""
        return self._buffer[: self._count]

    def append(self, row: Any) -> None:
        """Append a row, in amortised constant time."""
        if self._count == len(self._buffer):
            buffer = np.empty((max(64, 2 * self._count), *self._buffer.shape[1:]), self._buffer.dtype)
            buffer[: self._count] = self._buffer
            self._buffer = buffer
        self._buffer[self._count] = row
        self._count += 1


class NeighbourBaseline(Baseline):
    """A baseline that finds training rows and predicts from their classes, label sets or values.

    The class is that of the best row. Labels are a vote of several rows (20, or 40 if there are 1,000 labels or more),
    weighted by the 4th power of their similarity; label sets are the labels with more than half of the votes.
    """

    defaults: ClassVar[dict[str, Any]] = {"voters": None}
    kind: str = "classes"
    truth: Any = None

    @abstractmethod
    def nearest(self, rows: Rows, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of training rows, best first, padded with -1, and their similarities (0 to 1 for votes)."""

    def store_truth(self, data: Dataset) -> None:
        """Store the truth of all training rows; `fit` calls it."""
        self.kind = data.kind
        self.truth = data.truth if data.kind == "labels" else GrowableArray(data.truth)

    def append_truth(self, truth: Truth) -> None:
        """Store the truth of one more row; `learn_one` calls it."""
        if self.kind == "labels":
            raise InvalidOption(f"{self.name} cannot learn label sets one row at a time")
        if self.truth is None:
            self.truth = GrowableArray(np.empty((0, *np.shape(truth)), np.asarray(truth).dtype))
        self.truth.append(truth)

    def predict(self, rows: Rows, k: int = 1) -> Truth:
        rows = self.encode(rows)
        if self.kind == "labels":
            return top_columns(self.votes(rows), k)
        found = self.nearest(rows, k)[0]
        if self.kind == "retrieval":
            return np.maximum(found, 0)
        return self.truth.rows[np.maximum(found[:, 0], 0)]

    def nearest_ids(self, rows: Rows, k: int = 1) -> np.ndarray | None:
        return self.nearest(self.encode(rows), k)[0]

    def label_sets(self, rows: Rows) -> Truth:
        votes = self.votes(self.encode(rows))
        kept = sp.csr_matrix(votes > 0.5).astype(np.int64)
        kept.eliminate_zeros()
        return kept

    def votes(self, rows: Rows) -> Any:
        """Return the share of the votes of each label, as a CSR matrix."""
        voters = self.options["voters"] or (20 if self.truth.shape[1] < 1000 else 40)
        found, alike = self.nearest(rows, min(voters, self.truth.shape[0]))
        weights = np.where(found < 0, 0, np.clip(alike, 0, None)) ** 4
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
        bounds = np.arange(len(found) + 1) * found.shape[1]
        columns = np.maximum(found, 0).ravel()
        return sp.csr_matrix((weights.ravel(), columns, bounds), (len(found), self.truth.shape[0])) @ self.truth


def top_columns(chances: Any, k: int) -> np.ndarray:
    """Return the columns of the k largest entries of each row of a CSR matrix, largest first, padded with -1."""
    ranked = np.full((chances.shape[0], k), -1)
    for row, (first, last) in enumerate(zip(chances.indptr[:-1], chances.indptr[1:], strict=True)):
        order = np.argsort(-chances.data[first:last], kind="stable")[:k]
        ranked[row, : len(order)] = chances.indices[first:last][order]
    return ranked
