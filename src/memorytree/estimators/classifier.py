"""MemoryTreeClassifier: a scikit-learn classifier that stores its rows and shows which of them a prediction is based on."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets

from memorytree.arguments import check_int
from memorytree.config import TermLists
from memorytree.errors import InvalidOption
from memorytree.estimators import projection
from memorytree.estimators.arrays import Matrix, extended
from memorytree.estimators.base import DISCRETE, BaseMemoryClassifier, RandomState, restore_on_error
from memorytree.estimators.class_scorers import ClassScorer, DenseClassScorer, SparseClassScorer
from memorytree.estimators.kernels.records import NO_LABEL, ClassHits, ClassScores, SparseRows
from memorytree.estimators.label_sets import ClassCodec
from memorytree.index.projected import ENOUGH_KEYS
from memorytree.progress import track
from memorytree.results import NO_ID, HitMatrix

SUPERVISION = ("none", "reward", "labels")
DENSE_ITERATIONS, SPARSE_ITERATIONS = 5, 3  # the linear weights of sparse rows take larger steps
BATCH = 64  # rows that are queried together before any of them is learned from
REWARDED = 10
SPARSE_REWARDED = 8  # with supervision="reward", this times log2 n memories of a sparse row are rewarded


class MemoryTreeClassifier(BaseMemoryClassifier):
    """Classify rows by the most similar training rows and by linear weights of their classes.

    Every training row is stored as a memory. A prediction queries the memory for the most similar rows, in time logarithmic
    in their number, and mixes their votes with linear weights of the classes found. New rows and new classes can be added at
    any time (`partial_fit`).

    Parameters
    ----------
    supervision : {"labels", "reward", "none"}, default="labels"
        What is learned. "labels": the space in which rows are compared, linear weights of the classes, and how to mix them
        with the votes. "reward": the space only, from whether each memory found has the right label; the prediction is the
        label of the best memory. "none": nothing; the prediction is the label of the best memory.
    max_iter : int, default=None
        Passes of `fit` over the rows after they have been stored. By default 5 for dense rows and 3 for sparse rows.
    n_neighbors : int, default=20
        Memories that vote. With supervision="reward" at most 10 of them are used.
    beam : int, default=None
        Leaves searched by a query, by default 2.5 log2(n). For sparse rows a factor for the number of term lists searched,
        by default 1.
    n_trees : int, default=1
        Trees over the same rows. More trees overlook fewer memories and cost more time and space.
    capacity : int, default=None
        The most rows to keep. Rows that have not been useful for longest are removed first.
    verbose : int, default=0
        1 shows a progress bar during `fit`.
    random_state : int, RandomState instance or None, default=None
        Seed of everything random.

    Attributes
    ----------
    memory_ : MemoryTree
        The training rows. Values are labels; ids are the numbers of the rows in the order in which they were given. Sparse
        rows with more than a tenth of all columns, and more than eight entries, are stored as dense rows.
    classes_ : ndarray of shape (n_classes,)
        The labels seen so far, sorted.
    n_features_in_ : int
        Columns of the training rows.
    n_iter_ : int
        Passes of the last `fit` over the rows, 0 with supervision="none".

    See Also
    --------
    MemoryTreeMultilabelClassifier : For rows with any number of labels.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MemoryTreeClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    >>> len(model.kneighbors(X[1:2])[0])  # the memories behind the first prediction
    20
    """

    _choices: ClassVar = {"supervision": SUPERVISION}
    _minimums: ClassVar = {"max_iter": 0, "n_neighbors": 1, "beam": 1, "n_trees": 1, "capacity": 1}
    _may_be_none: ClassVar = ("max_iter", "beam", "capacity")
    _codec: ClassCodec
    scorer_: ClassScorer[Any, Any]

    def __init__(  # noqa: PLR0913  (a keyword for each option)
        self,
        *,
        supervision: str = "labels",
        max_iter: int | None = None,
        n_neighbors: int = 20,
        beam: int | None = None,
        n_trees: int = 1,
        capacity: int | None = None,
        verbose: int = 0,
        random_state: RandomState = None,
    ):
        super().__init__(beam=beam, capacity=capacity, verbose=verbose, random_state=random_state)
        self.supervision = supervision
        self.max_iter = max_iter
        self.n_neighbors = n_neighbors
        self.n_trees = n_trees

    # ---- learning

    @restore_on_error
    def fit(self, X: object, y: object) -> Self:
        """Store all rows, then learn from them in `max_iter` passes. A row's own memory is left out of what is found for it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        self
            The fitted classifier.
        """
        X, y = self._check(X, y, reset=True)
        self._start(X)
        codes = self._encode(y)
        # Stored in random order, whatever order the rows came in; a row's id is its number nevertheless.
        order = self._chance.permutation(len(codes))
        self._store(X[order], codes[order], order)
        self._sync_projection()
        default = DENSE_ITERATIONS if self._dense else SPARSE_ITERATIONS
        self.n_iter_ = 0 if self.supervision == "none" else default if self.max_iter is None else self.max_iter
        steps = [(iteration, first) for iteration in range(self.n_iter_) for first in range(0, len(order), BATCH)]
        for iteration, first in track(steps, "learning", bool(self.verbose and steps)):
            if first == 0:
                order = self._chance.permutation(len(codes))
            rows = order[first : first + BATCH]
            self._learn(X[rows], codes[rows], rows, refine=True, first_pass=iteration == 0)
            if first + BATCH >= len(order):
                self.memory_.refit()
        return self

    @restore_on_error
    def partial_fit(self, X: object, y: object, classes: object = None) -> Self:
        """Learn from more rows, then store them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            More training rows.
        y : array-like of shape (n_samples,)
            Their labels, known or new.
        classes : array-like, default=None
            Labels to expect. Not needed; accepted because scikit-learn's tools pass it.

        Returns
        -------
        self
            The fitted classifier.
        """
        new = not hasattr(self, "memory_")
        X, y = self._check(X, y, reset=new)
        if new:
            self._start(X)
        codes = self._encode(y, classes)
        first = 0
        while first < len(codes):
            # A small memory takes few rows at a time, so that it can learn from each.
            rows = slice(first, first + max(1, min(BATCH, len(self.memory_) // 16)))
            some = X if len(codes) == 1 else X[rows]  # slicing a sparse matrix is slow
            if self.supervision != "none" and len(self.memory_):
                self._learn(some, codes[rows], None, refine=self._has_enough_rows())
            self._store(some, codes[rows], None)
            if self._sync_projection() and self.supervision == "labels":
                ids = self._chance.permutation(self._own_ids())
                keys = np.stack([self.memory_.key(id) for id in ids.tolist()])
                self._learn(keys, self._class_of_id[ids], ids, refine=False)
            first = rows.stop
        return self

    def _check(self, X: object, y: object, reset: bool) -> tuple[Matrix, np.ndarray]:
        """Rows and labels as arrays, after all checks."""
        X, y = self._check_rows_and_labels(X, np.asarray(y) if type(y) is list else y, reset=reset)
        # For discrete labels this check could only warn that there are many classes, which is no problem here.
        if y.dtype.kind not in DISCRETE:
            check_classification_targets(y)
        if scipy.sparse.issparse(X) and self.n_trees > 1 and self.supervision == "reward":
            raise InvalidOption('sparse rows with supervision="reward" use term lists instead of trees: set n_trees=1')
        return X, y

    def _start(self, X: Matrix) -> None:
        """An empty memory and an empty scorer for rows like these."""
        dense = not scipy.sparse.issparse(X)
        options: dict[str, object] = {"scorer": "metric" if dense or self.supervision == "reward" else "cosine"}
        options["trees"] = self.n_trees
        if not dense and self.n_trees == 1:
            options["routing"] = TermLists(flat=0)  # the scorer of the estimator is compiled anyway
        self._start_memory(check_random_state(self.random_state), dense, **options)
        self._codec = ClassCodec()
        self._class_of_id = np.full(1024, NO_LABEL, np.int64)
        self.scorer_ = DenseClassScorer(0) if dense else SparseClassScorer()

    def _encode(self, y: np.ndarray, expected: object = None) -> np.ndarray:
        """Labels as numbers; the scorer gets room for new ones."""
        codes = self._codec.encode(y, expected)
        self.scorer_.reserve(len(self._codec))
        return codes

    def _store(self, X: Matrix, codes: np.ndarray, ids: np.ndarray | None) -> None:
        """Store rows."""
        labels = [self._codec.labels[code] for code in codes.tolist()]
        ids = self._insert(X, labels, ids, codes.tolist() if self.supervision == "labels" else None)
        self._class_of_id = extended(self._class_of_id, ids.max() + 1, NO_LABEL)
        self._class_of_id[ids] = codes
        self.scorer_.join(codes, ids, self.scorer_rows(X))

    def _has_enough_rows(self) -> bool:
        """Whether the memory may learn how to compare dense rows; the projection of fewer rows is about to change.

        With supervision="reward" a memory with a small capacity starts to learn once it is full. With linear weights it does
        not: these lose more accuracy from early changes than the memory gains.
        """
        capacity = self._settings["capacity"] if self.supervision == "reward" else None
        return not self._dense or len(self.memory_) >= min(ENOUGH_KEYS, capacity or ENOUGH_KEYS)

    def _learn(self, X: Matrix, codes: np.ndarray, own: np.ndarray | None, *, refine: bool, first_pass: bool = True) -> None:
        """Learn from rows whose labels are known.

        Args:
            X: the rows.
            codes: their classes.
            own: their memories, if they are stored.
            refine: whether the memory learns how to compare rows, too.
            first_pass: whether the rows have not been learned from before.
        """
        # The value model of sparse rows learns from many memories at a time.
        many = self.supervision == "reward" and not self._dense
        k = math.ceil(SPARSE_REWARDED * math.log2(len(self.memory_) + 2)) if many else None
        hits = self._query(X, None if own is None else own[:, None], k)
        if self.supervision == "labels":
            found = ClassHits(hits.ids, hits.scores, self._class_of_id)
            self.scorer_.learn(found, codes, own, self.scorer_rows(X), first_pass)
        if refine:
            rewards = (self._class_of_id[hits.ids] == codes[:, None]).astype(np.float64)
            rewards[hits.ids == NO_ID] = np.nan
            if not self._dense and not many:
                rewards[:, REWARDED:] = np.nan  # column weights decide about the first few
            self.memory_.reward_many(hits, rewards)

    # ---- predicting

    def _query(self, X: Matrix, exclude: np.ndarray | None = None, k: int | None = None) -> HitMatrix:
        """The memories found for each row."""
        if k is None:
            k = check_int("n_neighbors", self.n_neighbors, 1)
            k = min(k, REWARDED) if self.supervision == "reward" else k
        beam = math.ceil(2.5 * math.log2(len(self.memory_) + 2)) if self._dense else 1
        return self._query_memory(X, k, beam, exclude)

    def _known_ids(self) -> np.ndarray:
        return self._class_of_id

    def scorer_rows(self, X: Matrix) -> np.ndarray | SparseRows:
        """Rows as the scorer takes them: projected, or the sparse rows themselves."""
        if not self._dense:
            return projection.encode_sparse(self.memory_, X)
        return projection.scorer_rows(self.memory_, X, self._projection_version)

    def _predict(self, X: object) -> ClassScores:
        """For each row the classes of the memories found and their probabilities."""
        X = self._check_queries(X)
        hits = self._query(X)
        if self.supervision == "labels":
            found = ClassHits(hits.ids, hits.scores, self._class_of_id)
            scores = self.scorer_.score(found, self.scorer_rows(X))
        else:
            classes = np.where(hits.ids == NO_ID, NO_LABEL, self._class_of_id[hits.ids])
            scores = ClassScores(classes, np.eye(1, classes.shape[1]).repeat(len(classes), axis=0))
        # Where only memories inserted by other code were found, predict the most frequent class.
        empty = scores.classes[:, 0] == NO_LABEL
        scores.classes[empty, 0], scores.probabilities[empty, 0] = self.scorer_.most_frequent(), 1.0
        return scores

    def predict(self, X: object) -> np.ndarray:
        """The most probable label of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples,)
            The labels.
        """
        scores = self._predict(X)
        return self._codec.decode(scores.classes[np.arange(len(scores.classes)), scores.probabilities.argmax(axis=1)])

    def predict_proba(self, X: object) -> np.ndarray:
        """The probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to classify.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            A column for each of `classes_`; 0 for classes that none of the memories found has.
        """
        scores = self._predict(X)
        dense = np.zeros((len(scores.classes), len(self._codec)))
        rows, places = np.nonzero(scores.classes != NO_LABEL)
        columns = self._codec.columns()[scores.classes[rows, places]]
        np.add.at(dense, (rows, columns), scores.probabilities[rows, places])
        return dense
