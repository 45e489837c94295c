"""Scorers in plain Python: functions and objects of the user's own."""

import pickle
import threading
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse

from memorytree.errors import InvalidOption
from tests.trees import PlainTree as MemoryTree


def minus_distance(x, keys, features):
    return -np.linalg.norm(keys - x, axis=1)


@pytest.mark.parametrize("beam", [1, 3])
def test_function_ranks_the_memories_that_routing_finds(rng, beam):
    keys, queries = rng.normal(size=(300, 6)).astype(np.float32), rng.normal(size=(40, 6)).astype(np.float32)
    custom, compiled = MemoryTree(scorer=minus_distance, seed=0), MemoryTree(seed=0)
    for tree in (custom, compiled):
        tree.insert_many(keys, range(300))
    a, b = custom.query_many(queries, k=5, beam=beam), compiled.query_many(queries, k=5, beam=beam)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_allclose(a.scores, b.scores, rtol=1e-5)
    assert a[0].receipt == b[0].receipt
    assert custom.explain(queries[0]).steps == compiled.explain(queries[0]).steps


def test_function_scores_sparse_keys_as_scipy_rows():
    def overlap(x, keys, features):
        return (keys @ x.T).toarray().ravel()

    tree = MemoryTree(scorer=overlap, seed=0)
    tree.insert_many(scipy.sparse.csr_matrix([[1.0, 0, 2], [0, 3, 0], [0, 0, 1]]), "abc")
    hits = tree.query(scipy.sparse.csr_matrix([[1.0, 1, 1]]), k=3)
    assert list(zip(hits.values, hits.scores.tolist(), strict=True)) == [("a", 3.0), ("b", 3.0), ("c", 1.0)]


def test_function_reads_features_of_values(rng):
    keys, feature = rng.normal(size=(60, 3)), rng.permutation(60)
    tree = MemoryTree(scorer=lambda x, keys, features: features[:, 0], seed=0, leaf_factor=100)
    tree.insert_many(keys, range(60), features=feature[:, None])
    best, second = np.argsort(-feature)[:2].tolist()
    assert tree.query(keys[0])[0].value == best
    tree.remove(best)
    assert tree.query(keys[0])[0].value == second
    with pytest.raises(InvalidOption, match="finite numbers"):
        tree.insert(keys[0], 0, features=[np.nan])


def test_missing_features_are_zeros():
    seen = []

    def scorer(x, keys, features):
        seen.append(features.tolist())
        return -np.arange(len(keys))

    tree = MemoryTree(scorer=scorer, seed=0)
    for value, features in (("a", [1.0]), ("b", [1.0, 2.0]), ("c", None)):
        tree.insert([1.0, 2.0], value, features=features)
    tree.query([1.0, 2.0], k=3)
    assert sorted(seen[0]) == [[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]


class RewardRecorder:
    """Ranks by the first feature of the key, and records the rewards; its state is their number."""

    def __init__(self):
        self.lessons, self.count = [], 0

    def score(self, x, keys, features):
        return keys[:, 0]

    def learn(self, x, keys, features, rewards):
        self.lessons.append((keys.tolist(), rewards.tolist()))
        self.count += 1

    def state_dict(self):
        return {"count": np.array([self.count])}

    def load_state_dict(self, state):
        self.count = int(state["count"][0])


def test_scorer_learns_from_observed_rewards_only():
    scorer = RewardRecorder()
    tree = MemoryTree(scorer=scorer, seed=0)
    tree.insert_many([[1.0], [2.0], [3.0]], "abc")
    hits = tree.query([0.0], k=3)
    assert hits.values == ["c", "b", "a"]
    assert tree.reward(hits, [1.0, None, 0.0]).learned == 1
    assert scorer.lessons == [([[3.0], [1.0]], [1.0, 0.0])]


def test_state_of_the_scorer_is_saved(tmp_path):
    tree, loaded = MemoryTree(scorer=RewardRecorder(), seed=0), RewardRecorder()
    tree.insert([1.0], "a")
    tree.reward(tree.query([0.0]), [1.0])
    tree.save(tmp_path / "tree")
    MemoryTree.load(tmp_path / "tree", scorer=loaded)
    assert loaded.count == 1


@pytest.mark.parametrize("answer", [[1.0], [np.nan, 0.0, 0.0], "abc"])
def test_invalid_scores_raise(answer):
    tree = MemoryTree(scorer=lambda x, keys, features: answer, seed=0)
    tree.insert_many([[1.0], [2.0], [3.0]], "abc")
    with pytest.raises((InvalidOption, ValueError)):
        tree.query([0.0])


def test_load_needs_the_custom_scorer(tmp_path, rng):
    keys = rng.normal(size=(100, 4)).astype(np.float32)
    tree = MemoryTree.build(keys, range(100), scorer=minus_distance, seed=0)
    tree.save(tmp_path / "tree")
    with pytest.raises(InvalidOption, match="scorer="):
        MemoryTree.load(tmp_path / "tree")
    assert MemoryTree.load(tmp_path / "tree", scorer=minus_distance).query(keys[5])[0].value == 5


def test_load_refuses_a_scorer_that_is_not_needed(tmp_path):
    MemoryTree.build([[1.0, 2.0]], "a", seed=0).save(tmp_path / "tree")
    with pytest.raises(InvalidOption, match="distance"):
        MemoryTree.load(tmp_path / "tree", scorer="cosine")


class Uncopyable:
    """Ranks by distance, counts its lessons, and cannot be copied."""

    def __init__(self):
        self.lessons, self.lock = 0, threading.Lock()

    def __getstate__(self):
        raise TypeError("not to be copied")

    def score(self, x, keys, features):
        return minus_distance(x, keys, features)

    def learn(self, x, keys, features, rewards):
        self.lessons += 1


def test_rebuilds_keep_the_scorer_object(rng):
    scorer = Uncopyable()
    tree = MemoryTree(scorer=scorer, seed=0)
    keys = rng.normal(size=(200, 3))
    tree.insert_many(keys, range(200))
    for rebuild in (tree.sweep, tree.refit, lambda: tree.reroute(5)):
        rebuild()
        tree.reward(tree.query(keys[0]), [1.0])
    assert scorer.lessons == 3


class Weighted(NamedTuple):
    """A scorer that is a tuple."""

    weight: float = 1.0

    def score(self, x, keys, features):
        return self.weight * minus_distance(x, keys, features)


def test_scorer_may_be_a_tuple(tmp_path):
    tree = MemoryTree(scorer=Weighted(), seed=0)
    tree.insert([1.0, 2.0], "a")
    tree.save(tmp_path / "tree")
    loaded, unpickled = MemoryTree.load(tmp_path / "tree", scorer=Weighted()), pickle.loads(pickle.dumps(tree))
    assert loaded.query([1.0, 2.0]).values == unpickled.query([1.0, 2.0]).values == ["a"]
