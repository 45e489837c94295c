"""Synthetic data of any size."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lab.datasets.base import Dataset

ROWS_A_CLUSTER = 100


class Clusters:
    """Gaussian clusters: standard normal centres, every row its centre plus normal noise of size `spread`."""

    def __init__(self, centres: int, dims: int = 128, spread: float = 0.5, seed: int = 0):
        self.rng = np.random.default_rng(seed)
        self.centres = self.rng.standard_normal((centres, dims), dtype=np.float32)
        self.spread = np.float32(spread)

    def draw(self, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Return (keys, labels) of the next rows."""
        labels = self.rng.integers(0, len(self.centres), rows)
        keys = self.rng.standard_normal((rows, self.centres.shape[1]), dtype=np.float32)
        keys *= self.spread
        keys += self.centres[labels]
        return keys, labels


def clusters(rows: int, seed: int = 0, tests: int = 1000) -> Dataset:
    """Return this many rows in clusters of about a hundred; the class is the cluster."""
    made = Clusters(max(10, rows // ROWS_A_CLUSTER), seed=seed)
    return Dataset(f"clusters-{rows}", "classes", *made.draw(rows), *made.draw(tests))


def embeddings(rows: int, seed: int = 0, dims: int = 96, latent: int = 20) -> np.ndarray:
    """Return made-up embeddings of unit length: latent dimensions through a random network of two layers, and noise."""
    rng = np.random.default_rng(seed)
    first, second = rng.normal(size=(latent, 64)), rng.normal(size=(64, dims))
    inner = rng.normal(size=(rows, latent)) * np.arange(1, latent + 1) ** -0.5
    keys = np.tanh(0.7 * inner @ first) @ second + 0.3 * rng.normal(size=(rows, dims))
    return (keys / np.linalg.norm(keys, axis=1, keepdims=True)).astype(np.float32)


TOPICS, WORDS = 3000, 50_000


def texts(rows: int, seed: int = 0) -> sp.csr_matrix:
    """Return rows of 5 to 50 words with the frequencies of Zipf's law; half of the words are those of the row's topic.

    Weights are 1 + ln count, times the inverse document frequency.
    """
    rng = np.random.default_rng(seed)
    chances = np.arange(1, WORDS + 1) ** -1.1
    lengths, topics = rng.integers(5, 51, rows), rng.integers(0, TOPICS, rows)
    owner = np.repeat(np.arange(rows), lengths)
    word = np.minimum(np.searchsorted(np.cumsum(chances / chances.sum()), rng.random(len(owner))), WORDS - 1)
    # A topic has its own order of words by frequency.
    of_topic = (word * 7919 + topics[owner] * 104_729) % WORDS
    columns = np.where(rng.random(len(owner)) < 0.5, of_topic, word)
    matrix = sp.csr_matrix((np.ones(len(owner), np.float32), (owner, columns)), shape=(rows, WORDS))
    matrix.sum_duplicates()
    documents = np.bincount(matrix.indices, minlength=WORDS)
    rarity = np.log((rows + 1) / (documents + 1)) + 1
    matrix.data = ((1 + np.log(matrix.data)) * rarity[matrix.indices]).astype(np.float32)
    return matrix
