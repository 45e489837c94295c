"""What can be saved of a damaged store is saved, and what cannot is named."""

import shutil

import pytest

import memorytree
from memorytree.errors import DamagedStore, StoreError, StoreLocked
from memorytree.store import repair, verify
from tests.faults import damage
from tests.trees import matrix

DATABASE = "memories.sqlite"


@pytest.fixture
def path(tmp_path):
    """A small store, closed."""
    damage.make_store(tmp_path / "store")
    with memorytree.open(tmp_path / "store") as store:
        store.checkpoint()
    return tmp_path / "store"


def held(path):
    with memorytree.open(path) as store:
        return {id: (store[id], store.metadata(id), store.key(id).tolist()) for id in store}


def test_a_whole_store_is_repaired_to_itself(path):
    before = held(path)
    done = repair(path)
    assert done.lost == []
    assert held(path) == before
    assert verify(path).ok
    assert (done.kept / DATABASE).exists()


def test_damaged_rows_come_back_from_the_snapshot(path):
    before = held(path)
    content = bytearray((path / DATABASE).read_bytes())
    for place in range(len(content) // 4, len(content), 150):
        content[place] ^= 0xFF
    (path / DATABASE).write_bytes(content)
    assert not verify(path).ok
    done = repair(path)
    assert done.from_snapshot > 0
    assert held(path) == before
    assert verify(path).ok


def test_a_database_that_is_gone_comes_back_from_the_snapshot(path):
    before = held(path)
    (path / DATABASE).write_bytes(b"nothing of use")
    with pytest.raises(StoreError):
        memorytree.open(path)
    done = repair(path)
    assert any("identity" in line for line in done.lost)
    assert held(path) == before
    assert verify(path).ok


def test_without_a_snapshot_the_damaged_rows_are_lost_and_named(path):
    before = held(path)
    shutil.rmtree(path / "snapshots")
    content = (path / DATABASE).read_bytes()
    place = content.index(b"value 7")
    (path / DATABASE).write_bytes(content[:place] + b"valuf" + content[place + 5 :])
    report = verify(path)
    assert any("memory" in line and "not what was written" in line for line in report.damage)
    done = repair(path)
    assert any("1 memories" in line for line in done.lost)
    after = held(path)
    assert 7 not in after
    assert after == {id: content for id, content in before.items() if id != 7}


def test_nothing_can_be_saved_of_nothing(path):
    shutil.rmtree(path / "snapshots")
    (path / DATABASE).write_bytes(b"nothing of use")
    with pytest.raises(StoreError, match="nothing can be saved"):
        repair(path)
    assert (path / DATABASE).read_bytes() == b"nothing of use"


def test_a_store_in_use_is_not_repaired(path):
    with memorytree.open(path), pytest.raises(StoreLocked):
        repair(path)


def test_what_was_learned_is_learned_again(tmp_path):
    X = matrix(100)
    with memorytree.open(tmp_path / "store", scorer="metric", seed=0) as store:
        store.insert_many(X, range(100))
        for _ in range(3):
            found = store.query_many(X, k=5)
            store.reward_many(found, (found.ids % 2).astype(float))
        rewards, lessons = store.verify().rewards, store._session.state().tree._core.space.lessons
    assert lessons > 0
    repair(tmp_path / "store")
    with memorytree.open(tmp_path / "store") as store:
        assert store.verify().rewards == rewards
        assert store._session.state().tree._core.space.lessons == lessons


def test_an_emptied_database_is_left_as_it_is_and_repaired_from_the_snapshot(tmp_path):
    path = tmp_path / "store"
    with memorytree.open(path, seed=7, scorer="cosine", app_settings={"app": 1}) as store:
        store.insert_many(matrix(20), range(20))
    (path / DATABASE).write_bytes(b"")
    with pytest.raises(DamagedStore, match="snapshot"):
        memorytree.open(path)
    done = repair(path)
    assert (done.memories, done.from_snapshot) == (20, 20)
    with memorytree.open(path, seed=7, scorer="cosine", app_settings={"app": 1}) as store:
        assert len(store) == 20


def test_nothing_is_lost_of_a_store_that_holds_nothing(tmp_path):
    memorytree.open(tmp_path / "store").close()
    assert repair(tmp_path / "store").lost == []
