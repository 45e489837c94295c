"""`scorer="linear"`, the paper's: linear in the products of features, learned from rewards."""

import numpy as np
import pytest
import scipy.sparse
from memorytree.scoring import linear

from memorytree import MemoryTree
from memorytree.checks import check_tree
from memorytree.errors import InvalidOption
from tests.trees import state

FORMS = {
    "dense": np.asarray,
    "sparse": scipy.sparse.csr_matrix,
    "named": lambda keys: [{f"f{j}": row[j].item() for j in np.flatnonzero(row)} for row in keys],
}
N, DIMENSION = 120, 30


class Plain:
    """The same in a few lines of NumPy."""

    def __init__(self, rate):
        self.weights, self.squares, self.bias, self.rate = np.ones(DIMENSION), np.zeros(DIMENSION), np.zeros(2), rate

    def score(self, x, z):
        return (x * z) @ self.weights + self.bias[0]

    def learn(self, x, z, reward):
        error = self.score(x, z) - reward
        self.squares += (error * x * z) ** 2
        self.weights -= self.rate * error * x * z / np.sqrt(self.squares + 1e-12)
        self.bias[1] += error**2
        self.bias[0] -= self.rate * error / np.sqrt(self.bias[1] + 1e-12)


@pytest.fixture
def keys(rng):
    """Keys of which a third of the features are there."""
    return (rng.normal(size=(N, DIMENSION)) * (rng.random((N, DIMENSION)) < 0.3) + np.eye(1, DIMENSION)).astype(np.float32)


def grown(form, keys, **options):
    tree = MemoryTree(**({"scorer": "linear", "routing": "paper", "seed": 0} | options))
    tree.insert_many(FORMS[form](keys), range(len(keys)))
    return tree


def teach(tree, form, keys, rng, rows):
    """Reward what is found for some keys, in one batch; returns (ids, rewards)."""
    hits = tree.query_many(FORMS[form](keys[rows]), k=4)
    rewards = np.where(rng.random(hits.ids.shape) < 0.2, np.nan, rng.random(hits.ids.shape))
    tree.update_many(hits, rewards)
    return hits.ids, rewards


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_it_is_the_plain_one(form, rate, keys, rng):
    tree, plain = grown(form, keys, scorer=linear(rate=rate)), Plain(rate)
    for first in range(0, N, 30):
        rows = range(first, first + 30)
        for row, ids, rewards in zip(rows, *teach(tree, form, keys, rng, rows), strict=True):
            for id, reward in zip(ids[ids >= 0], rewards[ids >= 0], strict=True):
                if not np.isnan(reward):
                    plain.learn(keys[row].astype(float), keys[id].astype(float), reward)
        asked = FORMS[form](keys[:5])
        for i in range(5):
            expected = plain.score(keys[i].astype(float), keys.astype(float))
            np.testing.assert_allclose(tree.compare(asked[i], range(N)), expected, atol=2e-4)
        check_tree(tree)
    assert np.abs(plain.weights - 1).max() > 0.1


@pytest.mark.parametrize("form", FORMS)
def test_one_update_after_the_other_is_one_batch(form, keys, rng):
    tree, twin = grown(form, keys, reroutes=0), grown(form, keys, reroutes=0)
    hits = tree.query_many(FORMS[form](keys[:40]), k=4)
    rewards = rng.random(hits.ids.shape)
    tree.update_many(hits, rewards)
    one_by_one = list(twin.query_many(FORMS[form](keys[:40]), k=4))
    for one, told in zip(one_by_one, rewards.tolist(), strict=True):
        twin.update(one, told[: len(one)])
    asked = FORMS[form](keys[:20])
    np.testing.assert_array_equal(tree.query_many(asked, k=3).scores, twin.query_many(asked, k=3).scores)


