"""What a data set is, where it is looked for, and the order in which its rows come."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from memorytree.errors import DataMissing

KINDS = ("classes", "labels", "retrieval")
TEST_ROWS = 2000
FOLDERS = {"omniglot": "omniglot", "wikipara": "wikipara10k"}  # of sets that differ in their rows a class only


@dataclass(frozen=True)
class Dataset:
    """Keys to learn from with what is true of them, and keys to be asked about.

    Attributes:
        name: as given to `load`.
        kind: "classes" (one class a row), "labels" (a set of labels a row) or "retrieval" (a value a row).
        train: a key in each row: a float32 array or a CSR matrix.
        truth: classes as int64, label sets as a CSR indicator matrix, or the features of the values, at length one.
        test: the keys asked about.
        test_truth: what is true of them.
        texts: the texts that the training keys were made of, where there are any.
        test_texts: those of the keys asked about.
    """

    name: str
    kind: str
    train: Any
    truth: Any
    test: Any
    test_truth: Any
    texts: list[str] | None = None
    test_texts: list[str] | None = None

    @property
    def sparse(self) -> bool:
        """Whether keys are sparse."""
        return bool(sp.issparse(self.train))

    @property
    def rows(self) -> int:
        """How many rows there are to learn from."""
        return int(self.train.shape[0])

    @property
    def answers(self) -> int:
        """How many classes or labels there are, or features of a value."""
        if self.kind == "classes":
            return int(max(self.truth.max(initial=-1), self.test_truth.max(initial=-1))) + 1
        return int(self.truth.shape[1])

    @property
    def parts(self) -> tuple[Any, Any, Any, Any]:
        """(train, truth, test, test_truth)."""
        return self.train, self.truth, self.test, self.test_truth

    def ordered(self, order: np.ndarray) -> Dataset:
        """The same with its training rows in this order; it may leave some out."""
        texts = None if self.texts is None else [self.texts[i] for i in order.tolist()]
        return replace(self, train=self.train[order], truth=self.truth[order], texts=texts)

    def asked(self, order: np.ndarray) -> Dataset:
        """The same with its test rows in this order; it may leave some out."""
        texts = None if self.test_texts is None else [self.test_texts[i] for i in order.tolist()]
        return replace(self, test=self.test[order], test_truth=self.test_truth[order], test_texts=texts)

    def seeded(self, seed: int) -> Dataset:
        """The training rows in the order of this seed; 0 leaves them as they are."""
        return self.ordered(np.random.default_rng(seed).permutation(self.rows)) if seed else self

    def standing(self, tests: int | None = TEST_ROWS) -> Dataset:
        """Training rows in one fixed random order, the first so many test rows of another."""
        shown = self.ordered(np.random.default_rng(1).permutation(self.rows))
        return shown.asked(np.random.default_rng(0).permutation(self.test.shape[0])[:tests])


def data_folder(given: Path | None = None) -> Path | None:
    """The folder asked for, or the one named by MEMORYTREE_DATA, or the one shared beside the checkout, if it is there."""
    if given or os.environ.get("MEMORYTREE_DATA"):
        return Path(given or os.environ["MEMORYTREE_DATA"])
    beside = Path(__file__).resolve().parents[5] / "shared" / "data"
    return beside if beside.is_dir() else None


def find(folder: Path | None, name: str) -> Path | None:
    """The path of a data file, plain or packed (.xz, .gz, .bz2), if it is there."""
    paths = [] if folder is None else [Path(folder) / (name + ending) for ending in ("", ".xz", ".gz", ".bz2")]
    return next((path for path in paths if path.is_file()), None)


def expect(folder: Path | None, name: str, origin: str) -> Path:
    """The path of a data file that must be there, plain or packed."""
    if folder is None:
        raise DataMissing(f"{name} is needed: name its folder with --data or MEMORYTREE_DATA ({origin})")
    path = find(folder, name)
    if path is None:
        raise DataMissing(f"{Path(folder) / name} was not found, nor the same with .xz, .gz or .bz2 ({origin})")
    return path


def files_of(name: str, folder: Path | None) -> str:
    """A digest of the names and sizes of a data set's files, to notice when they are others; empty where there are none."""
    family = re.sub(r"-\d+$", "", name)
    here = Path(folder or "") / FOLDERS.get(family, name)
    if folder is None or not here.is_dir():
        return ""
    told = sorted((path.name, path.stat().st_size) for path in here.iterdir() if path.is_file())
    return hashlib.sha256(repr(told).encode()).hexdigest()[:10]


def indicator(places: list[list[int]], width: int) -> Any:
    """A matrix that is 1 at the places given for each row."""
    bounds = np.cumsum([0, *map(len, places)])
    columns = np.array([place for row in places for place in row], np.int32)
    return sp.csr_matrix((np.ones(len(columns), np.float32), columns, bounds), shape=(len(places), width))


def unit(rows: np.ndarray) -> np.ndarray:
    """Rows at length one, as float32."""
    rows = np.asarray(rows, np.float32)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), np.float32)
