"""What a peer is: anything that learns from rows and answers for others, behind one small face.

A peer of your own is a class of a few lines. This one answers with the class whose mean is nearest:

    class NearestMean(Peer):
        name, title = "nearest-mean", "Nearest class mean"
        kinds, keys = frozenset({"classes"}), frozenset({"dense"})

        def fit(self, data):
            self.means = np.stack([data.train[data.truth == c].mean(axis=0) for c in range(data.truth.max() + 1)])

        def predict(self, rows, k=1):
            return (self.means @ rows.T - (self.means**2).sum(axis=1)[:, None] / 2).argmax(axis=0)

`measure("package.module:NearestMean", "omniglot-15")` runs it; `PEERS[NearestMean.name] = NearestMean` gives it a name, so
that `measure("nearest-mean", "omniglot-15")` does too, and `memorytree lab run few-shot --peer package.module:NearestMean`
has it in the tables. Each run is a process of its own, which imports the class: it must be in a module. See docs/lab.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from memorytree.errors import InvalidOption
from memorytree.estimators.metrics import hamming_loss
from memorytree.lab.datasets import Dataset

ALL_KINDS = frozenset({"classes", "labels", "retrieval"})


class Peer(ABC):
    """One system beside the others.

    Attributes:
        name: what it is called on the command line.
        title: what it is called in tables.
        kinds: of data sets it can take: "classes", "labels", "retrieval".
        keys: it can take: "dense", "sparse".
        needs: modules it needs; where one is absent, a run says "missing".
        reads: "rows"; "texts" if it is given the texts instead of keys; "either" if it takes keys where there are no texts.
        linear: whether its time is linear in the memories or the classes; one seed is enough then.
        logarithmic: whether it claims logarithmic time.
        incremental: whether `learn_one` works, also without a `fit` before it.
        grows: whether `learn_one` works after a `fit`.
        batches: whether it answers many rows faster than one at a time.
        defaults: its options; others are refused.
        uncounted_s: CPU seconds of `fit` that are not learning, such as the writing of files in its own format.
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
    uncounted_s: float = 0.0

    def __init__(self, seed: int = 0, **options: Any):
        unknown = [name for name in options if name not in self.defaults]
        if unknown:
            known = ", ".join(self.defaults) or "none"
            raise InvalidOption(f"{self.name} has no option {', '.join(unknown)}; it has {known}")
        self.seed = seed
        self.options = {**self.defaults, **options}

    # ---- learning

    def prepare(self, data: Dataset) -> None:  # noqa: B027  # most have nothing to prepare
        """What comes before the clock starts: compiling, noting how many classes there will be."""

    @abstractmethod
    def fit(self, data: Dataset) -> None:
        """Learn from all training rows."""

    def learn_one(self, x: Any, truth: Any) -> None:
        """Learn one more row: a matrix with one row, and its class, label set or features."""
        raise InvalidOption(f"{self.name} cannot learn one row at a time")

    # ---- answering

    def ready(self, rows: Any) -> Any:
        """Rows in the form in which this peer takes them; the time for it is not counted. `predict` takes either form."""
        return rows

    @abstractmethod
    def predict(self, rows: Any, k: int = 1) -> Any:
        """The answers for rows: classes (n,); or (n, k), best first: label numbers padded with -1, or numbers of training
        rows. None if there are labels that it cannot rank."""

    def label_sets(self, rows: Any) -> Any:
        """The label sets predicted, as a CSR indicator matrix; None if it cannot say."""
        return None

    def hamming(self, rows: Any, truth: Any) -> float | None:
        """The mean number of wrong labels in a row, if it can be known."""
        sets = self.label_sets(rows)
        return None if sets is None else hamming_loss(truth, sets)

    # ---- for the table of desiderata

    def memories(self, rows: Any, k: int = 1) -> np.ndarray | None:
        """The numbers of the training rows that come to its mind, (n, k), best first; None if it keeps no rows."""
        return None

    def remove(self, row: int) -> None:
        """Forget the training row with this number."""
        raise InvalidOption(f"{self.name} cannot forget")

    def bytes(self) -> int | None:
        """What it holds after learning, without the data set it was given; None: the growth of the process is taken."""
        return None


