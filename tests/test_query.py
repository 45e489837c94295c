"""Queries: looking everywhere is exact, looking further is never worse, and chance can be fixed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.engine.search import FRONTIER
from tests.trees import KINDS, ROUTINGS, TREES, grown, key_of, keys_of, matrix


def exact(scorer: str, X: np.ndarray, Q: np.ndarray) -> np.ndarray:
    """The score of every memory for every question, in plain NumPy."""
    X, Q = X.astype(np.float64), Q.astype(np.float64)
    if scorer == "distance":
        return -np.linalg.norm(Q[:, None] - X[None], axis=2)
    return (Q @ X.T) / (np.linalg.norm(Q, axis=1)[:, None] * np.linalg.norm(X, axis=1)[None])


@pytest.mark.parametrize("scorer", ["distance", "cosine"])
@pytest.mark.parametrize(("kind", "routing"), TREES)
def test_a_beam_over_all_leaves_gives_the_exact_nearest_neighbours(kind, routing, scorer):
    tree = grown(kind, routing, 300, scorer=scorer)
    X, Q = matrix(300), matrix(40, seed=1)
    hits = tree.query_many(keys_of(kind, Q), 10, beam=tree.stats().leaves)
    scores = exact(scorer, X, Q)
    order = np.argsort(-scores, axis=1)[:, :10]
    np.testing.assert_array_equal(hits.ids, order)
    np.testing.assert_allclose(hits.scores, np.take_along_axis(scores, order, 1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("routing", ROUTINGS)
@given(data=st.data(), n=st.integers(1, 120), scorer=st.sampled_from(["distance", "cosine"]))
@settings(max_examples=20)
def test_a_full_beam_gives_the_best_scores_also_among_equal_keys(routing, data, n, scorer):
    rows = st.lists(st.lists(st.integers(-3, 3), min_size=2, max_size=2), min_size=n, max_size=n)
    X = np.array(data.draw(rows), np.float32)
    tree = MemoryTree(routing=routing, scorer=scorer, seed=1)
    tree.insert_many(X, range(n))
    Q = np.array([[0.5, 1.25], [-2.0, 3.0]], np.float32)
    hits = tree.query_many(Q, 10, beam=n)
    lengths = np.linalg.norm(X, axis=1)
    scores = exact(scorer, np.where(lengths[:, None] > 0, X, 1), Q)
    if scorer == "cosine":
        scores[:, lengths == 0] = 0.0  # a key of zeros fits nothing
    else:
        scores = exact(scorer, X, Q)
    best = -np.sort(-scores, axis=1)[:, :10]
    np.testing.assert_allclose(hits.scores[:, : best.shape[1]], best, rtol=1e-4, atol=1e-5)
    for ids, told, true in zip(hits.ids, hits.scores, scores, strict=True):
        found = ids[ids >= 0]
        assert len(set(found.tolist())) == len(found) == min(n, 10)
        np.testing.assert_allclose(told[: len(found)], true[found], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_excluded_memories_are_left_out_and_the_next_best_take_their_place(kind, routing):
    tree = grown(kind, routing, 150)
    x = key_of(kind, matrix(1, seed=2)[0])
    everyone = tree.query(x, 150, beam=150).ids
    assert sorted(everyone) == list(range(150))
    out = everyone[:3] + everyone[10:12]
    kept = [id for id in everyone if id not in out]
    assert tree.query(x, 150, beam=150, exclude=out).ids == kept
    assert tree.query(x, 5, beam=150, exclude=iter(out)).ids == kept[:5]
    assert tree.query(x, 5, beam=150, exclude=[10**9]).ids == everyone[:5]
    assert len(tree.query(x, 5, beam=150, exclude=range(150))) == 0
    batch = tree.query_many(keys_of(kind, matrix(1, seed=2)), 5, beam=150, exclude=[out])
    assert batch.ids.tolist() == [kept[:5]]


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_more_hits_than_there_are_memories_gives_them_all(kind, routing):
    tree = grown(kind, routing, 30)
    x = matrix(1, seed=3)
    hits = tree.query(key_of(kind, x[0]), 1000, beam=1000)
    assert sorted(hits.ids) == list(range(30))
    assert hits.scores == sorted(hits.scores, reverse=True)
    batch = tree.query_many(keys_of(kind, x), 40, beam=1000)
    assert batch.ids[0].tolist() == hits.ids + [-1] * 10
    assert np.all(batch.scores[0, 30:] == -np.inf)
    assert batch[0].ids == hits.ids
    assert batch.values == [hits.values]


@pytest.mark.parametrize(("kind", "routing"), TREES)
def test_exploring_reaches_all_three_branches_and_a_fixed_draw_repeats(kind, routing):
    tree = grown(kind, routing, 200)
    x = key_of(kind, matrix(1, seed=4)[0])
    first = [tree.query(x, 2, explore=0.7, draw=n) for n in range(200)]
    assert {hits.receipt.branch for hits in first} == {"exploit", "node", "leaf"}
    assert {hits.receipt.action for hits in first} == {None, "left", "right"}
    for n, hits in enumerate(first):
        again = tree.query(x, 2, explore=0.7, draw=n)
        assert list(again) == list(hits)
        assert again.receipt == hits.receipt
        if hits.receipt.branch == "exploit":
            assert list(hits) == list(tree.query(x, 2))


def test_exploring_without_a_fixed_draw_changes_from_query_to_query():
    tree = grown(n=200)
    x = matrix(1, seed=4)[0]
    assert len({tree.query(x, explore=1.0).receipt.id for _ in range(30)}) > 1


def test_without_exploring_routers_are_followed_to_the_end():
    tree = grown(n=200)
    for x in matrix(20, seed=5):
        assert tree.query(x, draw=3).receipt.branch == "exploit"


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_a_wider_beam_never_finds_a_worse_first_hit(kind, routing):
    tree = grown(kind, routing, 400)
    Q = keys_of(kind, matrix(60, seed=6))
    before = tree.query_many(Q).scores
    for beam in (2, 3, 5, 9, 400):
        wider = tree.query_many(Q, beam=beam).scores
        assert np.all(wider >= before)
        before = wider


@pytest.mark.parametrize("routing", ROUTINGS)
def test_an_empty_tree_answers_with_nothing(routing):
    tree = MemoryTree(routing=routing, seed=0)
    assert len(tree.query([1.0, 2.0], 3)) == 0
    assert tree.query_many([[1.0, 2.0]], 3).ids.tolist() == [[-1, -1, -1]]


def test_a_beam_over_more_leaves_than_a_search_first_has_room_for():
    X = matrix(20000, 2)
    tree = MemoryTree(seed=0, leaf_factor=1)
    tree.insert_many(X, range(20000))
    assert tree.stats().leaves > 8 * FRONTIER
    distances = np.linalg.norm(X[:20, None] - X[None], axis=2)
    found = tree.query_many(X[:20], k=3, beam=10**6).ids
    np.testing.assert_array_equal(np.sort(found), np.sort(np.argsort(distances, axis=1)[:, :3]))
