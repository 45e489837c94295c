"""Validation of the arrays of a neighbour graph."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from memorytree.engine.arrays import NONE, RECALLS, RERANKED
from memorytree.engine.graph.copies import COPY
from memorytree.index.base import Array
from memorytree.index.validation import require

LARGEST_COUNT = 2**53
MOST_RERANKED = 64


def check_graph(arrays: Mapping[str, Array], n: int) -> None:
    """Links are mutual, lists have no gaps, copies have no links, and what was measured is in range."""
    require(len(arrays["neighbours"]) == len(arrays["copies"]) == len(arrays["row_ids"]), "as many lists as rows")
    neighbours, copies = arrays["neighbours"][:n], arrays["copies"][:n]
    known = neighbours != NONE
    require(np.all((neighbours >= NONE) & (neighbours < n)), "neighbours are memories")
    require(np.all(known[:, :-1] >= known[:, 1:]), "lists of neighbours have no gaps")
    require(np.all(copies <= COPY), "a memory is in the graph or a copy")
    require(not known[copies == COPY].any(), "copies have no neighbours")
    rows, places = np.nonzero(known)
    others = neighbours[rows, places].astype(np.int64)
    require(np.all(rows != others), "no memory is a neighbour of itself")
    pairs, back = np.sort(rows * n + others), np.sort(others * n + rows)
    require(np.all(pairs[1:] > pairs[:-1]), "no memory is a neighbour twice")
    require(np.array_equal(pairs, back), "links are mutual")
    measured, scaling = arrays["graph"], arrays["scaling"]
    require(np.all(np.isfinite(scaling)) and scaling[-1] >= 0, "the scaling of codes is finite")
    require(np.all((measured >= 0) & (measured < LARGEST_COUNT)), "what was measured is in range")
    require(measured[RERANKED] == 0 or 1 <= measured[RERANKED] <= MOST_RERANKED, "few candidates are compared for a hit")
    require(np.all(np.diff(measured[RECALLS:]) >= 0) and measured[-1] <= 1, "more effort finds more")
