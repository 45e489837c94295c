"""BM25 over an inverted index."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lab.baselines.base import NeighbourBaseline
from lab.datasets import Dataset, Rows
from lab.measuring import cpu_seconds


class Words(list[list[str]]):
    """The words of each text."""


class Bm25(NeighbourBaseline):
    """bm25s on the words of texts; if there are no texts, on the features of sparse keys."""

    name, title = "bm25", "BM25, inverted index"
    keys = frozenset({"sparse"})
    needs = ("bm25s",)
    reads = "either"
    linear = True

    def fit(self, data: Dataset) -> None:
        import bm25s

        self.store_truth(data)
        self.excluded_s, words = cpu_seconds(lambda: self.encode(data.train if data.texts is None else data.texts))
        self.index = bm25s.BM25()
        self.index.index(words, show_progress=False)

    def encode(self, rows: Rows) -> Words:
        import bm25s

        if isinstance(rows, Words):
            return rows
        if sp.issparse(rows):
            return Words([[str(place) for place in row.indices.tolist()] for row in rows])
        return Words(bm25s.tokenize(rows, stopwords=None, return_ids=False, show_progress=False))

    def nearest(self, rows: Words, k: int) -> tuple[np.ndarray, np.ndarray]:
        found, scores = self.index.retrieve(rows, k=k, show_progress=False, n_threads=0)
        # Votes need similarities of at most 1: the score is divided by that of the best memory.
        best = np.maximum(scores.max(axis=1, keepdims=True), 1e-9)
        return np.where(scores > 0, found, -1), scores / best
