"""memorytree: the paper's tree without and with supervision, our default, and our best setting."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from lab.baselines.base import Baseline, NeighbourBaseline
from lab.datasets import Dataset, Rows, Truth
from lab.tree_driver import WARM_UP_ROWS
from memorytree import HitMatrix, MemoryTree
from memorytree.estimators import MemoryTreeClassifier, MemoryTreeMultilabelClassifier, MemoryTreeRetriever

BATCH = 32


class UnsupervisedPaper(NeighbourBaseline):
    """The paper's tree with insertions only; the prediction is the best memory in the leaf."""

    name, title = "cmt-u", "CMT, unsupervised (paper routing)"
    logarithmic, incremental, grows = True, True, True
    defaults: ClassVar[dict[str, Any]] = {**NeighbourBaseline.defaults, "leaf_factor": 4, "reroutes": 5, "balance": 0.9}
    tree: MemoryTree | None = None

    def prepare(self, data: Dataset) -> None:
        self.begin(data)
        few = type(self)(self.seed, **self.options)
        few.fit(data.with_rows(np.arange(min(WARM_UP_ROWS, data.rows))))
        for one in (data.test[:BATCH], data.test[:1]):
            few.predict(one)

    def begin(self, data: Dataset) -> None:
        """Create an empty model for this kind of data set."""
        self.kind = data.kind
        self.tree = MemoryTree(
            routing="paper",
            scorer=self.scorer(),
            center=not data.sparse,  # all features of images are positive
            seed=self.seed,
            **{name: self.options[name] for name in ("leaf_factor", "reroutes", "balance")},
        )

    def scorer(self) -> str:
        """Return the scorer; votes need a similarity."""
        return "cosine" if self.kind == "labels" else "distance"

    def fit(self, data: Dataset) -> None:
        self.begin(data)
        self.store_truth(data)
        assert self.tree is not None
        self.tree.insert_many(data.train, range(data.rows), ids=np.arange(data.rows))

    def learn_one(self, x: Rows, truth: Truth) -> None:
        assert self.tree is not None
        row = len(self.tree)
        self.append_truth(truth)
        self.tree.insert(x[0], row, id=row)

    def remove(self, row: int) -> None:
        assert self.tree is not None
        self.tree.remove(row)

    def nearest(self, rows: Rows, k: int) -> tuple[np.ndarray, np.ndarray]:
        assert self.tree is not None
        hits = self.tree.query_many(rows, k, threads=1)
        return hits.ids, hits.scores

    def bytes(self) -> int | None:
        assert self.tree is not None
        return self.tree.stats().bytes


class SupervisedPaper(UnsupervisedPaper):
    """The paper's tree and scorer: the first pass inserts, further passes query with exploration and learn from the reward.

    The reward of a returned memory is 1 for the right class, the F1 of label sets, or the cosine of values.
    """

    name, title = "cmt", "CMT, supervised (paper routing, linear scorer)"
    defaults: ClassVar[dict[str, Any]] = {**UnsupervisedPaper.defaults, "passes": 2, "explore": 0.1, "own": False}

    def scorer(self) -> str:
        return "linear"

    def fit(self, data: Dataset) -> None:
        super().fit(data)
        assert self.tree is not None
        chance = np.random.default_rng(self.seed)
        for _ in range(self.options["passes"]):
            order = chance.permutation(data.rows)
            for first in range(0, data.rows, BATCH):
                rows = order[first : first + BATCH]
                own: Rows = None if self.options["own"] else rows[:, None]
                hits = self.tree.query_many(data.train[rows], 1, explore=self.options["explore"], exclude=own)
                self.tree.reward_many(hits, rewards(data, rows, hits))

    def learn_one(self, x: Rows, truth: Truth) -> None:
        assert self.tree is not None
        if len(self.tree) and self.kind == "classes":
            hits = self.tree.query(x[0], 1, explore=self.options["explore"])
            self.tree.reward(hits, [float(self.truth.rows[hit.id] == truth) for hit in hits])
        super().learn_one(x, truth)


