"""Stores in every released format can be read."""

import shutil

import pytest

import memorytree
from memorytree.store import verify
from tests.store.golden import EXPECTED, FOLDER, NAMED


def stores(name):
    return sorted(FOLDER.glob(f"format-*-{name}"))


def copied(path, tmp_path):
    return shutil.copytree(path, tmp_path / path.name)


def test_golden_stores_exist():
    assert all(stores(name) for name in EXPECTED)


@pytest.mark.parametrize("path", [path for name in EXPECTED for path in stores(name)], ids=lambda path: path.name)
def test_golden_store_opens(path, tmp_path):
    expected = EXPECTED[path.name.rpartition("-")[2]]
    path = copied(path, tmp_path)
    assert verify(path).ok
    for _ in range(2):
        with memorytree.open(path) as store:
            assert {id: (store[id], store.metadata(id)) for id in store} == expected
            assert store.verify().ok
        shutil.rmtree(path / "snapshots")  # the database alone is enough


@pytest.mark.parametrize("path", stores("dense"), ids=lambda path: path.name)
def test_golden_dense_store_answers(path, tmp_path):
    with memorytree.open(copied(path, tmp_path)) as store:
        assert store.app_settings == {"made": "for tests"}
        assert store.query([1.1, 0.1]).values == ["text"]
        assert store.query([1.1, 0.1], where={"count": 3}).ids.tolist() == [4]
        assert store.key(3).tolist() == [2.0, 0.0]
        assert store.verify().rewards == 3
        assert store.insert([9.0, 9.0], "new") == 11


@pytest.mark.parametrize("path", stores("named"), ids=lambda path: path.name)
def test_golden_named_store_has_learned(path, tmp_path):
    with memorytree.open(copied(path, tmp_path)) as store:
        assert [store.key(id) for id in range(4)] == NAMED
        assert store.verify().rewards == 3
        with memorytree.open(tmp_path / "fresh", seed=1, scorer="cosine") as fresh:
            fresh.insert_many(NAMED, range(4))
            key = {"tea": 1.0, "milk": 1.0}
            assert store.query(key, k=3).scores.tolist() != fresh.query(key, k=3).scores.tolist()


@pytest.mark.parametrize("path", stores("neighbours"), ids=lambda path: path.name)
def test_golden_graph_has_neighbours(path, tmp_path):
    with memorytree.open(copied(path, tmp_path)) as store:
        assert store.stats().neighbours > 1
        assert store.query([402.0], k=3, beam=4).ids.tolist() == [20, 21, 19]
