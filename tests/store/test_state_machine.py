"""A store against a dictionary, under all operations in any order, with closing and opening."""

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import memorytree
from memorytree.errors import StaleReceipt, UnknownId
from tests.faults.damage import leave_without_closing
from tests.inspected_store import InspectedStore

KEYS = st.lists(st.integers(-4, 4), min_size=3, max_size=3)
VALUES = st.one_of(st.none(), st.integers(-5, 5), st.text(max_size=5), st.binary(max_size=5), st.lists(st.booleans()))
USERS = st.sampled_from(["ann", "bob", "cleo"])


class StoreAgainstDictionary(RuleBasedStateMachine):
    """`self.model` is what the store must hold: id -> (key, value, metadata)."""

    @initialize(capacity=st.sampled_from([None, None, 12]), routing=st.sampled_from(["principal", "graph", "paper"]))
    def begin(self, capacity, routing):
        self.folder = Path(tempfile.mkdtemp())
        self.options = {"durability": "normal", "seed": 3, "routing": routing, "capacity": capacity, "leaf_factor": 1}
        self.capacity = capacity
        self.store = InspectedStore(self.folder / "store", **self.options)
        self.twin = memorytree.open(self.folder / "twin", **self.options)  # never closed; the store must stay equal to it
        self.model = {}
        self.receipts = []

    def both(self, do):
        first, second = do(self.store), do(self.twin)
        if isinstance(first, np.ndarray):
            assert first.tolist() == second.tolist()
        else:
            assert first == second
        return first

    def drop_evicted(self):
        if self.capacity:
            there = set(self.store)
            self.model = {id: held for id, held in self.model.items() if id in there}
            assert len(self.model) <= self.capacity

    @rule(key=KEYS, value=VALUES, user=USERS, label=st.sampled_from([None, "a", 2]))
    def insert(self, key, value, user, label):
        id = self.both(lambda store: store.insert(key, value, metadata={"user": user}, label=label))
        assert id not in self.model
        self.model[id] = key, value, {"user": user}
        self.drop_evicted()

    @rule(
        keys=st.lists(KEYS, min_size=1, max_size=8), value=VALUES, ids=st.lists(st.integers(0, 20), min_size=8, max_size=8)
    )
    def insert_many_by_id(self, keys, value, ids):
        ids = list(ids[: len(keys)])
        labels = [label if label % 2 else None for label in ids]
        self.both(lambda store: store.insert_many(keys, [value] * len(keys), ids=ids, labels=labels))
        for id, key in zip(ids, keys, strict=True):
            self.model.pop(id, None)
            self.model[id] = key, value, {}
        self.drop_evicted()

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data):
        id = data.draw(st.sampled_from(sorted(self.model)))
        self.both(lambda store: store.remove(id))
        del self.model[id]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), user=USERS, replace=st.booleans())
    def update_metadata(self, data, user, replace):
        id = data.draw(st.sampled_from(sorted(self.model)))
        self.both(lambda store: store.update_metadata(id, {"user": user, "seen": True}, replace=replace))
        key, value, metadata = self.model[id]
        self.model[id] = key, value, {**({} if replace else metadata), "user": user, "seen": True}

    @rule(user=USERS)
    def remove_by_filter(self, user):
        gone = [id for id, (_, _, metadata) in self.model.items() if metadata.get("user") == user]
        assert self.both(lambda store: store.remove(where={"user": user})) == len(gone)
        for id in gone:
            del self.model[id]

    @rule(id=st.integers(0, 60))
    def remove_unknown_id(self, id):
        if id not in self.model:
            with pytest.raises(UnknownId):
                self.store.remove(id)

    @precondition(lambda self: self.model)
    @rule(key=KEYS, k=st.integers(1, 5), rewards=st.lists(st.sampled_from([0.0, 0.25, 1.0]), min_size=5, max_size=5))
    def query_and_reward(self, key, k, rewards):
        mine, other = (
            self.store.query(key, k, explore=0.5, exploration_seed=k),
            self.twin.query(key, k, explore=0.5, exploration_seed=k),
        )
        assert list(mine) == list(other)
        assert all(self.model[id][1] == value for id, value in zip(mine.ids, mine.values, strict=True))
        given = dict(zip(mine.ids.tolist(), rewards, strict=False))
        assert self.store.reward(mine, given) == self.twin.reward(other, given)
        self.receipts.append((str(mine.receipt), str(other.receipt), given))

    @precondition(lambda self: self.receipts)
    @rule(data=st.data())
    def reward_again(self, data):
        mine, other, given = data.draw(st.sampled_from(self.receipts))
        try:
            assert self.store.reward(mine, given) == (0, 0, 0)
        except StaleReceipt:
            with pytest.raises(StaleReceipt):
                self.twin.reward(other, given)
            return
        id = next(iter(given))
        given[id] = (given[id] + 0.5) % 1
        result = self.store.reward(mine, {id: given[id]})
        assert result == self.twin.reward(other, {id: given[id]})
        assert result.experiences <= 1  # none with routing="paper"

    @precondition(lambda self: any(past.active for past in self.store.rewards()))
    @rule(data=st.data())
    def withdraw(self, data):
        past = data.draw(st.sampled_from([past for past in self.store.rewards() if past.active]))
        self.store.withdraw(past.id)
        self.twin.withdraw(past.id)
        self.receipts.clear()  # one of them has lost a reward
        assert self.store.rewards() == self.twin.rewards()

    @precondition(lambda self: self.model)
    @rule(key=KEYS, k=st.integers(1, 6), users=st.lists(USERS, min_size=1, max_size=2))
    def query_with_a_filter(self, key, k, users):
        hits = self.store.query(key, k, where={"user": users})
        matching = [id for id, (_, _, metadata) in self.model.items() if metadata.get("user") in users]
        assert len(hits) == min(k, len(matching))
        assert set(hits.ids) <= set(matching)
        distances = sorted(np.linalg.norm(np.subtract(self.model[id][0], key)) for id in matching)
        assert np.allclose([-score for score in hits.scores], distances[:k])

    @rule(what=st.sampled_from(["refit", "sweep", "reroute"]))
    def tidy(self, what):
        self.both(lambda store: store.reroute(3) if what == "reroute" else getattr(store, what)())

    @rule()
    def checkpoint(self):
        self.store.checkpoint()

    @rule()
    def compact(self):
        self.store.compact()

    @rule()
    def reopen(self):
        self.store.close()
        self.store = InspectedStore(self.folder / "store", durability="normal")

    @rule()
    def reopen_without_snapshot(self):
        leave_without_closing(self.store)
        self.store = InspectedStore(self.folder / "store", durability="normal")

    @invariant()
    def equals_the_dictionary(self):
        if not hasattr(self, "store"):
            return
        assert list(self.store) == list(self.model)
        assert len(self.store) == len(self.model)
        for id, (key, value, metadata) in self.model.items():
            assert self.store[id] == value
            assert self.store.key(id).tolist() == key
            assert self.store.metadata(id) == metadata
        self.store.tree.check()

    def teardown(self):
        if hasattr(self, "store"):
            report = self.store.verify()
            assert report.ok, report
            with memorytree.open(self.folder / "store", mode="r") as reader:
                assert list(reader) == list(self.model)
            self.store.close()
            self.twin.close()
            shutil.rmtree(self.folder)


TestStoreAgainstDictionary = StoreAgainstDictionary.TestCase
TestStoreAgainstDictionary.settings = settings(max_examples=25, stateful_step_count=25)


def test_expired_memory_is_never_returned(tmp_path, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    with InspectedStore(tmp_path / "store", seed=0) as store:
        short = store.insert([1.0], "short", ttl=10)
        long = store.insert([2.0], "long", ttl=100)
        ever = store.insert([3.0], "ever")
        assert store.query([1.0], k=3).ids.tolist() == [short, long, ever]
        clock[0] = 1011
        assert store.query([1.0], k=3).ids.tolist() == [long, ever]
        assert list(store) == [long, ever]
        assert len(store) == 2
        assert short not in store
        assert store.query_many([[1.0]], k=2).ids.tolist() == [[long, ever]]
        with pytest.raises(UnknownId):
            store[short]
        store.insert([4.0], "new")
        assert short not in store.tree
        clock[0] = 1101
        assert store.query([1.0], k=3).values == ["ever", "new"]
