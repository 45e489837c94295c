"""Memories inserted one by one are events of their own: durable at once, and never torn."""

import contextlib
import io
import sqlite3
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

import numpy as np
import pytest

import memorytree
from memorytree.errors import DamagedStore, InvalidOption, MemoryTreeError, StoreError, UnsupportedValue
from memorytree.store import repair, verify
from memorytree.store.database import Database
from tests.faults.damage import leave_without_closing
from tests.store.conftest import reopened
from tests.trees import KINDS, ROUTING_OPTIONS, key_of, keys_of, matrix

KEY = matrix(1)[0]


def run(path, *statements):
    with contextlib.closing(sqlite3.connect(path / "memories.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def contents(store):
    return {id: (store[id], store.metadata(id), store.key(id).tolist()) for id in store}


@pytest.fixture
def left(tmp_path):
    """A store that was left without closing after ten single inserts; and what it held."""
    store = memorytree.open(tmp_path / "left", seed=0)
    store.insert_many(matrix(5), range(5))
    for i, x in enumerate(matrix(10, seed=1)):
        store.insert(x, f"single {i}", metadata={"number": i})
    held = contents(store)
    leave_without_closing(store)
    return store.path, held


def test_every_insert_is_an_event(store):
    for i, x in enumerate(matrix(30)):
        assert store.insert(x, i) == i
        assert store.version == i + 1
    assert store.verify().ok
    assert reopened(store).version == 30


def test_single_inserts_survive_a_crash(left):
    path, held = left
    assert verify(path).ok
    with memorytree.open(path) as store:
        assert contents(store) == held
        assert store.version == 11
        assert store.insert(KEY, "next") == 15
        store.remove(7)
        assert store.verify().ok


def test_replay_gives_the_same_tree(left, tmp_path):
    path, _ = left
    with memorytree.open(tmp_path / "twin", seed=0) as twin, memorytree.open(path) as store:
        twin.insert_many(matrix(5), range(5))
        for i, x in enumerate(matrix(10, seed=1)):
            twin.insert(x, f"single {i}", metadata={"number": i})
        for x in matrix(9, seed=2):
            assert list(store.query(x, k=4)) == list(twin.query(x, k=4))


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_single_inserts_equal_a_batch(tmp_path, kind, routing):
    X = np.round(np.abs(matrix(100)), 2)
    options = {"routing": ROUTING_OPTIONS.get(routing, routing), "seed": 0, "durability": "normal"}
    with memorytree.open(tmp_path / "one", **options) as one, memorytree.open(tmp_path / "many", **options) as many:
        for i, x in enumerate(X):
            assert one.insert(key_of(kind, x), i, metadata={"even": i % 2 == 0}) == i
        many.insert_many(keys_of(kind, X), range(100), metadata=[{"even": i % 2 == 0} for i in range(100)])
        assert one.version == 100
        for x in X:
            assert list(one.query(key_of(kind, x), k=3, beam=2)) == list(many.query(key_of(kind, x), k=3, beam=2))
        assert one.ids({"even": True}) == many.ids({"even": True})
        assert one.verify().ok


def test_reader_sees_each_insert(store):
    store.insert(KEY, "first")
    with memorytree.open(store.path, mode="r") as reader:
        for i, x in enumerate(matrix(60, seed=1)):
            id = store.insert(x, i)
            if i % 3:  # one new event at a time, or two
                assert reader[id] == i
                assert len(reader) == i + 2
                assert reader.version == store.version
        store.checkpoint()
        store.insert(KEY, "after the snapshot")
        assert len(reader) == len(store)


def test_reader_one_event_behind_a_snapshot(store):
    store.insert(KEY, "first")
    with memorytree.open(store.path, mode="r") as reader:
        assert len(reader) == 1
        store.insert_many(matrix(3), range(3), ids=[5, 5, 6])
        store.checkpoint()
        assert {id: reader[id] for id in reader} == {0: "first", 5: 1, 6: 2}


@pytest.mark.parametrize("gone", ["record = 9", "record = 15", "record BETWEEN 6 AND 8"])
def test_missing_rows_are_noticed(left, gone):
    path, _ = left
    run(path, f"DELETE FROM memories WHERE {gone}")
    with pytest.raises(DamagedStore, match="missing"):
        memorytree.open(path)
    assert not verify(path).ok


@pytest.mark.parametrize("gone", ["number = 9", "number BETWEEN 6 AND 8", "number = 11"])
def test_missing_events_are_noticed(left, gone):
    path, _ = left
    run(path, f"DELETE FROM events WHERE {gone}")
    with pytest.raises(DamagedStore, match="missing"):
        memorytree.open(path)
    assert not verify(path).ok


def test_damaged_row_is_never_an_answer(left):
    path, _ = left
    run(path, "UPDATE memories SET value = x'c0' WHERE record = 10")
    with pytest.raises(DamagedStore, match="memory 10 is damaged"):
        memorytree.open(path)


def test_repair_saves_single_inserts(left):
    path, held = left
    assert repair(path).lost == []
    with memorytree.open(path) as store:
        assert contents(store) == held


def test_repair_names_a_lost_row(left):
    path, held = left
    run(path, "UPDATE memories SET value = x'c0' WHERE record = 10")
    assert any("1 memories" in line for line in repair(path).lost)
    with memorytree.open(path) as store:
        assert set(held) - set(store) == {9}


def test_repair_reuses_no_id(left):
    path, held = left
    run(path, "UPDATE memories SET value = x'c0' WHERE record = 15")
    repair(path)
    with memorytree.open(path) as store:
        assert store.insert(KEY, "new") == max(held) + 1


@pytest.mark.parametrize(
    ("x", "value", "metadata"),
    [
        (KEY[:-1], "short", None),
        (KEY * float("nan"), "no number", None),
        (KEY, object(), None),
        (KEY, "list in metadata", {"list": []}),
    ],
)
def test_refused_insert_leaves_no_trace(store, x, value, metadata):
    store.insert(KEY, "first")
    with pytest.raises(MemoryTreeError):
        store.insert(x, value, metadata=metadata)
    assert store.insert(KEY, "second") == 1
    assert store.version == 2
    assert store.verify().ok


def test_expired_memory_is_removed_by_the_next_insert(store, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    store.insert(KEY, "stays")
    store.insert(KEY, "goes", ttl=10)
    assert len(store) == 2
    now[0] += 20
    assert store.insert(KEY, "comes") == 2
    assert list(store) == [0, 2]
    assert store.verify().ok


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interruption_after_the_commit_is_recovered(store, monkeypatch, error):
    store.insert(KEY, "first")
    commit = Database.commit

    def interrupted(*args):
        commit(*args)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Database, "commit", interrupted)
        with pytest.raises(error):
            store.insert(KEY, "interrupted")
    assert store[1] == "interrupted"
    assert store.insert(KEY, "next") == 2
    assert store.verify().ok


def test_metadata_may_insert_while_it_is_read(store):
    class Inserting(Mapping):
        def __iter__(self):
            store.insert(KEY, "inner")
            return iter(["field"])

        def __getitem__(self, name):
            return 1

        def __len__(self):
            return 1

    store.insert(KEY, "first")
    store.insert(KEY, "outer", metadata=Inserting())
    assert [store[id] for id in store] == ["first", "inner", "outer"]
    assert store.version == 3
    leave_without_closing(store)
    with memorytree.open(store.path) as again:
        assert [again[id] for id in again] == ["first", "inner", "outer"]
        assert again.verify().ok


class InterruptedConnection(sqlite3.Connection):
    """A connection that is interrupted when a transaction has begun, if `begins` says so."""

    begins = False

    def execute(self, query, *arguments):
        cursor = super().execute(query, *arguments)
        if self.begins and query.startswith("BEGIN"):
            raise KeyboardInterrupt
        return cursor


def test_interrupted_read_leaves_no_transaction(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=InterruptedConnection))
        store = memorytree.open(tmp_path / "store", seed=0, durability="normal")
    store.insert(KEY, "first")
    with monkeypatch.context() as patch:
        patch.setattr(InterruptedConnection, "begins", True)
        with pytest.raises(KeyboardInterrupt):
            store.verify()
    for i in range(20):
        store.insert(KEY, i)
    leave_without_closing(store)
    with memorytree.open(store.path) as again:
        assert len(again) == 21


def test_insert_inside_a_read_is_refused(store):
    store.insert(KEY, "first")

    class InsertingFile(io.StringIO):
        def write(self, text):
            store.insert(KEY, "would not last")

    with pytest.raises(StoreError, match="nothing was changed"):
        store.export_jsonl(InsertingFile())
    assert store.insert(KEY, "lasts") == 1
    assert store.verify().ok


@pytest.mark.parametrize("label", [None, "label"])
def test_ttl_takes_numbers_and_timedelta(store, label):
    for life in (60, 60.0, np.int64(60), np.float32(60), timedelta(seconds=60)):
        store.insert(KEY, "passing", ttl=life, label=label)
    for life in ("a minute", [60], -1, True):
        with pytest.raises(InvalidOption, match="ttl"):
            store.insert(KEY, "never", ttl=life, label=label)
    assert len(store) == 5


def test_crashes_between_inserts_lose_nothing(tmp_path):
    store = memorytree.open(tmp_path / "store", seed=0)
    for i, x in enumerate(matrix(150)):
        store.insert(x, i)
        if i % 50 == 49:
            with pytest.raises(UnsupportedValue):
                store.insert(x, object(), label="refused")
        if i % 60 == 59:
            leave_without_closing(store)
            store = memorytree.open(tmp_path / "store")
    assert len(store) == store.version == 150
    store.close()


def log_bytes(store):
    return (store.path / "memories.sqlite-wal").stat().st_size


@pytest.mark.parametrize(("size", "count"), [(400, 3000), (200_000, 100)])
def test_log_does_not_grow_without_bound(tmp_path, size, count):
    with memorytree.open(tmp_path / "store", seed=0, durability="normal") as store:
        for x in matrix(count):
            store.insert(x, bytes(size))
        assert log_bytes(store) < 6_000_000 + size
    assert not (tmp_path / "store" / "memories.sqlite-wal").exists()


@pytest.mark.parametrize("after", [1, 2, 30])
def test_upkeep_after_single_inserts(store, after, tmp_path):
    def insert_more(seed):
        for x in matrix(after, seed=seed):
            store.insert(x, "more")

    insert_more(0)
    store.compact()
    assert log_bytes(store) == 0
    insert_more(1)
    store.checkpoint()
    insert_more(2)
    store.backup(tmp_path / "copy")
    insert_more(3)
    store.remove(0)
    insert_more(4)
    assert store.verify().ok
    with memorytree.open(tmp_path / "copy") as copy:
        assert len(copy) == 3 * after
    assert len(reopened(store)) == 5 * after - 1
