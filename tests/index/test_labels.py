"""Routers that learn from labels, and from which memories were rewarded together."""

import numpy as np
import pytest

from memorytree.engine.arrays import LEAF
from memorytree.errors import InvalidOption
from tests.trees import PlainTree as MemoryTree


def scattered(rng, groups=60, each=12):
    """Groups that differ in a few features only, which spread less than the others."""
    centers = rng.normal(size=(groups, 3))
    labels = np.repeat(np.arange(groups), each)
    keys = np.concatenate(
        [centers[labels] + 0.1 * rng.normal(size=(len(labels), 3)), 1.5 * rng.normal(size=(len(labels), 5))], 1
    )
    order = rng.permutation(len(labels))
    return keys[order].astype(np.float32), labels[order]


def share_together(tree, labels):
    """The share of pairs with one label that lie in one leaf."""
    rows, ids = tree.index.arrays()["rows"][: len(tree)], tree.index.stored_ids()
    leaf, label = rows[:, LEAF], labels[ids]
    same = label[:, None] == label[None]
    return np.mean((leaf[:, None] == leaf[None])[same])


@pytest.mark.parametrize("seed", range(3))
def test_labels_keep_memories_together(seed):
    keys, labels = scattered(np.random.default_rng(seed))
    plain, labelled = MemoryTree.build(keys, labels, seed=0), MemoryTree.build(keys, labels, labels=labels.tolist(), seed=0)
    wrong = np.random.default_rng(seed).permutation(labels)
    misled = MemoryTree.build(keys, labels, labels=wrong.tolist(), seed=0)
    labelled.check()
    assert share_together(labelled, labels) > 1.5 * share_together(plain, labels)
    assert share_together(misled, labels) < 1.2 * share_together(plain, labels)
    assert np.all(labelled.query_many(keys).ids[:, 0] == np.arange(len(keys)))


@pytest.mark.parametrize("seed", range(3))
def test_rewards_keep_memories_together_after_refit(seed):
    rng = np.random.default_rng(seed)
    keys, labels = scattered(rng)
    plain, rewarded, shuffled = (MemoryTree.build(keys, labels, seed=0) for _ in range(3))
    for _ in range(3):
        for tree in (rewarded, shuffled):
            hits = tree.query_many(keys, k=30, beam=20, exclude=np.arange(len(keys))[:, None])
            rewards = (labels[hits.ids] == labels[:, None]).astype(float)
            before = share_together(tree, labels)
            tree.reward_many(hits, rewards if tree is rewarded else rng.permuted(rewards, axis=1))
            assert share_together(tree, labels) == before  # rewards move nothing before refit
            tree.refit()
            tree.check()
    assert share_together(rewarded, labels) > 1.3 * share_together(plain, labels)
    assert share_together(shuffled, labels) < 1.15 * share_together(plain, labels)


def test_labels_and_reward_groups_are_saved(tmp_path):
    keys, labels = scattered(np.random.default_rng(0), groups=20)
    tree = MemoryTree(seed=0)
    tree.insert_many(keys[:200], labels[:200], labels=[f"label {label}" for label in labels[:200]])
    tree.insert(keys[200], 0, label="label 3")
    tree.insert_many(keys[201:], labels[201:])
    tree.reward(tree.query(keys[5], k=4), [1.0, 1.0, 0.0, 1.0])
    tree.save(tmp_path / "tree")
    twin = MemoryTree.load(tmp_path / "tree")
    for each in (tree, twin):
        each.refit()
        each.insert(keys[0] + 1, "new", label="label 1")
    np.testing.assert_array_equal(tree.query_many(keys + 0.5, k=9).ids, twin.query_many(keys + 0.5, k=9).ids)
    rows, same = (each.index.arrays()["rows"][: len(tree)] for each in (tree, twin))
    np.testing.assert_array_equal(rows, same)
    assert tree.label(200) == twin.label(200) == "label 3"


@pytest.mark.parametrize("label", [1.5, True, ["a"], object()])
def test_other_objects_are_no_labels(label):
    tree = MemoryTree(seed=0)
    with pytest.raises(InvalidOption, match="a label is"):
        tree.insert([1.0], 0, label=label)
    assert len(tree) == 0
    with pytest.raises(InvalidOption, match="as many labels"):
        tree.insert_many([[1.0], [2.0]], "ab", labels=["x"])


def test_replaced_and_removed_memories_leave_their_reward_groups(rng):
    tree = MemoryTree(seed=0)
    keys = rng.normal(size=(20, 3))
    tree.insert_many(keys, range(20))
    hits = tree.query(keys[0], k=4)
    tree.reward(hits, [1.0, 1.0, 1.0, 0.0])
    tree.insert(keys[1] + 5, "another", id=hits.ids.item(0))
    tree.remove(hits.ids.item(1))
    assert tree.state_dict()["groups"][:, 0].tolist() == [hits.ids.item(2)]
