"""Search among sparse rows by other systems: a lean exact inverted index, scipy, bm25s, seismic.

Each is a function from keys, unit rows of a CSR matrix, to a function (queries, k, effort) -> row numbers (n, k). EFFORTS
says which efforts each system knows; exact systems have one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit

Search = Callable[[sp.csr_matrix, int, Any], np.ndarray]
NO_ROW = -1


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


@njit(nogil=True, error_model="numpy")
def _search(postings: Arrays, queries: Arrays, n: int, found: np.ndarray) -> None:
    """Exact: sum products over all lists of a query, keep the k best."""
    starts, rows, weights = postings
    bounds, terms, values = queries
    k = found.shape[1]
    totals, touched, best = np.zeros(n, np.float32), np.empty(n, np.int32), np.empty(k, np.float32)
    for i in range(bounds.shape[0] - 1):
        count, filled = 0, 0
        for j in range(bounds[i], bounds[i + 1]):
            for entry in range(np.uint64(starts[terms[j]]), np.uint64(starts[terms[j] + 1])):
                row = np.uint32(rows[entry])
                old = totals[row]
                if old == 0:
                    touched[count] = row
                    count += 1
                totals[row] = old + values[j] * weights[entry]
        for u in range(count):
            row = np.uint32(touched[u])
            total = totals[row]
            totals[row] = 0
            if filled == k and total <= best[k - 1]:
                continue
            place = filled if filled < k else k - 1
            while place > 0 and best[place - 1] < total:
                best[place], found[i, place] = best[place - 1], found[i, place - 1]
                place -= 1
            best[place], found[i, place] = total, row
            filled = min(filled + 1, k)


def lean(keys: sp.csr_matrix) -> Search:
    """A lean inverted index in Numba: contiguous lists of float32 weights, sums in an array, no removal."""
    columns = keys.tocsc()
    postings = columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data

    def search(queries: sp.csr_matrix, k: int, effort: object) -> np.ndarray:
        found = np.full((queries.shape[0], k), NO_ROW)
        _search(postings, (queries.indptr.astype(np.int64), queries.indices, queries.data), keys.shape[0], found)
        return found

    return search


def scipy_product(keys: sp.csr_matrix) -> Search:
    """A product of scipy matrices, and a partial sort for each query."""
    columns = keys.T.tocsr()

    def search(queries: sp.csr_matrix, k: int, effort: object) -> np.ndarray:
        found, products = np.full((queries.shape[0], k), NO_ROW), sp.csr_matrix(queries @ columns)
        for row, (first, last) in enumerate(zip(products.indptr[:-1].tolist(), products.indptr[1:].tolist(), strict=True)):
            here = products.data[first:last]
            few = np.argpartition(here, -k)[-k:] if len(here) > k else np.arange(len(here))
            found[row, : len(few)] = products.indices[first:last][few]
        return found

    return search


def bm25s(keys: sp.csr_matrix) -> Search:
    """bm25s with its Numba backend. It ranks by its own scores, the sums of stored weights: its time is comparable, not its
    recall, as it has no weights of query terms."""
    import bm25s as package

    columns = keys.tocsc()
    model = package.BM25(backend="numba")
    model.scores = {
        "data": columns.data, "indices": columns.indices.astype(np.int32), "indptr": columns.indptr.astype(np.int64),
        "num_docs": keys.shape[0],
    }  # fmt: skip
    model.vocab_dict = {str(term): term for term in range(keys.shape[1])}
    model.unique_token_ids_set = set(range(keys.shape[1]))
    model.nonoccurrence_array = None

    def search(queries: sp.csr_matrix, k: int, effort: object) -> np.ndarray:
        tokens = np.split(queries.indices, queries.indptr[1:-1])
        found = model.retrieve([row.tolist() for row in tokens], k=k, show_progress=False, n_threads=1)
        return np.asarray(found.documents)

    return search


def seismic(keys: sp.csr_matrix) -> Search:
    """Seismic: lists in clusters with summaries; an effort is (terms of the query that are read, heap factor)."""
    from seismic import SeismicDataset, SeismicIndex, get_seismic_string

    text = get_seismic_string()
    data, names = SeismicDataset(), np.array([str(term) for term in range(keys.shape[1])], dtype=text)
    for row in range(keys.shape[0]):
        first, last = keys.indptr[row], keys.indptr[row + 1]
        data.add_document(str(row), names[keys.indices[first:last]], keys.data[first:last])
    index = SeismicIndex.build_from_dataset(data, num_threads=1)

    def search(queries: sp.csr_matrix, k: int, effort: tuple[int, float]) -> np.ndarray:
        parts = queries.indptr[1:-1]
        terms, weights = np.split(names[queries.indices], parts), np.split(queries.data, parts)
        cut, factor = effort
        ids = np.array([str(row) for row in range(queries.shape[0])], dtype=text)
        answers = index.batch_search(ids, terms, weights, k=k, query_cut=cut, heap_factor=factor, num_threads=1)
        found = np.full((queries.shape[0], k), NO_ROW)
        for answer in answers:
            for place, (row, _, document) in enumerate(answer):
                found[int(row), place] = int(document)
        return found

    return search


SYSTEMS: dict[str, Callable[[sp.csr_matrix], Search]] = {
    "lean": lean,
    "scipy": scipy_product,
    "bm25s": bm25s,
    "seismic": seismic,
}
EFFORTS: dict[str, tuple[Any, ...]] = {
    "seismic": tuple((cut, factor) for cut in (4, 8, 16, 32) for factor in (0.6, 0.75, 0.9, 1.0)),
}
EXACT = (None,)
