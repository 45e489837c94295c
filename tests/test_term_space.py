"""scorer="metric" on sparse keys: a space in front of the term lists is learned from rewards."""

import numpy as np
import pytest
import scipy.sparse
from memorytree.scoring import metric

from memorytree import MemoryTree
from memorytree.checks import check_tree
from memorytree.errors import InvalidOption
from tests.trees import state


def synonyms(seed, n=900, topics=12, each=8):
    """Texts of topics, each with words of its own of which a text has few: two texts of a topic often share none, and share
    idle words with texts of other topics."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(topics, size=n)
    own = topic[:, None] * each + np.argsort(rng.random((n, each)), axis=1)[:, :2]
    idle = topics * each + np.argsort(rng.random((n, 60)), axis=1)[:, :4]
    columns = np.concatenate([own, idle], axis=1)
    rows = np.repeat(np.arange(n), columns.shape[1])
    keys = scipy.sparse.csr_matrix((np.ones(columns.size, np.float32), (rows, columns.ravel())))
    return keys, topic


def teach(tree, keys, topic, passes=2, shuffled=None):
    rows = np.arange(len(topic))
    for _ in range(passes):
        for first in range(0, len(rows), 100):
            part = rows[first : first + 100]
            hits = tree.query_many(keys[part], 60, exclude=part[:, None])
            rewards = np.where(hits.ids >= 0, (topic[hits.ids] == topic[part][:, None]).astype(float), np.nan)
            tree.update_many(hits, rewards if shuffled is None else shuffled.permuted(rewards, axis=1))


def error(tree, keys, topic, asked, answers):
    return np.mean(topic[tree.query_many(asked).ids[:, 0]] != answers)


@pytest.mark.parametrize("seed", range(3))
def test_rewards_teach_which_words_mean_the_same(seed):
    keys, topic = synonyms(seed)
    stored, asked = slice(0, 700), slice(700, None)

    def run(**lesson):
        tree = MemoryTree.build(keys[stored], topic[stored].tolist(), scorer="metric", seed=seed)
        before = error(tree, keys, topic, keys[asked], topic[asked])
        teach(tree, keys[stored], topic[stored], **lesson)
        return before, error(tree, keys, topic, keys[asked], topic[asked])

    before, after = run()
    _, control = run(shuffled=np.random.default_rng(seed))
    assert after < 0.6 * before
    assert after < 0.6 * control


def test_one_at_a_time_or_all_at_once_memories_are_seen_alike():
    keys, topic = synonyms(0, 600)
    tree = MemoryTree(scorer="metric", seed=0)
    for row in range(600):
        tree.insert(keys[row], int(topic[row]))
    whole = MemoryTree(scorer="metric", seed=0)
    whole.insert_many(keys, topic.tolist())
    for each in (tree, whole):
        check_tree(each)
        assert len(each._core.values) == 600
        assert each._core.aims.settled == 512 or each._core.aims.settled == 600
    plain = MemoryTree.build(keys, topic.tolist(), scorer="cosine", seed=0)
    np.testing.assert_array_equal(whole.query_many(keys, 3).ids, plain.query_many(keys, 3).ids)  # nothing learned yet


def test_removed_and_forgotten_memories_are_not_seen():
    keys, topic = synonyms(0, 700)
    tree = MemoryTree.build(keys, topic.tolist(), scorer="metric", seed=0, capacity=700)
    teach(tree, keys, topic, passes=1)
    for id in range(0, 700, 2):
        tree.remove(id)
    check_tree(tree)
    assert np.all(tree.query_many(keys, 5).ids % 2 == 1)
    assert len(tree._core.values) == len(tree) == 350
    tree.insert_many(keys[:500], range(500))
    assert len(tree._core.values) == len(tree) == 700
    tree.insert(keys[0], "again", id=int(tree.query(keys[5])[0].id))
    assert len(tree._core.values) == len(tree) == 700


def test_learning_survives_a_file(tmp_path):
    keys, topic = synonyms(0, 700)
    tree = MemoryTree.build(keys[:650], topic[:650].tolist(), scorer=metric(rank=20), seed=0)
    teach(tree, keys[:650], topic[:650], passes=1)
    tree.save(tmp_path / "tree")
    twin = MemoryTree.load(tmp_path / "tree")
    for each in (tree, twin):
        each.insert_many(keys[650:], topic[650:].tolist())
        teach(each, keys, topic, passes=1)
    assert twin._core.aims.width == 20
    np.testing.assert_array_equal(tree.query_many(keys, 5).scores, twin.query_many(keys, 5).scores)
    assert state(tree)[0] == state(twin)[0]


def test_keys_whose_sum_is_zero_are_keys():
    rng = np.random.default_rng(0)
    keys = np.zeros((600, 12), np.float32)
    for row in keys:
        row[rng.choice(12, 2, replace=False)] = 1, -1
    tree = MemoryTree(scorer="metric", seed=0)
    tree.insert_many(scipy.sparse.csr_matrix(keys), range(600))
    check_tree(tree)
    assert np.isfinite(tree._core.aims.basis).all()
    assert len(tree._core.values) == 600


def test_without_term_lists_there_is_none():
    keys, _ = synonyms(0, 20)
    with pytest.raises(InvalidOption, match="terms"):
        MemoryTree(scorer="metric", routing="paper").insert_many(keys, range(20))
