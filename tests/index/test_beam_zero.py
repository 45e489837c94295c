"""Term lists with beam=0: scores are estimated from the lists, no key is compared."""

import numpy as np
import pytest
import scipy.sparse

from memorytree import TermLists
from memorytree.errors import InvalidOption
from tests.trees import PlainTree as MemoryTree

UNLIMITED = TermLists(breadth=1e6, reads=1e6, scored=10**6)
SCORERS = ["distance", "cosine"]


def documents(n, columns=40, density=0.15, seed=0):
    """n sparse rows; every tenth is empty, every seventh repeats the one before it."""
    rows = scipy.sparse.random(n, columns, density, format="lil", random_state=seed, dtype=np.float32)
    rows[::10] = 0
    for i in range(7, n, 7):
        rows[i] = rows[i - 1]
    return scipy.sparse.csr_matrix(rows)


@pytest.mark.boundscheck
@pytest.mark.parametrize("scorer", [*SCORERS, "tfidf"])
def test_estimates_of_complete_lists_are_exact(scorer):
    X, Q = documents(200), documents(60, seed=1)
    tree = MemoryTree.build(X, range(200), routing=UNLIMITED, scorer=scorer, seed=0)
    exact, estimated = tree.query_many(Q, 5), tree.query_many(Q, 5, beam=0)
    np.testing.assert_allclose(estimated.scores, exact.scores, atol=1e-4)
    assert tree.query(Q[1], 5, beam=0).scores.tolist() == estimated.scores[1].tolist()


@pytest.mark.parametrize("scorer", [*SCORERS, "tfidf"])
def test_beam_zero_finds_the_same_candidates(scorer):
    X, Q = documents(400, 100, 0.1), documents(60, 100, 0.1, seed=1)
    lists = TermLists(breadth=3, reads=4, scored=5, homes=3)
    tree = MemoryTree.build(X, range(400), routing=lists, scorer=scorer, seed=0)
    exact, estimated = tree.query_many(Q, 12), tree.query_many(Q, 12, beam=0)
    assert [set(row) for row in estimated.ids.tolist()] == [set(row) for row in exact.ids.tolist()]
    assert np.all(np.diff(estimated.scores, axis=1) <= 0)
    if scorer == "cosine":  # no weight is negative, so entries that were not read can only add to a score
        by_id = [dict(zip(*row, strict=True)) for row in zip(exact.ids.tolist(), exact.scores.tolist(), strict=True)]
        for ids, scores, known in zip(estimated.ids.tolist(), estimated.scores.tolist(), by_id, strict=True):
            assert all(score <= known[id] + 1e-5 for id, score in zip(ids, scores, strict=True))


@pytest.mark.parametrize("X", [np.eye(4, dtype=np.float32), scipy.sparse.csr_matrix(np.eye(4, dtype=np.float32))])
def test_only_term_lists_take_beam_zero(X):
    tree = MemoryTree.build(X, range(4), routing="principal", seed=0)
    with pytest.raises(InvalidOption, match="beam"):
        tree.query(X[0], beam=0)
    with pytest.raises(InvalidOption, match="beam"):
        tree.query_many(X, beam=0)


@pytest.mark.parametrize("scorer", SCORERS)
def test_estimates_rank_whatever_was_learned(scorer):
    """The lists hold squared lengths of when a memory was last offered to them, so an estimated cosine may exceed one."""
    X = scipy.sparse.csr_matrix(np.outer(np.linspace(0.1, 1, 30), [1, 0]) + np.outer(np.linspace(1, 0.1, 30), [0, 1]))
    tree = MemoryTree.build(X, range(30), routing=UNLIMITED, scorer=scorer, seed=0)
    state = tree.state_dict()
    state["index"]["lists.importance"][1:] = 100
    tree.load_state_dict(state)
    hits = tree.query(X[29], 30, beam=0)
    assert len(set(hits.scores.tolist())) > 10 or scorer == "distance"
    assert np.all(np.isfinite(hits.scores))
