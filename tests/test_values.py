"""scorer="values": memories are ranked by what their values are like, as far as rewards have told."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from memorytree.scoring import values
from memorytree.scoring.values import FIT, PARTS, Sums, balance, explain, kernel

from memorytree import MemoryForest, MemoryTree
from memorytree.checks import check_tree
from memorytree.errors import DamagedFile, InvalidOption
from tests.trees import state

KINDS = ("dense", "sparse")


def planted(kind, seed, n=900, width=6):
    """(keys, features): what a value is like shows in its key, but faintly: most of the key is chance."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, width)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    if kind == "dense":
        keys = np.concatenate([features, 0.6 * rng.normal(size=(n, 12))], axis=1).astype(np.float32)
        return keys, features
    # Words that tell a feature's sign, and more words that tell nothing; all weigh the same.
    told = 2 * np.arange(width) + (features > 0)
    idle = 2 * width + np.argsort(rng.random((n, 40)), axis=1)[:, :8]
    columns = np.concatenate([told, idle], axis=1)
    rows = np.repeat(np.arange(n), columns.shape[1])
    return scipy.sparse.csr_matrix((np.ones(columns.size, np.float32), (rows, columns.ravel()))), features


def closeness(features, truth, ids):
    """Rewards: cosines, brought to [0, 1]."""
    return (1 + np.einsum("nkd,nd->nk", features[ids], truth)) / 2


def teach(tree, keys, features, passes=2, shuffled=None, k=60):
    rows = np.arange(len(features))
    for _ in range(passes):
        for first in range(0, len(rows), 100):
            part = rows[first : first + 100]
            hits = tree.query_many(keys[part], k, exclude=part[:, None])
            rewards = np.where(hits.ids >= 0, closeness(features, features[part], hits.ids), np.nan)
            tree.update_many(hits, rewards if shuffled is None else shuffled.permuted(rewards, axis=1))


def earned(tree, keys, features, truth):
    return closeness(features, truth, tree.query_many(keys).ids).mean()


