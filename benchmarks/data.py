"""The data sets as arrays: made here, or read from a folder that the user names.

Real sets keep their standing splits, so that figures can be compared: training rows in one fixed random order, the
first 2,000 test rows of another. Quick runs take the first so many classes only.
"""

import csv
import json
import lzma
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

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


def standing_split(train, labels, test, answers, tests: int | None = TEST_ROWS):
    train_order = np.random.default_rng(1).permutation(train.shape[0])
    test_order = np.random.default_rng(0).permutation(test.shape[0])[:tests]
    return train[train_order], labels[train_order], test[test_order], answers[test_order]


def omniglot(folder: Path | None, shots: int = 15, *, classes: int | None = None, tests: int | None = TEST_ROWS):
    """Hand-written characters as unit HoG vectors, `shots` drawings of each of 1,623; drawers 15 to 19 are the test."""
    origin = "HoG features of Omniglot, https://github.com/brendenlake/omniglot"
    with np.load(expect(folder, "omniglot/hog.npz", origin)) as file:
        keys = file["F"].astype(np.float32)
        labels, drawer = file["y"].astype(np.int64), file["drawer"].astype(np.int64)
    keys /= np.maximum(np.linalg.norm(keys, axis=1, keepdims=True), 1e-9)
    drawer -= drawer.min()
    known = labels < (classes or len(labels))
    train, test = known & (drawer < shots), known & (drawer >= 15)
    return standing_split(keys[train], labels[train], keys[test], labels[test], tests)


def wikipara(folder: Path | None, shots: int = 3, *, classes: int | None = None, tests: int | None = TEST_ROWS):
    """Paragraphs of 10,000 articles as TF-IDF rows, `shots` of each article; the class is the article."""

    def read(name, shots):
        path = expect(folder, f"wikipara10k/{name}", "paragraphs of Wikipedia articles: label, shot, title, text")
        with lzma.open(path, "rt", encoding="utf8") as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        kept = [row for row in rows if int(row[1]) < shots and int(row[0]) < (classes or len(rows))]
        return [row[3] for row in kept], np.array([row[0] for row in kept], np.int64)

    everything = 10**9
    words = {"stop_words": "english"}
    return text_rows(read("train.tsv.xz", shots), read("test.tsv.xz", everything), words, tests)


def clinc(folder: Path | None, *, classes: int | None = None, tests: int | None = TEST_ROWS):
    """Questions to an assistant as TF-IDF rows of words and pairs of words; the class is one of 150 intents."""
    origin = "data_full.json of CLINC150, https://github.com/clinc/oos-eval, packed with xz"
    with lzma.open(expect(folder, "clinc150/data_full.json.xz", origin), "rt", encoding="utf8") as file:
        parts = json.load(file)
    names = {name: number for number, name in enumerate(sorted({name for _, name in parts["train"]}))}

    def rows(part):
        kept = [(text, names[name]) for text, name in parts[part] if names[name] < (classes or len(names))]
        return [text for text, _ in kept], np.array([label for _, label in kept], np.int64)

    return text_rows(rows("train"), rows("test"), {"ngram_range": (1, 2)}, tests)


