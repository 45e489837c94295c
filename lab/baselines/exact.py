"""Exact nearest neighbours: a query is compared with every memory, or with all that share a term with it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from lab.baselines.base import ColumnSubset, GrowableArray, NeighbourBaseline
from lab.datasets import Dataset, Rows, Truth
from lab.measuring import cpu_seconds

CHUNK = 500


class Exact(NeighbourBaseline):
    """Exact search: Euclidean for dense keys, cosine for sparse ones (the same ranking for unit keys)."""

    name, title = "exact-1nn", "Exact 1-NN"
    linear, incremental, grows = True, True, True

    def prepare(self, data: Dataset) -> None:
        self.kind = data.kind

    def fit(self, data: Dataset) -> None:
        self.store_truth(data)
        self.index_keys(data.train)

    def index_keys(self, keys: Rows) -> None:
        """Store the keys that are searched."""
        self.sparse = sp.issparse(keys)
        if self.sparse:
            lengths = np.sqrt(np.asarray(keys.multiply(keys).sum(axis=1)).ravel())
            # Transposed, so that a product reads only the columns of the query.
            self.columns = (sp.diags(1 / np.maximum(lengths, 1e-30)) @ keys).T.tocsr().astype(np.float32)
        else:
            self.rows = GrowableArray(keys)
            self.lengths = GrowableArray(np.einsum("ij,ij->i", keys, keys))

    def learn_one(self, x: Rows, truth: Truth) -> None:
        self.append_truth(truth)
        if not hasattr(self, "sparse"):
            self.index_keys(x)
        elif self.sparse:
            self.index_keys(sp.vstack([self.columns.T, x]).tocsr())
        else:
            self.rows.append(x[0])
            self.lengths.append(x[0] @ x[0])

    def nearest(self, rows: Rows, k: int) -> tuple[np.ndarray, np.ndarray]:
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

    def _nearest_sparse(self, rows: Rows, k: int) -> tuple[np.ndarray, np.ndarray]:
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


def nearest_rows(train: Rows, test: Rows) -> np.ndarray:
    """Return for every test row the number of the nearest training row.

    Cosine is used for sparse rows, because by Euclidean distance an empty row would be nearer than most unit rows.
    """
    search = Exact()
    search.index_keys(train)
    return np.maximum(search.nearest(test, 1)[0][:, 0], 0)


class CountScan:
    """Euclidean search among rows of counts with the least overhead: one product with a dense query."""

    def __init__(self, counts: Rows):
        self.narrow = ColumnSubset(counts)
        self.counts = self.narrow(counts)
        self.lengths = np.asarray(counts.multiply(counts).sum(axis=1), np.float32).ravel()

    def distances(self, query: Rows) -> np.ndarray:
        """Return values that rank all rows by their distance to a query with reduced columns."""
        dense = np.zeros(self.narrow.width, np.float32)
        dense[query.indices] = query.data
        return np.asarray(self.lengths - 2 * (self.counts @ dense))


class ExactCounts(NeighbourBaseline):
    """The paper's exact search: Euclidean on counts of hashed words, a scan of all memories for each query."""

    name, title = "exact-1nn-counts", "Exact 1-NN, Euclid on counts"
    keys = frozenset({"sparse"})
    kinds = frozenset({"classes", "retrieval"})
    reads = "texts"
    linear = True

    def fit(self, data: Dataset) -> None:
        from memorytree.text.features import text_vectorizer

        self.store_truth(data)
        self.counter = text_vectorizer(tfidf=False)
        self.excluded_s, counts = cpu_seconds(lambda: self.counter.transform(data.texts).astype(np.float32))
        self.scan = CountScan(counts)

    def encode(self, rows: Rows) -> Rows:
        # Words that no memory has do not change the ranking.
        return rows if sp.issparse(rows) else self.scan.narrow(self.counter.transform(rows).astype(np.float32))

    def nearest(self, rows: Rows, k: int) -> tuple[np.ndarray, np.ndarray]:
        found = np.empty((rows.shape[0], k), np.int64)
        for row in range(rows.shape[0]):
            distance = self.scan.distances(rows[row])
            found[row] = np.argsort(distance, kind="stable")[:k] if k > 1 else distance.argmin()
        return found, np.zeros(found.shape)
