"""Exact nearest neighbours: every memory is compared with the query, or all that share a term with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from memorytree.lab.datasets import Dataset
from memorytree.lab.measuring import cpu_seconds
from memorytree.lab.peers.base import Growing, Narrow, Rememberer

CHUNK = 500


class Exact(Rememberer):
    """Exact search: Euclidean among dense keys, by cosine among sparse ones (for keys of length one it is the same)."""

    name, title = "exact-1nn", "Exact 1-NN"
    linear, incremental, grows = True, True, True

    def prepare(self, data: Dataset) -> None:
        self.kind = data.kind

    def fit(self, data: Dataset) -> None:
        self.remember(data)
        self._hold(data.train)

    def _hold(self, keys: Any) -> None:
        self.sparse = sp.issparse(keys)
        if self.sparse:
            lengths = np.sqrt(np.asarray(keys.multiply(keys).sum(axis=1)).ravel())
            # Columns of the memories in a row each: a product then reads only those which the query has.
            self.columns = (sp.diags(1 / np.maximum(lengths, 1e-30)) @ keys).T.tocsr().astype(np.float32)
        else:
            self.rows = Growing(keys)
            self.lengths = Growing(np.einsum("ij,ij->i", keys, keys))

    def learn_one(self, x: Any, truth: Any) -> None:
        self.remember_one(truth)
        if not hasattr(self, "sparse"):
            self._hold(x)
        elif self.sparse:
            self._hold(sp.vstack([self.columns.T, x]).tocsr())
        else:
            self.rows.append(x[0])
            self.lengths.append(x[0] @ x[0])

    def nearest(self, rows: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        search = self._nearest_sparse if self.sparse else self._nearest_dense
        parts = [search(rows[first : first + CHUNK], k) for first in range(0, rows.shape[0], CHUNK)]
        return np.concatenate([found for found, _ in parts]), np.concatenate([alike for _, alike in parts])

    def _nearest_dense(self, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        # |key|^2 - 2 key.query ranks keys as their distance does.
        distance = self.lengths.rows - 2 * (rows @ self.rows.rows.T)
        if k == 1:
            found = distance.argmin(axis=1)[:, None]
        else:
            k = min(k, distance.shape[1])
            found = np.argpartition(distance, k - 1, axis=1)[:, :k]
            order = np.argsort(np.take_along_axis(distance, found, axis=1), axis=1, kind="stable")
            found = np.take_along_axis(found, order, axis=1)
        squared = np.take_along_axis(distance, found, axis=1) + (rows * rows).sum(axis=1)[:, None]
        return found, 1 - squared / 2

    def _nearest_sparse(self, rows: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        products = sp.csr_matrix(rows @ self.columns)
        found, alike = np.full((rows.shape[0], k), -1), np.zeros((rows.shape[0], k), np.float32)
        for row, (first, last) in enumerate(zip(products.indptr[:-1].tolist(), products.indptr[1:].tolist(), strict=True)):
            here = products.data[first:last]
            if k == 1 and len(here):
                best = np.array([here.argmax()])
            else:
                few = np.argpartition(here, -k)[-k:] if len(here) > k else np.arange(len(here))
                best = few[np.argsort(-here[few], kind="stable")]
            found[row, : len(best)], alike[row, : len(best)] = products.indices[first:last][best], here[best]
        return found, alike

    def bytes(self) -> int | None:
        if not self.sparse:
            return int(self.lengths.rows.nbytes)
        return int(self.columns.data.nbytes + self.columns.indices.nbytes + self.columns.indptr.nbytes)


def nearest_rows(train: Any, test: Any) -> np.ndarray:
    """For every test row the number of the training row nearest to it.

    A text without a known word is near to nothing: among rows of length one it would be nearer than most.
    """
    search = Exact()
    search._hold(train)
    return np.maximum(search.nearest(test, 1)[0][:, 0], 0)


class CountScan:
    """Euclidean search among rows of counts with as little around it as can be: one product with a dense query."""

    def __init__(self, counts: Any):
        self.narrow = Narrow(counts)
        self.counts = self.narrow(counts)
        self.lengths = np.asarray(counts.multiply(counts).sum(axis=1), np.float32).ravel()

    def distances(self, query: Any) -> np.ndarray:
        """What ranks all rows by their distance to a narrow query."""
        dense = np.zeros(self.narrow.width, np.float32)
        dense[query.indices] = query.data
        return np.asarray(self.lengths - 2 * (self.counts @ dense))


class ExactCounts(Rememberer):
    """The paper's exact search: Euclidean on counts of hashed words, one scan of all memories for a query."""

    name, title = "exact-1nn-counts", "Exact 1-NN, Euclid on counts"
    keys = frozenset({"sparse"})
    kinds = frozenset({"classes", "retrieval"})
    reads = "texts"
    linear = True

    def fit(self, data: Dataset) -> None:
        from memorytree.estimators import text_keys

        self.remember(data)
        self.counter = text_keys(tfidf=False)
        self.uncounted_s, counts = cpu_seconds(lambda: self.counter.transform(data.texts).astype(np.float32))
        self.scan = CountScan(counts)

    def ready(self, rows: Any) -> Any:
        # Words that no memory has change nothing in the ranking.
        return rows if sp.issparse(rows) else self.scan.narrow(self.counter.transform(rows).astype(np.float32))

    def nearest(self, rows: Any, k: int) -> tuple[np.ndarray, np.ndarray]:
        found = np.empty((rows.shape[0], k), np.int64)
        for row in range(rows.shape[0]):
            distance = self.scan.distances(rows[row])
            found[row] = np.argsort(distance, kind="stable")[:k] if k > 1 else distance.argmin()
        return found, np.zeros(found.shape)
