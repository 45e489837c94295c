"""A store holds what it was given, for every kind of key and scorer, and learns from rewards."""

import shutil

import numpy as np
import pytest
import scipy.sparse

import memorytree
from memorytree.errors import InvalidOption, InvalidReceipt
from memorytree.receipts import Receipt
from memorytree.store import exists, repair
from tests.store.conftest import reopened
from tests.trees import KINDS, key_of, keys_of, matrix


def answers(store, keys, **options):
    return [list(store.query(key, **options)) for key in keys]


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_reopened_store_answers_the_same(tmp_path, kind, routing):
    X = np.round(np.abs(matrix(40)), 2)
    keys = [key_of(kind, x) for x in X]
    with memorytree.open(tmp_path / "store", routing=routing, seed=0, durability="normal") as store:
        store.insert_many(keys_of(kind, X[:30]), range(30), labels=[i % 3 for i in range(30)])
        for key in keys[30:]:
            store.insert(key, "single", metadata={"late": True})
        store.reward(store.query(keys[3], k=3), [1.0, 0.0, None])
        store.refit()
        before = answers(store, keys, k=3, beam=2)
        store = reopened(store)
        assert answers(store, keys, k=3, beam=2) == before
        assert sorted(store.query(keys[0], k=50, where={"late": True}).ids) == list(range(30, 40))
        assert store.verify().ok
        store.close()
    shutil.rmtree(tmp_path / "store" / "snapshots")
    with memorytree.open(tmp_path / "store") as rebuilt:
        assert sorted(rebuilt) == list(range(40))
        assert rebuilt.query(keys[7], k=1, beam=8).ids.tolist() == [7]
        assert rebuilt.verify().ok


@pytest.mark.parametrize(
    "options", [{"trees": 3}, {"scorer": "values"}, {"scorer": "metric"}], ids=lambda options: next(iter(options))
)
def test_learning_is_durable(tmp_path, options):
    X = matrix(120)
    with memorytree.open(tmp_path / "store", seed=0, **options) as store:
        store.insert_many(X, range(120), features=X[:, :2] if options.get("scorer") == "values" else None)
        found = store.query_many(X[:40], k=4)
        store.reward_many(found, (found.ids % 2).astype(float))
        expected = answers(store, X, k=4)
        assert not len(store.query(X[0], k=3, where={"x": 1}))
    with memorytree.open(tmp_path / "store") as store:
        assert answers(store, X, k=4) == expected
        store.insert(X[0], "plain")


def test_arrays_and_tuples_come_back(store):
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    id = store.insert([1.0], {"array": array, "pair": (1, b"x"), 3: np.float32(2.5)})
    for _ in range(2):
        value = store[id]
        assert value["array"].dtype == np.int16
        assert np.array_equal(value["array"], array)
        assert value["pair"] == (1, b"x")
        assert value[3] == np.float32(2.5)
        store = reopened(store)
    store.close()


def test_token_survives_the_process(store):
    store.insert_many(matrix(30), range(30))
    hits = store.query(matrix(30)[4], k=3)
    token, ids = str(hits.receipt), hits.ids.tolist()
    assert Receipt.parse(token) == hits.receipt
    store = reopened(store)
    store.reward(token, {ids[0]: 1.0})
    assert store.reward(token, {}) == (0, 0, 0)
    store.reward(token, [None, 0.5, None])
    assert store.reward(hits.receipt, {ids[0]: 1.0, ids[1]: 0.5}) == (0, 0, 0)
    assert store.reward(hits, [1.0, 0.5, None]) == (0, 0, 0)
    assert store.verify().rewards == 2
    store.close()


def test_a_different_reward_replaces_the_former(store):
    store.insert_many(matrix(30), range(30))
    hits = store.query(matrix(30)[4], k=3)
    store.reward(hits, [1.0, 0.5, None])
    assert store.reward(hits, [1.0, 0.6, 1.0]).experiences == 2
    rewards = [(past.id, past.memory, past.reward, past.active) for past in store.rewards()]
    first, second, third = hits.ids.tolist()
    assert rewards == [(1, first, 1.0, True), (2, second, 0.5, False), (3, second, 0.6, True), (4, third, 1.0, True)]


def test_changed_token_is_refused(tmp_path, store):
    store.insert_many(matrix(30), range(30))
    token = str(store.query(matrix(30)[4], k=3).receipt)
    for place in range(0, len(token), 7):
        letter = "A" if token[place] != "A" else "B"
        with pytest.raises(InvalidReceipt):
            store.reward(token[:place] + letter + token[place + 1 :], [1.0, None, None])
    with memorytree.open(tmp_path / "other") as other:
        other.insert(matrix(1)[0], 0)
        with pytest.raises(InvalidReceipt, match="another store"):
            other.reward(token, [1.0, None, None])