@pytest.mark.parametrize("sparse", [False, True])
def test_it_learns_which_products_pay(rng, sparse):
    """The reward is whether two hidden features agree; the others only distract."""
    keys = rng.choice([-1.0, 1.0], size=(300, 12)).astype(np.float32)
    labels = (keys[:, 0] > 0) * 2 + (keys[:, 1] > 0)
    form = scipy.sparse.csr_matrix if sparse else np.asarray
    tree = MemoryTree(scorer="linear", routing="paper" if sparse else "auto", seed=0, leaf_factor=30)
    tree.insert_many(form(keys), labels.tolist())

    def error():
        hits = tree.query_many(form(keys), beam=2, exclude=np.arange(300)[:, None])
        return np.mean(labels[hits.ids[:, 0]] != labels)

    before = error()
    for _ in range(3):
        hits = tree.query_many(form(keys), k=5, beam=2, exclude=np.arange(300)[:, None])
        tree.update_many(hits, (labels[hits.ids] == labels[:, None]).astype(float))
    assert before > 0.15
    assert error() < before / 3


@pytest.mark.parametrize("form", FORMS)
def test_what_it_has_learned_is_saved(form, keys, rng, tmp_path):
    tree = grown(form, keys)
    teach(tree, form, keys, rng, range(40))
    tree.save(tmp_path / "tree")
    twin = MemoryTree.load(tmp_path / "tree")
    assert state(twin) == state(tree)
    asked = FORMS[form](keys)
    for _ in range(2):  # and goes on as it would have
        np.testing.assert_array_equal(twin.query_many(asked, k=3).scores, tree.query_many(asked, k=3).scores)
        for one in (tree, twin):
            teach(one, form, keys, np.random.default_rng(7), range(40, 80))


@pytest.mark.parametrize("form", FORMS)
def test_files_of_earlier_versions_are_read(form, keys, rng):
    """They had a weight for each feature up to the last that had been in a lesson."""
    tree = grown(form, keys)
    teach(tree, form, keys, rng, range(40))
    asked = FORMS[form](keys)
    before, lore = tree.query_many(asked, k=3).scores, tree._core.lore()
    features = lore.pop("features", np.arange(DIMENSION))
    for name, blank in (("weights", 1), ("squares", 0)):
        former = np.full(features.max() + 1, blank, np.float32)
        former[features] = lore[name]
        lore[name] = former
    tree._core.recall(lore)
    np.testing.assert_array_equal(tree.query_many(asked, k=3).scores, before)


def test_a_copy_learns_for_itself(keys):
    core = grown("dense", keys)._core
    twin = core.copy()
    no_trace, first, nothing = np.zeros((1, 7), np.int64), np.zeros((1, 1), np.int64), np.zeros((1, 1))
    twin.update(keys[:1], no_trace, first, nothing, np.zeros(1, np.int64), 1)
    assert core.lore()["bias"].tolist() == [0, 0]
    assert twin.lore()["bias"][1] > 0


def test_asking_changes_nothing(keys):
    tree = grown("dense", keys)
    before = state(tree)
    tree.query(keys[0])
    assert state(tree) == before


def test_weights_count_as_space(keys, rng):
    tree = grown("sparse", keys)
    before = tree.stats().other_bytes
    teach(tree, "sparse", keys, rng, range(40))
    assert tree.stats().other_bytes > before


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1e5, 1e14])
def test_large_keys_are_learned_from_and_kept(form, size, keys, rng, tmp_path):
    tree = grown(form, size * keys)
    teach(tree, form, size * keys, rng, range(40))
    tree.save(tmp_path / "tree")
    assert state(MemoryTree.load(tmp_path / "tree")) == state(tree)


def test_a_table_is_no_larger_than_its_features_need(keys, rng):
    tree = grown("sparse", keys)
    for _ in range(30):
        teach(tree, "sparse", keys, rng, range(N))
    assert len(tree._core.scorer.features) <= 8 * DIMENSION
    assert tree._core.bytes_in_use() < tree._core.bytes_in_all() < 4096


@pytest.mark.parametrize("rate", [0, -1, np.inf, np.nan])
def test_a_rate_is_positive(rate):
    with pytest.raises(InvalidOption, match="rate"):
        MemoryTree(scorer=linear(rate=rate))
