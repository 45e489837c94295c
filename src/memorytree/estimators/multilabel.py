"""MemoryTreeMultilabelClassifier: candidates are the labels of similar rows; each is decided by weights and votes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from copy import deepcopy
from typing import ClassVar, Self

import numpy as np
import scipy.sparse
from sklearn.utils import Tags, check_random_state

from memorytree.arguments import check_int
from memorytree.config import TermLists
from memorytree.estimators import projection
from memorytree.estimators.arrays import Matrix
from memorytree.estimators.base import BaseMemoryClassifier, RandomState, restore_on_error
from memorytree.estimators.kernels.records import NO_LABEL, LabelHits, LabelLists, LabelScores, SparseRows
from memorytree.estimators.label_scorer import MOST_MIXED, LabelScorer, halves, top_labels
from memorytree.estimators.label_sets import LabelCodec, LabelData, LabelSetTable, select, take
from memorytree.estimators.metrics import micro_f1
from memorytree.index.projected import ENOUGH_KEYS
from memorytree.progress import track
from memorytree.results import NO_ID, HitMatrix

OBJECTIVES = ("hamming", "f1")
BATCH = 256  # rows that are queried together before any of them is learned from
# `fit` refines the memory with this share of the rows, and learns to mix the features of labels from the rest, which is
# queried once the memory has learned. Either part has at least so many rows, if there are enough.
REFINED_SHARE, LEAST_REFINED, LEAST_MIXED = 0.75, 2048, 1024
# Passes over the rows that refine the memory: a projection takes longer to learn than column weights, which learn from the
# first so many memories found for each row.
SPARSE_REFINEMENTS, DENSE_REFINEMENTS, REWARDED = 1, 2, 32
ONLINE_ITERATIONS = 3  # passes of the linear weights over a batch of `partial_fit`, or over all rows for a new projection
TEMPERATURE = 5.0  # of the softmax over memories; high, since label sets agree in degrees
SPARSE_BEAM = 2  # of predictions for sparse rows; chosen on a fifth of the training rows of bibtex


class MemoryTreeMultilabelClassifier(BaseMemoryClassifier):
    """Classify rows that have any number of labels each.

    Every training row is stored as a memory. A prediction queries the memory for the most similar rows, in time logarithmic
    in their number. Their labels are the candidates; linear weights of each label, mixed with the votes of the memories,
    give the candidate's probability. The memory learns which rows to return from rewards, the F1 score between two label
    sets. New rows and new labels can be added at any time (`partial_fit`).

    Labels are given as an indicator matrix, a NumPy array or SciPy sparse matrix with a column for each label, or as a list
    of labels for each row. `predict` returns the same kind.

    Parameters
    ----------
    objective : {"hamming", "f1"}, default="hamming"
        What `predict` optimises. "hamming": few wrong labels; takes labels with a probability of at least one half. "f1":
        the F1 score of all decisions together; takes labels above the threshold that was best for training rows, scored by
        weights that had not learned from them.
    max_iter : int, default=4
        Passes of `fit` over the rows to learn the linear weights of labels.
    n_neighbors : int, default=56
        Memories that vote.
    beam : int, default=None
        Leaves searched by a query, by default 2.5 log2(n). For sparse rows a factor for the number of term lists searched,
        by default 1.
    capacity : int, default=None
        The most rows to keep. Rows that have not been useful for longest are removed first.
    verbose : int, default=0
        1 shows progress bars during `fit`.
    random_state : int, RandomState instance or None, default=None
        Seed of everything random.

    Attributes
    ----------
    memory_ : MemoryTree
        The training rows. Values are lists of labels; ids are the numbers of the rows in the order in which they were given.
    classes_ : ndarray of shape (n_labels,)
        The labels seen so far: columns of the indicator matrix, or the labels in lists, sorted.
    n_features_in_ : int
        Columns of the training rows.
    n_iter_ : int
        Passes of the last `fit` over the rows to learn the linear weights.

    See Also
    --------
    MemoryTreeClassifier : For rows with one label each.

    Examples
    --------
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

    _choices: ClassVar = {"objective": OBJECTIVES}
    _minimums: ClassVar = {"max_iter": 0, "n_neighbors": 1, "beam": 1, "capacity": 1}
    _codec: LabelCodec
    scorer_: LabelScorer

    def __init__(
        self,
        *,
        objective: str = "hamming",
        max_iter: int = 4,
        n_neighbors: int = 56,
        beam: int | None = None,
        capacity: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        super().__init__(beam=beam, capacity=capacity, verbose=verbose, random_state=random_state)
        self.objective = objective
        self.max_iter = max_iter
        self.n_neighbors = n_neighbors

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output, tags.target_tags.single_output = True, False
        tags.classifier_tags.multi_label, tags.classifier_tags.multi_class = True, False
        return tags

    # ---- learning

    @restore_on_error
    def fit(self, X: object, y: LabelData) -> Self:
        """Store all rows, refine the memory, then learn the scores of labels.

        A row's own memory is left out where the row is learned from.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows.
        y : {array, sparse matrix} of shape (n_samples, n_labels), or list of lists of labels
            Their labels.

        Returns
        -------
        self
            The fitted classifier.
        """
        rows = self._check_rows(X, reset=True)
        self._start(rows, y)
        truth = self._encode(y, rows.shape[0])
        # Stored in random order, whatever order the rows came in; a row's id is its number nevertheless.
        arrival = self._chance.permutation(rows.shape[0])
        self._store(rows[arrival], take(truth, arrival), arrival)
        own = np.arange(rows.shape[0])
        found, order = self._empty_hits(len(own)), self._chance.permutation(own)
        refining = order[: max(int(REFINED_SHARE * len(own)), LEAST_REFINED)]
        mixing = order[-max(len(own) - len(refining), LEAST_MIXED) :]
        passes, most = (DENSE_REFINEMENTS, self._k()) if self._dense else (SPARSE_REFINEMENTS, REWARDED)
        for _ in range(passes):
            for batch in self._batches(refining, "refining the memory"):
                hits = self._find(batch, rows, own, found, quick=not self._dense)
                self._reward(hits, take(truth, batch), most)
            if self._dense:
                self.memory_.refit()
        self._sync_projection()
        for batch in self._batches(mixing, "querying the memory"):
            self._find(batch, rows, own, found)
        self._learn_from_memories(rows, truth, own, found, mixing, self.max_iter)
        self.n_iter_ = self.max_iter
        return self

    @restore_on_error
    def partial_fit(self, X: object, y: LabelData, classes: object = None) -> Self:
        """Learn from more rows, then store them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            More training rows.
        y : {array, sparse matrix} of shape (n_samples, n_labels), or list of lists of labels
            Their labels, known or new.
        classes : array-like, default=None
            Ignored; accepted because scikit-learn's tools pass it.

        Returns
        -------
        self
            The fitted classifier.
        """
        new = not hasattr(self, "memory_")
        rows = self._check_rows(X, reset=new)
        if new:
            self._start(rows, y)
        truth = self._encode(y, rows.shape[0])
        first = 0
        while first < rows.shape[0]:
            # A small memory takes few rows at a time, so that it can learn from each.
            batch = np.arange(first, min(first + max(1, min(BATCH, len(self.memory_) // 16)), rows.shape[0]))
            labels = take(truth, batch)
            if len(self.memory_):
                hits, numbers = self._query(rows[batch]), self._n_seen + np.arange(len(batch))
                training = self.scorer_.prepare(
                    self._label_hits(hits), labels, self.scorer_rows(rows[batch]), halves(numbers)
                )
                self.scorer_.learn_new(training, ONLINE_ITERATIONS, self._n_seen)
                if not self._dense or len(self.memory_) >= ENOUGH_KEYS:
                    self._reward(hits, labels, self._k())
            self._store(rows[batch], labels, None)
            if self._sync_projection():
                self._relearn()
            first = int(batch[-1]) + 1
        return self

    def _start(self, X: Matrix, Y: LabelData) -> None:
        """An empty memory and an empty scorer for rows and labels like these."""
        self._codec = LabelCodec(Y)
        dense = not scipy.sparse.issparse(X)
        routing = "auto" if dense else TermLists(temperature=TEMPERATURE, flat=0)
        chance = check_random_state(self.random_state)
        self._start_memory(chance, dense, routing=routing, scorer="metric" if dense else "cosine")
        self.label_sets_ = LabelSetTable()
        self.scorer_ = LabelScorer(0, 0 if dense else X.shape[1])
        self._n_seen = 0  # rows that have come
        self._n_seen_at_cleanup = 0  # and how many of them at the last removal of unused label sets

    def _encode(self, Y: LabelData, rows: int) -> LabelLists:
        """Labels as numbers; the scorer gets room for new ones."""
        truth = self._codec.encode(Y, rows)
        self.scorer_.reserve(len(self._codec))
        return truth

    def _batches(self, rows: np.ndarray, description: str) -> Iterable[np.ndarray]:
        """Rows in random order, in batches."""
        order = self._chance.permutation(rows)
        batches = [order[first : first + BATCH] for first in range(0, len(order), BATCH)]
        return track(batches, description, bool(self.verbose))

    def _store(self, X: Matrix, truth: LabelLists, ids: np.ndarray | None) -> None:
        """Store rows."""
        ids = self._insert(X, self._codec.decode_lists(truth), ids)
        self.label_sets_.add(ids, truth)
        self.scorer_.join(truth.labels)
        self._n_seen += len(ids)
        if self.capacity is not None and self._n_seen >= self._n_seen_at_cleanup + self.capacity:
            self._n_seen_at_cleanup = self._n_seen
            self.label_sets_.retain(self._own_ids())
            self.scorer_.recount(self.label_sets_.pool[: self.label_sets_.used])

    def _reward(self, hits: HitMatrix, truth: LabelLists, most: int) -> None:
        """Reward the first `most` memories found for each row by how well their labels agree with the row's."""
        rewards = self.scorer_.rewards(self.label_sets_.arrays, hits.ids, truth)
        rewards[:, most:] = np.nan
        self.memory_.reward_many(hits, rewards)

    def _empty_hits(self, n: int) -> LabelHits:
        """Room for the memories found for n rows, which are collected batch by batch."""
        return LabelHits(self.label_sets_.arrays, np.empty((n, self._k()), np.int64), np.empty((n, self._k()), np.float32))

    def _find(self, batch: np.ndarray, X: Matrix, own: np.ndarray, found: LabelHits, quick: bool = False) -> HitMatrix:
        """Query for rows that are memories themselves, and write the memories found to `found`."""
        hits = self._query(X[batch], own[batch][:, None], quick)
        found.ids[batch], found.scores[batch] = hits.ids, self._label_hits(hits).scores
        return hits

    def _learn_from_memories(
        self, X: Matrix, truth: LabelLists, own: np.ndarray, found: LabelHits, mixing: np.ndarray, max_iter: int
    ) -> None:
        """Learn the scores of labels from rows that are memories.

        Args:
            X, truth: the rows and their labels.
            own: their memories.
            found: other memories found for them. Those found while the memory was still learning are good enough for linear
                weights.
            mixing: the rows to learn the mixture from.
            max_iter: passes over the rows to learn linear weights.
        """
        some = self._chance.permutation(mixing)[:MOST_MIXED]
        training = self.scorer_.prepare(found, truth, self.scorer_rows(X), halves(own), some)
        self.scorer_.learn_stored(training, some, max_iter, int(self._chance.randint(2**31)), bool(self.verbose))

    def _relearn(self) -> None:
        """Learn the scores of labels again from all memories, for a new projection."""
        ids = self._own_ids()
        keys = np.stack([self.memory_.key(id) for id in ids.tolist()])
        found, rows = self._empty_hits(len(ids)), np.arange(len(ids))
        for batch in self._batches(rows, "querying the memory"):
            self._find(batch, keys, ids, found)
        self._learn_from_memories(keys, self.label_sets_.take(ids), ids, found, rows, ONLINE_ITERATIONS)

    # ---- predicting

    def _k(self) -> int:
        return min(check_int("n_neighbors", self.n_neighbors, 1), max(len(self.memory_), 1))

    def _query(self, X: Matrix, exclude: np.ndarray | None = None, quick: bool = False) -> HitMatrix:
        """The memories found for each row; with `quick`, sparse rows are ranked by term lists alone."""
        beam = math.ceil(2.5 * math.log2(len(self.memory_) + 2)) if self._dense else (0 if quick else SPARSE_BEAM)
        return self._query_memory(X, self._k(), beam, exclude)

    def _known_ids(self) -> np.ndarray:
        return self.label_sets_.starts

    def _label_hits(self, hits: HitMatrix) -> LabelHits:
        """Hits as the scorer takes them."""
        similarities = projection.similarities(self.memory_, hits) if self._dense else hits.scores
        return LabelHits(self.label_sets_.arrays, hits.ids, similarities)

    def scorer_rows(self, X: Matrix) -> SparseRows:
        """Rows as the scorer takes them: projected, or with the learned weight of each column."""
        if not self._dense:
            return projection.weighted_rows(self.memory_, X)
        return projection.projected_rows(self.memory_, X, self._projection_version)

    def _predict(self, X: object) -> LabelScores:
        """For each row its candidates and their probabilities, highest first."""
        rows = self._check_queries(X)
        hits = self._query(rows)
        if not self._dense:
            # Memories found for a row that has no column in common with any memory are arbitrary.
            hits.ids[hits.scores[:, 0] == 0] = NO_ID
        return self.scorer_.score(self._label_hits(hits), self.scorer_rows(rows))

    def predict(self, X: object) -> LabelData:
        """The labels of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        {ndarray, sparse matrix} of shape (n_samples, n_labels), or list of lists of labels
            The kind in which labels were given to `fit`. In lists the most probable label comes first.
        """
        scores = self._predict(X)
        threshold = 0.5 if self.objective == "hamming" else self.scorer_.mixture.best_f1_threshold()
        kept = (scores.probabilities >= threshold) & (scores.labels != NO_LABEL)
        return self._codec.decode(select(scores.labels, kept))

    def predict_topk(self, X: object, k: int = 5) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable labels of each row.

        A row has at most 32 candidates, and none if it is sparse and has no column in common with any memory.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.
        k : int, default=5
            How many labels to return.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Labels, most probable first. Behind the last candidate: -1 where all labels are non-negative whole numbers, as
            columns are, otherwise None.
        probabilities : ndarray of shape (n_samples, k)
            Their probabilities; 0 behind the last candidate.
        """
        k = check_int("k", k, 1)
        labels, probabilities = top_labels(self._predict(X), k)
        return self._codec.decode_array(labels), probabilities

    def decision_function(self, X: object) -> scipy.sparse.csr_matrix:
        """The probabilities of all candidates.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        csr_matrix of shape (n_samples, n_labels)
            A column for each of `classes_`; labels that are not candidates have no entry.
        """
        scores = self._predict(X)
        present = scores.labels != NO_LABEL
        return self._codec.to_matrix(select(scores.labels, present), scores.probabilities[present])

    def score(self, X: object, y: LabelData) -> float:
        """The F1 score of all decisions together (micro-averaged).

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.
        y : {array, sparse matrix} of shape (n_samples, n_labels), or list of lists of labels
            Their true labels.

        Returns
        -------
        float
            From 0 to 1, higher is better.
        """
        codec = deepcopy(self._codec)  # must not keep labels that occur only here
        predicted = codec.encode(self.predict(X))
        truth = codec.encode(y, len(predicted.bounds) - 1)
        return micro_f1(*(codec.to_matrix(one, np.ones(len(one.labels), np.int64)) for one in (truth, predicted)))
