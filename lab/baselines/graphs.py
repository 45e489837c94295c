"""Libraries that search dense vectors by a graph, each on one thread: what `./mt bench recall` measures beside memorytree.

A system is built from all keys at once and then asked with settings of rising effort; `name`, `module` and `settings` say
which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from lab.baselines.approximate import EF_CONSTRUCTION, hnsw_of, nearest_by_hnsw
from lab.tree_driver import filled_tree, nearest_ids

EFFORTS = (10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
TARGETS = (0.3, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)


class GraphSystem(ABC):
    """A library with an index of some keys."""

    name: ClassVar[str]
    module: ClassVar[str]
    settings: ClassVar[Sequence[float]] = EFFORTS

    @abstractmethod
    def build(self, keys: np.ndarray) -> None:
        """Index these keys (n, d)."""

    @abstractmethod
    def search(self, queries: np.ndarray, k: int, setting: float) -> np.ndarray:
        """Return the rows of the k nearest keys of each query, (queries, k)."""


class Memorytree(GraphSystem):
    """`MemoryTree(routing="graph")`; a setting is a target recall."""

    name, module, settings = "memorytree", "memorytree", TARGETS

    def build(self, keys: np.ndarray) -> None:
        self.tree = filled_tree(keys, routing="graph", seed=0)

    def search(self, queries: np.ndarray, k: int, setting: float) -> np.ndarray:
        return self.tree.query_many(queries, k, recall=setting).ids

    def search_plainly(self, queries: np.ndarray, k: int) -> np.ndarray:
        """Return the answers without any option."""
        return self.tree.query_many(queries, k).ids


class Principal(GraphSystem):
    """`MemoryTree(routing="principal")`; a setting is the number of leaves that are searched."""

    name, module, settings = "memorytree, principal", "memorytree", (1, 4, 16, 64, 256)

    def build(self, keys: np.ndarray) -> None:
        self.tree = filled_tree(keys, routing="principal", seed=0)

    def search(self, queries: np.ndarray, k: int, setting: float) -> np.ndarray:
        return nearest_ids(self.tree, queries, k, int(setting))


class Hnswlib(GraphSystem):
    """hnswlib, M = 16."""

    name, module = "hnswlib", "hnswlib"

    def build(self, keys: np.ndarray) -> None:
        self.index: Any = hnsw_of(keys)

    def search(self, queries: np.ndarray, k: int, setting: float) -> np.ndarray:
        return nearest_by_hnsw(self.index, queries, k, int(setting))


class FaissHnsw(GraphSystem):
    """faiss, HNSW with M = 16 over whole keys."""

    name, module = "faiss HNSW", "faiss"

    def build(self, keys: np.ndarray) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self.index = faiss.IndexHNSWFlat(keys.shape[1], 16)
        self.index.hnsw.efConstruction = EF_CONSTRUCTION
        self.index.add(keys)

    def search(self, queries: np.ndarray, k: int, setting: float) -> np.ndarray:
        self.index.hnsw.efSearch = int(setting)
        return self.index.search(queries, k)[1]


class FaissCodes(GraphSystem):
    """faiss, HNSW with M = 16 over codes of 8 bits; twice as many candidates are compared by their keys."""

    name, module = "faiss HNSW, SQ8", "faiss"

    def build(self, keys: np.ndarray) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        coded: Any = faiss.index_factory(keys.shape[1], "HNSW16_SQ8")
        coded.hnsw.efConstruction = EF_CONSTRUCTION
        self.coded, self.index = coded, faiss.IndexRefineFlat(coded)
        self.index.k_factor = 2
        self.index.train(keys)
        self.index.add(keys)

    def search(self, queries: np.ndarray, k: int, setting: float) -> np.ndarray:
        self.coded.hnsw.efSearch = int(setting)
        return self.index.search(queries, k)[1]


class Usearch(GraphSystem):
    """usearch with connectivity 16."""

    name, module, dtype = "usearch", "usearch", "f32"

    def build(self, keys: np.ndarray) -> None:
        from usearch.index import Index

        options: dict[str, Any] = {"metric": "l2sq", "connectivity": 16, "expansion_add": EF_CONSTRUCTION}
        self.index: Any = Index(ndim=keys.shape[1], dtype=self.dtype, **options)
        self.index.add(np.arange(len(keys)), keys, threads=1)

    def search(self, queries: np.ndarray, k: int, setting: float) -> np.ndarray:
        self.index.expansion_search = int(setting)
        return self.index.search(queries, k, threads=1).keys.astype(np.int64)


class UsearchCodes(Usearch):
    """usearch with connectivity 16 over codes of 8 bits."""

    name, dtype = "usearch, i8", "i8"


class Nmslib(GraphSystem):
    """nmslib's HNSW, M = 16."""

    name, module = "nmslib", "nmslib"

    def build(self, keys: np.ndarray) -> None:
        import nmslib

        self.index = nmslib.init(method="hnsw", space="l2")
        self.index.addDataPointBatch(keys)
        self.index.createIndex({"M": 16, "efConstruction": EF_CONSTRUCTION, "indexThreadQty": 1, "post": 0})

    def search(self, queries: np.ndarray, k: int, setting: float) -> np.ndarray:
        self.index.setQueryTimeParams({"ef": int(setting)})
        answers = self.index.knnQueryBatch(queries, k=k, num_threads=1)
        return np.array([np.resize(rows, k) for rows, _ in answers])


SYSTEMS: tuple[type[GraphSystem], ...] = (
    Memorytree, Hnswlib, FaissHnsw, FaissCodes, Usearch, UsearchCodes, Nmslib, Principal,
)  # fmt: skip
