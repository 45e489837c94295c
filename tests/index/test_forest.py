"""MemoryForest: several trees, one face."""

import pickle

import numpy as np
import pytest

from memorytree import MemoryForest, MemoryTree
from memorytree.checks import check_tree
from memorytree.errors import DamagedFile, InvalidOption


def recall(found, wanted):
    return np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, wanted, strict=True)])


def test_more_trees_overlook_fewer_memories(rng):
    keys, asked = rng.normal(size=(2000, 16)), rng.normal(size=(200, 16))
    exact = np.argsort(np.linalg.norm(asked[:, None] - keys[None], axis=2), axis=1)[:, :10]
    forests = [MemoryForest.build(keys, range(2000), trees=trees, seed=0) for trees in (1, 4)]
    found = [recall(forest.query_many(asked, k=10).ids, exact) for forest in forests]
    assert found[1] > found[0] + 0.1


def test_every_memory_comes_once_and_best_first(rng):
    forest = MemoryForest(5, seed=0)
    forest.insert_many(rng.normal(size=(400, 4)), range(400))
    hits = forest.query_many(rng.normal(size=(50, 4)), k=20, beam=2)
    for row, scores in zip(hits.ids, hits.scores, strict=True):
        kept = row[row >= 0]
        assert len(set(kept.tolist())) == len(kept)
        assert np.all(np.diff(scores[: len(kept)]) <= 0)


def test_a_wide_beam_is_an_exact_search(rng):
    keys, asked = rng.normal(size=(300, 5)).astype(np.float32), rng.normal(size=(40, 5)).astype(np.float32)
    forest = MemoryForest.build(keys, range(300), trees=3, seed=0)
    exact = np.argsort(np.linalg.norm(asked[:, None] - keys[None], axis=2), axis=1)[:, :7]
    np.testing.assert_array_equal(forest.query_many(asked, k=7, beam=300).ids, exact)


def test_writes_reach_every_tree(rng):
    forest = MemoryForest(3, capacity=80, seed=0)
    keys = rng.normal(size=(150, 6))
    stored = {}
    for i, key in enumerate(keys):
        id = forest.insert(key, i, id=i % 100)
        stored[id] = i
        check_tree(forest)
    forest.remove(min(forest))
    check_tree(forest)
    assert all(forest[id] == stored[id] for id in forest)
    hits = forest.query(keys[-1], k=3, explore=1.0, draw=2)
    forest.update(hits, [1.0, 0.0, None])
    forest.update(hits.receipt.to_dict(), [1.0, 0.0, None])
    forest.reroute(5)
    forest.sweep()
    forest.learn()
    check_tree(forest)


def test_a_saved_forest_goes_on(tmp_path, rng):
    keys = rng.normal(size=(200, 6))
    forest = MemoryForest(2, seed=5, routing="paper")
    forest.insert_many(keys[:150], range(150))
    forest.save(tmp_path / "forest")
    twin = MemoryForest.load(tmp_path / "forest")
    copy = pickle.loads(pickle.dumps(forest))
    for face in (forest, twin, copy):
        face.insert_many(keys[150:], range(50))
    for face in (twin, copy):
        np.testing.assert_array_equal(face.query_many(keys, k=3).ids, forest.query_many(keys, k=3).ids)
    with pytest.raises(DamagedFile, match="holds a forest"):
        MemoryTree.load(tmp_path / "forest")


def test_the_same_seed_gives_the_same_forest_with_trees_that_differ(rng):
    keys = rng.normal(size=(300, 8))
    one, two = (MemoryForest.build(keys, range(300), trees=2, seed=9) for _ in range(2))
    np.testing.assert_array_equal(one.query_many(keys + 0.3, k=5).ids, two.query_many(keys + 0.3, k=5).ids)
    first, second = (part.arrays()["routers"] for part in one._core.parts.values())
    assert not np.array_equal(first[: len(second)], second[: len(first)])


def test_sparse_keys_and_bad_options():
    forest = MemoryForest(2, routing="paper", seed=0)
    for i in range(50):
        forest.insert({f"word{i}": 1.0, f"word{i + 1}": 0.5}, i)
    assert forest.query({"word7": 1.0, "word8": 0.5})[0].value == 7
    for trees in (0, -1, 2.5, "two"):
        with pytest.raises(InvalidOption):
            MemoryForest(trees)
