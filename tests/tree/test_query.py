"""Queries, beyond the contract of every index: equal keys, exploration, very wide beams."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.engine.search import FRONTIER
from tests.trees import ROUTINGS, grown, matrix


def exact(scorer: str, X: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """The score of every memory for every query."""
    X, Q = X.astype(np.float64), Q.astype(np.float64)
    if scorer == "distance":
        return -np.linalg.norm(Q[:, None] - X[None], axis=2)
    lengths = np.linalg.norm(X, axis=1)
    scores = (Q @ X.T) / (np.linalg.norm(Q, axis=1)[:, None] * np.where(lengths > 0, lengths, 1))
    return np.where(lengths > 0, scores, 0.0)  # a key of zeros fits nothing


@pytest.mark.parametrize("routing", ROUTINGS)
@given(data=st.data(), n=st.integers(1, 120), scorer=st.sampled_from(["distance", "cosine"]))
@settings(max_examples=20)
def test_full_beam_finds_best_among_equal_keys(routing, data, n, scorer):
    rows = st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=n, max_size=n)
    X = np.array(data.draw(rows), np.float32)
    tree = MemoryTree(routing=routing, scorer=scorer, seed=1)
    tree.insert_many(X, range(n))
    Q = np.array([[0.5, 1.25], [-2.0, 3.0]], np.float32)
    found, scores = tree.query_many(Q, 10, beam=n), exact(scorer, X, Q)
    best = -np.sort(-scores, axis=1)[:, :10]
    np.testing.assert_allclose(found.scores[:, : best.shape[1]], best, rtol=1e-4, atol=1e-5)
    for row, given_scores, true in zip(found.ids, found.scores, scores, strict=True):
        ids = row[row >= 0]
        assert len(set(ids.tolist())) == len(ids) == min(n, 10)
        np.testing.assert_allclose(given_scores[: len(ids)], true[ids], rtol=1e-4, atol=1e-5)


def test_exploration_without_a_seed_changes_between_queries():
    tree, x = grown(n=200), matrix(1, seed=4)[0]
    assert len({tree.query(x, explore=1.0).receipt.decision for _ in range(30)}) > 1


def test_beam_over_more_leaves_than_the_first_frontier_holds():
    X = matrix(20000, 2)
    tree = MemoryTree(seed=0, leaf_factor=1)
    tree.insert_many(X, range(20000))
    assert tree.stats().leaves > 8 * FRONTIER
    distances = np.linalg.norm(X[:20, None] - X[None], axis=2)
    found = tree.query_many(X[:20], k=3, beam=10**6).ids
    np.testing.assert_array_equal(np.sort(found), np.sort(np.argsort(distances, axis=1)[:, :3]))
