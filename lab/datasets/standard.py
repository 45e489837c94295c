"""The standard data sets: real, public, read from a folder that the user names, with fixed splits.

Quick runs take only the first classes, rows or images.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lab.datasets.base import TEST_ROWS, Dataset, Rows, indicator, require_file, unit
from lab.datasets.formats import open_text, read_captions, read_xmc

ALL = 10**9
YSO_LABELS = 19_918


def omniglot(folder: Path | None, shots: int = 15, *, classes: int | None = None, tests: int | None = TEST_ROWS) -> Dataset:
    """Return hand-written characters as unit HoG vectors, `shots` drawings of each of 1,623; drawers 15 to 19 are tests."""
    origin = "HoG features of Omniglot, https://github.com/brendenlake/omniglot"
    with np.load(require_file(folder, "omniglot/hog.npz", origin)) as file:
        keys = unit(file["F"])
        labels, drawer = file["y"].astype(np.int64), file["drawer"].astype(np.int64)
    drawer -= drawer.min()
    known = labels < (classes or ALL)
    train, test = known & (drawer < shots), known & (drawer >= 15)
    name = f"omniglot-{shots}"
    return Dataset(name, "classes", keys[train], labels[train], keys[test], labels[test]).fixed_split(tests)


def wikipara(folder: Path | None, shots: int = 3, *, classes: int | None = None, tests: int | None = TEST_ROWS) -> Dataset:
    """Return paragraphs of 10,000 articles as TF-IDF rows, `shots` of each article; the class is the article."""

    def read(name: str, shots: int) -> tuple[list[str], np.ndarray]:
        path = require_file(folder, f"wikipara10k/{name}", "paragraphs of Wikipedia articles: label, shot, title, text")
        with open_text(path) as file:
            rows = [line.rstrip("\n").split("\t") for line in file]
        kept = [row for row in rows if int(row[1]) < shots and int(row[0]) < (classes or ALL)]
        return [row[3] for row in kept], np.array([row[0] for row in kept], np.int64)

    train, test = read("train.tsv", shots), read("test.tsv", ALL)
    return text_classes(f"wikipara-{shots}", train, test, {"stop_words": "english"}).fixed_split(tests)


def clinc(folder: Path | None, *, classes: int | None = None, tests: int | None = TEST_ROWS) -> Dataset:
    """Return questions to an assistant as TF-IDF rows of words and pairs of words; the class is one of 150 intents."""
    origin = "data_full.json of CLINC150, https://github.com/clinc/oos-eval"
    with open_text(require_file(folder, "clinc150/data_full.json", origin)) as file:
        parts = json.load(file)
    names = {name: number for number, name in enumerate(sorted({name for _, name in parts["train"]}))}

    def rows(part: str) -> tuple[list[str], np.ndarray]:
        kept = [(text, names[name]) for text, name in parts[part] if names[name] < (classes or ALL)]
        return [text for text, _ in kept], np.array([label for _, label in kept], np.int64)

    return text_classes("clinc150", rows("train"), rows("test"), {"ngram_range": (1, 2)}).fixed_split(tests)


def text_classes(
    name: str, train: tuple[list[str], np.ndarray], test: tuple[list[str], np.ndarray], words: dict[str, Any]
) -> Dataset:
    """Return training and test (texts, labels) as TF-IDF rows; the vocabulary is that of the training texts."""
    keys, test_keys = tfidf(train[0], test[0], **words)
    return Dataset(name, "classes", keys, train[1], test_keys, test[1], train[0], test[0])


def tfidf(texts: list[str], test_texts: list[str], **words: Any) -> tuple[Rows, Rows]:
    """Return texts as TF-IDF rows."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32, **words)
    return vectorizer.fit_transform(texts), vectorizer.transform(test_texts)


def bibtex(folder: Path | None, *, rows: int | None = None) -> Dataset:
    """Return articles with some of 159 tags, as TF-IDF rows."""
    from sklearn.feature_extraction.text import TfidfTransformer

    origin = "Mulan's bibtex as text of the Extreme Classification Repository"
    (train, labels), (test, truth) = (
        read_xmc(require_file(folder, f"bibtex/{part}.txt", origin)) for part in ("train", "test")
    )
    weights = TfidfTransformer().fit(train[:rows])
    train, test = (weights.transform(part[:rows]).astype(np.float32) for part in (train, test))
    return Dataset("bibtex", "labels", train, labels[:rows], test, truth[:rows])


def yso(folder: Path | None, *, rows: int | None = None) -> Dataset:
    """Return titles of library records with some of 19,918 subjects, as TF-IDF rows of words."""

    def read(name: str) -> tuple[list[str], Any]:
        path = require_file(folder, f"yso/{name}", "titles with subjects of the Finna metadata corpus: label ids, tab, text")
        with open_text(path) as file:
            lines = [line.rstrip("\n").split("\t", 1) for line in file][:rows]
        return [text for _, text in lines], indicator([list(map(int, ids.split(","))) for ids, _ in lines], YSO_LABELS)

    (texts, labels), (test_texts, truth) = read("train.tsv"), read("test.tsv")
    keys, test_keys = tfidf(texts, test_texts)
    return Dataset("yso", "labels", keys, labels, test_keys, truth, texts, test_texts)


# ---- images by captions


def flickr_files(folder: Path | None) -> tuple[list[tuple[str, str]], dict[str, np.ndarray]]:
    """Return (image, caption) for each caption, and the unit features of images by name."""
    origin = "captions of Flickr8k, and 1,280 features of each image by a network trained on ImageNet"
    captions = read_captions(require_file(folder, "flickr8k/captions.csv", origin))
    with np.load(require_file(folder, "flickr8k/features.npz", origin)) as kept:
        names, features = [Path(name).name for name in kept["files"].tolist()], unit(kept["feat"])
    return captions, dict(zip(names, features, strict=True))


def flickr(folder: Path | None, seed: int = 0, *, images: int | None = None) -> Dataset:
    """Return captions and image features of a network; nine tenths of the images are training rows, and the seed splits."""
    return retrieval("flickr8k", *flickr_files(folder), seed=seed, images=images)


def flickr_captions(folder: Path | None) -> tuple[list[str], np.ndarray]:
    """Return every caption as a text of its own, with the features of its image."""
    captions, features = flickr_files(folder)
    return [caption for _, caption in captions], np.stack([features[name] for name, _ in captions])


def retrieval(
    name: str,
    captions: Iterable[tuple[str, str]],
    features: dict[str, np.ndarray],
    *,
    seed: int,
    images: int | None = None,
) -> Dataset:
    """Return images by captions: a key is all captions of an image, as hashed TF-IDF; a tenth of the images are tests."""
    from memorytree.text.features import text_vectorizer

    texts: dict[str, list[str]] = {image: [] for image in features}
    for image, caption in captions:
        if image in texts:
            texts[image].append(caption)
    order = np.random.default_rng(seed).permutation(len(features))[:images]
    names = [list(features)[i] for i in order.tolist()]
    tests = len(names) // 10

    def part(names: list[str]) -> tuple[list[str], np.ndarray]:
        return [" ".join(texts[image]) for image in names], np.stack([features[image] for image in names])

    (train_texts, values), (test_texts, truth) = part(names[tests:]), part(names[:tests])
    keys = text_vectorizer().fit(train_texts)
    train, test = (keys.transform(rows).astype(np.float32) for rows in (train_texts, test_texts))
    return Dataset(name, "retrieval", train, values, test, truth, train_texts, test_texts)
