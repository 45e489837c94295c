"""Scorers in plain Python: functions and objects of the user's own."""

import pickle
import threading
from typing import NamedTuple

import numpy as np
import pytest

from memorytree import MemoryTree
from memorytree.errors import InvalidOption


def minus_distance(x, keys, features):
    return -np.linalg.norm(keys - x, axis=1)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_function_ranks_what_routing_finds(rng, beam):
    keys = rng.normal(size=(300, 6)).astype(np.float32)
    own, fused = MemoryTree(scorer=minus_distance, seed=0), MemoryTree(seed=0)
    for tree in (own, fused):
        tree.insert_many(keys, range(300))
    asked = rng.normal(size=(40, 6)).astype(np.float32)
    a, b = own.query_many(asked, k=5, beam=beam), fused.query_many(asked, k=5, beam=beam)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_allclose(a.scores, b.scores, rtol=1e-5)
    hits, other = own.query(asked[0], k=5, beam=beam), fused.query(asked[0], k=5, beam=beam)
    assert hits.ids == other.ids
    assert hits.receipt.path == other.receipt.path
    assert hits.receipt.hits == other.receipt.hits


def test_it_may_read_the_features_of_values(rng):
    keys = rng.normal(size=(60, 3))
    wanted = rng.permutation(60)
    tree = MemoryTree(scorer=lambda x, keys, features: features[:, 0], seed=0, leaf_factor=100)
    tree.insert_many(keys, range(60), features=wanted[:, None])
    assert tree.query(keys[0])[0].value == int(np.argmax(wanted))
    tree.remove(int(np.argmax(wanted)))
    assert tree.query(keys[0])[0].value == int(np.argsort(wanted)[-2])
    with pytest.raises(InvalidOption, match="finite numbers"):
        tree.insert(keys[0], 0, features=[np.nan])


class Counting:
    """Learns how often each memory's first feature was rewarded."""

    def __init__(self):
        self.seen = []

    def score(self, x, keys, features):
        return keys[:, 0]

    def learn(self, x, keys, features, rewards):
        self.seen.append((keys.shape, rewards.tolist()))


def test_an_object_may_learn():
    scorer = Counting()
    tree = MemoryTree(scorer=scorer, seed=0)
    tree.insert_many([[1.0], [2.0], [3.0]], "abc")
    hits = tree.query([0.0], k=3)
    assert hits.values == ["c", "b", "a"]
    assert tree.update(hits, [1.0, None, 0.0]).learned == 1
    assert scorer.seen == [((2, 1), [1.0, 0.0])]


@pytest.mark.parametrize("answer", [[1.0], [np.nan, 0.0, 0.0], "abc"])
def test_a_scorer_that_answers_nonsense_is_told_so(answer):
    tree = MemoryTree(scorer=lambda x, keys, features: answer, seed=0)
    tree.insert_many([[1.0], [2.0], [3.0]], "abc")
    with pytest.raises((InvalidOption, ValueError)):
        tree.query([0.0])


def test_own_scorers_are_asked_for_when_a_file_is_loaded(tmp_path, rng):
    keys = rng.normal(size=(100, 4)).astype(np.float32)
    own = MemoryTree(scorer=minus_distance, seed=0)
    own.insert_many(keys, range(100))
    own.save(tmp_path / "own")
    with pytest.raises(InvalidOption, match="scorer="):
        MemoryTree.load(tmp_path / "own")
    assert MemoryTree.load(tmp_path / "own", scorer=minus_distance).query(keys[5])[0].value == 5


class Lessons:
    """Ranks by distance, and counts its lessons; what it holds cannot be copied."""

    def __init__(self, lessons=0):
        self.lessons, self.lock = lessons, threading.Lock()

    def __getstate__(self):
        raise TypeError("not to be copied")

    def score(self, x, keys, features):
        return minus_distance(x, keys, features)

    def learn(self, x, keys, features, rewards):
        self.lessons += 1


class Weighed(NamedTuple):
    """A scorer that happens to be a tuple."""

    weight: float = 1.0

    def score(self, x, keys, features):
        return self.weight * minus_distance(x, keys, features)


def test_the_scorer_stays_the_object_that_was_given(rng):
    scorer = Lessons()
    tree = MemoryTree(scorer=scorer, seed=0)
    keys = rng.normal(size=(200, 3))
    tree.insert_many(keys, range(200))
    for change in (tree.sweep, tree.learn, lambda: tree.reroute(5)):
        change()
        tree.update(tree.query(keys[0]), [1.0])
    assert scorer.lessons == 3


def test_a_scorer_that_is_a_tuple_is_saved_like_any_other(tmp_path):
    tree = MemoryTree(scorer=Weighed(), seed=0)
    tree.insert([1.0, 2.0], "a")
    tree.save(tmp_path / "tree")
    again = MemoryTree.load(tmp_path / "tree", scorer=Weighed())
    assert again.query([1.0, 2.0]).values == pickle.loads(pickle.dumps(tree)).query([1.0, 2.0]).values == ["a"]


def test_a_scorer_is_not_given_where_none_is_asked_for(tmp_path):
    tree = MemoryTree(seed=0)
    tree.insert([1.0, 2.0], "a")
    tree.save(tmp_path / "tree")
    with pytest.raises(InvalidOption, match="distance"):
        MemoryTree.load(tmp_path / "tree", scorer="cosine")


def test_features_that_some_lack_are_zeros():
    seen = []

    def scorer(x, keys, features):
        seen.append(features.tolist())
        return -np.arange(len(keys))

    tree = MemoryTree(scorer=scorer, seed=0)
    for value, features in (("a", [1.0]), ("b", [1.0, 2.0]), ("c", None)):
        tree.insert([1.0, 2.0], value, features=features)
    tree.query([1.0, 2.0], k=3)
    assert sorted(seen[0]) == [[0.0, 0.0], [1.0, 0.0], [1.0, 2.0]]
