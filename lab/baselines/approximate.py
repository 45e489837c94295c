"""Approximate nearest neighbours among dense vectors: KD-tree, hnswlib, faiss.

Sparse keys are projected to dense vectors first; the time for that is part of fit and of predict.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from lab.baselines.base import ColumnSubset, NeighbourBaseline
from lab.datasets import Dataset, Rows, Truth
from lab.datasets.base import unit
from memorytree.errors import InvalidOption

M, EF_CONSTRUCTION = 16, 100


class DenseProjection:
    """Projects sparse keys to unit vectors (truncated SVD), and dense keys to fewer dimensions if `dense_too` (PCA)."""

    def __init__(self, keys: Rows, width: int, seed: int, dense_too: bool = False):
        from sklearn.decomposition import PCA, TruncatedSVD

        self.sparse, self.axes, self.center = sp.issparse(keys), None, np.float32(0)
        if self.sparse:
            self.narrow = ColumnSubset(keys)
            width = min(width, self.narrow.width - 1, keys.shape[0] - 1)
            self.axes = TruncatedSVD(width, random_state=seed).fit(self.narrow(keys)).components_.T.astype(np.float32)
        elif dense_too and min(keys.shape) > width:
            model = PCA(width, svd_solver="randomized", random_state=seed).fit(keys)
            self.axes, self.center = model.components_.T.astype(np.float32), model.mean_.astype(np.float32)

    def __call__(self, rows: Rows) -> np.ndarray:
        if self.sparse:
            return unit(self.narrow(rows) @ self.axes)
        return np.ascontiguousarray(rows if self.axes is None else (rows - self.center) @ self.axes, np.float32)


class VectorBaseline(NeighbourBaseline):
    """A baseline that searches dense vectors."""

    width: ClassVar[int] = 200
    reduces_dense: ClassVar[bool] = False
    projection: DenseProjection | None = None

    def prepare(self, data: Dataset) -> None:
        self.kind = data.kind

    def fit(self, data: Dataset) -> None:
        self.store_truth(data)
        self.projection = DenseProjection(data.train, self.width, self.seed, self.reduces_dense)
        self.index(self.projection(data.train))

    @abstractmethod
    def index(self, vectors: np.ndarray) -> None:
        """Build the index of these vectors."""

    @abstractmethod
    def search(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the row numbers of the nearest vectors and their squared distances, both (n, k)."""

    def vectors(self, rows: Rows) -> np.ndarray:
        """Return rows as dense vectors."""
        if self.projection is None:
            if sp.issparse(rows):
                raise InvalidOption(f"{self.name} needs a fit first: the projection of sparse keys is fitted to many rows")
            self.projection = DenseProjection(rows, self.width, self.seed)
        return self.projection(rows)

    def nearest(self, rows: Rows, k: int) -> tuple[np.ndarray, np.ndarray]:
        found, squared = self.search(self.vectors(rows), k)
        return np.asarray(found, np.int64), 1 - squared / 2


class KdTree(VectorBaseline):
    """The paper's KD-tree, on randomised PCA of dense keys and on truncated SVD of sparse ones."""

    name, title = "kd-tree", "KD-tree on PCA"
    reduces_dense = True
    needs = ("sklearn",)

    def index(self, vectors: np.ndarray) -> None:
        from sklearn.neighbors import KDTree

        self.tree = KDTree(vectors)

    def search(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        distance, found = self.tree.query(vectors, k)
        return found, distance**2


class Hnsw(VectorBaseline):
    """hnswlib on one thread, a common choice for approximate search over dense keys."""

    name, title = "hnswlib", "hnswlib"
    needs = ("hnswlib",)
    incremental, grows = True, True
    keys = frozenset({"dense", "sparse"})
    defaults: ClassVar[dict[str, Any]] = {**NeighbourBaseline.defaults, "ef": 64}

    def index(self, vectors: np.ndarray) -> None:
        self.graph = hnsw_of(vectors)

    def search(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        self.graph.set_ef(max(self.options["ef"], k))
        found, squared = self.graph.knn_query(vectors, k=min(k, self.graph.get_current_count()), num_threads=1)
        return found, squared

    def learn_one(self, x: Rows, truth: Truth) -> None:
        self.append_truth(truth)
        vectors = self.vectors(x)
        if not hasattr(self, "graph"):
            return self.index(vectors)
        count = self.graph.get_current_count()
        if count == self.graph.get_max_elements():
            self.graph.resize_index(2 * count)
        self.graph.add_items(vectors, np.array([count]), num_threads=1)
        return None

    def bytes(self) -> int | None:
        return int(self.graph.index_file_size())


def hnsw_of(vectors: np.ndarray) -> Any:
    """Return an hnswlib index of these vectors."""
    import hnswlib

    index = hnswlib.Index(space="l2", dim=vectors.shape[1])
    index.init_index(max_elements=len(vectors), M=M, ef_construction=EF_CONSTRUCTION, random_seed=100)
    index.set_num_threads(1)
    index.add_items(vectors, np.arange(len(vectors)), num_threads=1)
    return index


def nearest_by_hnsw(index: Any, vectors: np.ndarray, k: int, ef: int) -> np.ndarray:
    """Return the row numbers of the k nearest vectors, (n, k); the search keeps `ef` candidates."""
    index.set_ef(ef)
    return np.asarray(index.knn_query(vectors, k=k, num_threads=1)[0])


class Faiss(VectorBaseline):
    """A faiss index on one thread."""

    needs = ("faiss",)
    grows = True

    @abstractmethod
    def make(self, vectors: np.ndarray) -> Any:
        """Return an empty index, trained if its kind needs it."""

    def index(self, vectors: np.ndarray) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.faiss_index = self.make(vectors)
        self.faiss_index.add(vectors)

    def search(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        distance, found = self.faiss_index.search(vectors, min(k, self.faiss_index.ntotal))
        return found, distance

    def learn_one(self, x: Rows, truth: Truth) -> None:
        self.append_truth(truth)
        if hasattr(self, "faiss_index"):
            self.faiss_index.add(self.vectors(x))
        else:
            self.index(self.vectors(x))

    def bytes(self) -> int | None:
        import faiss

        return int(faiss.serialize_index(self.faiss_index).nbytes)


class FaissLsh(Faiss):
    """Locality-sensitive hashing: signs of random projections, all codes scanned by their Hamming distance."""

    name, title = "faiss-lsh", "faiss LSH"
    linear, incremental = True, True
    defaults: ClassVar[dict[str, Any]] = {**NeighbourBaseline.defaults, "bits": 1024}

    def make(self, vectors: np.ndarray) -> Any:
        import faiss

        return faiss.IndexLSH(vectors.shape[1], self.options["bits"])

    def search(self, vectors: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        found, differing = super().search(vectors, k)
        # The share of bits that differ is the angle over pi.
        return found, 2 - 2 * np.cos(np.pi * differing / self.options["bits"])


class FaissIvf(Faiss):
    """Inverted lists: vectors by the nearest of about 4 sqrt(n) centres, a few lists scanned."""

    name, title = "faiss-ivf", "faiss IVF"
    defaults: ClassVar[dict[str, Any]] = {**NeighbourBaseline.defaults, "probes": 8}

    def make(self, vectors: np.ndarray) -> Any:
        import faiss

        n, width = vectors.shape
        lists = max(1, min(int(4 * n**0.5), n // 39))  # faiss recommends 39 vectors for each centre
        index = faiss.IndexIVFFlat(faiss.IndexFlatL2(width), width, lists)
        index.cp.seed = self.seed + 1
        index.train(vectors)
        index.nprobe = self.options["probes"]
        return index