def taught(kind="dense", seed=0, n=300, **settings):
    keys, features = planted(kind, seed, n)
    tree = MemoryTree(scorer="values", seed=seed, **settings)
    tree.insert_many(keys, range(n), features=features)
    teach(tree, keys, features, passes=1)
    return tree, keys, features


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_rewards_teach_where_to_aim_and_shuffled_ones_do_not(kind, seed):
    keys, features = planted(kind, seed)
    stored, asked = slice(0, 700), slice(700, None)

    def run(**lesson):
        tree = MemoryTree.build(keys[stored], range(700), features=features[stored], scorer="values", seed=seed)
        before = earned(tree, keys[asked], features, features[asked])
        teach(tree, keys[stored], features[stored], **lesson)
        return before, earned(tree, keys[asked], features, features[asked])

    before, after = run()
    assert after > before + 0.05
    plain, control = run(shuffled=np.random.default_rng(seed))
    assert plain == before
    # What chance cannot show to be of worth has no say.
    assert abs(control - before) < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_before_the_first_reward_keys_decide_alone(kind):
    keys, features = planted(kind, 0, 200)
    tree = MemoryTree.build(keys, range(200), features=features, scorer="values", seed=0)
    plain = MemoryTree.build(keys, range(200), scorer="cosine" if kind == "sparse" else "distance", seed=0)
    beam = tree._core._leaves(tree._core._wanted(5))
    expected = plain.query_many(keys, 5, beam=beam).ids
    np.testing.assert_array_equal(tree.query_many(keys, 5).ids, expected)
    # Nor do equal rewards change anything: there is nothing to learn from them.
    hits = tree.query_many(keys, 5)
    tree.update_many(hits, np.full((200, 5), 0.7))
    np.testing.assert_array_equal(tree.query_many(keys, 5).ids, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_one_query_is_a_batch_of_one(kind):
    tree, keys, _ = taught(kind)
    many = tree.query_many(keys[:20], 4)
    for i in range(20):
        one = tree.query(keys[i], 4)
        assert one.ids == many.ids[i].tolist()
        np.testing.assert_array_equal(one.scores, many.scores[i])
        assert [hit for hit, _, _ in one.receipt.hits] == one.ids
    threads = tree.query_many(keys[:20], 4, threads=3)
    np.testing.assert_array_equal(threads.ids, many.ids)


@pytest.mark.parametrize("kind", KINDS)
def test_a_receipt_teaches_as_the_hits_would(kind):
    tree, keys, features = taught(kind)
    twin = MemoryTree.__new__(MemoryTree)
    twin.__setstate__(tree.__getstate__())
    hits = tree.query(keys[3], 5)
    rewards = closeness(features, features[3:4], np.array([hits.ids]))[0]
    assert tree.update(hits, rewards).learned >= 1
    twin.update(hits.receipt.to_dict(), rewards)
    assert state(tree) == state(twin)


@pytest.mark.parametrize("kind", KINDS)
def test_removed_memories_are_gone_and_others_stay(kind):
    tree, keys, features = taught(kind)
    for id in range(0, 300, 3):
        tree.remove(id)
    check_tree(tree)
    found = tree.query_many(keys, 5).ids
    assert np.all(found % 3 != 0)
    assert len(tree._core.values) == len(tree)
    # A memory that is replaced has the new features, or none.
    tree.insert(keys[1], "new", id=1, features=-features[1])
    tree.insert(keys[2], "bare", id=2)
    assert len(tree._core.values) == len(tree) - 1
    assert {"new", "bare"} <= set(tree.query(keys[1], len(tree), beam=50).values)


def test_capacity_forgets_features_as_well():
    tree, keys, features = taught("sparse", n=300, capacity=250)
    assert len(tree) == len(tree._features) == len(tree._core.values) == 250
    tree.insert_many(keys[:40], range(40), features=features[:40])
    assert len(tree) == len(tree._features) == len(tree._core.values) == 250


@pytest.mark.parametrize("kind", KINDS)
def test_learning_survives_a_file(kind, tmp_path):
    tree, keys, features = taught(kind)
    tree.save(tmp_path / "tree")
    twin = MemoryTree.load(tmp_path / "tree")
    for each in (tree, twin):
        each.remove(7)
        teach(each, keys, features, passes=1)
        each.insert_many(keys[:10] * 0.5, range(10), features=features[:10])
    np.testing.assert_array_equal(tree.query_many(keys, 7).ids, twin.query_many(keys, 7).ids)
    np.testing.assert_array_equal(tree.query_many(keys, 7).scores, twin.query_many(keys, 7).scores)


def test_a_damaged_file_is_refused(tmp_path):
    tree, _, _ = taught()
    tree._core.aims.weights[0, 0] = np.nan
    tree.save(tmp_path / "tree")
    with pytest.raises(DamagedFile, match="weights"):
        MemoryTree.load(tmp_path / "tree")


@pytest.mark.parametrize("kind", KINDS)
def test_an_explanation_adds_up_to_the_score(kind):
    tree, keys, _ = taught(kind)
    hits, reasons = tree.query(keys[5], 3), tree.explain(keys[5], 3)
    assert [candidate.hit.id for candidate in reasons.candidates] == hits.ids
    for candidate, score in zip(reasons.candidates, hits.scores, strict=True):
        assert [name for name, _ in candidate.parts] == ["keys", "vote", "aim"]
        assert sum(part for _, part in candidate.parts) == pytest.approx(score, abs=1e-5)
    assert tree.stats().bytes > tree._core.values.arrays_in_use()["keys"].nbytes


def test_features_of_another_length_are_refused_and_nothing_is_written():
    tree, keys, _ = taught()
    before = state(tree)
    with pytest.raises(InvalidOption, match="a value has 5 features, those of this tree have 6"):
        tree.insert(keys[0], "odd", features=np.ones(5))
    with pytest.raises(InvalidOption, match="5 features"):
        tree.insert_many(keys[:2], ["odd", "odd"], features=np.ones((2, 5)))
    assert state(tree) == before


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_come_after_the_first_lessons_are_seen_as_well(kind):
    keys, features = planted(kind, 0, 700)
    early, late = (MemoryTree(scorer="values", seed=0) for _ in range(2))
    early.insert_many(keys[:40], range(40), features=features[:40])
    teach(early, keys[:40], features[:40], passes=1, k=20)
    early.insert_many(keys[40:600], range(40, 600), features=features[40:600])
    late.insert_many(keys[:600], range(600), features=features[:600])
    for tree in (early, late):
        teach(tree, keys[:600], features[:600])
    asked = keys[600:], features, features[600:]
    assert early._core.aims.settled > 500
    assert earned(early, *asked) > earned(late, *asked) - 0.02


def test_what_was_learned_is_taken_along_into_new_directions():
    tree, _, _ = taught("dense", n=60)
    aims = tree._core.aims
    before = aims.weights @ aims.basis.T
    aims.settle(aims.basis[:, ::-1].copy(), 60)
    np.testing.assert_allclose(aims.weights @ aims.basis.T, before, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_neither_the_scale_nor_the_place_of_keys_matters(scale, offset):
    keys, features = planted("dense", 0, 600)
    moved = ((keys + offset) * scale).astype(np.float32)
    tree = MemoryTree.build(moved[:500], range(500), features=features[:500], scorer="values", seed=0)
    np.testing.assert_array_equal(tree.query_many(moved[:500]).ids[:, 0], np.arange(500))
    before = earned(tree, moved[500:], features, features[500:])
    teach(tree, moved[:500], features[:500])
    assert earned(tree, moved[500:], features, features[500:]) > before + 0.04


def test_values_need_features_with_numbers_in_them():
    tree = MemoryTree(scorer="values", seed=0)
    with pytest.raises(InvalidOption, match=r"shape \(1, 0\)"):
        tree.insert([1.0, 2.0], "a", features=[])
    with pytest.raises(InvalidOption, match="finite"):
        tree.insert([1.0, 2.0], "a", features=[np.nan])
    assert len(tree) == 0
    for setting in ({"width": 0}, {"breadth": -1.0}, {"ridge": 0.0}, {"damping": -1.0}, {"steps": 0}, {"breadth": np.nan}):
        with pytest.raises(InvalidOption, match="at least 1"):
            values(**setting)
    # Features that say nothing do no harm.
    tree.insert_many(np.eye(40), range(40), features=np.zeros((40, 3)))
    tree.update_many(tree.query_many(np.eye(40), 5), np.tile([1.0, 0, 0, 0, 0], (40, 1)))
    assert tree.query(np.eye(40)[7]).ids == [7]


def test_sparse_keys_need_term_lists():
    keys, features = planted("sparse", 0, 20)
    with pytest.raises(InvalidOption, match="terms"):
        MemoryTree(scorer="values", routing="paper").insert_many(keys, range(20), features=features)


def test_a_forest_ranks_by_values_too():
    keys, features = planted("dense", 0, 400)
    forest = MemoryForest(3, scorer=values(width=4), seed=0)
    forest.insert_many(keys, range(400), features=features)
    before = earned(forest, keys, features, features)
    teach(forest, keys, features, passes=1)
    assert forest.query_many(keys, 3, explore=0.5, draw=0).ids.shape == (400, 3)
    assert before != earned(forest, keys, features, features)


@given(st.integers(0, 2**16), st.integers(2, 12), st.integers(1, 5))
def test_the_change_of_an_aim_is_that_of_ridge_regression(seed, n, width):
    rng = np.random.default_rng(seed)
    rows, left = rng.normal(size=(n, width)).astype(np.float32), rng.normal(size=n)
    change = np.empty(width, np.float32)
    _explain(rows, n, left, 0.5, width + 2, change)
    exact = np.linalg.solve(rows.T @ rows + 0.5 * np.eye(width), rows.T @ left)
    np.testing.assert_allclose(change, exact, rtol=2e-3, atol=2e-4)


@kernel
def _explain(rows, n, left, ridge, steps, change):
    explain(rows, n, left, ridge, steps, change)


@given(st.integers(0, 2**16))
def test_parts_of_worth_count_by_least_squares(seed):
    rng = np.random.default_rng(seed)
    parts = rng.normal(size=(2000, PARTS)) @ rng.normal(size=(PARTS, PARTS))
    true = np.array([0.5, 0.0, 1.5]) + 0.1
    rewards = parts @ true
    sums = Sums(parts.T @ parts, parts.T @ rewards, np.full(PARTS, 1e-9), np.zeros(1, np.uint64), np.zeros(1, np.int64))
    exact = np.linalg.solve(sums.products, sums.goes_with)
    found = balance(sums, PARTS)
    positive = bool(np.all(sums.goes_with > 0)) and np.linalg.cond(sums.products) < 20
    if positive:
        np.testing.assert_allclose(found, exact, rtol=0.05, atol=0.02)
    nothing = sums._replace(squares=sums.goes_with**2)
    assert not balance(nothing, PARTS).any()
    only_fit = sums._replace(squares=np.where(np.arange(PARTS) == FIT, 0, np.inf))
    assert balance(only_fit, PARTS)[1:].max() == 0
