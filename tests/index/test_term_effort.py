"""Term lists: the effort that reaches a recall is measured on stored keys; only allowed memories are returned."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.index.base import QueryRequest, no_exclusions
from memorytree.index.terms import DEFAULT_RECALL
from tests.index.sparse_keys import KEYS, list_arrays

SCORERS = ["distance", "cosine", "tfidf"]


def texts(n, lengths=(5, 40), words=2000, seed=0):
    """n rows of words with Zipf's frequencies, and weights between 1 and 2."""
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(1, words + 1)
    counts = rng.integers(*lengths, n)
    columns = rng.choice(words, counts.sum(), p=chances / chances.sum())
    rows = np.repeat(np.arange(n), counts)
    X = scipy.sparse.csr_matrix((rng.uniform(1, 2, len(rows)).astype(np.float32), (rows, columns)), (n, words))
    X.sum_duplicates()
    return X


SHAPES = {
    "texts": lambda n, seed: texts(n, seed=seed),
    "common words": lambda n, seed: texts(n, words=30, seed=seed),
    "one word": lambda n, seed: texts(n, lengths=(1, 2), seed=seed),
    "long": lambda n, seed: texts(n, lengths=(50, 150), seed=seed),
    "huge weights": lambda n, seed: texts(n, seed=seed).power(3),
    "repeated": lambda n, seed: (
        scipy.sparse.vstack([texts(n // 20 + 1, seed=3)] * 20, "csr")[:n] + texts(n, (1, 3), seed=seed)
    ),
}


def tree_of(X, scorer, **options):
    tree = MemoryTree(routing="terms", scorer=scorer, seed=0, **options)
    tree.insert_many(X, range(X.shape[0]))
    return tree


def ask(tree, Q, k=10, **options):
    """Answers of the index, with options that only the index knows."""
    batch = Q.indptr.astype(np.int64), Q.indices.astype(np.int32), Q.data.astype(np.float32)
    return tree.index.query(QueryRequest(batch, k, 0, Q.shape[0], excluded=no_exclusions(Q.shape[0]), **options))


def recall(found, exact):
    """The share of hits that are as good as those of an exact scan."""
    worst = exact.scores[:, -1:]
    return np.mean(found.scores >= worst - 1e-5 * np.abs(worst) - 1e-6)


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_default_effort_finds_nearly_all(shape, scorer):
    X, Q = SHAPES[shape](3000, 0), SHAPES[shape](200, 1)
    tree = tree_of(X, scorer)
    assert recall(ask(tree, Q), ask(tree, Q, recall=1.0)) >= 0.96


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_memory_is_found_under_its_own_key(shape, scorer):
    X = SHAPES[shape](3000, 0)
    tree = tree_of(X, scorer)
    hits = tree.query_many(X)
    best = hits.ids[:, 0]
    equal = abs(X[best] - X).max(axis=1).toarray().ravel() == 0
    # A key may also be as near as an equal one: parallel by cosine, with more of the same terms by tfidf.
    assert np.all(equal | (hits.scores[:, 0] >= 1 - 1e-6 if scorer != "distance" else False))


def test_full_recall_equals_brute_force():
    @given(keys=st.lists(KEYS, min_size=1, max_size=30), query=KEYS, k=st.integers(1, 40))
    @settings(max_examples=100)
    def run(keys, query, k):
        tree = MemoryTree(routing="terms", scorer="cosine", seed=0)
        tree.insert_many(keys, range(len(keys)))
        x = tree.keys.one(query)
        k = min(k, len(keys))
        found = tree.index.query(QueryRequest(x, k, recall=1.0))
        scores = tree.index.score(x, np.arange(len(keys))[None])[0]
        np.testing.assert_array_equal(found.scores[0], np.sort(scores)[::-1][:k])
        np.testing.assert_array_equal(found.scores[0], scores[found.ids[0]])
        assert len(set(found.ids[0].tolist())) == k

    run()


@pytest.mark.parametrize("scorer", SCORERS)
def test_more_recall_costs_more_effort(scorer):
    X, Q = texts(3000), texts(200, seed=1)
    tree = tree_of(X, scorer)
    exact = ask(tree, Q, recall=1.0)
    low, high = (recall(ask(tree, Q, recall=target), exact) for target in (0.7, 0.999))
    assert low < high
    assert high >= 0.985


@pytest.mark.boundscheck
@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.1, 0.5])
def test_only_allowed_memories_are_returned(scorer, share):
    X, Q = texts(2000), texts(50, seed=1)
    tree = tree_of(X, scorer)
    allowed = np.sort(np.random.default_rng(0).permutation(2000)[: int(share * 2000)]).astype(np.int64)
    found = ask(tree, Q, allowed=allowed)
    assert np.all(np.isin(found.ids, allowed) | (found.ids == -1))
    assert np.all((found.ids >= 0).sum(axis=1) == min(10, len(allowed)))
    if len(allowed) >= 10:
        scores = tree.index.score((Q.indptr.astype(np.int64), Q.indices, Q.data), np.tile(allowed, (50, 1)))
        assert np.mean(found.scores >= np.sort(scores)[:, -10:-9] - 1e-6) >= 0.96
    unknown = np.append(allowed, 10**9)
    np.testing.assert_array_equal(ask(tree, Q, allowed=unknown).ids, found.ids)


def test_reading_changes_nothing_and_writes_decide():
    X = texts(2500)
    trees = [tree_of(X, "cosine") for _ in range(2)]
    for recall_wanted in (None, 0.5, 1.0):
        ask(trees[0], X[:50], recall=recall_wanted)
    first, second = (tree.index.state_dict() for tree in trees)
    assert {name: array.tobytes() for name, array in first.items()} == {n: array.tobytes() for n, array in second.items()}


@pytest.mark.boundscheck
def test_calibration_follows_the_number_of_memories():
    tree = tree_of(texts(2500), "cosine")
    stats = tree.stats()
    assert stats.measured_at == 2048
    assert stats.expected_recall >= DEFAULT_RECALL
    assert 0 < stats.entries_read <= list_arrays(tree)["reads"][0]
    for id in list(tree)[1200:]:
        tree.remove(id)
    assert tree.stats().measured_at == 2048
    tree.check()


def test_importances_can_be_taken_over():
    X, Q = texts(1500), texts(40, seed=1)
    learned, fresh = tree_of(X, "cosine"), tree_of(X, "cosine")
    hits = learned.query_many(Q, 5)
    learned.reward_many(hits, (hits.ids % 3 == 0).astype(float))
    learned.sweep()
    arrays = list_arrays(learned)
    features = arrays["names"][1:]
    fresh.index.inner.load_importance(features, arrays["importance"][1:], arrays["squares"][1:], 40)
    np.testing.assert_array_equal(fresh.query_many(Q, 5).scores, learned.query_many(Q, 5).scores)
    fresh.check()
