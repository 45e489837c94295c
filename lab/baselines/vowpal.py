"""Vowpal Wabbit: the paper authors' own implementation of contextual memory trees, and its other learners.

- Its alpha is one minus the paper's.
- The number of nodes must be given in advance; the authors' scripts use 2 n / (c log2 n) for each pass.
- Training goes through VW's own driver over a text file, as in those scripts; the CPU time of the same run with `--noop`,
  which only reads the file, is not counted. Test examples are parsed before `predict` is timed.
- It adds a constant feature and breaks ties by its own random numbers; neither is changed.
"""

from __future__ import annotations

import math
import tempfile
from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lab.baselines.base import Baseline
from lab.datasets import Dataset, Rows, Truth
from lab.datasets.formats import vw_lines
from lab.measuring import cpu_seconds

WEIGHT_BITS = 24  # with fewer bits, weights of different nodes collide
LOGISTIC = ("--loss_function", "logistic")
PASSES = 3  # of the learners other than the memory trees, as in the paper


def memory_tree_options(
    rows: int, *, balance: float = 0.9, leaf_factor: int = 4, reroutes: int = 5, rate: float = 0.001, passes: int = 1
) -> list[str]:
    """Return the options of a memory tree as in the authors' scripts."""
    nodes = int(2 * passes * rows / (leaf_factor * math.log2(rows)))
    line = (
        f"--memory_tree {nodes} --leaf_example_multiplier {leaf_factor} --dream_repeats {reroutes} "
        f"--alpha {1 - balance:.3g} --max_number_of_labels 1000 --dream_at_update 0 --learn_at_leaf "
        f"--loss_function squared -l {rate}"
    )
    return line.split()


def common_options(seed: int) -> list[str]:
    """Return the options that every learner of VW has."""
    return ["-b", str(WEIGHT_BITS), "--quiet", "--random_seed", str(seed)]


def driver_options(file: Path, seed: int, passes: int = 1) -> list[str]:
    """Return the options with which VW's own driver learns from a text file."""
    several = ["-c", "-k", "--cache_file", str(file.with_suffix(".cache")), "--passes", str(passes)]
    return ["-d", str(file), "--holdout_off", *common_options(seed), *(several if passes > 1 else [])]


def reading_seconds(driver: list[str]) -> float:
    """Return the CPU time of a driver that only reads its file."""
    from vowpalwabbit import Workspace

    spent, reader = cpu_seconds(lambda: Workspace(arg_list=["--noop", *driver]))
    reader.finish()
    return spent


def write_examples(path: Path, keys: Rows, labels: np.ndarray) -> None:
    """Write rows with classes in VW's text format; its classes start from 1."""
    path.write_text("".join(vw_lines(keys, one_based(labels))), encoding="ascii")


def one_based(classes: Any) -> list[str]:
    """Return classes as VW's labels, which start from 1."""
    return [str(label + 1) for label in np.asarray(classes).tolist()]


class Examples(list[Any]):
    """Rows that VW has parsed."""


class VowpalWabbit(Baseline):
    """A learner of VW."""

    kinds = frozenset({"classes"})
    needs = ("vowpalwabbit",)
    incremental, grows, batches = True, True, False
    defaults: ClassVar[dict[str, Any]] = {"passes": 1}
    learner: Any = None

    @abstractmethod
    def arguments(self) -> list[str]:
        """Return its options for `self.rows` rows and `self.answers` classes or labels."""

    def prepare(self, data: Dataset) -> None:
        self.rows, self.answers = data.rows, data.answers

    def label_texts(self, truth: Truth) -> list[str]:
        """Return VW's text for the class or the label set of each row."""
        return one_based(truth)

    def driver(self, file: Path) -> list[str]:
        """Return the options of VW's driver for this file."""
        return driver_options(file, self.seed, self.options["passes"])

    def train(self, file: Path) -> None:
        """Learn from a text file with VW's own driver."""
        from vowpalwabbit import Workspace

        self.learner = Workspace(arg_list=[*self.arguments(), *self.driver(file)])

    def fit(self, data: Dataset) -> None:
        self.prepare(data)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "train.vw"
            lines = vw_lines(data.train, self.label_texts(data.truth))
            writing_s, _ = cpu_seconds(lambda: file.write_text("".join(lines), encoding="ascii"))
            reading_s = reading_seconds(self.driver(file))
            self.train(file)
        self.excluded_s = writing_s + 2 * reading_s  # twice: the file is also read in order to time the reading

    def _workspace(self) -> Any:
        from vowpalwabbit import Workspace

        if self.learner is None:
            self.learner = Workspace(arg_list=[*self.arguments(), *common_options(self.seed)])
        return self.learner

    def learn_one(self, x: Rows, truth: Truth) -> None:
        (line,) = vw_lines(x, self.label_texts([truth] if np.isscalar(truth) else truth))
        example = self._workspace().example(line)
        self.learner.learn(example)
        self.learner.finish_example(example)

    def encode(self, rows: Rows) -> Examples:
        if isinstance(rows, Examples):
            return rows
        return Examples(self._workspace().example(line) for line in vw_lines(rows, [""] * rows.shape[0]))

    def outcomes(self, rows: Rows) -> list[Any]:
        """Return what VW predicts for each row."""
        if isinstance(rows, Examples):
            return [self.learner.predict(example) for example in rows]
        examples = self.encode(rows)
        found = [self.learner.predict(example) for example in examples]
        for example in examples:
            self.learner.finish_example(example)
        return found

    def predict(self, rows: Rows, k: int = 1) -> Truth:
        return np.array(self.outcomes(rows), np.int64) - 1