def text_rows(train, test, words: dict, tests: int | None):
    """Split (texts, labels) twice over into TF-IDF rows; the vocabulary is that of the training texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32, **words)
    keys = vectorizer.fit_transform(train[0])
    return standing_split(keys, train[1], vectorizer.transform(test[0]), test[1], tests)


def flickr_files(folder: Path | None):
    """(image, caption) for each caption, and the features of images, at length one, by name."""
    origin = "captions of Flickr8k, and 1,280 features of each image by a network trained on ImageNet"
    with lzma.open(expect(folder, "flickr8k/captions.csv.xz", origin), "rt", encoding="utf8") as file:
        captions = [(row["image"], row["caption"]) for row in csv.DictReader(file)]
    with np.load(expect(folder, "flickr8k/features.npz", origin)) as file:
        names, features = [Path(name).name for name in file["files"].tolist()], file["feat"].astype(np.float32)
    features /= np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-9)
    return captions, dict(zip(names, features, strict=True))


def flickr(folder: Path | None, seed: int, *, images: int | None = None):
    """Captions and what a network sees in the images: (texts, features) of nine tenths of the images, then of the others.

    A text is the five captions of an image together. The seed makes the split.
    """
    captions, features = flickr_files(folder)
    texts: dict[str, list[str]] = {name: [] for name in features}
    for name, caption in captions:
        texts[name].append(caption)
    order = np.random.default_rng(seed).permutation(len(features))[:images]
    names = [list(features)[i] for i in order.tolist()]
    tests = len(names) // 10

    def part(names):
        return [" ".join(texts[name]) for name in names], np.stack([features[name] for name in names])

    return *part(names[tests:]), *part(names[:tests])


def flickr_captions(folder: Path | None):
    """Every caption as a text of its own, with the features of its image."""
    captions, features = flickr_files(folder)
    return [caption for _, caption in captions], np.stack([features[name] for name, _ in captions])


STANDING = {
    "omniglot 1-shot": (omniglot, {"shots": 1}, 200),
    "omniglot 15-shot": (omniglot, {"shots": 15}, 60),
    "wikipara 1-shot": (wikipara, {"shots": 1}, 500),
    "wikipara 3-shot": (wikipara, {"shots": 3}, 300),
    "clinc150": (clinc, {}, 15),
}


def standing(name: str, job, tests: int | None = TEST_ROWS):
    """Return a data set by its name, or a few of its classes for a quick run: train, labels, test, answers."""
    load, options, few = STANDING[name]
    return load(job.data, **options, classes=few if job.quick else None, tests=tests)


def bibtex(folder: Path | None, *, rows: int | None = None):
    """Articles with some of 159 tags, as TF-IDF rows: train, labels, test, truth; label sets are rows of sparse matrices."""
    from sklearn.feature_extraction.text import TfidfTransformer

    def read(name):
        path = expect(folder, f"bibtex/{name}", "Mulan's bibtex as text of the Extreme Classification Repository, xz")
        with lzma.open(path, "rt", encoding="ascii") as file:
            features, labels = map(int, file.readline().split()[1:])
            lines = [line.rstrip("\n").partition(" ") for line in file][:rows]
        sets = [[int(label) for label in line[0].split(",") if label] for line in lines]
        pairs = [[pair.split(":") for pair in line[2].split()] for line in lines]
        counts = sparse_rows([[int(place) for place, _ in row] for row in pairs], features)
        counts.data = np.array([float(value) for row in pairs for _, value in row], np.float32)
        return counts, sparse_rows(sets, labels)

    (train, labels), (test, truth) = read("train.txt.xz"), read("test.txt.xz")
    weights = TfidfTransformer().fit(train)
    return weights.transform(train).astype(np.float32), labels, weights.transform(test).astype(np.float32), truth


def yso(folder: Path | None, *, rows: int | None = None):
    """Titles of library records with some of 19,918 subjects, as TF-IDF rows of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    def read(name):
        path = expect(folder, f"yso/{name}", "titles with subjects of the Finna metadata corpus: label ids, tab, text")
        with lzma.open(path, "rt", encoding="utf8") as file:
            lines = [line.rstrip("\n").split("\t", 1) for line in file][:rows]
        return [text for _, text in lines], sparse_rows([list(map(int, ids.split(","))) for ids, _ in lines], 19_918)

    (texts, labels), (test_texts, truth) = read("train.tsv.xz"), read("test.tsv.xz")
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
    return vectorizer.fit_transform(texts), labels, vectorizer.transform(test_texts), truth


def sparse_rows(places: list[list[int]], width: int):
    """Return a matrix that is 1 at the places given for each row."""
    bounds = np.cumsum([0, *map(len, places)])
    columns = np.array([place for row in places for place in row], np.int32)
    return sp.csr_matrix((np.ones(len(columns), np.float32), columns, bounds), shape=(len(places), width))


MULTILABEL = {"bibtex": bibtex, "yso": yso}


@dataclass
class Question:
    """A question about a conversation: its words, the numbers of the turns that answer it, and its kind."""

    text: str
    evidence: list[int]
    kind: str


@dataclass
class Conversation:
    """The turns of a long conversation, as (speaker, date, words), and questions about them."""

    name: str
    turns: list[tuple[str, str, str]]
    questions: list[Question]


LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


def locomo(folder: Path | None, *, conversations: int | None = None) -> list[Conversation]:
    """Conversations over many sessions, and the questions for which at least one turn is told that answers them.

    What a turn says of a picture, its caption, belongs to its words.
    """
    origin = "locomo10.json of LoCoMo, https://github.com/snap-research/locomo, packed with xz"
    with lzma.open(expect(folder, "locomo/locomo10.json.xz", origin), "rt", encoding="utf8") as file:
        samples = json.load(file)[:conversations]
    found = []
    for sample in samples:
        sessions = sample["conversation"]
        places: dict[str, int] = {}
        turns = []
        for number in range(1, len(sessions)):
            for turn in sessions.get(f"session_{number}", []):
                places[turn["dia_id"]] = len(turns)
                words = " ".join([turn["text"], turn.get("blip_caption", "")]).strip()
                turns.append((turn["speaker"], sessions[f"session_{number}_date_time"], words))
        questions = []
        for asked in sample["qa"]:
            # A few references are written "D:11:26", "D30:05", or several in one.
            told = re.findall(r"D:?(\d+):(\d+)", " ".join(asked.get("evidence", [])))
            named = {f"D{int(session)}:{int(turn)}" for session, turn in told}
            evidence = sorted(places[name] for name in named if name in places)
            if evidence:
                questions.append(Question(asked["question"], evidence, LOCOMO_KINDS[asked["category"]]))
        found.append(Conversation(sample["sample_id"], turns, questions))
    return found


def nearest(train, test):
    """Return for every test row the number of the training row nearest to it, by exact search.

    Euclidean, but a text without a known word is near to nothing: among rows of length one it would be nearer than most.
    """
    lengths = np.asarray(train.multiply(train).sum(axis=1)).ravel() if sp.issparse(train) else (train * train).sum(axis=1)
    lengths = np.where(lengths > 0, lengths, np.inf)
    found = []
    for first in range(0, test.shape[0], 1000):
        products = test[first : first + 1000] @ train.T
        found.append((lengths - 2 * (products.toarray() if sp.issparse(products) else products)).argmin(axis=1))
    return np.concatenate(found)


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
