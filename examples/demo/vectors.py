"""Paragraphs as dense keys: weighted groups of letters, randomly projected.

A paragraph is a bag of four-letter groups (so "cluster" and "clustering" share groups). A group has a larger weight the
rarer it is in background texts that are not part of the task, so no statistics of the task are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import scipy.sparse

from examples.demo.docstrings import words

DIMENSION = 512
GROUP = 4


def make_keys(texts: Sequence[str], background: Sequence[str], rng: np.random.Generator) -> np.ndarray:
    """Return a unit key for each text."""
    number: dict[str, int] = {}
    known = _cached(lambda word: [number.setdefault(group, len(number)) for group in _groups(word)])
    counts = _count(texts, known)
    background_counts = np.bincount(_count(background, known).indices, minlength=len(number))[: counts.shape[1]]
    rarity = np.log((1 + len(background)) / (1 + background_counts))
    counts.data = (1 + np.log(counts.data)) * rarity[counts.indices]
    keys = np.asarray((counts @ _projection(counts.shape[1], rng)).todense(), np.float32)
    return keys / np.maximum(np.linalg.norm(keys, axis=1, keepdims=True), 1e-9)


def _groups(word: str) -> list[str]:
    """Return the groups of letters in a word with its ends: " sor", "sort", "ort "."""
    word = f" {word} "
    return [word[i : i + GROUP] for i in range(max(1, len(word) - GROUP + 1))]


def _cached(compute: Callable[[str], list[int]]) -> Callable[[str], list[int]]:
    cache: dict[str, list[int]] = {}

    def cached(word: str) -> list[int]:
        if word not in cache:
            cache[word] = compute(word)
        return cache[word]

    return cached


def _count(texts: Sequence[str], numbers_of: Callable[[str], list[int]]) -> scipy.sparse.csr_matrix:
    """Return how often each group occurs in each text."""
    bounds, groups = [0], []
    for text in texts:
        for word in words(text):
            groups += numbers_of(word)
        bounds.append(len(groups))
    counts = scipy.sparse.csr_matrix(
        (np.ones(len(groups), np.float32), np.array(groups, np.int32), bounds),
        shape=(len(texts), max(groups, default=0) + 1),
    )
    counts.sum_duplicates()
    return counts


def _projection(groups: int, rng: np.random.Generator) -> scipy.sparse.csr_matrix:
    """Return a random projection: each group adds to or subtracts from one random dimension, which nearly keeps angles."""
    places = rng.integers(DIMENSION, size=groups)
    signs = rng.choice(np.array([-1, 1], np.float32), size=groups)
    return scipy.sparse.csr_matrix((signs, places, np.arange(groups + 1)), shape=(groups, DIMENSION))