class MemoryTreeOnce(VowpalWabbit):
    """`--memory_tree`, one pass: the authors' contextual memory tree, inserting only."""

    name, title = "vw-memory-tree-1", "VW memory_tree, 1 pass"
    logarithmic = True
    defaults: ClassVar[dict[str, Any]] = {"passes": 1, "rate": 0.001, "balance": 0.9, "leaf_factor": 4, "reroutes": 5}

    def arguments(self) -> list[str]:
        return memory_tree_options(self.rows, **self.options)


class MemoryTreeThrice(MemoryTreeOnce):
    """The same with three passes; the second and third update the memories that the first inserted."""

    name, title = "vw-memory-tree-3", "VW memory_tree, 3 passes"
    incremental = grows = False
    defaults: ClassVar[dict[str, Any]] = {**MemoryTreeOnce.defaults, "passes": 3}


class MemoryTreeOnceFast(MemoryTreeOnce):
    """One pass at a hundred times the rate of the authors' scripts, which has a lower error on some data."""

    name, title = "vw-memory-tree-1-fast", "VW memory_tree, 1 pass, rate 0.1"
    defaults: ClassVar[dict[str, Any]] = {**MemoryTreeOnce.defaults, "rate": 0.1}


class MemoryTreeThriceFast(MemoryTreeThrice):
    """Three passes at that rate."""

    name, title = "vw-memory-tree-3-fast", "VW memory_tree, 3 passes, rate 0.1"
    defaults: ClassVar[dict[str, Any]] = {**MemoryTreeThrice.defaults, "rate": 0.1}


class EigenMemoryTree(VowpalWabbit):
    """`--emt`: a leaf is split once, along its main direction."""

    name, title = "vw-emt", "VW emt"
    logarithmic = True

    def arguments(self) -> list[str]:
        return ["--emt"]


class RecallTree(VowpalWabbit):
    """`--recall_tree`: a tree of candidates, then one against some."""

    name, title = "vw-recall-tree", "VW recall_tree"
    logarithmic = True
    defaults: ClassVar[dict[str, Any]] = {"passes": PASSES}

    def arguments(self) -> list[str]:
        return ["--recall_tree", str(self.answers)]


class LomTree(VowpalWabbit):
    """`--log_multi`: the LOMTree."""

    name, title = "vw-lomtree", "VW log_multi (LOMTree)"
    logarithmic = True
    defaults: ClassVar[dict[str, Any]] = {"passes": PASSES}

    def arguments(self) -> list[str]:
        return ["--log_multi", str(self.answers)]


class OneAgainstAll(VowpalWabbit):
    """`--oaa`: a linear classifier for each class."""

    name, title = "vw-oaa", "VW oaa"
    linear = True
    defaults: ClassVar[dict[str, Any]] = {"passes": PASSES}

    def arguments(self) -> list[str]:
        return ["--oaa", str(self.answers), *LOGISTIC]


class MultilabelOneAgainstAll(VowpalWabbit):
    """`--multilabel_oaa`: a linear classifier for each label."""

    name, title = "vw-multilabel-oaa", "VW multilabel_oaa, 10 passes"
    kinds = frozenset({"labels"})
    linear = True
    defaults: ClassVar[dict[str, Any]] = {"passes": 10}

    def arguments(self) -> list[str]:
        return ["--multilabel_oaa", str(self.answers), *LOGISTIC, "--probabilities"]

    def label_texts(self, truth: Truth) -> list[str]:
        return [",".join(map(str, own)) for own in sp.csr_matrix(truth).tolil().rows]

    def predict(self, rows: Rows, k: int = 1) -> Truth:
        return np.argsort(-np.array(self.outcomes(rows)), axis=1, kind="stable")[:, :k]

    def label_sets(self, rows: Rows) -> Truth:
        return sp.csr_matrix(np.array(self.outcomes(rows)) > 0.5)


class OneAgainstSome(MemoryTreeOnceFast):
    """`--memory_tree --oas`: labels of the memories in a leaf, decided one against some. VW does not return its predictions
    in this mode; the Hamming loss is read from the loss of labelled examples."""

    name, title = "vw-oas", "VW memory_tree --oas, rate 0.1"
    kinds = frozenset({"labels"})

    def arguments(self) -> list[str]:
        return [*super().arguments(), "--oas"]

    def label_texts(self, truth: Truth) -> list[str]:
        return [",".join(str(label + 1) for label in own) for own in sp.csr_matrix(truth).tolil().rows]

    def predict(self, rows: Rows, k: int = 1) -> Truth:
        self.outcomes(rows)

    def hamming(self, rows: Rows, truth: Truth) -> float | None:
        losses = []
        for line in vw_lines(rows, self.label_texts(truth)):
            example = self.learner.example(line)
            self.learner.predict(example)
            losses.append(example.get_loss())
        return float(np.mean(losses))
