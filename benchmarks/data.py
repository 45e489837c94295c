"""The data sets as arrays: made here, or read from a folder that the user names.

Real sets keep their standing splits, so that figures can be compared: training rows in one fixed random order, the
first 2,000 test rows of another.
"""

import lzma
import os
from pathlib import Path

import numpy as np

TEST_ROWS = 2000


class DataMissingError(Exception):
    """A data set is not where it should be; the message says which file is expected, and where it comes from."""


def data_folder(given: Path | None) -> Path | None:
    """Return the folder asked for, or the one named by MEMORYTREE_DATA, or the one shared beside the checkout."""
    if given or os.environ.get("MEMORYTREE_DATA"):
        return Path(given or os.environ["MEMORYTREE_DATA"])
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return beside if beside.is_dir() else None


def expect(folder: Path | None, name: str, origin: str) -> Path:
    """Return the path of a data file that must be there."""
    if folder is None:
        raise DataMissingError(f"{name} is needed: name its folder with --data or MEMORYTREE_DATA ({origin})")
    path = folder / name
    if not path.is_file():
        raise DataMissingError(f"{path} was not found ({origin})")
    return path


def standing_split(train, labels, test, answers):
    train_order = np.random.default_rng(1).permutation(train.shape[0])
    test_order = np.random.default_rng(0).permutation(test.shape[0])[:TEST_ROWS]
    return train[train_order], labels[train_order], test[test_order], answers[test_order]


def omniglot(folder: Path | None, shots: int = 15):
    """Hand-written characters as unit HoG vectors, `shots` drawings of each of 1,623; drawers 15 to 19 are the test."""
    origin = "HoG features of Omniglot, https://github.com/brendenlake/omniglot"
    with np.load(expect(folder, "omniglot/hog.npz", origin)) as file:
        keys = file["F"].astype(np.float32)
        labels, drawer = file["y"].astype(np.int64), file["drawer"].astype(np.int64)
    keys /= np.maximum(np.linalg.norm(keys, axis=1, keepdims=True), 1e-9)
    drawer -= drawer.min()
    train, test = drawer < shots, drawer >= 15
    return standing_split(keys[train], labels[train], keys[test], labels[test])


def wikipara(folder: Path | None, shots: int = 3):
    """Paragraphs of 10,000 articles as TF-IDF rows, `shots` of each article; the class is the article."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    def read(name):
        path = expect(folder, f"wikipara10k/{name}", "paragraphs of Wikipedia articles: label, shot, title, text")
        with lzma.open(path, "rt", encoding="utf8") as file:
            label, shot, _title, text = zip(*(line.rstrip("\n").split("\t") for line in file), strict=True)
        return np.array(label, np.int64), np.array(shot, np.int64), text

    labels, shot, text = read("train.tsv.xz")
    answers, _, questions = read("test.tsv.xz")
    kept = np.flatnonzero(shot < shots)
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english", dtype=np.float32)
    train = vectorizer.fit_transform([text[row] for row in kept])
    return standing_split(train, labels[kept], vectorizer.transform(questions), answers)


class Clusters:
    """Gaussian clusters: standard normal centres, every row its centre plus normal noise of size `spread`."""

    def __init__(self, centres: int, dims: int = 128, spread: float = 0.5, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.centres = self.rng.standard_normal((centres, dims), dtype=np.float32)
        self.spread = np.float32(spread)

    def draw(self, rows: int):
        """Return (keys, labels) of the next rows."""
        labels = self.rng.integers(0, len(self.centres), rows)
        keys = self.rng.standard_normal((rows, self.centres.shape[1]), dtype=np.float32)
        keys *= self.spread
        keys += self.centres[labels]
        return keys, labels