class Narrow:
    """Sparse rows with only those columns that occur among some: hashed keys have a million, most of them empty."""

    def __init__(self, rows: Any):
        used = np.unique(rows.indices)
        self.width = len(used)
        self._column = np.full(rows.shape[1], -1, np.int32)
        self._column[used] = np.arange(len(used))

    def __call__(self, rows: Any) -> Any:
        columns = self._column[rows.indices]
        known = columns >= 0
        bounds = np.concatenate([[0], np.cumsum(known)])[rows.indptr]
        return sp.csr_matrix((rows.data[known], columns[known], bounds), (rows.shape[0], self.width))


class Growing:
    """Rows of an array that may become more; until then it is the array that was given, not a copy."""

    def __init__(self, rows: np.ndarray):
        self._room, self._count = rows, len(rows)

    @property
    def rows(self) -> np.ndarray:
        """All rows."""
        return self._room[: self._count]

    def append(self, row: Any) -> None:
        """One more row, in amortised constant time."""
        if self._count == len(self._room):
            room = np.empty((max(64, 2 * self._count), *self._room.shape[1:]), self._room.dtype)
            room[: self._count] = self._room
            self._room = room
        self._room[self._count] = row
        self._count += 1


class Rememberer(Peer):
    """A peer that finds training rows; what it answers is made of what is true of these.

    A class is that of the best row. Labels are voted for by some rows (20; 40 where there are 1,000 labels or more), weighed
    by their similarity to the 4th power, and those with more than half of the votes are taken.
    """

    defaults: ClassVar[dict[str, Any]] = {"voters": None}
    kind: str = "classes"
    truth: Any = None

    @abstractmethod
    def nearest(self, rows: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of training rows, best first, and how similar they are (0 to 1, where votes are asked for); -1 pads."""

    def remember(self, data: Dataset) -> None:
        """Note what is true of all training rows; `fit` calls it."""
        self.kind = data.kind
        self.truth = data.truth if data.kind == "labels" else Growing(data.truth)

    def remember_one(self, truth: Any) -> None:
        """Note what is true of one more row; `learn_one` calls it."""
        if self.kind == "labels":
            raise InvalidOption(f"{self.name} cannot learn label sets one row at a time")
        if self.truth is None:
            self.truth = Growing(np.empty((0, *np.shape(truth)), np.asarray(truth).dtype))
        self.truth.append(truth)

    def predict(self, rows: Any, k: int = 1) -> Any:
        rows = self.ready(rows)
        if self.kind == "labels":
            return best_of(self.votes(rows), k)
        found = self.nearest(rows, k)[0]
        if self.kind == "retrieval":
            return np.maximum(found, 0)
        return self.truth.rows[np.maximum(found[:, 0], 0)]

    def memories(self, rows: Any, k: int = 1) -> np.ndarray | None:
        return self.nearest(self.ready(rows), k)[0]

    def label_sets(self, rows: Any) -> Any:
        votes = self.votes(self.ready(rows))
        kept = sp.csr_matrix(votes > 0.5).astype(np.int64)
        kept.eliminate_zeros()
        return kept

    def votes(self, rows: Any) -> Any:
        """The share of the votes that each label has, as a CSR matrix."""
        voters = self.options["voters"] or (20 if self.truth.shape[1] < 1000 else 40)
        found, alike = self.nearest(rows, min(voters, self.truth.shape[0]))
        weights = np.where(found < 0, 0, np.clip(alike, 0, None)) ** 4
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
        bounds = np.arange(len(found) + 1) * found.shape[1]
        columns = np.maximum(found, 0).ravel()
        return sp.csr_matrix((weights.ravel(), columns, bounds), (len(found), self.truth.shape[0])) @ self.truth


def best_of(chances: Any, k: int) -> np.ndarray:
    """The columns of the k largest entries of each row of a CSR matrix, largest first; -1 where there are no more."""
    ranked = np.full((chances.shape[0], k), -1)
    for row, (first, last) in enumerate(zip(chances.indptr[:-1], chances.indptr[1:], strict=True)):
        order = np.argsort(-chances.data[first:last], kind="stable")[:k]
        ranked[row, : len(order)] = chances.indices[first:last][order]
    return ranked
