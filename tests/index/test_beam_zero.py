"""Term lists asked without a beam: they tell which memories are likely, and nothing is compared."""

import numpy as np
import pytest
import scipy.sparse

from memorytree import MemoryTree
from memorytree.engine import lists as postings
from memorytree.errors import InvalidOption
from memorytree.routing import terms
from tests.test_terms import SCORERS, WIDE, documents


@pytest.mark.boundscheck
@pytest.mark.parametrize("scorer", [*SCORERS, "tfidf"])
def test_what_lists_without_limit_tell_is_the_score_itself(scorer):
    X, Q = documents(200), documents(60, seed=1)
    tree = MemoryTree.build(X, range(200), routing=WIDE, scorer=scorer, seed=0)
    exact, told = tree.query_many(Q, 5), tree.query_many(Q, 5, beam=0)
    np.testing.assert_allclose(told.scores, exact.scores, atol=1e-4)
    assert tree.query(Q[1], 5, beam=0).scores == told.scores[1].tolist()


@pytest.mark.parametrize("scorer", [*SCORERS, "tfidf"])
def test_without_a_beam_the_same_lists_tell_which_memories_are_likely(scorer):
    X, Q = documents(400, 100, 0.1), documents(60, 100, 0.1, seed=1)
    tree = MemoryTree.build(X, range(400), routing=terms(breadth=3, reads=4, scored=5, homes=3), scorer=scorer, seed=0)
    exact, told = tree.query_many(Q, 12), tree.query_many(Q, 12, beam=0)
    assert [set(row) for row in told.ids.tolist()] == [set(row) for row in exact.ids.tolist()]
    assert np.all(np.diff(told.scores, axis=1) <= 0)
    if scorer == "cosine":  # no weight is negative, so what was not read can only add to it
        by_id = [dict(zip(*row, strict=True)) for row in zip(exact.ids.tolist(), exact.scores.tolist(), strict=True)]
        for ids, scores, known in zip(told.ids.tolist(), told.scores.tolist(), by_id, strict=True):
            assert all(score <= known[id] + 1e-5 for id, score in zip(ids, scores, strict=True))


@pytest.mark.parametrize("X", [np.eye(4, dtype=np.float32), scipy.sparse.csr_matrix(np.eye(4, dtype=np.float32))])
def test_only_term_lists_can_do_without_a_beam(X):
    tree = MemoryTree.build(X, range(4), routing="principal", seed=0)
    with pytest.raises(InvalidOption, match="beam"):
        tree.query(X[0], beam=0)
    with pytest.raises(InvalidOption, match="beam"):
        tree.query_many(X, beam=0)


@pytest.mark.parametrize("scorer", SCORERS)
def test_what_lists_tell_ranks_memories_whatever_was_learned(scorer):
    """Lengths are those of when a memory was last offered to its lists, so that a cosine may seem to be more than one."""
    X = scipy.sparse.csr_matrix(np.outer(np.linspace(0.1, 1, 30), [1, 0]) + np.outer(np.linspace(1, 0.1, 30), [0, 1]))
    tree = MemoryTree.build(X, range(30), routing=WIDE, scorer=scorer, seed=0)
    postings.arrays_of(tree._core.lists)["importance"][1:] = 100
    hits = tree.query(X[29], 30, beam=0)
    assert len(set(hits.scores)) > 10 or scorer == "distance"
    assert np.all(np.isfinite(hits.scores))
