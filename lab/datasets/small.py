"""Small synthetic sets, one of each kind, for quick runs without data files."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lab.datasets.base import Dataset, Rows, indicator, unit

VOCABULARY, OWN_WORDS = 2_000, 8
TESTS = 300


def classes(seed: int = 0) -> Dataset:
    """Return sixty classes of fifteen dense rows; half of the features are informative, the others are noise."""
    chance = np.random.default_rng(0)
    centres = chance.standard_normal((60, 16))

    def draw(labels: np.ndarray) -> np.ndarray:
        informative = centres[labels] + 0.6 * chance.standard_normal((len(labels), 16))
        return np.hstack([informative, chance.standard_normal((len(labels), 16))]).astype(np.float32)

    truth, test_truth = chance.permutation(np.repeat(np.arange(60), 15)), chance.integers(0, 60, TESTS)
    return Dataset("made-classes", "classes", draw(truth), truth, draw(test_truth), test_truth).seeded(seed)


def text(seed: int = 0) -> Dataset:
    """Return two hundred classes of three texts: a few words of the class among random words."""
    chance = np.random.default_rng(1)
    vocabulary = TopicWords(200, chance)
    truth, test_truth = chance.permutation(np.repeat(np.arange(200), 3)), chance.integers(0, 200, TESTS)
    drawn = (vocabulary.draw([[topic] for topic in classes.tolist()]) for classes in (truth, test_truth))
    (train, texts), (test, test_texts) = drawn
    return Dataset("made-text", "classes", train, truth, test, test_truth, texts, test_texts).seeded(seed)


def labels(seed: int = 0) -> Dataset:
    """Return forty labels, one to three for each text, which has words of each of its labels."""
    chance = np.random.default_rng(2)
    vocabulary = TopicWords(40, chance)

    def draw(rows: int) -> tuple[Any, Any, list[str]]:
        sets = [sorted(chance.choice(40, chance.integers(1, 4), replace=False).tolist()) for _ in range(rows)]
        keys, texts = vocabulary.draw(sets)
        return keys, indicator(sets, 40), texts

    (train, truth, texts), (test, test_truth, test_texts) = draw(800), draw(TESTS)
    return Dataset("made-labels", "labels", train, truth, test, test_truth, texts, test_texts).seeded(seed)


def retrieval(seed: int = 0) -> Dataset:
    """Return texts about two of fifty topics, with similar values for similar topics; the seed splits."""
    chance = np.random.default_rng(3)
    vocabulary, looks = TopicWords(50, chance), chance.standard_normal((50, 24))
    topics = np.sort(chance.integers(0, 50, (800, 2)), axis=1)
    values = unit(looks[topics].sum(axis=1) + 0.5 * chance.standard_normal((800, 24)))
    keys, texts = vocabulary.draw(topics.tolist())
    order = np.random.default_rng(seed).permutation(800)
    tested, kept = order[:80], order[80:]

    def words(rows: np.ndarray) -> list[str]:
        return [texts[row] for row in rows.tolist()]

    return Dataset(
        "made-retrieval", "retrieval", keys[kept], values[kept], keys[tested], values[tested], words(kept), words(tested)
    )  # fmt: skip


class TopicWords:
    """Draws words for topics; every topic has a few words, some of which other topics share by chance."""

    def __init__(self, topics: int, chance: np.random.Generator):
        self.chance = chance
        self.own = chance.integers(0, VOCABULARY, (topics, OWN_WORDS))

    def draw(self, topics: list[list[int]]) -> tuple[Rows, list[str]]:
        """Return for each list of topics a unit row of words, and the same words as a text."""
        rows = []
        for some in topics:
            meant = [self.chance.choice(self.own[topic], OWN_WORDS - 3, replace=False) for topic in some]
            rows.append(np.concatenate([*meant, self.chance.integers(0, VOCABULARY, 6)]))
        bounds = np.cumsum([0, *map(len, rows)])
        keys = sp.csr_matrix((np.ones(bounds[-1], np.float32), np.concatenate(rows), bounds), (len(rows), VOCABULARY))
        keys.sum_duplicates()
        lengths = np.sqrt(np.asarray(keys.multiply(keys).sum(axis=1)).ravel())
        texts = [" ".join(f"word{word}" for word in row.tolist()) for row in rows]
        return sp.csr_matrix(sp.diags(1 / lengths) @ keys, dtype=np.float32), texts


SMALL = {"made-classes": classes, "made-text": text, "made-labels": labels, "made-retrieval": retrieval}
