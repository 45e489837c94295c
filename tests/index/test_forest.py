"""Several trees over the same memories, beyond the contract of every index."""

import numpy as np

from tests.trees import PlainTree as MemoryTree


def recall(found, wanted):
    return np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, wanted, strict=True)])


def test_more_trees_find_more_of_the_nearest(rng):
    keys, asked = rng.normal(size=(2000, 16)), rng.normal(size=(200, 16))
    exact = np.argsort(np.linalg.norm(asked[:, None] - keys[None], axis=2), axis=1)[:, :10]
    forests = [MemoryTree.build(keys, range(2000), trees=trees, routing="principal", seed=0) for trees in (1, 4)]
    found = [recall(forest.query_many(asked, k=10).ids, exact) for forest in forests]
    assert found[1] > found[0] + 0.1


def test_every_memory_is_returned_once_and_best_first(rng):
    forest = MemoryTree(trees=5, seed=0)
    forest.insert_many(rng.normal(size=(400, 4)), range(400))
    hits = forest.query_many(rng.normal(size=(50, 4)), k=20, beam=2)
    for row, scores in zip(hits.ids, hits.scores, strict=True):
        kept = row[row >= 0]
        assert len(set(kept.tolist())) == len(kept)
        assert np.all(np.diff(scores[: len(kept)]) <= 0)


def test_every_write_reaches_every_tree(rng):
    forest = MemoryTree(trees=3, capacity=80, seed=0)
    keys, stored = rng.normal(size=(150, 6)), {}
    for i, key in enumerate(keys):
        stored[forest.insert(key, i, id=i % 100)] = i
        forest.check()  # compares the memories of all trees
    forest.remove(min(forest))
    forest.check()
    assert all(forest[id] == stored[id] for id in forest)


def test_the_trees_of_one_seed_differ(rng):
    forest = MemoryTree.build(rng.normal(size=(300, 8)), range(300), trees=2, seed=9)
    first, second = (tree.arrays()["routers"] for tree in forest.index.trees)
    assert not np.array_equal(first[: len(second)], second[: len(first)])


def test_named_keys_in_several_trees():
    forest = MemoryTree(trees=2, routing="paper", seed=0)
    for i in range(50):
        forest.insert({f"word{i}": 1.0, f"word{i + 1}": 0.5}, i)
    assert forest.query({"word7": 1.0, "word8": 0.5})[0].value == 7