def rewards(data: Dataset, rows: np.ndarray, hits: HitMatrix) -> np.ndarray:
    """Return the rewards of the memories that were returned for some training rows, (n, k); NaN for missing hits."""
    found = np.maximum(hits.ids, 0)
    if data.kind == "classes":
        earned = (data.truth[found] == data.truth[rows][:, None]).astype(float)
    elif data.kind == "retrieval":
        earned = np.clip(np.einsum("nkf,nf->nk", data.truth[found], data.truth[rows]), 0, 1)
    else:
        sizes = np.diff(data.truth.indptr)
        earned = np.empty(found.shape)
        for column in range(found.shape[1]):
            shared = np.asarray(data.truth[rows].multiply(data.truth[found[:, column]]).sum(axis=1)).ravel()
            earned[:, column] = 2 * shared / np.maximum(sizes[rows] + sizes[found[:, column]], 1)
    return np.where(hits.ids < 0, np.nan, earned)


class Default(Baseline):
    """Our estimators with their default settings."""

    name, title = "ours", "memorytree, default"
    logarithmic, incremental, grows = True, True, True
    learns_from_rewards: ClassVar[bool] = True

    def __init__(self, seed: int = 0, **options: Any):
        super().__init__(seed)
        self.options = options  # the estimator checks them

    def prepare(self, data: Dataset) -> None:
        few = type(self)(self.seed, **self.options)
        few.fit(data.with_rows(np.arange(min(WARM_UP_ROWS, data.rows))))
        for one in (data.test[:BATCH], data.test[:1]):
            few.predict(one)
        self.begin(data)
        if data.kind == "classes":  # compile single rows too
            few.begin(data)
            for row in range(min(WARM_UP_ROWS, data.rows)):
                few.learn_one(data.train[row : row + 1], data.truth[row])
                few.predict(data.train[row : row + 1])

    def estimator(self, kind: str) -> Any:
        """Return an estimator for this kind of data set."""
        kinds: dict[str, Any] = {
            "classes": MemoryTreeClassifier,
            "labels": MemoryTreeMultilabelClassifier,
            "retrieval": MemoryTreeRetriever,
        }
        return kinds[kind](random_state=self.seed, **self.options)

    def begin(self, data: Dataset) -> None:
        """Create an empty model for this kind of data set."""
        self.kind = data.kind
        self.model = self.estimator(data.kind)

    def fit(self, data: Dataset) -> None:
        self.begin(data)
        if data.kind != "retrieval":
            self.model.fit(data.train, data.truth)
            return
        values = data.truth
        self.model.fit(data.train, features=values)
        if self.learns_from_rewards:

            def reward(row: int, hits: Any) -> list[float]:
                return np.clip(values[hits.ids] @ values[row], 0, 1).tolist()

            self.model.fit_rewards(data.train, reward, exclude=np.arange(data.rows)[:, None])

    def learn_one(self, x: Rows, truth: Truth) -> None:
        if self.kind == "retrieval":
            self.model.partial_fit(x, features=np.atleast_2d(truth))
        else:
            self.model.partial_fit(x, [truth] if self.kind == "classes" else truth)

    def predict(self, rows: Rows, k: int = 1) -> Truth:
        if self.kind == "classes":
            return self.model.predict(rows)
        if self.kind == "labels":
            return self.model.predict_topk(rows, k)[0]
        return self.model.retrieve(rows, k).ids

    def label_sets(self, rows: Rows) -> Truth:
        return self.model.predict(rows)

    def nearest_ids(self, rows: Rows, k: int = 1) -> np.ndarray | None:
        return self.model.memory_.query_many(rows, k).ids

    def remove(self, row: int) -> None:
        self.model.memory_.remove(row)


class Unsupervised(Default):
    """The same without supervision: keys alone."""

    name, title = "ours-u", "memorytree, unsupervised"
    kinds = frozenset({"classes", "retrieval"})
    learns_from_rewards = False

    def estimator(self, kind: str) -> Any:
        if kind == "classes":
            return MemoryTreeClassifier(supervision="none", random_state=self.seed, **self.options)
        return super().estimator(kind)


class Best(Default):
    """The same with settings chosen on held-out training rows (omniglot-5, clinc150, wikipara-2).

    Four trees, more neighbours and passes for classes of dense rows; more passes for those of sparse rows; else the default.
    """

    name, title = "ours-best", "memorytree, best"
    defaults: ClassVar[dict[str, Any]] = {
        "dense": {"n_trees": 4, "n_neighbors": 40, "max_iter": 8},
        "sparse": {"max_iter": 8},
    }

    def begin(self, data: Dataset) -> None:
        """Create an empty model for this kind of data set."""
        if data.kind == "classes":
            self.options = {**self.defaults["sparse" if data.sparse else "dense"], **self.options}
        super().begin(data)
