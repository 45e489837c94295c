"""MemoryTreeClassifier: a scikit-learn classifier that remembers its rows and can say which of them it answers by."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from memorytree.cores import ENOUGH_KEYS
from memorytree.engine.arrays import NONE
from memorytree.errors import InvalidOption
from memorytree.estimators.classes import ClassModel
from memorytree.estimators.remembering import DISCRETE, Remembering, all_or_nothing
from memorytree.estimators.sparse_classes import SparseClassModel
from memorytree.forest import MemoryForest
from memorytree.hits import HitMatrix
from memorytree.options import whole
from memorytree.progress import track
from memorytree.tree import MemoryTree

# NumPy would make texts of numbers that meet texts; objects are texts, or scikit-learn refuses them.
KINDS = {"U": "texts", "O": "texts", "S": "bytes"}
SUPERVISION = ("none", "reward", "labels")
LEAST = {"passes": 0, "neighbors": 1, "beam": 1, "trees": 1, "capacity": 1}
MAY_BE_NONE = ("passes", "beam", "capacity")
# Rows that are looked at together before any of them teaches.
BATCH = 64
REWARDED = 10
# With rewards for sparse rows, so many times log2 n memories are returned and rewarded.
ASKED = 8


class MemoryTreeClassifier(Remembering):
    """Classify by the memories that fit best.

    Every training row is a memory. A prediction looks at a few of them, in time logarithmic in their number, and mixes their
    votes with linear weights for the labels they carry. New rows and new classes may come at any time (`partial_fit`).

    Args:
        supervision: what the memory learns from: "labels" (the space in which rows are compared, the linear weights, and how
            to mix them with the votes), "reward" (the space only, from whether each returned memory had the right label; the
            answer is the best memory's label), or "none" (the same answer from keys alone).
        passes: how often `fit` goes over the rows after they have been stored; by default 5 times over dense rows and 3
            times over sparse ones, whose linear weights take larger steps.
        neighbors: how many memories have a say (10 of them are rewarded where supervision is "reward").
        beam: how many leaves are looked into, by default 2.5 log2(n); for sparse rows how many times as many term lists as
            usual, by default once.
        trees: more than one makes a forest: fewer memories are overlooked, at a cost in time and space.
        capacity: how many rows to remember at the most; those that were of no use for longest go first.
        verbose: 1 shows a progress bar during `fit`.
        random_state: fixes what is left to chance.

    Attributes:
        memory_: the `MemoryTree` with the rows; values are labels, ids count rows in the order in which they came. Sparse
            rows that hold more than a tenth of all features, and more than eight, are measurements, not words: they are
            kept dense.

    Example:
        >>> from sklearn.datasets import load_digits
        >>> X, y = load_digits(return_X_y=True)
        >>> model = MemoryTreeClassifier(random_state=0).fit(X[:1500], y[:1500])
        >>> bool(model.score(X[1500:], y[1500:]) > 0.9)
        True
        >>> len(model.recall(X[1500:1501])[0])  # the memories behind the first prediction
        20
    """

    def __init__(
        self,
        *,
        supervision: str = "labels",
        passes: int | None = None,
        neighbors: int = 20,
        beam: int | None = None,
        trees: int = 1,
        capacity: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ):
        self.supervision = supervision
        self.passes = passes
        self.neighbors = neighbors
        self.beam = beam
        self.trees = trees
        self.capacity = capacity
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ---- learning

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> Self:
        """Remember all rows, then go over them `passes` times, each time without a row's own memory."""
        X, y = self._checked(X, y, reset=True)
        self._start(X)
        codes = self._codes(y)
        # Stored in a random order, whatever order the rows came in; a row's id is its number all the same.
        order = self._chance.permutation(len(codes))
        self._store(X[order], codes[order], order)
        self._follow()
        if self.supervision != "none":
            batches = range(0, len(order), BATCH)
            passes = self.passes if self.passes is not None else 5 if self._dense else 3
            for number, first in track(list(enumerate(passes * list(batches))), "learning", bool(self.verbose)):
                if first == 0:
                    order = self._chance.permutation(len(codes))
                rows = order[first : first + BATCH]
                self._learn(X[rows], codes[rows], rows, True, number < len(batches))
                if (number + 1) % len(batches) == 0:
                    self.memory_.learn()
        return self

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from more rows, then remember them.

        Args:
            X: the rows.
            y: their labels, known or new.
            classes: labels to expect; not needed, here because scikit-learn's own tools pass it.
        """
        new = not hasattr(self, "memory_")
        X, y = self._checked(X, y, reset=new)
        if new:
            self._start(X)
        codes = self._codes(y, () if classes is None else classes)
        first = 0
        while first < len(codes):
            # A small memory takes few rows at a time, so that it learns from each.
            rows = slice(first, first + max(1, min(BATCH, len(self.memory_) // 16)))
            some = X if len(codes) == 1 else X[rows]  # a slice of a sparse matrix takes long
            if self.supervision != "none" and len(self.memory_):
                self._learn(some, codes[rows], None, self._knows_enough())
            self._store(some, codes[rows], None)
            if self._follow() and self.supervision == "labels":
                ids = self._chance.permutation(self._own_ids())
                self._learn(np.stack([self.memory_.key(id) for id in ids.tolist()]), self._labels[ids], ids, False)
            first = rows.stop
        return self

    def _checked(self, X: Any, y: Any, reset: bool) -> tuple[Any, np.ndarray]:
        """Rows and labels as arrays, after scikit-learn's checks and ours."""
        if self.supervision not in SUPERVISION:
            raise InvalidOption(f"supervision must be one of {', '.join(SUPERVISION)}, not {self.supervision!r}")
        for name, least in LEAST.items():
            if getattr(self, name) is not None or name not in MAY_BE_NONE:
                whole(name, getattr(self, name), least)
        X, y = self._rows(X, np.asarray(y) if type(y) is list else y, reset=reset)
        # Of whole numbers and texts nothing could be said but that there are many: nothing strange to a memory.
        if y.dtype.kind not in DISCRETE:
            check_classification_targets(y)
        if scipy.sparse.issparse(X) and self.trees > 1 and self.supervision == "reward":
            raise InvalidOption(
                'sparse rows with supervision="reward" have term lists, of which there is no forest: trees=1'
            )
        return X, np.asarray(y)

    def _start(self, X: Any) -> None:
        """An empty memory for rows like these."""
        self._chance = check_random_state(self.random_state)
        self._dense = not scipy.sparse.issparse(X)
        self._settings: dict[str, Any] = {
            "scorer": "metric" if self._dense or self.supervision == "reward" else "cosine",
            "reroutes": 1,
            "seed": int(self._chance.randint(2**31)),
            "capacity": self.capacity,
            **({} if self.trees == 1 else {"trees": self.trees}),
        }
        self._face = MemoryTree if self.trees == 1 else MemoryForest
        self.memory_ = self._face(**self._settings)
        self._known: dict[Any, int] = {}
        self._names: list[Any] = []
        self._labels = np.full(1024, NONE, np.int64)  # the label of each memory, by its id
        self._model: Any = ClassModel(0) if self._dense else SparseClassModel()
        self._settled = 0  # how many memories had come when the space was found in which the model's weights are
        self._planted = 0  # memories when the trees were last planted
        self._dtype: Any = None  # of the labels

    def _codes(self, y: np.ndarray, expected: Any = ()) -> np.ndarray:
        """Labels as numbers, in the order in which they first came; those expected are noted before."""
        expected = np.asarray(expected) if len(expected) else y[:0]
        if expected.ndim != 1:
            raise InvalidOption(f"classes must be a list of labels, not an array of shape {expected.shape}")
        dtypes = [expected.dtype, y.dtype, y.dtype if self._dtype is None else self._dtype]
        kinds = {KINDS.get(dtype.kind, "numbers") for dtype in dtypes}
        if len(kinds) > 1:
            raise InvalidOption(f"labels are all of one kind, not {' and '.join(sorted(kinds))}")
        self._dtype = np.result_type(*dtypes)
        for name in [*expected.tolist(), *y.tolist()]:
            if name not in self._known:
                self._known[name] = len(self._names)
                self._names.append(name)
        self._model.make_room(len(self._names))
        return np.array([self._known[name] for name in y.tolist()], np.int64)

    @property
    def classes_(self) -> np.ndarray:
        """The labels seen so far, sorted."""
        if not hasattr(self, "_names"):
            raise AttributeError("classes_ is known once the classifier is fitted")
        return np.sort(np.array(self._names, self._dtype))

    def _store(self, X: Any, codes: np.ndarray, ids: np.ndarray | None) -> None:
        """Remember rows. A whole batch into an empty memory is built top-down."""
        names = [self._names[code] for code in codes.tolist()]
        labels = codes.tolist() if self.supervision == "labels" else None
        if ids is not None and (self.capacity is None or len(ids) <= self.capacity):
            self.memory_ = self._face.build(X, names, ids=ids, labels=labels, **self._settings)
        else:
            ids = self.memory_.insert_many(X, names, ids=ids, labels=labels)
        while len(self._labels) <= ids.max():
            self._labels = np.concatenate([self._labels, np.full_like(self._labels, NONE)])
        self._labels[ids] = codes
        self._model.join(codes, ids, self._view(X))

    def _knows_enough(self) -> bool:
        """Whether the memory may learn how to compare dense rows: what is seen of fewer is about to change. A small capacity
        waits for no more than it holds if the memory is all that learns; linear weights lose more by it than they gain."""
        capacity = self._settings["capacity"] if self.supervision == "reward" else None
        return not self._dense or len(self.memory_) >= min(ENOUGH_KEYS, capacity or ENOUGH_KEYS)

    def _learn(self, X: Any, codes: np.ndarray, own: np.ndarray | None, space: bool, first_pass: bool = True) -> None:
        """Learn from rows whose labels are known; `own` are their memories where they are stored already, `space` tells
        whether the memory is to learn as well how to compare them."""
        # Where to aim in the space of sparse keys is learned from many memories at a time.
        many = self.supervision == "reward" and not self._dense
        k = math.ceil(ASKED * math.log2(len(self.memory_) + 2)) if many else None
        hits = self._ask(X, None if own is None else own[:, None], k)
        if self.supervision == "labels":
            self._model.learn(hits.ids, hits.scores, self._labels, codes, self._view(X), own, first_pass)
        if space:
            rewards = (self._labels[hits.ids] == codes[:, None]).astype(np.float64)
            rewards[hits.ids == NONE] = np.nan
            if not self._dense and not many:
                rewards[:, REWARDED:] = np.nan  # the first few are those that words decide about
            self.memory_.update_many(hits, rewards)

    # ---- predicting

    def _ask(self, X: Any, exclude: Any = None, k: int | None = None) -> HitMatrix:
        """The memories that fit each row."""
        if k is None:
            k = whole("neighbors", self.neighbors, 1)
            k = min(k, REWARDED) if self.supervision == "reward" else k
        k = min(k, max(len(self.memory_), 1))
        usual = math.ceil(2.5 * math.log2(len(self.memory_) + 2)) if self._dense else 1
        beam = usual if self.beam is None else self.beam
        return self._own_hits(self.memory_.query_many(X, k, beam=beam, exclude=exclude))

    def _notes(self) -> np.ndarray:
        return self._labels

    def _view(self, X: Any) -> Any:
        """What the model of the classes sees of rows: the learned space, or the sparse rows themselves."""
        batch, n = self.memory_._keys.many(X)
        if not self._dense:
            return batch
        return self.memory_._core.seen(batch) if self._settled else np.zeros((n, 0), np.float32)

    def _chances(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """For each row the labels its memories carry, as numbers, and their probabilities."""
        X = self._asked(X)
        hits = self._ask(X)
        if self.supervision != "labels":
            labels = np.where(hits.ids == NONE, NONE, self._labels[hits.ids])
            chances = np.eye(1, labels.shape[1]).repeat(len(labels), axis=0)
        else:
            labels, chances = self._model.score(hits.ids, hits.scores, self._labels, self._view(X))
        # Where nothing was found but what others put in, all that is known is which label is the most frequent.
        silent = labels[:, 0] == NONE
        labels[silent, 0], chances[silent, 0] = self._model.counts.argmax(), 1.0
        return labels, chances

    def predict(self, X: Any) -> np.ndarray:
        """The likeliest label of each row."""
        labels, chances = self._chances(X)
        best = labels[np.arange(len(labels)), chances.argmax(axis=1)]
        return np.array([self._names[code] for code in best.tolist()], self._dtype)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each of `classes_`; those that no memory behind the prediction carries have none."""
        labels, chances = self._chances(X)
        columns = np.argsort(np.argsort(np.array(self._names, self._dtype)))
        dense = np.zeros((len(labels), len(columns)))
        rows, places = np.nonzero(labels != NONE)
        np.add.at(dense, (rows, columns[labels[rows, places]]), chances[rows, places])
        return dense
