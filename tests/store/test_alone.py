"""Memories that come by themselves have no event of their own, and are none the less sure for that."""

import contextlib
import sqlite3
import threading
from collections.abc import Mapping
from datetime import timedelta

import numpy as np
import pytest

import memorytree
from memorytree.errors import DamagedStore, InvalidOption, StoreError, UnsupportedValue
from memorytree.store import repair, verify
from memorytree.store.connection import LOG_BYTES
from memorytree.store.writing import PATIENCE
from tests.faults.damage import leave_without_closing
from tests.store.conftest import reopened
from tests.trees import matrix


def numbered_events(store):
    return [at for (at,) in store._database.rows("SELECT at FROM events ORDER BY at")]


def run(path, *statements):
    with contextlib.closing(sqlite3.connect(path / "memories.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def contents(store):
    return {id: (store[id], store.metadata(id), store.key(id).tolist()) for id in store}


@pytest.fixture
def left(tmp_path):
    """A store that was left without closing, after ten memories had come by themselves; and what it held."""
    store = memorytree.open(tmp_path / "left", seed=0)
    store.insert_many(matrix(5), range(5))
    for i, x in enumerate(matrix(10, seed=1)):
        store.insert(x, f"alone {i}", metadata={"number": i})
    held = contents(store)
    leave_without_closing(store)
    return store.path, held


def test_only_the_first_and_every_so_many_have_an_event(store):
    for i, x in enumerate(matrix(2 * PATIENCE + 5)):
        assert store.insert(x, i) == i
        assert store.operations == i + 1
    assert numbered_events(store) == [1, PATIENCE + 2, 2 * PATIENCE + 3]
    assert store.verify().ok
    assert reopened(store).operations == 2 * PATIENCE + 5


def test_they_are_there_after_a_crash_and_everything_goes_on(left):
    path, held = left
    assert verify(path).ok
    store = memorytree.open(path)
    assert contents(store) == held
    assert store.operations == 11
    assert store.insert(matrix(1)[0], "next") == 15
    assert store.operations == 12
    store.remove(7)  # one of those that came by themselves
    assert store.verify().ok
    leave_without_closing(store)
    with memorytree.open(path) as store:
        assert 7 not in store
        assert len(store) == 15
        assert store.verify().ok


def test_the_tree_is_that_of_a_store_that_was_never_left(left, tmp_path):
    path, _ = left
    with memorytree.open(tmp_path / "twin", seed=0) as twin, memorytree.open(path) as store:
        twin.insert_many(matrix(5), range(5))
        for i, x in enumerate(matrix(10, seed=1)):
            twin.insert(x, f"alone {i}", metadata={"number": i})
        for x in matrix(9, seed=2):
            ours, other = store.query(x, k=4), twin.query(x, k=4)
            assert (ours.ids, ours.scores) == (other.ids, other.scores)


def test_a_reader_sees_each_as_it_comes(store):
    store.insert(matrix(1)[0], "first")
    with memorytree.open(store.path, mode="r") as reader:
        for i, x in enumerate(matrix(PATIENCE + 10, seed=1)):
            id = store.insert(x, i)
            if i % 3 or i > PATIENCE:  # now one at a time, now two
                assert reader[id] == i
                assert len(reader) == i + 2
                assert reader.operations == store.operations
        store.checkpoint()
        store.insert(matrix(1)[0], "after the snapshot")
        assert len(reader) == len(store)


def test_a_snapshot_gives_the_last_of_them_an_event(left):
    path, held = left
    store = memorytree.open(path)
    store.checkpoint()
    assert numbered_events(store) == [11]
    store.insert(matrix(1)[0], "after the snapshot")
    leave_without_closing(store)
    with memorytree.open(path) as store:
        assert len(store) == len(held) + 1
        assert store.verify().ok


@pytest.mark.parametrize("gone", ["record = 9", "added = 2", "record BETWEEN 6 AND 8"])
def test_one_that_is_missing_amid_them_is_noticed(left, gone):
    path, _ = left
    run(path, f"DELETE FROM memories WHERE {gone}")
    with pytest.raises(DamagedStore, match="missing"):
        memorytree.open(path)
    assert not verify(path).ok


def test_those_before_an_event_are_counted_by_it(left):
    path, _ = left
    store = memorytree.open(path)
    store.remove(0)
    leave_without_closing(store)
    run(path, "DELETE FROM memories WHERE record = 15")  # the last that came by itself
    with pytest.raises(DamagedStore, match="missing"):
        memorytree.open(path)


def test_one_that_is_damaged_is_never_an_answer(left):
    path, _ = left
    run(path, "UPDATE memories SET value = x'c0' WHERE record = 10")
    with pytest.raises(DamagedStore, match="memory 10 is damaged"):
        memorytree.open(path)


def test_repair_saves_them_and_misses_none(left):
    path, held = left
    done = repair(path)
    assert done.lost == []
    with memorytree.open(path) as store:
        assert contents(store) == held


def test_repair_names_one_that_is_lost(left):
    path, held = left
    run(path, "UPDATE memories SET value = x'c0' WHERE record = 10")
    assert any("1 memories" in line for line in repair(path).lost)
    with memorytree.open(path) as store:
        assert set(held) - set(store) == {9}


def test_what_is_no_key_or_no_value_leaves_nothing_behind(store):
    store.insert(matrix(1)[0], "first")
    for x, value, metadata in (
        (matrix(1)[0][:-1], "short", None),
        (matrix(1)[0] * float("nan"), "no number", None),
        (matrix(1)[0], object(), None),
        (matrix(1)[0], "odd metadata", {"list": []}),
    ):
        with pytest.raises(memorytree.errors.MemoryTreeError):
            store.insert(x, value, metadata=metadata)
    assert store.insert(matrix(1)[0], "second") == 1
    assert store.operations == 2
    assert store.verify().ok


def test_one_that_expires_is_let_go_before_the_next_comes(store, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    store.insert(matrix(1)[0], "stays")
    store.insert(matrix(1)[0], "goes", ttl=10)
    assert len(store) == 2
    now[0] += 20
    assert store.insert(matrix(1)[0], "comes") == 2
    assert list(store) == [0, 2]
    assert store.verify().ok


def test_an_interruption_after_the_commit_is_made_good(store, monkeypatch):
    store.insert(matrix(1)[0], "first")
    append = store._database.append

    def interrupted(memory):
        append(memory)
        raise KeyboardInterrupt

    monkeypatch.setattr(store._database, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.insert(matrix(1)[0], "interrupted")
    monkeypatch.undo()
    assert store[1] == "interrupted"
    assert store.insert(matrix(1)[0], "next") == 2
    assert store.verify().ok


def test_what_is_given_may_store_something_itself(store):
    class Curious(Mapping):
        def __iter__(self):
            store.insert(matrix(1)[0], "inner")
            return iter(["field"])

        def __getitem__(self, name):
            return 1

        def __len__(self):
            return 1

    store.insert(matrix(1)[0], "first")
    store.insert(matrix(1)[0], "outer", metadata=Curious())
    assert [store[id] for id in store] == ["first", "inner", "outer"]
    assert store.operations == 3
    leave_without_closing(store)
    with memorytree.open(store.path) as again:
        assert [again[id] for id in again] == ["first", "inner", "outer"]
        assert again.verify().ok


def test_a_reading_that_was_interrupted_as_it_began_takes_no_memory_with_it(store):
    store.insert(matrix(1)[0], "first")
    connection = store._database._connection

    class Interrupted:
        in_transaction = property(lambda self: connection.in_transaction)

        def execute(self, query, *arguments):
            connection.execute(query, *arguments)
            if query.startswith("BEGIN"):
                raise KeyboardInterrupt

    store._database._connection = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        store.verify()
    store._database._connection = connection
    for i in range(20):
        store.insert(matrix(1)[0], i)
    leave_without_closing(store)
    with memorytree.open(store.path) as again:
        assert len(again) == 21


def test_nothing_is_stored_amid_a_reading_of_ones_own(store):
    store.insert(matrix(1)[0], "first")
    with store._database.as_of_now(), pytest.raises(StoreError, match="nothing was changed"):
        store.insert(matrix(1)[0], "would not last")
    assert store.insert(matrix(1)[0], "lasts") == 1
    assert store.verify().ok


def test_any_number_is_a_lifetime_whoever_came_before(store):
    for life in (60, 60.0, np.int64(60), np.float32(60), timedelta(seconds=60)):
        for label in (None, "with an event"):
            store.insert(matrix(1)[0], "passing", ttl=life, label=label)
    for life in ("a minute", [60], -1, True):
        for label in (None, "with an event"):
            with pytest.raises(InvalidOption, match="ttl"):
                store.insert(matrix(1)[0], "never", ttl=life, label=label)
    assert len(store) == 10


def test_repair_gives_no_id_twice(left):
    path, held = left
    run(path, "UPDATE memories SET value = x'c0' WHERE record = 15")
    repair(path)
    with memorytree.open(path) as store:
        assert store.insert(matrix(1)[0], "new") == max(held) + 1


def test_failures_and_crashes_do_not_put_the_next_event_off(tmp_path):
    store = memorytree.open(tmp_path / "store", seed=0)
    for i, x in enumerate(matrix(4 * PATIENCE)):
        store.insert(x, i)
        if i % 50 == 49:
            with pytest.raises(UnsupportedValue):
                store.insert(x, object(), label="refused")
        if i % 60 == 59:
            leave_without_closing(store)
            store = memorytree.open(tmp_path / "store")
    events = numbered_events(store)
    assert max(np.diff(events)) <= PATIENCE + 1
    assert len(events) >= 4
    store.close()


def test_a_reader_one_step_behind_a_snapshot_sees_what_came_and_went(store):
    store.insert(matrix(1)[0], "first")
    with memorytree.open(store.path, mode="r") as reader:
        assert len(reader) == 1
        store.insert_many(matrix(3), range(3), ids=[5, 5, 6])
        store.checkpoint()
        assert {id: reader[id] for id in reader} == {0: "first", 5: 1, 6: 2}


def log_of(store):
    return (store.path / "memories.sqlite-wal").stat().st_size


@pytest.mark.parametrize(("size", "count"), [(400, 3000), (200_000, 100)])
def test_however_many_come_the_log_begins_anew_now_and_then(tmp_path, size, count):
    with memorytree.open(tmp_path / "store", seed=0, durability="normal") as store:
        for x in matrix(count):  # each writes a page or more
            store.insert(x, bytes(size))
        assert log_of(store) < LOG_BYTES + size
    assert not (tmp_path / "store" / "memories.sqlite-wal").exists()  # nothing holds the files any more


@pytest.mark.parametrize("after", [1, 2, 30])
def test_upkeep_finds_nothing_in_its_way_after_them(store, after, tmp_path):
    def some_more(seed):
        for x in matrix(after, seed=seed):
            store.insert(x, "alone")

    some_more(0)
    store.compact()
    assert log_of(store) == 0
    some_more(1)
    store.checkpoint()
    some_more(2)
    store.backup(tmp_path / "copy")
    some_more(3)
    store.remove(0)
    some_more(4)
    assert store.verify().ok
    with memorytree.open(tmp_path / "copy") as copy:
        assert len(copy) == 3 * after
    assert len(reopened(store)) == 5 * after - 1


def test_a_moment_in_which_somebody_else_has_the_lock_is_waited_for(store):
    for x in matrix(5):
        store.insert(x, "alone")
    assert store._database._held is not None
    with contextlib.closing(sqlite3.connect(store.path / "memories.sqlite", check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        waiting = threading.Timer(0.2, other.commit)
        waiting.start()
        assert store.insert(matrix(1)[0], "after a while") == 5
        waiting.join()
        run(store.path, "PRAGMA user_version = 7")  # and whoever writes, who should not, is not in the way either
        assert store.insert(matrix(1)[0], "at once") == 6
    assert store.verify().ok
