"""Rewards of a store: bound to versions, replaced, withdrawn and reset, also after opening again."""

import shutil

import numpy as np
import pytest

import memorytree
from memorytree.errors import InvalidReceipt, StaleReceipt, UnknownId, UnknownReward
from memorytree.store import repair
from tests.store.conftest import reopened
from tests.trees import matrix

KEY = matrix(1, seed=9)[0]


@pytest.fixture
def filled(store):
    store.insert_many(matrix(50), range(50))
    return store


def answers(store):
    found = store.query_many(matrix(20, seed=9), 3, beam=50)
    return found.ids.tolist(), found.scores.tolist()


def reward_some(store):
    hits = store.query(KEY, 3)
    store.reward(hits, [0.0, 0.5, 1.0])
    store.reward(hits, {hits[1].id: 0.0})
    store.reward(matrix(3, seed=9)[1], {7: 1.0, 8: 0.0})
    store.withdraw(3)


def test_reopened_store_answers_alike(filled):
    reward_some(filled)
    before, rewards = answers(filled), filled.rewards()
    assert [past.active for past in rewards] == [True, False, False, True, True, True]
    store = reopened(filled)
    assert (answers(store), store.rewards()) == (before, rewards)
    store.close()
    shutil.rmtree(store.path / "snapshots")
    with memorytree.open(store.path) as replayed:
        assert (answers(replayed), replayed.rewards()) == (before, rewards)


def test_rewards_survive_without_snapshots_and_first_events(filled):
    reward_some(filled)
    filled.remove(9)
    filled.checkpoint()
    before, active = answers(filled), [past for past in filled.rewards() if past.active]
    filled.close()
    shutil.rmtree(filled.path / "snapshots")
    with memorytree.open(filled.path) as rebuilt:
        assert [past for past in rebuilt.rewards() if past.active] == active
        assert answers(rebuilt)[0] == before[0]


def test_repaired_store_has_the_rewards(filled):
    reward_some(filled)
    active = [past[1:] for past in filled.rewards() if past.active]
    filled.close()
    repair(filled.path)
    with memorytree.open(filled.path) as store:
        assert [past[1:] for past in store.rewards() if past.active] == active


def test_reader_follows_rewards(filled):
    with memorytree.open(filled.path, mode="r") as reader:
        assert reader.rewards() == []
        reward_some(filled)
        assert reader.rewards() == filled.rewards()
        assert answers(reader) == answers(filled)


def test_withdrawn_rewards_leave_no_trace(filled):
    before = answers(filled)
    reward_some(filled)
    assert answers(filled) != before
    for past in [past for past in filled.rewards() if past.active]:
        filled.withdraw(past.id)
    assert answers(filled) == before
    with pytest.raises(UnknownReward):
        filled.withdraw(1)
    assert filled.verify().ok


def test_reset_lasts(filled):
    before = answers(filled)
    reward_some(filled)
    filled.reset_learning()
    assert (answers(filled), filled.rewards()) == (before, [])
    filled.reward(KEY, {4: 1.0})
    filled.checkpoint()
    filled.close()
    shutil.rmtree(filled.path / "snapshots")
    with memorytree.open(filled.path) as rebuilt:
        assert [past.memory for past in rebuilt.rewards()] == [4]


def test_receipts_are_bound_to_the_memories_that_were_returned(filled):
    token = str(filled.query(KEY, 2).receipt)
    first, second = filled.query(KEY, 2).ids.tolist()
    filled.insert(KEY, "replaced", id=first)
    filled.remove(second)
    for id in (first, second):
        with pytest.raises(StaleReceipt):
            filled.reward(token, {id: 1.0})
    filled.insert(KEY, "again", id=second)
    store = reopened(filled)
    for id in (first, second):
        with pytest.raises(StaleReceipt):
            store.reward(token, {id: 1.0})
    assert store.verify().rewards == 0
    assert store.reward(store.query(KEY), [1.0]).experiences == 1
    store.close()


def test_rewards_of_a_question_name_any_memory(filled):
    for _ in range(2):
        filled.reward(KEY, {31: 1.0})
    assert filled.query(KEY).ids.tolist() == [31]
    assert filled.reward(KEY, {31: 0.0}).experiences == 1
    assert filled.query(KEY).ids.tolist() != [31]
    assert [past.active for past in filled.rewards()] == [False, True]
    filled.remove(31)
    filled.insert(np.zeros(4), "new", id=31)
    assert filled.reward(KEY, {31: 0.0}).experiences == 1
    with pytest.raises(UnknownId):
        filled.reward(KEY, {99: 1.0})
    with pytest.raises(InvalidReceipt):
        filled.reward(KEY, [1.0])
