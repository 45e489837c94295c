"""Experiences: rewards change the answers to their question at once, and can be taken back."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree, StaleReceipt, TermLists, UnknownReward
from memorytree.checks import inner_products
from memorytree.errors import InvalidReceipt, InvalidReward, UnknownId

N, D = 60, 6
DENSE = {
    "distance": {},
    "cosine": {"scorer": "cosine"},
    "graph": {"routing": "graph"},
    "metric": {"scorer": "metric"},
    "three trees": {"trees": 3},
    "custom": {"scorer": inner_products},
    "linear": {"scorer": "linear"},
    "paper": {"routing": "paper", "experiences": 100},
}
SPARSE = {
    "terms": {},
    "terms cosine": {"scorer": "cosine"},
    "tfidf": {"scorer": "tfidf"},
    "expansion": {"scorer": "tfidf", "routing": TermLists(expansion=0.3)},
    "principal": {"routing": "principal"},
    "latent": {"scorer": "metric"},
}
KINDS = [*(("dense", name) for name in DENSE), *(("sparse", name) for name in SPARSE)]


def rows(keys, n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)).astype(np.float32)
    if keys == "dense":
        return X
    return scipy.sparse.csr_matrix(
        np.where(rng.random((n, 4 * D)) < 0.3, np.abs(rng.normal(size=(n, 4 * D))), 0), dtype="f4"
    )


def filled(keys, name, **options):
    chosen = {**(DENSE if keys == "dense" else SPARSE)[name], **options}
    tree = MemoryTree(seed=0, **chosen)
    tree.insert_many(rows(keys, N), [f"memory {i}" for i in range(N)])
    return tree


def answers(tree, keys, seed=1, n=20):
    found = tree.query_many(rows(keys, n, seed), 5, beam=8)
    return found.ids.tolist(), found.scores.tolist()


@pytest.mark.parametrize(("keys", "name"), KINDS)
def test_objection_changes_a_wrong_first_answer(keys, name):
    changed = 0
    for q in rows(keys, 20, seed=1):
        tree = filled(keys, name)
        hits = tree.query(q, 5, beam=8)
        result = tree.reward(hits, {hits[0].id: 0.0})
        assert result.experiences == 1
        changed += tree.query(q, beam=8)[0].id != hits[0].id
        tree.check()
    assert changed == 20


@pytest.mark.parametrize(("keys", "name"), KINDS)
def test_click_puts_the_memory_first(keys, name):
    tree = filled(keys, name)
    for q in rows(keys, 20, seed=1):
        hits = tree.query(q, 5, beam=8)
        tree.reward(hits, {hits[3].id: 1.0})
        for beam in (1, 8):
            assert tree.query(q, beam=beam)[0].id == hits[3].id
            assert tree.query_many(q.reshape(1, -1), 2, beam=beam).ids[0, 0] == hits[3].id
    tree.check()


@pytest.mark.parametrize(("keys", "name"), KINDS)
def test_memory_named_as_the_answer_is_returned_first(keys, name):
    tree = filled(keys, name)
    for number, q in enumerate(rows(keys, 10, seed=1)):
        id = (7 * number + 30) % N
        assert tree.reward(q, {id: 1.0}).experiences == 1
        assert tree.query(q, beam=8)[0].id == id
        assert tree.query(q, beam=8, exclude=[id])[0].id != id
        if name not in ("custom", "linear"):  # their scale is that of the candidates
            assert tree.score(q, [id])[0] == tree.query(q, beam=8).scores[0]


@pytest.mark.parametrize(("keys", "name"), KINDS)
def test_queries_far_from_all_questions_are_answered_as_before(keys, name):
    tree, plain = filled(keys, name, experiences=50), filled(keys, name, experiences=0)
    if keys == "dense":
        far = 1000 * rows(keys, 1) if name not in ("cosine", "metric", "custom", "linear") else -rows(keys, 1)
        hits = tree.query(rows(keys, 1)[0], 3)
        tree.reward(hits, [None, 0.0, None])
        if name != "linear":
            assert answers_to(tree, far) == answers_to(plain, far)


def answers_to(tree, X):
    found = tree.query_many(X, 5, beam=8)
    return found.ids.tolist(), found.scores.tolist()


@pytest.mark.parametrize(
    ("keys", "name"), [("dense", "distance"), ("dense", "cosine"), ("dense", "graph"), ("sparse", "principal")]
)
def test_withdrawn_rewards_leave_no_trace(keys, name):
    tree = filled(keys, name)
    for q in rows(keys, 4, seed=2):
        tree.reward(tree.query(q, 5), [0.0, None, 1.0, None, None])
    before = answers(tree, keys)
    for q in rows(keys, 4, seed=1):
        tree.reward(tree.query(q, 5), [0.0, 1.0, None, None, 0.7])
    assert answers(tree, keys) != before
    for reward in tree.rewards()[8:]:
        tree.withdraw(reward.id)
    assert answers(tree, keys) == before
    assert [reward.active for reward in tree.rewards()] == [True] * 8 + [False] * 12
    tree.check()


rewards_of_a_query = st.lists(st.sampled_from([None, 0.0, 0.3, 1.0]), min_size=5, max_size=5)


@settings(max_examples=30, deadline=None)
@given(st.lists(rewards_of_a_query, min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_rewards_commute(given_rewards, chance):
    """The receipts are made first: a later answer would depend on earlier rewards."""
    trees = [filled("dense", "cosine") for _ in range(2)]
    Q = rows("dense", len(given_rewards), seed=1)
    order = list(range(len(Q)))
    for tree in trees:
        receipts = [tree.query(q, 5).receipt for q in Q]
        for i in order:
            tree.reward(receipts[i], given_rewards[i])
        chance.shuffle(order)
    assert answers(trees[0], "dense") == answers(trees[1], "dense")
    assert answers_to(trees[0], Q) == answers_to(trees[1], Q)


@pytest.mark.parametrize(("keys", "name"), KINDS)
def test_removed_memories_take_their_experiences_along(keys, name):
    tree = filled(keys, name)
    q = rows(keys, 1, seed=1)[0]
    hits = tree.query(q, 3, beam=8)
    tree.reward(hits, [None, 0.0, 1.0])
    removed, kept = hits[2].id, hits[1].id
    tree.remove(removed)
    assert [reward.memory for reward in tree.rewards()] == [kept]
    tree.insert(rows(keys, 1, seed=3)[0], "new", id=removed)
    assert tree.query(q, beam=8)[0].id == hits[0].id
    tree.remove(kept)
    assert tree.rewards() == []
    tree.check()


def test_evicted_memories_take_their_experiences_along():
    tree = filled("dense", "distance", capacity=N)
    q = rows("dense", 1, seed=1)[0]
    tree.reward(tree.query(q, 2), [0.0, None])
    tree.insert_many(rows("dense", N, seed=5), range(N))
    assert tree.rewards() == []
    tree.check()


@pytest.mark.parametrize(("keys", "name"), [kind for kind in KINDS if kind[1] != "custom"])
def test_saved_trees_continue_alike(keys, name, tmp_path):
    tree = filled(keys, name)
    for q in rows(keys, 10, seed=1):
        tree.reward(tree.query(q, 5), [0.0, None, 1.0, None, 0.5])
    tree.withdraw(2)
    tree.save(tmp_path / "tree")
    loaded = MemoryTree.load(tmp_path / "tree")
    assert loaded.rewards() == tree.rewards()
    for each in (tree, loaded):
        each.reward(rows(keys, 1, seed=8)[0], {3: 1.0})
    assert answers(loaded, keys) == answers(tree, keys)
    assert loaded.rewards() == tree.rewards()


def test_a_different_reward_for_the_same_hit_replaces_the_former():
    tree = filled("dense", "distance")
    q = rows("dense", 1, seed=1)[0]
    hits = tree.query(q, 3)
    tree.reward(hits, [0.0, None, None])
    without = tree.query(q)[0].id
    tree.reward(str(hits.receipt), {hits[0].id: 1.0})
    assert tree.query(q)[0].id == hits[0].id != without
    assert tree.reward(hits, {hits[0].id: 1.0}).experiences == 0
    assert [(reward.reward, reward.active) for reward in tree.rewards()] == [(0.0, False), (1.0, True)]
    with pytest.raises(UnknownReward):
        tree.withdraw(1)
    with pytest.raises(UnknownReward):
        tree.withdraw(9)


def test_right_rewards_outvote_a_wrong_one():
    tree = filled("dense", "distance")
    q = rows("dense", 1, seed=1)[0]
    hits = tree.query(q, 3)
    tree.reward(hits.receipt, {hits[0].id: 0.0})
    for i in range(4):
        near = q + np.float32(1e-3 * (i + 1))
        tree.reward(near, {hits[0].id: 1.0})
    assert tree.query(q)[0].id == hits[0].id


def test_the_oldest_rewards_are_forgotten():
    tree = filled("dense", "distance", experiences=3)
    for q in rows("dense", 5, seed=1):
        tree.reward(tree.query(q, 2), [0.0, None])
        tree.check()
    assert [reward.id for reward in tree.rewards()] == [3, 4, 5]


def test_reset_learning_restores_the_first_answers():
    for keys, name in (("dense", "distance"), ("sparse", "terms cosine")):
        tree = filled(keys, name)
        before = answers(tree, keys)
        for q in rows(keys, 10, seed=1):
            tree.reward(tree.query(q, 5), [0.0, None, 1.0, None, 0.5])
        tree.reset_learning()
        assert answers(tree, keys) == before
        assert tree.rewards() == []
        tree.check()


def test_one_acceptance_of_the_first_hit_counts_little():
    tree = filled("dense", "distance")
    q = rows("dense", 1, seed=1)[0]
    hits = tree.query(q, 3)
    tree.reward(hits, [1.0, None, None])
    accepted = tree.query(q).scores[0]
    tree.reward(hits, [None, 0.0, None])  # now it was a choice
    assert tree.query(q).scores[0] > accepted
    tree.withdraw(2)
    assert tree.query(q).scores[0] == accepted


@pytest.mark.parametrize(("keys", "name"), KINDS)
def test_explanations_name_the_experiences_and_add_up(keys, name):
    tree = filled(keys, name)
    for q in rows(keys, 5, seed=1):
        hits = tree.query(q, 5, beam=8)
        tree.reward(hits, [0.0, None, 1.0, None, None])
        for candidate in tree.explain(q, 3, beam=8).candidates:
            assert sum(part for _, part in candidate.parts) == pytest.approx(candidate.hit.score, rel=5e-3)
    first = tree.explain(q, 1, beam=8).candidates[0]
    assert f"experience {tree.rewards()[-1].id}" in dict(first.parts)


def test_receipts_are_bound_to_the_memories_that_were_returned():
    tree = filled("dense", "distance")
    q = rows("dense", 1, seed=1)[0]
    hits = tree.query(q, 3)
    batch = tree.query_many(q[None], 3)
    tree.remove(hits[0].id)
    tree.insert(q, "other", id=hits[0].id)
    tree.insert(q, "replaced", id=hits[1].id)
    for stale in (hits[0].id, hits[1].id):
        for receipt in (hits, hits.receipt, str(hits.receipt)):
            with pytest.raises(StaleReceipt):
                tree.reward(receipt, {stale: 1.0})
    with pytest.raises(StaleReceipt):
        tree.reward_many(batch, [[None, 1.0, None]])
    assert tree.rewards() == []
    assert tree.reward(str(hits.receipt), {hits[2].id: 1.0}).experiences == 1
    assert tree.reward(tree.query(q), [1.0]).experiences == 1


def test_rewards_for_a_question_are_checked():
    tree = filled("dense", "distance")
    q = rows("dense", 1, seed=1)[0]
    with pytest.raises(InvalidReceipt):
        tree.reward(q, [1.0])
    with pytest.raises(InvalidReward):
        tree.reward(q, {0: 2.0})
    with pytest.raises(UnknownId):
        tree.reward(q, {N: 1.0})
    assert tree.rewards() == []


def test_paper_routing_remembers_nothing_by_default():
    tree = MemoryTree(routing="paper", seed=0)
    tree.insert([1.0], "one")
    assert tree.reward(tree.query([1.0]), [0.0]).experiences == 0
    assert tree.rewards() == []
