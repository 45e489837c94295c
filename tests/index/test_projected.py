"""ProjectedIndex, scorer="metric" on dense keys: a projection that learns from rewards."""

import numpy as np
import pytest

from memorytree.config import Projection
from tests.trees import PlainTree as MemoryTree


def planted(seed, n=800, useful=4, distracting=15, groups=40):
    """(keys, labels): only a few features depend on the label, so the nearest memory mostly has another label."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(groups, useful)) * 3
    labels = rng.integers(groups, size=n)
    keys = np.concatenate(
        [centers[labels] + 0.2 * rng.normal(size=(n, useful)), 3 * rng.normal(size=(n, distracting))], axis=1
    )
    return keys.astype(np.float32), labels


def reward_by_label(tree, keys, labels, shuffle=None, passes=8):
    """Query with the stored keys and reward equal labels; `shuffle` permutes the rewards of each query."""
    for _ in range(passes):
        hits = tree.query_many(keys, k=10, beam=8, exclude=np.arange(len(keys))[:, None])
        rewards = (labels[hits.ids] == labels[:, None]).astype(float)
        tree.reward_many(hits, rewards if shuffle is None else shuffle.permuted(rewards, axis=1))
        tree.refit()


def error(tree, labels, X, expected):
    return np.mean(labels[tree.query_many(X, beam=8).ids[:, 0]] != expected)


@pytest.mark.parametrize("seed", range(3))
def test_rewards_select_the_useful_features(seed):
    keys, labels = planted(seed, n=1200)
    train, test = slice(0, 1000), slice(1000, None)

    def errors(shuffle=None):
        tree = MemoryTree.build(keys[train], labels[train].tolist(), scorer="metric", seed=seed)
        before = error(tree, labels, keys[test], labels[test])
        reward_by_label(tree, keys[train], labels[train], shuffle)
        return before, error(tree, labels, keys[test], labels[test])

    before, after = errors()
    _, shuffled = errors(np.random.default_rng(seed))
    assert before > 0.6
    assert after < 0.1
    assert shuffled > before - 0.1


def test_stored_key_ranks_itself_first(rng):
    keys = rng.normal(size=(500, 20)).astype(np.float32)
    tree = MemoryTree(scorer="metric", seed=0)
    ids = tree.insert_many(keys, range(500))
    hits = tree.query_many(keys)
    np.testing.assert_array_equal(hits.ids[:, 0], ids)
    np.testing.assert_allclose(hits.scores[:, 0], 1, atol=1e-5)


def test_sweep_after_rewards_makes_every_memory_retrievable(rng):
    keys, labels = planted(0, n=400)
    tree = MemoryTree.build(keys, labels.tolist(), scorer="metric", seed=0)
    reward_by_label(tree, keys, labels, passes=1)
    hits = tree.query_many(keys, k=5, beam=4)
    tree.reward_many(hits, rng.integers(0, 2, size=hits.ids.shape).astype(float))
    tree.sweep()
    tree.check()
    assert np.all(tree.query_many(keys).ids[:, 0] == np.arange(400))


def test_learning_does_not_depend_on_the_scale_of_keys():
    keys, labels = planted(3, n=600)
    errors = []
    for scale in (np.float32(1), np.float32(1000)):
        tree = MemoryTree.build(keys * scale, labels.tolist(), scorer="metric", seed=0)
        reward_by_label(tree, keys * scale, labels, passes=3)
        errors.append(error(tree, labels, keys * scale + np.float32(0.01) * scale, labels))
    assert abs(errors[0] - errors[1]) < 0.05


def test_equal_keys_have_finite_scores():
    tree = MemoryTree(scorer="metric", seed=0)
    tree.insert_many(np.ones((50, 3)), range(50))
    hits = tree.query(np.ones(3), k=5)
    assert len(hits) == 5
    assert np.all(np.isfinite(hits.scores))
    tree.check()


def test_rank_limits_the_width_of_projections(rng):
    keys = rng.normal(size=(20, 9))
    tree = MemoryTree(scorer=Projection(rank=5), seed=0)
    tree.insert_many(keys, range(20))
    assert tree.index.project(np.float32(keys)).shape == (20, 5 + 1)


def test_routers_skip_receipts_of_trees_that_were_rebuilt(rng):
    X = rng.normal(size=(300, 4)).astype(np.float32)
    tree = MemoryTree(routing="paper", scorer="metric", seed=0)
    tree.insert_many(X, range(300))
    answers = (tree.query(x, explore=1.0, exploration_seed=i) for i, x in enumerate(X))
    explored = [hits for hits in answers if hits.receipt.branch == "node"]
    assert sum(tree.reward(hits, [1.0]).skipped for hits in explored[:20]) < 20
    tree.refit()
    assert [tree.reward(hits, [1.0]).skipped for hits in explored[20:40]] == [1] * 20


@pytest.mark.parametrize("name", ["weights", "squares", "center", "units"])
def test_projection_that_is_not_finite_is_refused(name, rng):
    tree = MemoryTree.build(rng.normal(size=(50, 4)), range(50), scorer="metric", seed=0)
    state = tree.state_dict()
    state["index"][f"projection.{name}"].flat[0] = np.nan
    with pytest.raises(ValueError, match="projection"):
        MemoryTree.from_state_dict(state)
