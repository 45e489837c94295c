"""Routers that learn from labels, and from which memories were rewarded together."""

import numpy as np
import pytest

from memorytree import MemoryTree
from memorytree.checks import check_tree
from memorytree.engine.arrays import LABEL, LEAF
from memorytree.errors import InvalidOption


def scattered(rng, groups=60, each=12):
    """Groups that differ in a few features only, which spread less than the others."""
    centers = rng.normal(size=(groups, 3))
    labels = np.repeat(np.arange(groups), each)
    keys = np.concatenate(
        [centers[labels] + 0.1 * rng.normal(size=(len(labels), 3)), 1.5 * rng.normal(size=(len(labels), 5))], 1
    )
    order = rng.permutation(len(labels))
    return keys[order].astype(np.float32), labels[order]


def togetherness(tree, labels):
    """The share of pairs with one label that lie in one leaf."""
    rows = tree._core.shown.arrays()["rows"][: len(tree)]
    ids = tree._core.shown.arrays()["row_ids"][: len(tree)]
    leaf, label = rows[:, LEAF], labels[ids]
    same = label[:, None] == label[None]
    return np.mean((leaf[:, None] == leaf[None])[same])


@pytest.mark.parametrize("seed", range(3))
def test_labels_keep_memories_together(seed):
    keys, labels = scattered(np.random.default_rng(seed))
    plain, labelled = MemoryTree.build(keys, labels, seed=0), MemoryTree.build(keys, labels, labels=labels.tolist(), seed=0)
    wrong = np.random.default_rng(seed).permutation(labels)
    misled = MemoryTree.build(keys, labels, labels=wrong.tolist(), seed=0)
    check_tree(labelled)
    assert togetherness(labelled, labels) > 1.5 * togetherness(plain, labels)
    assert togetherness(misled, labels) < 1.2 * togetherness(plain, labels)
    assert np.all(labelled.query_many(keys).ids[:, 0] == np.arange(len(keys)))


@pytest.mark.parametrize("seed", range(3))
def test_rewards_keep_memories_together_once_it_learns(seed):
    rng = np.random.default_rng(seed)
    keys, labels = scattered(rng)
    plain, taught, shuffled = (MemoryTree.build(keys, labels, seed=0) for _ in range(3))
    for _ in range(3):
        for tree in (taught, shuffled):
            hits = tree.query_many(keys, k=30, beam=20, exclude=np.arange(len(keys))[:, None])
            rewards = (labels[hits.ids] == labels[:, None]).astype(float)
            before = togetherness(tree, labels)
            tree.update_many(hits, rewards if tree is taught else rng.permuted(rewards, axis=1))
            assert togetherness(tree, labels) == before  # learning and moving are separate steps
            tree.learn()
            check_tree(tree)
    assert togetherness(taught, labels) > 1.3 * togetherness(plain, labels)
    assert togetherness(shuffled, labels) < 1.15 * togetherness(plain, labels)


def test_labels_and_links_are_saved(tmp_path):
    keys, labels = scattered(np.random.default_rng(0), groups=20)
    tree = MemoryTree(seed=0)
    tree.insert_many(keys[:200], labels[:200], labels=[f"label {label}" for label in labels[:200]])
    tree.insert(keys[200], 0, label="label 3")
    tree.insert_many(keys[201:], labels[201:])
    tree.update(tree.query(keys[5], k=4), [1.0, 1.0, 0.0, 1.0])
    tree.save(tmp_path / "tree")
    twin = MemoryTree.load(tmp_path / "tree")
    for face in (tree, twin):
        face.learn()
        face.insert(keys[0] + 1, "new", label="label 1")
    np.testing.assert_array_equal(tree.query_many(keys + 0.5, k=9).ids, twin.query_many(keys + 0.5, k=9).ids)
    rows, same = (face._core.arrays()["rows"][: len(tree)] for face in (tree, twin))
    np.testing.assert_array_equal(rows, same)
    assert rows[200, LABEL] == tree._labels["label 3"]


@pytest.mark.parametrize("label", [1.5, True, ["a"], object()])
def test_what_is_no_label(label):
    tree = MemoryTree(seed=0)
    with pytest.raises(InvalidOption, match="a label is"):
        tree.insert([1.0], 0, label=label)
    assert len(tree) == 0
    with pytest.raises(InvalidOption, match="as many labels"):
        tree.insert_many([[1.0], [2.0]], "ab", labels=["x"])


def test_a_memory_that_is_replaced_loses_its_links(rng):
    tree = MemoryTree(seed=0)
    keys = rng.normal(size=(20, 3))
    tree.insert_many(keys, range(20))
    hits = tree.query(keys[0], k=4)
    tree.update(hits, [1.0, 1.0, 1.0, 0.0])
    tree.insert(keys[1] + 5, "another", id=hits.ids[0])
    tree.remove(hits.ids[1])
    assert tree._links.pairs()[:, 0].tolist() == [hits.ids[2]]
