"""The data set class, the search for its files, and the order of its rows."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from memorytree.errors import DataMissing

Rows: TypeAlias = Any
"""Keys, one a row: a float32 array or a CSR matrix (SciPy has no type stubs). Baselines may also read a list of texts."""

Truth: TypeAlias = Any
"""The truth of rows: int64 classes, label sets as a CSR indicator matrix, or the unit features of values."""

KINDS = ("classes", "labels", "retrieval")
TEST_ROWS = 2000
FOLDERS = {"omniglot": "omniglot", "wikipara": "wikipara10k"}  # of sets that differ only in their rows per class


@dataclass(frozen=True)
class Dataset:
    """Training rows with their classes, label sets or values, and test rows.

    Attributes:
        name: as given to `load`.
        kind: "classes" (one class a row), "labels" (a set of labels a row) or "retrieval" (a value a row).
        train: the training keys, one a row: a float32 array or a CSR matrix.
        truth: classes as int64, label sets as a CSR indicator matrix, or the features of the values as unit vectors.
        test: the test keys.
        test_truth: their classes, label sets or values.
        texts: the texts of the training keys, if the keys were made of texts.
        test_texts: the texts of the test keys.
    """

    name: str
    kind: str
    train: Rows
    truth: Truth
    test: Rows
    test_truth: Truth
    texts: list[str] | None = None
    test_texts: list[str] | None = None

    @property
    def sparse(self) -> bool:
        """Whether the keys are sparse."""
        return bool(sp.issparse(self.train))

    @property
    def rows(self) -> int:
        """The number of training rows."""
        return int(self.train.shape[0])

    @property
    def answers(self) -> int:
        """The number of classes or labels, or of the features of a value."""
        if self.kind == "classes":
            return int(max(self.truth.max(initial=-1), self.test_truth.max(initial=-1))) + 1
        return int(self.truth.shape[1])

    @property
    def arrays(self) -> tuple[Rows, Truth, Rows, Truth]:
        """(train, truth, test, test_truth)."""
        return self.train, self.truth, self.test, self.test_truth

    def with_rows(self, order: np.ndarray) -> Dataset:
        """Return the data set with these training rows in this order."""
        texts = None if self.texts is None else [self.texts[i] for i in order.tolist()]
        return replace(self, train=self.train[order], truth=self.truth[order], texts=texts)

    def with_test_rows(self, order: np.ndarray) -> Dataset:
        """Return the data set with these test rows in this order."""
        texts = None if self.test_texts is None else [self.test_texts[i] for i in order.tolist()]
        return replace(self, test=self.test[order], test_truth=self.test_truth[order], test_texts=texts)

    def seeded(self, seed: int) -> Dataset:
        """Return the data set with its training rows in the order of this seed; 0 keeps their order."""
        return self.with_rows(np.random.default_rng(seed).permutation(self.rows)) if seed else self

    def fixed_split(self, tests: int | None = TEST_ROWS) -> Dataset:
        """Return the data set with its training rows in a fixed random order and the first `tests` test rows of another."""
        shown = self.with_rows(np.random.default_rng(1).permutation(self.rows))
        return shown.with_test_rows(np.random.default_rng(0).permutation(self.test.shape[0])[:tests])


def data_folder(given: Path | None = None) -> Path | None:
    """Return the given folder, or that of MEMORYTREE_DATA, or the shared folder beside the checkout, if it exists."""
    if given or os.environ.get("MEMORYTREE_DATA"):
        return Path(given or os.environ["MEMORYTREE_DATA"])
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    return beside if beside.is_dir() else None


def find_file(folder: Path | None, name: str) -> Path | None:
    """Return the path of a data file, plain or packed (.xz, .gz, .bz2), or None if there is none."""
    paths = [] if folder is None else [Path(folder) / (name + ending) for ending in ("", ".xz", ".gz", ".bz2")]
    return next((path for path in paths if path.is_file()), None)


def require_file(folder: Path | None, name: str, origin: str) -> Path:
    """Return the path of a data file, plain or packed; raise `DataMissing` if there is none."""
    if folder is None:
        raise DataMissing(f"{name} is needed: set its folder with --data or MEMORYTREE_DATA ({origin})")
    path = find_file(folder, name)
    if path is None:
        raise DataMissing(f"{Path(folder) / name} was not found, nor the same with .xz, .gz or .bz2 ({origin})")
    return path


def files_digest(name: str, folder: Path | None) -> str:
    """Return a digest of the names and sizes of a data set's files, to detect changes; empty if there are no files."""
    family = re.sub(r"-\d+$", "", name)
    family_folder = Path(folder or "") / FOLDERS.get(family, name)
    if folder is None or not family_folder.is_dir():
        return ""
    files = sorted((path.name, path.stat().st_size) for path in family_folder.iterdir() if path.is_file())
    return hashlib.sha256(repr(files).encode()).hexdigest()[:10]


def indicator(places: list[list[int]], width: int) -> Truth:
    """Return a CSR matrix with ones at the given columns of each row."""
    bounds = np.cumsum([0, *map(len, places)])
    columns = np.array([place for row in places for place in row], np.int32)
    return sp.csr_matrix((np.ones(len(columns), np.float32), columns, bounds), shape=(len(places), width))


def unit(rows: np.ndarray) -> np.ndarray:
    """Return rows scaled to length one, as float32."""
    rows = np.asarray(rows, np.float32)
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9), np.float32)
