"""The state of a store after failures, from the database alone, and after the removal of most memories."""

import contextlib
import shutil
import sqlite3

import pytest

import memorytree
from memorytree import MemoryTree
from memorytree.errors import DamagedStore, InvalidKey
from memorytree.store import repair, verify
from memorytree.store.records import Records
from memorytree.store.schema import INSERT_MEMORY, seal_of
from tests.faults.damage import leave_without_closing
from tests.inspected_store import InspectedStore
from tests.store.conftest import reopened
from tests.trees import matrix


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_failure_after_the_commit_is_recovered(store, monkeypatch, error):
    store.insert_many(matrix(20), range(20))

    def fails(*args, **options):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(MemoryTree, "insert", fails)
        with pytest.raises(error):
            store.insert(matrix(1)[0], "interrupted", id=20)
    assert len(store) == 21  # it was committed before the failure
    assert store.get(20) == "interrupted"
    assert store.verify().ok


def test_removed_memories_are_forgotten_by_a_checkpoint(tmp_path):
    with InspectedStore(tmp_path / "store", seed=0, durability="normal", capacity=50) as store:
        store.insert_many(matrix(3000, 2), range(3000), metadata={"kind": "passing"})
        before = [list(store.query(x, k=3)) for x in matrix(9, 2, seed=2)]
        store.checkpoint()
        assert len(store.session.state().records) == 50
        assert [list(store.query(x, k=3)) for x in matrix(9, 2, seed=2)] == before
        store.insert(matrix(1, 2)[0], "goes on")
        assert store.verify().ok
        assert store.session.database.rows("SELECT count(*) FROM memories WHERE ended IS NULL") == [(50,)]


def test_emptied_store_keeps_its_kind_of_keys(store):
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


def test_evictions_are_durable(tmp_path):
    with memorytree.open(tmp_path / "store", capacity=3, seed=0) as store:
        store.insert_many([[0.0], [10.0], [20.0]], [0, 1, 2])
        store.reward(store.query([0.0]), [1.0])
        store.insert([30.0], 3)
        assert sorted(store) == [0, 2, 3]
    shutil.rmtree(tmp_path / "store" / "snapshots")
    with memorytree.open(tmp_path / "store") as store:
        assert sorted(store) == [0, 2, 3]
        store.insert_many([[float(i)] for i in range(9)], range(9), ids=[5, 6, 5, 2, 7, 8, 9, 10, 8])
        assert len(store) == 3
        assert store.verify().ok


def test_rebuilt_tree_ignores_old_decisions(tmp_path):
    path = tmp_path / "store"
    with memorytree.open(path, routing="paper", seed=0, leaf_factor=1) as store:
        store.insert_many(matrix(100), range(100))
        explored = [store.query(x, k=1, explore=1.0, exploration_seed=i) for i, x in enumerate(matrix(40, seed=1))]
        explored = [hits for hits in explored if hits.receipt.branch == "node"]
        assert explored
        tokens = [(str(hits.receipt), hits.ids.tolist()) for hits in explored]
        assert store.reward(tokens[0][0], dict.fromkeys(tokens[0][1], 1.0)).learned == 1
    shutil.rmtree(path / "snapshots")
    with memorytree.open(path) as store:
        for token, ids in tokens[1:]:
            assert store.reward(token, dict.fromkeys(ids, 1.0)) == (0, 0, 0)
        assert store.verify().rewards == sum(len(ids) for _, ids in tokens)


def test_newer_snapshot_does_not_fit_an_older_database(tmp_path):
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
    leave_without_closing(store)
    with memorytree.open(path) as store:
        assert [store[id] for id in store] == [*(f"old {i}" for i in range(5)), *(f"new {i}" for i in range(8))]


def test_missing_events_are_noticed(tmp_path):
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


def test_exchanged_row_contradicts_the_digest(tmp_path):
    with memorytree.open(tmp_path / "store", seed=0) as store:
        store.insert_many(matrix(6), range(6))
    database = tmp_path / "store" / "memories.sqlite"
    with contextlib.closing(sqlite3.connect(database)) as connection:
        fields = list(connection.execute("SELECT * FROM memories WHERE record = 3").fetchone())[:-2]
        fields[0], fields[1] = 4, 3  # whole, but not what was written
        connection.execute("DELETE FROM memories WHERE record = 4")
        connection.execute(INSERT_MEMORY, (*fields, seal_of(*fields)))
        connection.commit()
    report = verify(tmp_path / "store")
    assert any("digest" in line for line in report.damage)


@pytest.mark.parametrize("how", ["log", "snapshot", "database"])
def test_metadata_updates_are_durable(store, how):
    store.insert_many(matrix(6), range(6), metadata={"kind": "fact"})
    store.checkpoint()
    store.update_metadata(1, {"kind": "task"})
    store.update_metadata(2, {"seen": 3}, replace=True)
    store.update_metadata(1, {"seen": 4})
    store.update_metadata(5, {"kind": "gone"})
    store.remove(5)
    store.insert(matrix(1)[0], "replacement", id=0, metadata={"kind": "new"})
    expected = {id: store.metadata(id) for id in store}
    assert expected[1] == {"kind": "task", "seen": 4}
    if how == "log":
        leave_without_closing(store)
    else:
        store.close()
    if how == "database":
        shutil.rmtree(store.path / "snapshots")
    with memorytree.open(store.path) as again:
        assert {id: again.metadata(id) for id in again} == expected
        assert again.ids({"seen": [3, 4]}) == [1, 2]
        assert again.verify().ok


def test_backup_and_repair_keep_updated_metadata(store, tmp_path):
    store.insert_many(matrix(3), range(3), metadata={"kind": "fact"})
    store.checkpoint()
    store.update_metadata(1, {"kind": "task"})
    store.backup(tmp_path / "copy")
    with memorytree.open(tmp_path / "copy") as copy:
        assert copy.ids({"kind": "task"}) == [1]
    leave_without_closing(store)
    assert repair(store.path).lost == []
    with memorytree.open(store.path) as again:
        assert again.ids({"kind": "task"}) == [1]


def test_reader_sees_metadata_updates(store):
    store.insert_many(matrix(3), range(3), metadata={"kind": "fact"})
    with memorytree.open(store.path, mode="r") as reader:
        assert reader.ids({"kind": "fact"}) == [0, 1, 2]
        store.update_metadata(1, {"kind": "task"})
        assert reader.ids({"kind": "fact"}) == [0, 2]
        assert reader.metadata(1) == {"kind": "task"}


def test_metadata_update_is_recovered_after_a_failure(store, monkeypatch):
    store.insert(matrix(1)[0], "a", metadata={"kind": "fact"})

    def fails(*args):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Records, "set_metadata", fails)
        with pytest.raises(MemoryError):
            store.update_metadata(0, {"kind": "task"})
    assert store.metadata(0) == {"kind": "task"}  # it was committed before the failure
    assert store.verify().ok
