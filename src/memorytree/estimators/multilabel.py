"""MemoryTreeMultilabelClassifier: labels of the memories that come to mind, decided one against some."""

from __future__ import annotations

import math
from copy import deepcopy
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse
from sklearn.utils import check_random_state

from memorytree.cores import ENOUGH_KEYS
from memorytree.engine.arrays import NONE
from memorytree.errors import InvalidOption
from memorytree.estimators.label_sets import LabelNames, SetsById, taken
from memorytree.estimators.labels import LabelModel
from memorytree.estimators.metrics import micro_f1
from memorytree.estimators.remembering import Remembering, all_or_nothing
from memorytree.estimators.votes import CANDIDATES
from memorytree.hits import HitMatrix
from memorytree.options import whole
from memorytree.progress import track
from memorytree.routing.terms import terms
from memorytree.tree import MemoryTree

TARGETS = ("hamming", "f1")
# Rows that are looked at together before any of them teaches.
BATCH = 256
# `fit` teaches the memory by this part of the rows, and learns to mix the figures of labels from the rest, which is asked
# for when the memory has learned; for either it takes no fewer rows than this, if there are so many.
TAUGHT = 0.75
LEAST_TAUGHT, LEAST_MIXED = 2048, 1024
# How often it is taught by them: a space takes longer to learn than the importance of terms, to which the first so many of
# the memories that a row brings are enough.
LESSONS, DENSE_LESSONS, REWARDED = 1, 2, 32
# How the figures of a label are mixed is learned from no more rows than this; they are gone over twice, few of them up to
# so many times.
MIXED, MIXING = 32_768, 6
# How often the weights of labels go over a batch of rows that come once, or over all memories once more.
VISITS = 3
# So many pairs of rows and labels are learned from between two steps of a progress bar.
PAIRS = 2**17
# Label sets overlap by degrees, so the softmax over memories is to be a soft one.
TEMPERATURE = 5.0
# With this many memories to have a say, the lists of a row's five heaviest terms bring enough to choose from.
HOMES = 5
# Cosines in a learned space lie close together; powers of exp(DENSE_SHARPNESS (cosine - 1)) tell them apart.
DENSE_SHARPNESS = 3.0
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class MemoryTreeMultilabelClassifier(Remembering):
    """Give a row some of the labels of the memories that fit it best.

    Every training row is a memory. A prediction looks at a few of them, in time logarithmic in their number; their labels
    are the candidates, and linear weights for each label, mixed with the votes of the memories, decide which to take.
    The memory learns which rows to return from how well their labels agree (the F1 score of two label sets is the reward).
    New rows and labels may come at any time (`partial_fit`).

    Labels are given as an indicator matrix, a NumPy array or SciPy sparse matrix with a column for each label, or as a list
    of labels for each row; what `predict` returns is of the same kind.

    Args:
        target: what `predict` is to be good at: "hamming" (few labels wrong: those with a probability above one half) or
            "f1" (the F1 score of all decisions: the threshold that was best on training rows, judged by weights that had
            not learned from them).
        passes: how often `fit` goes over the rows to learn the linear weights of labels.
        neighbors: how many memories have a say.
        beam: how many leaves are looked into, by default 2.5 log2(n); for sparse rows how many times as many term lists as
            usual, by default once.
        capacity: how many rows to remember at the most; those that were of no use for longest go first.
        verbose: 1 shows a progress bar during `fit`.
        random_state: fixes what is left to chance.

    Attributes:
        memory_: the `MemoryTree` with the rows; values are lists of labels, ids count rows in the order in which they came.

    Example:
        >>> from sklearn.feature_extraction.text import TfidfVectorizer
        >>> titles = ["bread and cake", "a history of bread", "history of rome", "rome in pictures"] * 5
        >>> subjects = [["baking"], ["baking", "history"], ["history", "rome"], ["rome"]] * 5
        >>> words = TfidfVectorizer()
        >>> model = MemoryTreeMultilabelClassifier(random_state=0).fit(words.fit_transform(titles), subjects)
        >>> model.predict(words.transform(["bread in history"]))
        [['baking', 'history']]
        >>> labels, scores = model.predict_topk(words.transform(["pictures of rome"]), k=2)
        >>> labels.tolist()
        [['rome', 'history']]
    """

    def __init__(
        self,
        *,
        target: str = "hamming",
        passes: int = 4,
        neighbors: int = 56,
        beam: int | None = None,
        capacity: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ):
        self.target = target
        self.passes = passes
        self.neighbors = neighbors
        self.beam = beam
        self.capacity = capacity
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    # ---- learning

    @all_or_nothing
    def fit(self, X: Any, y: Any) -> Self:
        """Remember all rows, teach the memory which of them belong together, then learn the scores of labels.

        Wherever a row is learned from, its own memory is left out.
        """
        X = self._checked(X, reset=True)
        sets = self._start(X, y)
        # Stored in a random order, whatever order the rows came in; a row's id is its number all the same.
        arrival = self._chance.permutation(X.shape[0])
        self._store(X[arrival], taken(sets, arrival), arrival)
        own = np.arange(X.shape[0])
        answers, order = self._no_answers(len(own)), self._chance.permutation(own)
        taught = max(int(TAUGHT * len(own)), LEAST_TAUGHT)
        mixed = max(len(own) - taught, LEAST_MIXED)
        lessons, most = (DENSE_LESSONS, self._k()) if self._dense else (LESSONS, REWARDED)
        for _ in range(lessons):
            for rows in self._batches(order[:taught], "teaching the memory"):
                self._teach(self._ask_for(rows, X, own, answers, roughly=not self._dense), taken(sets, rows), most)
            if self._dense:
                self.memory_.learn()
        self._follow()
        self._learn_scores(X, sets, own, self.passes, answers, order[-mixed:])
        return self

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from more rows, then remember them.

        Args:
            X: the rows.
            y: their labels, known or new.
            classes: not needed, here because scikit-learn's own tools pass it.
        """
        new = not hasattr(self, "memory_")
        X = self._checked(X, reset=new)
        sets = self._start(X, y) if new else self._label_sets(y, X.shape[0])
        first = 0
        while first < X.shape[0]:
            # A small memory takes few rows at a time, so that it learns from each.
            rows = np.arange(first, min(first + max(1, min(BATCH, len(self.memory_) // 16)), X.shape[0]))
            truth = taken(sets, rows)
            if len(self.memory_):
                hits = self._ask(X[rows])
                self._learn(hits, truth, self._view(X[rows]), self._came + np.arange(len(rows)))
                if not self._dense or len(self.memory_) >= ENOUGH_KEYS:
                    self._teach(hits, truth, self._k())
            self._store(X[rows], truth, None)
            if self._follow():
                self._learn_again()
            first = int(rows[-1]) + 1
        return self

    def _checked(self, X: Any, reset: bool) -> Any:
        """Rows as a matrix, after scikit-learn's checks; and our own settings."""
        if self.target not in TARGETS:
            raise InvalidOption(f"target must be one of {', '.join(TARGETS)}, not {self.target!r}")
        whole("passes", self.passes, 0)
        whole("neighbors", self.neighbors, 1)
        if self.beam is not None:
            whole("beam", self.beam, 1)
        return self._rows(X, reset=reset)

    def _start(self, X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
        """An empty memory for rows and labels like these; returns the labels as numbers."""
        if Y is None:
            raise InvalidOption("requires y to be passed, but the target y is None")
        names = LabelNames(Y)
        sets = names.read(Y, X.shape[0])
        dense, chance = not scipy.sparse.issparse(X), check_random_state(self.random_state)
        settings: dict[str, Any] = {
            "routing": "auto" if dense else terms(temperature=TEMPERATURE, homes=HOMES),
            "scorer": "metric" if dense else "cosine",
            "reroutes": 1,
            "seed": int(chance.randint(2**31)),
            "capacity": self.capacity,
        }
        self.memory_ = MemoryTree(**settings)
        self._dense, self._chance, self._settings, self._names = dense, chance, settings, names
        self._sets = SetsById()
        self._model = LabelModel(len(names), 0 if self._dense else X.shape[1])
        self._came = 0  # how many rows have come
        self._tidied = 0  # and how many of them when the label sets of forgotten ones were last let go
        self._settled = 0  # how many memories had come when the space was found in which the model's weights are
        self._planted = 0  # memories when the trees were last planted
        return sets

    def _label_sets(self, Y: Any, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Labels as numbers; the model gets room for those that are new."""
        sets = self._names.read(Y, rows)
        self._model.make_room(len(self._names))
        return sets

    @property
    def classes_(self) -> np.ndarray:
        """The labels seen so far: the columns of the indicator matrix, or all labels that came in lists, sorted."""
        if not hasattr(self, "_names"):
            raise AttributeError("classes_ is known once the classifier is fitted")
        return self._names.sorted_names()

    def _batches(self, rows: np.ndarray, what: str) -> Any:
        """Rows, some at a time, in a random order."""
        order = self._chance.permutation(rows)
        batches = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
        return track(batches, what, bool(self.verbose))

    def _store(self, X: Any, truth: tuple[np.ndarray, np.ndarray], ids: np.ndarray | None) -> None:
        """Remember rows. A whole batch into an empty memory is built top-down."""
        labels = self._names.named(*truth)
        if ids is not None and (self.capacity is None or len(ids) <= self.capacity):
            self.memory_ = MemoryTree.build(X, labels, ids=ids, **self._settings)
        else:
            ids = self.memory_.insert_many(X, labels, ids=ids)
        self._sets.add(ids, *truth)
        self._model.join(truth[1])
        self._came += len(labels)
        if self.capacity is not None and self._came >= self._tidied + self.capacity:
            self._tidied = self._came
            self._sets.keep(self._own_ids())
            self._model.recount(self._sets.pool[: self._sets.used])

    def _teach(self, hits: HitMatrix, truth: tuple[np.ndarray, np.ndarray], most: int) -> None:
        """Tell the memory how well the labels of what it returned, the first so many, agree with those of the rows."""
        rewards = self._model.rewards(self._sets.arrays, hits.ids, truth)
        rewards[:, most:] = np.nan
        self.memory_.update_many(hits, rewards)

    def _no_answers(self, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Room for the memories that are returned for n rows, and for what their votes weigh."""
        return np.empty((n, self._k()), np.int64), np.empty((n, self._k()), np.float32)

    def _ask_for(
        self, rows: np.ndarray, X: Any, own: np.ndarray, answers: tuple[np.ndarray, np.ndarray], roughly: bool = False
    ) -> HitMatrix:
        """Ask for rows that are memories themselves, and note what is returned."""
        hits = self._ask(X[rows], own[rows][:, None], roughly)
        answers[0][rows], answers[1][rows] = hits.ids, self._similarities(hits)
        return hits

    def _learn_scores(
        self,
        X: Any,
        sets: tuple[np.ndarray, np.ndarray],
        own: np.ndarray,
        passes: int,
        answers: tuple[np.ndarray, np.ndarray],
        mixed: np.ndarray,
    ) -> None:
        """Learn the scores of labels from rows that are memories. What was returned while the memory still learned is good
        enough for linear weights; the rows from which it is learned how to mix these with votes are asked for now."""
        for rows in self._batches(mixed, "asking the memory"):
            self._ask_for(rows, X, own, answers)
        some = self._chance.permutation(mixed)[:MIXED]
        lesson = self._model.lesson(self._sets.arrays, *answers, sets, self._view(X), halves(own), some)
        seed = int(self._chance.randint(2**31))
        edges = np.unique(np.searchsorted(lesson.starts, [*range(0, len(lesson.pairs), PAIRS), len(lesson.pairs)])).tolist()
        for span in track(list(pairwise(edges)), "learning the weights of labels", bool(self.verbose)):
            self._model.learn(lesson, span, passes, seed)
        told = self._model.tell(lesson, some, stored=True)
        often = min(max(MIXED // (3 * len(some)), 2), MIXING)
        firsts = [*range(0, len(some), BATCH)] * often
        for first in track(firsts, "learning to mix them with votes", bool(self.verbose)):
            if first == 0:
                self._model.forget_outcomes()
            self._model.mix(told, first, min(first + BATCH, len(some)))

    def _learn_again(self) -> None:
        """Learn the scores of labels once more from all that is remembered."""
        ids = self._own_ids()
        keys = np.stack([self.memory_.key(id) for id in ids.tolist()])
        self._learn_scores(keys, self._sets.of(ids), ids, VISITS, self._no_answers(len(ids)), np.arange(len(ids)))

    def _learn(self, hits: HitMatrix, truth: tuple[np.ndarray, np.ndarray], view: Any, numbers: np.ndarray) -> None:
        """Learn the scores of labels from rows that are not memories yet."""
        lesson = self._model.lesson(self._sets.arrays, hits.ids, self._similarities(hits), truth, view, halves(numbers))
        self._model.learn(lesson, (0, len(lesson.labels)), VISITS, int(numbers[0]))
        self._model.mix(self._model.tell(lesson, np.arange(len(hits)), stored=False), 0, len(hits))

    # ---- predicting

    def _k(self) -> int:
        return min(whole("neighbors", self.neighbors, 1), max(len(self.memory_), 1))

    def _ask(self, X: Any, exclude: Any = None, roughly: bool = False) -> HitMatrix:
        """The memories that fit each row; roughly if it matters more which they are than how well each of them fits."""
        usual = math.ceil(2.5 * math.log2(len(self.memory_) + 2)) if self._dense else int(not roughly)
        beam = usual if self.beam is None else self.beam
        return self._own_hits(self.memory_.query_many(X, self._k(), beam=beam, exclude=exclude))

    def _notes(self) -> np.ndarray:
        return self._sets.starts

    def _similarities(self, hits: HitMatrix) -> np.ndarray:
        """What the votes of memories weigh."""
        if not self._dense:
            return hits.scores
        if self.memory_._core.space.settled:
            return np.exp(DENSE_SHARPNESS * (hits.scores - 1))
        # So few memories that there is no space yet: they are compared by distance, beside the nearest of them.
        distances = np.where(hits.ids == NONE, 0, -hits.scores)
        usual = distances.sum(axis=1, keepdims=True) / np.maximum((hits.ids != NONE).sum(axis=1, keepdims=True), 1)
        return np.exp(DENSE_SHARPNESS * (distances[:, :1] - distances) / np.maximum(usual, 1e-30)).astype(np.float32)

    def _view(self, X: Any) -> Any:
        """What the linear weights see of rows, as a sparse batch: the learned space, or sparse rows with each feature as
        important as the memory has learned that it is."""
        batch, n = self.memory_._keys.many(X)
        if not self._dense:
            bounds, features, weights = batch
            return bounds, features, weights * np.sqrt(self.memory_._core.weights(features))
        seen = self.memory_._core.seen(batch) if self._settled else np.zeros((n, 0), np.float32)
        width = seen.shape[1]
        return np.arange(n + 1) * width, np.tile(np.arange(width, dtype=np.int32), n), seen.reshape(-1)

    def _chances(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """For each row its candidates, as numbers, and their probabilities, highest first; -1 behind the last."""
        X = self._asked(X)
        hits = self._ask(X)
        if not self._dense:
            # What is returned for a row that has nothing in common with any memory says nothing about it.
            hits.ids[hits.scores[:, 0] == 0] = NONE
        return self._model.score(self._sets.arrays, hits.ids, self._similarities(hits), self._view(X))

    def predict(self, X: Any) -> Any:
        """The labels of each row, of the kind in which labels were given; in lists the likeliest comes first."""
        found, chances = self._chances(X)
        kept = (chances >= (0.5 if self.target == "hamming" else self._model.best_for_f1())) & (found != NONE)
        return self._names.written(bounds_of(kept), found[kept])

    def predict_topk(self, X: Any, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The k likeliest labels of each row and their probabilities: two arrays of n x k, highest first.

        Where memories bring fewer than k labels (never more than 32 are looked at, and none if a sparse row has nothing in
        common with any memory), what is left has probability 0 and, for a label, -1 where labels are whole numbers (as
        columns are), otherwise None.
        """
        k = whole("k", k, 1)
        found, chances = self._chances(X)
        if k > CANDIDATES:
            found = np.pad(found, ((0, 0), (0, k - CANDIDATES)), constant_values=NONE)
            chances = np.pad(chances, ((0, 0), (0, k - CANDIDATES)))
        return self._names.ranked(found[:, :k]), chances[:, :k]

    def decision_function(self, X: Any) -> scipy.sparse.csr_matrix:
        """The probability of each candidate, as a CSR matrix with a column for each of `classes_`; the rest have none."""
        found, chances = self._chances(X)
        there = found != NONE
        return self._names.matrix(bounds_of(there), found[there], chances[there])

    def score(self, X: Any, y: Any) -> float:
        """The F1 score of all decisions together (micro-averaged)."""
        predicted = self.predict(X)
        names = deepcopy(self._names)  # labels that are new here are not to be learned
        sets = [names.read(labels, X.shape[0] if hasattr(X, "shape") else len(X)) for labels in (y, predicted)]
        return micro_f1(*(names.matrix(*one, np.ones(len(one[1]), np.int64)) for one in sets))


def halves(numbers: np.ndarray) -> np.ndarray:
    """Which half of the weights each row teaches, by its number; no regular pattern of rows falls into one half."""
    return ((numbers.astype(np.uint64) * _SPREAD) >> np.uint64(63)).astype(np.int64)


def bounds_of(kept: np.ndarray) -> np.ndarray:
    """Where the kept entries of each row begin, if only these are listed."""
    return np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