def test_receipt_of_an_empty_store_teaches_nothing(store):
    hits = store.query([1.0])
    assert store.reward(hits, []) == (0, 0, 0)
    assert store.version == 0


def test_queries_write_nothing(store):
    store.insert_many(matrix(50), range(50))
    files = {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file() and "shm" not in path.name}
    for x in matrix(20, seed=3):
        hits = store.query(x, k=3, explore=0.5)
        assert str(hits.receipt)
        store.query(x, k=2, where={"no": "one"})
    assert files == {path: path.read_bytes() for path in files}


def test_batch_equals_single_calls(tmp_path):
    X = matrix(60)
    with memorytree.open(tmp_path / "a", seed=0) as many, memorytree.open(tmp_path / "b", seed=0) as single:
        many.insert_many(X, range(60), metadata=[{"even": i % 2 == 0} for i in range(60)])
        for i, x in enumerate(X):
            single.insert(x, i, metadata={"even": i % 2 == 0})
        for where in (None, {"even": True}):
            assert [list(row) for row in many.query_many(X[:9], k=3, where=where)] == answers(
                single, X[:9], k=3, where=where
            )
        found = many.query_many(X[:9], k=3)
        assert found[0].metadata == single.query(X[0], k=3).metadata
        assert found.values == [row.values for row in found]
        assert [len(row) for row in found[2:4]] == [3, 3]


def test_reward_many_is_one_operation(store):
    X = matrix(60)
    store.insert_many(X, range(60))
    found = store.query_many(X[:9], k=3)
    rewards = np.full((9, 3), np.nan)
    rewards[:, 0] = 1.0
    store.reward_many(found, rewards)
    assert store.version == 2
    assert store.reward_many(found, rewards) == (0, 0, 0)
    assert store.reward(found[2].receipt, [1.0, None, None]) == (0, 0, 0)
    assert store.verify().rewards == 9


def test_remove_by_filter(store):
    store.insert_many(matrix(6), range(6), metadata=[{"kind": "odd" if i % 2 else "even", "i": i} for i in range(6)])
    assert store.remove(where={"kind": "odd", "i": [1, 2, 3]}) == 2
    assert store.remove(where={"kind": "none"}) == 0
    assert store.remove(0) == 1
    assert store.ids() == [2, 4, 5]
    assert store.version == 3


def test_get_many_keeps_the_order(store):
    store.insert_many([[1.0], [2.0]], ["a", "b"])
    assert store.get_many([1, 5, 0], default="none") == ["b", "none", "a"]
    assert store.get_many(np.array([0])) == ["a"]


def test_own_scorer_must_be_given_again(tmp_path):
    def nearest(x, keys, features):
        return -np.abs(keys - x).sum(axis=1)

    with memorytree.open(tmp_path / "store", scorer=nearest, seed=0) as store:
        store.insert_many(matrix(30), range(30))
        expected = answers(store, matrix(3), k=3)
        assert not len(store.query(matrix(30)[3], k=3, where={"no": 1}))
    with pytest.raises(InvalidOption, match="scorer="):
        memorytree.open(tmp_path / "store")
    with memorytree.open(tmp_path / "store", scorer=nearest) as store:
        assert answers(store, matrix(3), k=3) == expected


def test_any_sparse_format_is_the_same_key(store):
    dense = np.array([[0.0, 2.0, 0.0, 1.0]])
    store.insert(scipy.sparse.coo_matrix(dense), "coo")
    assert store.query(scipy.sparse.csc_matrix(dense), k=1).values == ["coo"]
    assert store.key(0).toarray().tolist() == dense.tolist()


def test_features_of_different_lengths_are_durable(tmp_path):
    read = {}

    def scorer(x, keys, features):
        read["lengths"] = np.count_nonzero(np.nan_to_num(features), axis=1).tolist()
        return -np.abs(keys - x).sum(axis=1)

    path = tmp_path / "store"
    with memorytree.open(path, seed=0, scorer=scorer) as store:
        store.insert_many([[1.0], [2.0], [3.0]], "abc", features=[[1.0, 2.0], None, [1.0, 2.0, 3.0]])
        store.export_jsonl(tmp_path / "file.jsonl")
    for damage in (lambda: None, lambda: shutil.rmtree(path / "snapshots"), lambda: repair(path, scorer)):
        damage()
        with memorytree.open(path, scorer=scorer) as store:
            store.score([0.0], [0, 1, 2])
            assert read["lengths"] == [2, 0, 3]
    with memorytree.open(tmp_path / "copy", seed=0, scorer=scorer) as copy:
        copy.import_jsonl(tmp_path / "file.jsonl")
        copy.export_jsonl(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "file.jsonl").read_text()


def test_exists_needs_tables(tmp_path):
    assert not exists(tmp_path)
    (tmp_path / "memories.sqlite").write_bytes(b"")
    assert not exists(tmp_path)
    memorytree.open(tmp_path / "store").close()
    assert exists(tmp_path / "store")
