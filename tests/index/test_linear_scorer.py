"""scorer="linear", the paper's: linear in the products of features, learned from rewards."""

import numpy as np
import pytest
import scipy.sparse

from memorytree.config import LinearScorer
from memorytree.errors import InvalidOption
from tests.trees import PlainTree as MemoryTree

FORMS = {
    "dense": np.asarray,
    "sparse": scipy.sparse.csr_matrix,
    "named": lambda keys: [{f"f{j}": row[j].item() for j in np.flatnonzero(row)} for row in keys],
}
N, DIMENSION = 120, 30


class PlainLinearScorer:
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
    """Keys in which about a third of the features are nonzero."""
    return (rng.normal(size=(N, DIMENSION)) * (rng.random((N, DIMENSION)) < 0.3) + np.eye(1, DIMENSION)).astype(np.float32)


def filled(form, keys, scorer="linear"):
    tree = MemoryTree(scorer=scorer, routing="paper", seed=0)
    tree.insert_many(FORMS[form](keys), range(len(keys)))
    return tree


def reward_randomly(tree, form, keys, rng, rows):
    """Reward the hits of some keys in one batch; returns (ids, rewards)."""
    hits = tree.query_many(FORMS[form](keys[rows]), k=4)
    rewards = np.where(rng.random(hits.ids.shape) < 0.2, np.nan, rng.random(hits.ids.shape))
    tree.reward_many(hits, rewards)
    return hits.ids, rewards


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_linear_scorer_matches_numpy(form, rate, keys, rng):
    tree, plain = filled(form, keys, LinearScorer(rate=rate)), PlainLinearScorer(rate)
    for first in range(0, N, 30):
        rows = range(first, first + 30)
        for row, ids, rewards in zip(rows, *reward_randomly(tree, form, keys, rng, rows), strict=True):
            for id, reward in zip(ids[ids >= 0], rewards[ids >= 0], strict=True):
                if not np.isnan(reward):
                    plain.learn(keys[row].astype(float), keys[id].astype(float), reward)
        queries = FORMS[form](keys[:5])
        for i in range(5):
            expected = plain.score(keys[i].astype(float), keys.astype(float))
            np.testing.assert_allclose(tree.score(queries[i], range(N)), expected, atol=2e-4)
        tree.check()
    assert np.abs(plain.weights - 1).max() > 0.1


@pytest.mark.parametrize("sparse", [False, True])
def test_rewards_teach_the_products_that_matter(rng, sparse):
    """The reward depends on whether two features agree; the others only distract."""
    keys = rng.choice([-1.0, 1.0], size=(300, 12)).astype(np.float32)
    labels = (keys[:, 0] > 0) * 2 + (keys[:, 1] > 0)
    X, itself = scipy.sparse.csr_matrix(keys) if sparse else keys, np.arange(300)[:, None]
    tree = MemoryTree(scorer="linear", routing="paper" if sparse else "auto", seed=0, leaf_factor=30)
    tree.insert_many(X, labels.tolist())

    def error():
        return np.mean(labels[tree.query_many(X, beam=2, exclude=itself).ids[:, 0]] != labels)

    before = error()
    for _ in range(3):
        hits = tree.query_many(X, k=5, beam=2, exclude=itself)
        tree.reward_many(hits, (labels[hits.ids] == labels[:, None]).astype(float))
    assert before > 0.15
    assert error() < before / 3


def test_stats_count_the_weights(keys, rng):
    tree = filled("sparse", keys)
    before = tree.stats().other_bytes
    reward_randomly(tree, "sparse", keys, rng, range(40))
    assert tree.stats().other_bytes > before


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1e5, 1e14])
def test_weights_stay_finite_for_large_keys(form, size, keys, rng):
    tree = filled(form, size * keys)
    reward_randomly(tree, form, size * keys, rng, range(40))
    MemoryTree.from_state_dict(tree.state_dict()).check()


def test_weight_table_size_depends_on_features_only(keys, rng):
    tree = filled("sparse", keys)
    for _ in range(30):
        reward_randomly(tree, "sparse", keys, rng, range(N))
    assert len(tree.index.linear.product.features) <= 8 * DIMENSION


@pytest.mark.parametrize("rate", [0, -1, np.inf, np.nan])
def test_rate_must_be_positive_and_finite(rate):
    with pytest.raises(InvalidOption, match="rate"):
        LinearScorer(rate=rate)
