"""scorer="values": candidates are ranked by features of their values, as far as rewards justify it."""

import numpy as np
import pytest
import scipy.sparse

from memorytree.config import ValueModel
from memorytree.errors import InvalidOption
from memorytree.learning.value_model import COMPONENT_NAMES
from tests.trees import PlainTree as MemoryTree

FORMS = ("dense", "sparse")


def planted(form, seed, n=600, width=6):
    """(keys, features): a key depends weakly on the features of its value; most of it is noise."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, width)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    if form == "dense":
        keys = np.concatenate([features, 0.6 * rng.normal(size=(n, 12))], axis=1).astype(np.float32)
        return keys, features
    # A term for the sign of each feature, and more terms at random, all of weight 1.
    signs = 2 * np.arange(width) + (features > 0)
    others = 2 * width + np.argsort(rng.random((n, 40)), axis=1)[:, :8]
    columns = np.concatenate([signs, others], axis=1)
    rows = np.repeat(np.arange(n), columns.shape[1])
    return scipy.sparse.csr_matrix((np.ones(columns.size, np.float32), (rows, columns.ravel()))), features


def similarity(features, wanted, ids):
    """Rewards: cosines, scaled to [0, 1]."""
    return (1 + np.einsum("nkd,nd->nk", features[ids], wanted)) / 2


def reward_similarity(tree, keys, features, passes=2, shuffle=None, k=60):
    """Query with the stored keys and reward similar features; `shuffle` permutes the rewards of each query."""
    rows = np.arange(keys.shape[0])
    for _ in range(passes):
        for part in np.split(rows, range(100, len(rows), 100)):
            hits = tree.query_many(keys[part], k, exclude=part[:, None])
            rewards = np.where(hits.ids >= 0, similarity(features, features[part], hits.ids), np.nan)
            tree.reward_many(hits, rewards if shuffle is None else shuffle.permuted(rewards, axis=1))


def mean_similarity(tree, keys, features, wanted):
    return similarity(features, wanted, tree.query_many(keys).ids).mean()


def taught(form="dense", n=300, **options):
    """(tree, keys, features) after one pass of rewards."""
    keys, features = planted(form, 0, n)
    tree = MemoryTree(scorer="values", seed=0, **options)
    tree.insert_many(keys, range(n), features=features)
    reward_similarity(tree, keys, features, passes=1)
    return tree, keys, features


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_rewards_teach_which_values_are_wanted(form, seed):
    keys, features = planted(form, seed, n=900)
    stored, queries = slice(0, 700), slice(700, None)

    def similarities(shuffle=None):
        tree = MemoryTree.build(keys[stored], range(700), features=features[stored], scorer="values", seed=seed)
        before = mean_similarity(tree, keys[queries], features, features[queries])
        reward_similarity(tree, keys[stored], features, shuffle=shuffle)
        return before, mean_similarity(tree, keys[queries], features, features[queries])

    before, after = similarities()
    _, shuffled = similarities(np.random.default_rng(seed))
    assert after > before + 0.05
    assert abs(shuffled - before) < 0.02


@pytest.mark.parametrize("form", FORMS)
def test_keys_alone_rank_until_rewards_differ(form):
    keys, features = planted(form, 0, 200)
    tree = MemoryTree.build(keys, range(200), features=features, scorer="values", seed=0)
    plain = MemoryTree.build(keys, range(200), scorer="cosine" if form == "sparse" else "distance", seed=0)
    _, beam = tree.index.reranker.candidates(tree.index.inner, 5, 1)
    expected = plain.query_many(keys, 5, beam=beam).ids
    hits = tree.query_many(keys, 5)
    np.testing.assert_array_equal(hits.ids, expected)
    tree.reward_many(hits, np.full((200, 5), 0.7))
    np.testing.assert_array_equal(tree.query_many(keys, 5).ids, expected)


@pytest.mark.parametrize("form", FORMS)
def test_explanation_adds_up_to_the_score(form):
    tree, keys, _ = taught(form)
    hits, explanation = tree.query(keys[5], 3), tree.explain(keys[5], 3)
    assert [candidate.hit.id for candidate in explanation.candidates] == hits.ids.tolist()
    for candidate, score in zip(explanation.candidates, hits.scores, strict=True):
        assert [name for name, _ in candidate.parts] == list(COMPONENT_NAMES)
        assert sum(part for _, part in candidate.parts) == pytest.approx(score, abs=1e-5)


@pytest.mark.parametrize("beam", [1, 8])
def test_explanation_uses_the_beam_of_the_query(beam):
    tree, keys, _ = taught()
    for key in keys[:20]:
        explained = [candidate.hit for candidate in tree.explain(key, 3, beam=beam).candidates]
        assert explained == list(tree.query(key, 3, beam=beam))


@pytest.mark.parametrize("form", FORMS)
def test_replaced_memory_has_new_features_or_none(form):
    tree, keys, features = taught(form)
    tree.insert(keys[1], "new", id=1, features=-features[1])
    tree.insert(keys[2], "without", id=2)
    np.testing.assert_array_equal(tree.features(1), -features[1])
    assert tree.features(2) is None
    assert len(tree.index.reranker.table) == len(tree) - 1
    assert {"new", "without"} <= set(tree.query(keys[1], len(tree), beam=50).values)
    tree.check()


def test_evicted_and_removed_memories_lose_their_features():
    tree, keys, features = taught("sparse", capacity=250)
    tree.remove(next(iter(tree)))
    tree.insert_many(keys[:40], range(40), features=features[:40])
    tree.check()
    assert len(tree.index.reranker.table) == len(tree.index.reranker.rows) == len(tree) == 250


@pytest.mark.parametrize("n", [1, 2])
def test_features_of_another_length_are_refused_before_writing(n):
    tree, keys, _ = taught()
    before = len(tree), tree.index.reranker.rows[0].tolist()
    with pytest.raises(InvalidOption, match="a value has 5 features, those of this tree have 6"):
        tree.insert_many(keys[:n], ["other"] * n, features=np.ones((n, 5)), ids=range(n))
    assert (len(tree), tree.index.reranker.rows[0].tolist()) == before


@pytest.mark.parametrize("form", FORMS)
def test_values_inserted_after_first_lessons_are_ranked_too(form):
    keys, features = planted(form, 0)
    early, late = (MemoryTree(scorer="values", seed=0) for _ in range(2))
    early.insert_many(keys[:40], range(40), features=features[:40])
    reward_similarity(early, keys[:40], features, passes=1, k=20)
    early.insert_many(keys[40:500], range(40, 500), features=features[40:500])
    late.insert_many(keys[:500], range(500), features=features[:500])
    for tree in (early, late):
        reward_similarity(tree, keys[:500], features)
    queries = keys[500:], features, features[500:]
    assert early.index.reranker.model.n_fitted > 400
    assert mean_similarity(early, *queries) > mean_similarity(late, *queries) - 0.02


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_scale_and_offset_of_keys_do_not_matter(scale, offset):
    keys, features = planted("dense", 0)
    moved = ((keys + offset) * scale).astype(np.float32)
    tree = MemoryTree.build(moved[:500], range(500), features=features[:500], scorer="values", seed=0)
    np.testing.assert_array_equal(tree.query_many(moved[:500]).ids[:, 0], np.arange(500))
    before = mean_similarity(tree, moved[500:], features, features[500:])
    reward_similarity(tree, moved[:500], features)
    assert mean_similarity(tree, moved[500:], features, features[500:]) > before + 0.04


def test_features_of_zeros_change_no_answer():
    tree = MemoryTree(scorer="values", seed=0)
    tree.insert_many(np.eye(40), range(40), features=np.zeros((40, 3)))
    tree.reward_many(tree.query_many(np.eye(40), 5), np.tile([1.0, 0, 0, 0, 0], (40, 1)))
    assert tree.query(np.eye(40)[7]).ids == [7]


@pytest.mark.parametrize(("features", "reason"), [([], r"shape \(1, 0\)"), ([np.nan], "finite")])
def test_invalid_features_are_refused(features, reason):
    tree = MemoryTree(scorer="values", seed=0)
    with pytest.raises(InvalidOption, match=reason):
        tree.insert([1.0, 2.0], "a", features=features)
    assert len(tree) == 0


@pytest.mark.parametrize(
    "options", [{"width": 0}, {"breadth": -1.0}, {"ridge": 0.0}, {"damping": -1.0}, {"steps": 0}, {"breadth": np.nan}]
)
def test_invalid_options_of_the_value_model_are_refused(options):
    with pytest.raises(InvalidOption, match="at least 1"):
        ValueModel(**options)


def test_sparse_keys_need_term_lists():
    keys, features = planted("sparse", 0, 20)
    with pytest.raises(InvalidOption, match="terms"):
        MemoryTree(scorer="values", routing="paper").insert_many(keys, range(20), features=features)


def test_several_trees_rank_by_values_too():
    keys, features = planted("dense", 0, 400)
    tree = MemoryTree(trees=3, scorer=ValueModel(width=4), seed=0)
    tree.insert_many(keys, range(400), features=features)
    before = mean_similarity(tree, keys, features, features)
    reward_similarity(tree, keys, features, passes=1)
    assert tree.query_many(keys, 3, explore=0.5, exploration_seed=0).ids.shape == (400, 3)
    assert before != mean_similarity(tree, keys, features, features)


@pytest.mark.parametrize("name", ["weights", "basis", "with_rewards"])
def test_value_model_that_is_not_finite_is_refused(name):
    state = taught()[0].state_dict()
    state["index"][f"reranker.model.{name}"].flat[0] = np.nan
    with pytest.raises(ValueError, match=name):
        MemoryTree.from_state_dict(state)


def test_value_rows_that_are_not_finite_are_refused():
    state = taught()[0].state_dict()
    state["index"]["reranker.projected.rows"][0, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        MemoryTree.from_state_dict(state)
