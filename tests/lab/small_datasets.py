"""Small synthetic data sets, one of each kind."""

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from lab.datasets import Dataset
from lab.datasets.base import unit
from lab.datasets.synthetic import Clusters

WORDS = 40  # words that belong to one class only


def dense_classes(rows=300, tests=60) -> Dataset:
    """Five clusters far from each other."""
    made = Clusters(5, dims=12, spread=0.2, seed=1)
    return Dataset("tiny", "classes", *made.draw(rows), *made.draw(tests))


def texts_of(classes, rng) -> list[str]:
    """Texts of eight words each, seven of them words of the class."""
    return [
        " ".join([*(f"w{c}x{rng.integers(WORDS)}" for _ in range(7)), f"common{rng.integers(5)}"]) for c in classes.tolist()
    ]


def sparse_classes(rows=300, tests=60) -> Dataset:
    """Texts of five classes as TF-IDF rows."""
    from lab.datasets.standard import text_classes

    rng = np.random.default_rng(2)
    truth, test_truth = rng.integers(0, 5, rows), rng.integers(0, 5, tests)
    return text_classes("tiny", (texts_of(truth, rng), truth), (texts_of(test_truth, rng), test_truth), {})


def labels(rows=300, tests=60) -> Dataset:
    """The same with one label for the class and one for whether it is odd."""
    data = sparse_classes(rows, tests)

    def sets(truth):
        return sp.csr_matrix(np.eye(7, dtype=np.float32)[truth] + np.eye(7, dtype=np.float32)[5 + truth % 2])

    return replace(data, kind="labels", truth=sets(data.truth), test_truth=sets(data.test_truth))


def retrieval(rows=300, tests=60) -> Dataset:
    """The same with values that are alike within a class."""
    data, rng = sparse_classes(rows, tests), np.random.default_rng(3)
    centres = rng.standard_normal((5, 16))

    def values(truth):
        return unit(centres[truth] + 0.1 * rng.standard_normal((len(truth), 16)))

    return replace(data, kind="retrieval", truth=values(data.truth), test_truth=values(data.test_truth))


def write_vw(folder, data: Dataset) -> str:
    """Write a data set with classes as VW text; returns the name under which processes load it."""
    from lab.datasets.formats import vw_lines

    for name, keys, truth in (("train", data.train, data.truth), ("test", data.test, data.test_truth)):
        (folder / f"{name}.vw").write_text("".join(vw_lines(keys, map(str, truth.tolist()))))
    return f"vw:{folder}"
