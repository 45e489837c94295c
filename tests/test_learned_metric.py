"""scorer="metric": the space is learned from rewards, and only from true ones."""

import numpy as np
import pytest
from memorytree.scoring import metric
from memorytree.scoring.metric import FORMER_SIGHT

from memorytree import MemoryForest, MemoryTree
from memorytree.checks import check_tree
from memorytree.errors import DamagedFile


def planted(seed, n=1200, useful=4, distracting=15, groups=40):
    """Keys in which only a few features tell which memory is the right one; the nearest one is mostly a wrong one."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(groups, useful)) * 3
    labels = rng.integers(groups, size=n)
    keys = np.concatenate(
        [centers[labels] + 0.2 * rng.normal(size=(n, useful)), 3 * rng.normal(size=(n, distracting))], axis=1
    )
    return keys.astype(np.float32), labels


def teach(tree, keys, labels, rng=None, passes=10):
    """Own memory excluded; with rng the rewards of each query change hands."""
    for _ in range(passes):
        hits = tree.query_many(keys, k=10, beam=8, exclude=np.arange(len(keys))[:, None])
        rewards = (labels[hits.ids] == labels[:, None]).astype(float)
        if rng is not None:
            rewards = rng.permuted(rewards, axis=1)
        tree.update_many(hits, rewards)
        tree.learn()


def error(tree, keys, labels, asked, answers):
    return np.mean(labels[tree.query_many(asked, beam=8).ids[:, 0]] != answers)


@pytest.mark.parametrize("seed", range(3))
def test_feedback_finds_the_features_that_matter(seed):
    keys, labels = planted(seed)
    train, test = slice(0, 1000), slice(1000, None)
    build = {"scorer": "metric", "seed": seed}
    taught = MemoryTree.build(keys[train], labels[train].tolist(), **build)
    shuffled = MemoryTree.build(keys[train], labels[train].tolist(), **build)
    before = error(taught, keys, labels, keys[test], labels[test])
    teach(taught, keys[train], labels[train])
    teach(shuffled, keys[train], labels[train], np.random.default_rng(seed))
    after = error(taught, keys, labels, keys[test], labels[test])
    control = error(shuffled, keys, labels, keys[test], labels[test])
    assert before > 0.6
    assert after < 0.1
    assert control > before - 0.1


def test_a_stored_key_ranks_itself_highest(rng):
    keys = rng.normal(size=(500, 20)).astype(np.float32)
    tree = MemoryTree(scorer="metric", seed=0)
    ids = tree.insert_many(keys, range(500))
    hits = tree.query_many(keys)
    np.testing.assert_array_equal(hits.ids[:, 0], ids)
    np.testing.assert_allclose(hits.scores[:, 0], 1, atol=1e-5)


def test_after_lessons_a_sweep_makes_every_memory_found_again(rng):
    keys, labels = planted(0, n=400)
    tree = MemoryTree.build(keys, labels.tolist(), scorer="metric", seed=0)
    teach(tree, keys, labels, passes=1)
    hits = tree.query_many(keys, k=5, beam=4)
    tree.update_many(hits, rng.integers(0, 2, size=hits.ids.shape).astype(float))
    tree.sweep()
    check_tree(tree)
    assert np.all(tree.query_many(keys).ids[:, 0] == np.arange(400))


@pytest.mark.parametrize("face", [MemoryTree, MemoryForest])
def test_batch_and_loop_insert_alike(rng, face):
    keys = rng.normal(size=(300, 12)).astype(np.float32)
    one, many = (face(scorer="metric", seed=3) for _ in range(2))
    for i, key in enumerate(keys):
        one.insert(key, i)
        check_tree(one)
    many.insert_many(keys, range(300))
    a, b = one.query_many(keys, k=4, beam=2), many.query_many(keys, k=4, beam=2)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a.scores, b.scores)


def test_learning_survives_saving(tmp_path):
    keys, labels = planted(1, n=500)
    tree = MemoryTree(scorer="metric", seed=1)
    tree.insert_many(keys[:400], labels[:400].tolist())
    teach(tree, keys[:400], labels[:400], passes=1)
    tree.save(tmp_path / "tree")
    twin = MemoryTree.load(tmp_path / "tree")
    for face in (tree, twin):
        face.insert_many(keys[400:], labels[400:].tolist())
        hits = face.query_many(keys, k=6, beam=3)
        face.update_many(hits, (labels[hits.ids] == labels[:, None]).astype(float))
        face.remove(7)
        check_tree(face)
    a, b = tree.query_many(keys, k=6, beam=3), twin.query_many(keys, k=6, beam=3)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a.scores, b.scores)
    np.testing.assert_array_equal(tree._core.space.weights, twin._core.space.weights)


def test_what_earlier_files_do_not_tell_is_as_it_was_then(rng):
    """Their memories lie where the lift of that time put them."""
    X = rng.normal(size=(200, 5)).astype(np.float32)
    former = dict(zip(("temperature", "lift"), FORMER_SIGHT, strict=True))
    seen = MemoryTree.build(X, range(200), scorer=metric(**former), seed=0)._core.lore()
    seen.pop("sight")
    for scorer, expected in (("metric", metric(**former)), (metric(lift=0.3), metric(lift=0.3))):
        core = MemoryTree.build(X, range(200), scorer=scorer, seed=0)._core
        core.recall(seen)
        assert core.space.scorer == expected


def test_a_damaged_space_is_refused(tmp_path):
    keys, labels = planted(2, n=100)
    tree = MemoryTree.build(keys, labels.tolist(), scorer="metric", seed=1)
    tree._core.space.weights[0, 0] = np.nan
    tree.save(tmp_path / "tree")
    with pytest.raises(DamagedFile, match="learned space"):
        MemoryTree.load(tmp_path / "tree")


def test_learning_does_not_depend_on_the_scale_of_the_keys():
    keys, labels = planted(3, n=600)
    answers = []
    for scale in (1, 1000):
        tree = MemoryTree.build(keys * np.float32(scale), labels.tolist(), scorer="metric", seed=0)
        teach(tree, keys * np.float32(scale), labels, passes=3)
        answers.append(error(tree, keys, labels, keys * np.float32(scale) + np.float32(0.01 * scale), labels))
    assert abs(answers[0] - answers[1]) < 0.05


def test_equal_keys_and_constant_features_do_no_harm():
    tree = MemoryTree(scorer="metric", seed=0)
    tree.insert_many(np.ones((50, 3)), range(50))
    hits = tree.query(np.ones(3), k=5)
    assert len(hits) == 5
    assert all(np.isfinite(hit.score) for hit in hits)
    check_tree(tree)


def test_capacity_and_removal_reach_every_part(rng):
    tree = MemoryTree(scorer="metric", capacity=60, seed=0)
    tree.insert_many(rng.normal(size=(200, 6)), range(200))
    assert list(tree) == list(range(140, 200))
    tree.remove(150)
    tree.insert(rng.normal(size=6), "again", id=160)
    check_tree(tree)
    assert len(tree) == 59
    assert tree[160] == "again"


def test_settings_of_its_own():
    assert MemoryTree(scorer=metric(rank=5)).insert([1.0, 2.0], 0) == 0


def test_a_receipt_of_trees_that_are_no_more_teaches_no_router():
    tree = MemoryTree(routing="paper", scorer="metric", seed=0)
    X = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    tree.insert_many(X, range(300))
    explored = [
        hits for hits in (tree.query(x, explore=1.0, draw=i) for i, x in enumerate(X)) if hits.receipt.branch == "node"
    ]
    assert explored
    fresh = [tree.update(hits, [1.0] * len(hits)).skipped for hits in explored[:20]]
    assert sum(fresh) < 20
    tree.learn()
    assert all(tree.update(hits, [1.0] * len(hits)).skipped == 1 for hits in explored[20:])
