"""What the database alone, an older one, or one with holes makes of a store."""

import contextlib
import shutil
import sqlite3

import pytest

import memorytree
from memorytree.errors import (
    DamagedStore,
    InvalidKey,
)
from memorytree.store import repair, verify
from memorytree.store.rows import seal_of
from tests.faults import damage
from tests.store.conftest import reopened
from tests.trees import matrix


def test_a_failure_in_memory_after_the_commit_is_made_good(store, monkeypatch):
    store.insert_many(matrix(20), range(20))
    tree = store._current().tree

    def broken(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tree, "insert", broken)
    with pytest.raises(KeyboardInterrupt):
        store.insert(matrix(1)[0], "interrupted", id=20)
    assert len(store) == 21  # it was committed before the interruption
    assert store.get(20) == "interrupted"
    assert store.verify().ok


def test_memories_that_come_and_go_leave_nothing_behind(tmp_path):
    with memorytree.open(tmp_path / "store", seed=0, durability="normal", capacity=50) as store:
        store.insert_many(matrix(3000, 2), range(3000), metadata={"kind": "passing"})
        before = [store.query(x, k=3).ids for x in matrix(9, 2, seed=2)]
        image = store._current()
        store.checkpoint()
        assert store._current() is not image
        assert len(store._current().records) == 50
        assert [store.query(x, k=3).ids for x in matrix(9, 2, seed=2)] == before
        store.insert(matrix(1, 2)[0], "goes on")
        assert store.verify().ok
        assert store._database.rows("SELECT count(*) FROM memories WHERE ended IS NULL") == [(50,)]


def test_an_emptied_store_keeps_its_kind_of_keys(store):
    store.remove(store.insert([1.0, 2.0], "gone"))
    store.checkpoint()
    for snapshot in (store.path / "snapshots").iterdir():
        (snapshot / "manifest.json").write_text("damaged")
    store.close()
    with pytest.warns(UserWarning, match="damaged"):
        store = memorytree.open(store.path)
    with pytest.raises(InvalidKey, match="dimension 2"):
        store.insert([1.0], "another dimension")
    store.insert([1.0, 2.0], "fits")
    store = reopened(store)
    assert store.query([1.0, 2.0]).values == ["fits"]
    store.close()


def test_whom_a_full_store_forgets_is_known_to_the_database_at_once(tmp_path):
    with memorytree.open(tmp_path / "store", capacity=3, seed=0) as store:
        store.insert_many([[0.0], [10.0], [20.0]], [0, 1, 2])
        store.update(store.query([0.0]), [1.0])
        store.insert([30.0], 3)
        assert sorted(store) == [0, 2, 3]
    shutil.rmtree(tmp_path / "store" / "snapshots")
    with memorytree.open(tmp_path / "store") as store:
        assert sorted(store) == [0, 2, 3]
        store.insert_many([[float(i)] for i in range(9)], range(9), ids=[5, 6, 5, 2, 7, 8, 9, 10, 8])
        assert len(store) == 3
        assert store.verify().ok


def test_a_tree_that_was_built_anew_learns_from_old_receipts_but_not_their_nodes(tmp_path):
    path = tmp_path / "store"
    with memorytree.open(path, routing="paper", seed=0, leaf_factor=1) as store:
        store.insert_many(matrix(100), range(100))
        explored = [store.query(x, k=1, explore=1.0, draw=i) for i, x in enumerate(matrix(40, seed=1))]
        explored = [hits for hits in explored if hits.receipt.branch == "node"]
        assert explored
        tokens = [(hits.receipt_id, hits.ids) for hits in explored]
        assert store.reward(tokens[0][0], dict.fromkeys(tokens[0][1], 1.0)).learned == 1
    shutil.rmtree(path / "snapshots")
    with memorytree.open(path) as store:
        for token, ids in tokens[1:]:
            assert store.reward(token, dict.fromkeys(ids, 1.0)) == (0, 0)
        assert store.verify().rewards == sum(len(ids) for _, ids in tokens)


def test_an_older_database_does_not_take_up_a_newer_snapshot(tmp_path):
    path = tmp_path / "store"
    store = memorytree.open(path, seed=0)
    store.insert_many(matrix(5), [f"old {i}" for i in range(5)])
    store.compact()
    older = (path / "memories.sqlite").read_bytes()
    for i in range(5):
        store.insert(matrix(1, seed=i)[0], f"lost {i}")
    store.close()
    for file in path.glob("memories.sqlite*"):
        file.unlink()
    (path / "memories.sqlite").write_bytes(older)
    with pytest.warns(UserWarning, match="does not belong"):
        store = memorytree.open(path)
    for i in range(8):
        store.insert(matrix(1, seed=i)[0], f"new {i}")
    damage.leave_without_closing(store)
    with memorytree.open(path) as store:
        assert [store[id] for id in store] == [*(f"old {i}" for i in range(5)), *(f"new {i}" for i in range(8))]


def test_events_that_are_missing_are_noticed(tmp_path):
    with memorytree.open(tmp_path / "store", seed=0) as store:
        store.insert_many(matrix(6), range(6))
        store.remove(0)
    with contextlib.closing(sqlite3.connect(tmp_path / "store" / "memories.sqlite")) as connection:
        connection.execute("DELETE FROM events")
        connection.commit()
    with pytest.raises(DamagedStore, match="events are missing"):
        memorytree.open(tmp_path / "store")
    repair(tmp_path / "store")
    with memorytree.open(tmp_path / "store") as store:
        assert sorted(store) == [1, 2, 3, 4, 5]


def test_a_row_that_is_gone_is_found_by_its_count_and_one_exchanged_by_the_digest(tmp_path):
    with memorytree.open(tmp_path / "store", seed=0) as store:
        store.insert_many(matrix(6), range(6))
    database = tmp_path / "store" / "memories.sqlite"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        fields = list(connection.execute("SELECT * FROM memories WHERE record = 3").fetchone())[:-2]
        fields[0], fields[1] = 4, 3  # whole, but not what was written
        connection.execute("DELETE FROM memories WHERE record = 4")
        connection.execute(f"INSERT INTO memories VALUES ({', '.join('?' * 11)}, NULL)", (*fields, seal_of(*fields)))
        connection.commit()
    report = verify(tmp_path / "store")
    assert any("digest" in line for line in report.damage)
