"""Stores that earlier versions wrote are read."""

import shutil

import pytest

import memorytree
from memorytree.store import verify
from tests.store.golden import EXPECTED, FOLDER, NAMED


def stores(kind):
    return sorted(FOLDER.glob(f"format-*-{kind}"))


def copied(path, tmp_path):
    return shutil.copytree(path, tmp_path / path.name)


def test_there_are_golden_stores():
    assert all(stores(kind) for kind in EXPECTED)


@pytest.mark.parametrize("path", [path for kind in EXPECTED for path in stores(kind)], ids=lambda path: path.name)
def test_a_golden_store_holds_what_it_was_given_and_goes_on(path, tmp_path):
    expected = EXPECTED[path.name.rpartition("-")[2]]
    path = copied(path, tmp_path)
    assert verify(path).ok
    for _ in range(2):
        with memorytree.open(path) as store:
            assert {id: (store[id], store.metadata(id)) for id in store} == expected
            assert store.verify().ok
        shutil.rmtree(path / "snapshots")  # the database alone is enough


@pytest.mark.parametrize("path", stores("dense"), ids=lambda path: path.name)
def test_a_golden_dense_store_answers(path, tmp_path):
    with memorytree.open(copied(path, tmp_path)) as store:
        assert store.settings == {"made": "for tests"}
        assert store.query([1.1, 0.1]).values == ["text"]
        assert store.query([1.1, 0.1], where={"count": 3}).ids == [4]
        assert store.key(3).tolist() == [2.0, 0.0]
        assert store.verify().rewards == 3
        assert store.insert([9.0, 9.0], "new") == 11


@pytest.mark.parametrize("path", stores("named"), ids=lambda path: path.name)
def test_a_golden_named_store_remembers_what_it_learned(path, tmp_path):
    with memorytree.open(copied(path, tmp_path)) as store:
        assert [store.key(id) for id in range(4)] == NAMED
        assert store.verify().rewards == 3
        with memorytree.open(tmp_path / "fresh", seed=1, scorer="cosine") as fresh:
            fresh.insert_many(NAMED, range(4))
            asked = {"tea": 1.0, "milk": 1.0}
            assert store.query(asked, k=3).scores != fresh.query(asked, k=3).scores


@pytest.mark.parametrize("path", stores("neighbours"), ids=lambda path: path.name)
def test_a_golden_store_of_neighbours_knows_them(path, tmp_path):
    with memorytree.open(copied(path, tmp_path)) as store:
        assert store.stats().neighbours > 1
        assert store.query([402.0], k=3, beam=4).ids == [20, 21, 19]
