"""scorer="metric" on sparse keys: a latent space behind the term lists, in which aims learn from rewards."""

import numpy as np
import pytest
import scipy.sparse

from memorytree.config import Projection
from memorytree.errors import InvalidOption
from tests.index.sparse_keys import error
from tests.trees import PlainTree as MemoryTree

N = 600
"""Lessons start at 512 memories."""


def synonyms(seed, n=N, topics=12, words=8):
    """(keys, topics): a text has two of the words of its topic and four of the words that all topics share, so two texts of
    a topic often have no word of it in common."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(topics, size=n)
    own = topic[:, None] * words + np.argsort(rng.random((n, words)), axis=1)[:, :2]
    shared = topics * words + np.argsort(rng.random((n, 60)), axis=1)[:, :4]
    columns = np.concatenate([own, shared], axis=1)
    rows = np.repeat(np.arange(n), columns.shape[1])
    return scipy.sparse.csr_matrix((np.ones(columns.size, np.float32), (rows, columns.ravel()))), topic


def reward_topics(tree, keys, topic, passes=2, shuffle=None, k=60):
    """Query with the stored keys and reward equal topics; `shuffle` permutes the rewards of each query."""
    rows = np.arange(keys.shape[0])
    for _ in range(passes):
        for part in np.split(rows, range(100, len(rows), 100)):
            hits = tree.query_many(keys[part], k, exclude=part[:, None])
            rewards = np.where(hits.ids >= 0, (topic[hits.ids] == topic[part][:, None]).astype(float), np.nan)
            tree.reward_many(hits, rewards if shuffle is None else shuffle.permuted(rewards, axis=1))


@pytest.fixture(scope="module")
def taught():
    """(state of a tree that has learned, keys, topics)."""
    keys, topic = synonyms(0)
    tree = MemoryTree(scorer=Projection(rank=20), capacity=N, seed=0)
    tree.insert_many(keys, topic.tolist())
    reward_topics(tree, keys, topic, passes=1, k=10)
    assert tree.index.reranker.ready()
    return tree.state_dict(), keys, topic


def copied(state):
    """A tree of a state, which may be used again."""
    arrays = {name: array.copy() for name, array in state["index"].items()}
    return MemoryTree.from_state_dict({**state, "values": dict(state["values"]), "index": arrays})


@pytest.mark.parametrize("seed", range(3))
def test_rewards_teach_which_words_are_synonyms(seed):
    keys, topic = synonyms(seed, N + 200)
    stored, queries = slice(0, N), slice(N, None)

    def errors(shuffle=None):
        tree = MemoryTree.build(keys[stored], topic[stored].tolist(), scorer=Projection(rank=64), seed=seed)
        before = error(tree, keys[queries], topic, topic[queries])
        reward_topics(tree, keys[stored], topic, shuffle=shuffle)
        return before, error(tree, keys[queries], topic, topic[queries])

    before, after = errors()
    _, shuffled = errors(np.random.default_rng(seed))
    assert after < 0.6 * before
    assert after < 0.6 * shuffled


def test_unrewarded_tree_ranks_like_cosine():
    keys, topic = synonyms(0, 100)
    tree, cosine = (MemoryTree.build(keys, topic.tolist(), scorer=name, seed=0) for name in ("metric", "cosine"))
    np.testing.assert_array_equal(tree.query_many(keys, 3).ids, cosine.query_many(keys, 3).ids)


@pytest.mark.parametrize("batch", [1, 600])
def test_every_memory_has_a_representation(batch):
    keys, topic = synonyms(0)
    tree = MemoryTree(scorer=Projection(rank=20), seed=0)
    for start in range(0, N, batch):
        tree.insert_many(keys[start : start + batch], topic[start : start + batch].tolist())
    tree.check()
    reranker = tree.index.reranker
    assert len(reranker.table) == N
    assert reranker.model.n_fitted in (512, N)


def test_removed_and_evicted_memories_are_not_found(taught):
    state, keys, _ = taught
    tree = copied(state)
    for id in range(0, N, 2):
        tree.remove(id)
    tree.check()
    assert np.all(tree.query_many(keys, 5).ids % 2 == 1)
    assert len(tree.index.reranker.table) == len(tree) == N // 2
    tree.insert_many(keys[:500], range(500))  # more than the capacity
    tree.insert(keys[0], "replaced", id=next(iter(tree)))
    tree.check()
    assert len(tree.index.reranker.table) == len(tree) == N


def test_loaded_tree_continues_to_learn_like_the_saved_one(taught, tmp_path):
    state, keys, topic = taught
    tree = copied(state)
    tree.save(tmp_path / "tree")
    trees = tree, MemoryTree.load(tmp_path / "tree")
    for each in trees:
        each.insert_many(keys[:50], range(50), ids=range(N - 50, N))
        reward_topics(each, keys[:100], topic, passes=1)
    first, second = (each.query_many(keys[:100], 5) for each in trees)
    np.testing.assert_array_equal(first.ids, second.ids)
    np.testing.assert_array_equal(first.scores, second.scores)
    assert trees[1].index.reranker.model.width == 20


def test_keys_with_sum_zero_have_finite_representations(rng):
    keys = np.zeros((100, 12), np.float32)
    for row in keys:
        row[rng.choice(12, 2, replace=False)] = 1, -1
    tree = MemoryTree(scorer="metric", seed=0)
    tree.insert_many(scipy.sparse.csr_matrix(keys), range(100))
    tree.check()
    assert np.isfinite(tree.index.reranker.model.basis).all()
    assert len(tree.index.reranker.table) == 100


def test_sparse_keys_need_term_lists():
    keys, _ = synonyms(0, 20)
    with pytest.raises(InvalidOption, match="terms"):
        MemoryTree(scorer="metric", routing="paper").insert_many(keys, range(20))
