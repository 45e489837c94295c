"""A store holds what it was given, for every kind of key and value."""

import shutil

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import memorytree
from memorytree.errors import (
    ConflictingReward,
    InvalidOption,
    InvalidReceipt,
)
from memorytree.packing import packed_value, unpacked, unpacked_all
from memorytree.store import connection, repair
from memorytree.store.exchange import as_json, from_json
from tests.store.conftest import reopened
from tests.trees import KINDS, key_of, keys_of, matrix

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_every_kind_of_key_comes_back_and_learns(tmp_path, kind, routing):
    X = np.round(np.abs(matrix(40)), 2)
    with memorytree.open(tmp_path / "store", routing=routing, seed=0, durability="normal") as store:
        store.insert_many(keys_of(kind, X[:30]), range(30), labels=[i % 3 for i in range(30)])
        for x in X[30:]:
            store.insert(key_of(kind, x), "single", metadata={"late": True})
        hits = store.query(key_of(kind, X[3]), k=3)
        store.reward(hits, [1.0, 0.0, None])
        store.refit()
        before = [store.query(key_of(kind, x), k=3, beam=2) for x in X]
        store = reopened(store)
        after = [store.query(key_of(kind, x), k=3, beam=2) for x in X]
        assert [(h.ids, h.values, h.scores) for h in before] == [(h.ids, h.values, h.scores) for h in after]
        late = store.query(key_of(kind, X[0]), k=50, where={"late": True})
        assert sorted(late.ids) == list(range(30, 40))
        assert store.verify().ok
        shut = store.path / "snapshots"
        store.close()
        for snapshot in shut.iterdir():
            for file in snapshot.iterdir():
                file.unlink()
            snapshot.rmdir()
        with memorytree.open(store.path) as rebuilt:
            assert sorted(rebuilt) == list(range(40))
            assert rebuilt.query(key_of(kind, X[7]), k=1, beam=8).ids.tolist() == [7]
            assert rebuilt.verify().ok


@settings(max_examples=50)
@given(value=PLAIN)
def test_values_come_back_as_they_were(value):
    assert unpacked(packed_value(value)) == value
    assert from_json(as_json(value)) == value


def depth_of(value) -> int:
    return 1 + depth_of(value[0]) if value else 1


@pytest.mark.parametrize("depth", [1, 300, 800])
def test_values_nested_deep_come_back(depth):
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    beside, deep = unpacked_all([packed_value("beside it"), packed_value(value)])
    assert (beside, depth_of(deep)) == ("beside it", depth)


def test_a_value_nested_as_deep_as_can_be_read_is_read_beside_others():
    deepest = b"\x91" * 1023 + b"\x90"
    unpacked(deepest)
    beside, deep = unpacked_all([packed_value("beside it"), deepest])
    assert (beside, len(deep)) == ("beside it", 1)


@pytest.mark.parametrize("n", [0, 1, 15, 16, 70_000])
def test_any_number_of_values_is_read_in_one_go(n):
    assert unpacked_all([packed_value(i) for i in range(n)]) == list(range(n))


def test_arrays_come_back_as_they_were(store):
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


def test_a_receipt_outlives_the_process_and_tells_forgeries(tmp_path, store):
    ids = store.insert_many(matrix(30), range(30))
    hits = store.query(matrix(30)[4], k=3)
    token = hits.receipt
    store = reopened(store)
    store.reward(token, {hits.ids[0]: 1.0})
    assert store.reward(token, {}) == (0, 0)
    store.reward(token, {hits.ids[1]: 0.5})
    assert store.reward(token, {hits.ids[0]: 1.0, hits.ids[1]: 0.5}) == (0, 0)
    with pytest.raises(ConflictingReward, match=r"has had the reward 0\.5"):
        store.reward(token, {hits.ids[1]: 0.6})
    # Half of a call that conflicts is not taken either.
    with pytest.raises(ConflictingReward):
        store.reward(token, {hits.ids[2]: 1.0, hits.ids[1]: 0.6})
    store.reward(token, {hits.ids[2]: 0.0})
    for place in range(0, len(token), 7):
        letter = "A" if token[place] != "A" else "B"
        with pytest.raises(InvalidReceipt):
            store.reward(token[:place] + letter + token[place + 1 :], {int(ids[0]): 1.0})
    with memorytree.open(tmp_path / "other") as other:
        other.insert(matrix(1)[0], 0)
        with pytest.raises(InvalidReceipt, match="another store"):
            other.reward(token, {0: 1.0})
    store.close()


def test_queries_write_nothing(store):
    store.insert_many(matrix(50), range(50))
    files = {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file() and "shm" not in path.name}
    for x in matrix(20, seed=3):
        hits = store.query(x, k=3, explore=0.5)
        assert hits.receipt
        store.query(x, k=2, where={"no": "one"})
    assert files == {path: path.read_bytes() for path in files}


def test_batches_are_one_operation_and_agree_with_single_calls(tmp_path):
    X = matrix(60)
    with memorytree.open(tmp_path / "a", seed=0) as many, memorytree.open(tmp_path / "b", seed=0) as single:
        many.insert_many(X, range(60), metadata=[{"even": i % 2 == 0} for i in range(60)])
        for i, x in enumerate(X):
            single.insert(x, i, metadata={"even": i % 2 == 0})
        assert many.version == 1
        found = many.query_many(X[:9], k=3)
        assert [row.ids for row in found] == [single.query(x, k=3).ids for x in X[:9]]
        assert [row.values for row in found] == [single.query(x, k=3).values for x in X[:9]]
        filtered = many.query_many(X[:9], k=3, where={"even": True})
        assert [row.ids for row in filtered] == [single.query(x, k=3, where={"even": True}).ids for x in X[:9]]
        assert found[0].metadata == single.query(X[0], k=3).metadata
        rewards = np.full((9, 3), np.nan)
        rewards[:, 0] = 1.0
        many.reward_many(found, rewards)
        assert many.version == 2
        assert many.reward_many(found, rewards) == (0, 0)
        assert many.reward(found[2].receipt, {found[2].ids[0]: 1.0}) == (0, 0)
        assert many.verify().rewards == 9


def test_export_and_import_carry_everything(tmp_path, store):
    for kind in ("dense", "sparse", "named"):
        with memorytree.open(tmp_path / kind, seed=0) as source:
            X = np.round(matrix(12), 3)
            source.insert_many(keys_of(kind, X), [{"n": i, "b": b"x"} for i in range(12)], labels=["l", None] * 6)
            source.insert(key_of(kind, X[0]), (1, 2), metadata={"user": "u"}, ttl=1e6, id=77)
            source.remove(5)
            file = tmp_path / f"{kind}.jsonl"
            assert source.export_jsonl(file) == 12
            with memorytree.open(tmp_path / f"{kind} copy", seed=0) as copy:
                assert copy.import_jsonl(file) == 12
                assert list(copy) == list(source)
                for id in source:
                    assert copy[id] == source[id]
                    assert copy.metadata(id) == source.metadata(id)
                    assert copy.timestamps(id) == source.timestamps(id)
                again = tmp_path / f"{kind} again.jsonl"
                copy.export_jsonl(again)
                assert again.read_text() == file.read_text()
    (tmp_path / "bad.jsonl").write_text('{"key": [1.0], "value": 1}\n{"key": [2.0]}\n')
    with pytest.raises(InvalidOption, match="line 2"):
        store.import_jsonl(tmp_path / "bad.jsonl")
    assert len(store) == 0


def test_an_own_scorer_must_be_given_again(tmp_path):
    def nearest(x, keys, features):
        return -np.abs(keys - x).sum(axis=1)

    with memorytree.open(tmp_path / "store", scorer=nearest, seed=0) as store:
        store.insert_many(matrix(30), range(30))
        expected = store.query(matrix(30)[3], k=3).ids
        assert store.query(matrix(30)[3], k=3, where={"no": 1}).ids.tolist() == []
    with pytest.raises(InvalidOption, match="scorer="):
        memorytree.open(tmp_path / "store")
    with memorytree.open(tmp_path / "store", scorer=nearest) as store:
        assert store.query(matrix(30)[3], k=3).ids == expected


def test_a_forest_and_values_with_features_last_too(tmp_path):
    X = matrix(120)
    with memorytree.open(tmp_path / "forest", trees=3, seed=0) as store:
        store.insert_many(X, range(120))
        expected = store.query(X[5], k=4).ids
    with memorytree.open(tmp_path / "forest") as store:
        assert store.query(X[5], k=4).ids == expected
    with memorytree.open(tmp_path / "values", scorer="values", seed=0) as store:
        store.insert_many(X, range(120), features=X[:, :2])
        found = store.query_many(X[:40], k=4)
        store.reward_many(found, (found.ids % 2).astype(float))
        expected = [store.query(x, k=4).ids for x in X]
    with memorytree.open(tmp_path / "values") as store:
        assert [store.query(x, k=4).ids for x in X] == expected
        store.insert(X[0], "plain")
    with memorytree.open(tmp_path / "metric", scorer="metric", seed=0) as store:
        store.insert_many(X, range(120))
        found = store.query_many(X[:40], k=4)
        store.reward_many(found, (found.ids % 2).astype(float))
        expected = [store.query(x, k=4).ids for x in X]
        among = store.query(X[0], k=3, where={"x": 1})
        assert among.ids == []
    with memorytree.open(tmp_path / "metric") as store:
        assert [store.query(x, k=4).ids for x in X] == expected


def test_sparse_rows_of_any_form_are_the_same_key(store):
    dense = np.array([[0.0, 2.0, 0.0, 1.0]])
    store.insert(scipy.sparse.coo_matrix(dense), "coo")
    assert store.query(scipy.sparse.csc_matrix(dense), k=1).values == ["coo"]
    assert store.key(0).toarray().tolist() == dense.tolist()


def test_features_may_be_there_for_some_and_of_different_lengths(tmp_path):
    def scorer(x, keys, features):
        return -np.abs(keys - x).sum(axis=1)

    path = tmp_path / "store"
    with memorytree.open(path, seed=0, scorer=scorer) as store:
        store.insert_many([[1.0], [2.0], [3.0]], "abc", features=[[1.0, 2.0], None, [1.0, 2.0, 3.0]])
        store.export_jsonl(tmp_path / "file.jsonl")
    for happens in (lambda: None, lambda: shutil.rmtree(path / "snapshots"), lambda: repair(path, scorer)):
        happens()
        with memorytree.open(path, scorer=scorer) as store:
            assert [len(store._session.state().tree._features.get(id, ())) for id in range(3)] == [2, 0, 3]
    with memorytree.open(tmp_path / "copy", seed=0, scorer=scorer) as copy:
        copy.import_jsonl(tmp_path / "file.jsonl")
        copy.export_jsonl(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "file.jsonl").read_text()


def test_many_commits_lengthen_the_log_and_nothing_else(tmp_path):
    """What is killed after that opens with all that was acknowledged."""
    with memorytree.open(tmp_path / "store", seed=0) as store:
        log = tmp_path / "store" / "memories.sqlite-wal"
        sizes = set()
        for number, x in enumerate(matrix(connection.COMMITS_BEFORE_LONG_LOG + 20)):
            store.insert(x, number)
            sizes.add(log.stat().st_size)
        assert max(sizes) == connection.LOG_BYTES
        copy = shutil.copytree(
            tmp_path / "store", tmp_path / "killed", ignore=shutil.ignore_patterns("writer.lock", "*-shm")
        )
        held = {id: store[id] for id in store}
    with memorytree.open(copy) as killed:
        assert {id: killed[id] for id in killed} == held
        assert killed.verify().ok


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_memories_stored_one_by_one_wait_until_somebody_looks(tmp_path, kind, routing):
    X = np.round(np.abs(matrix(100)), 2)
    options = {"routing": routing, "seed": 0, "durability": "normal"}
    with memorytree.open(tmp_path / "one", **options) as one, memorytree.open(tmp_path / "many", **options) as many:
        for i, x in enumerate(X):
            assert one.insert(key_of(kind, x), i, metadata={"even": i % 2 == 0}) == i
        many.insert_many(keys_of(kind, X), range(100), metadata=[{"even": i % 2 == 0} for i in range(100)])
        assert one.version == 100
        assert one._session.state().waiting
        assert len(one) == 100
        assert not one._session.state().waiting
        asked = [
            (store.query(key_of(kind, x), k=3, beam=2), store.ids({"even": True})) for store in (one, many) for x in X
        ]
        told = [(hits.ids, hits.scores, hits.values, even) for hits, even in asked]
        assert told[:100] == told[100:]
        one.insert(key_of(kind, X[0]), "waits still when the store is closed")
        one = reopened(one)
        assert len(one) == 101
        assert one[100] == "waits still when the store is closed"
        assert one.verify().ok
        one.close()


def test_what_waits_is_forgotten_in_time_and_replaced(tmp_path):
    with memorytree.open(tmp_path / "store", seed=0) as store:
        store.insert([0.0, 1.0], "first")
        store.insert([0.0, 2.0], "short", ttl=1e-6)
        store.insert([0.0, 3.0], "old")
        assert store._session.state().waiting
        assert store.insert([0.0, 4.0], "new", id=2) == 2
        assert [store[id] for id in store] == ["first", "new"]
        store.insert([0.0, 5.0], "last")
        store.remove(3)
        assert store.query([0.0, 5.0], k=5).values == ["new", "first"]
        assert store.verify().ok


def test_where_what_waits_cannot_be_taken_in_the_image_is_read_anew(tmp_path, monkeypatch):
    with memorytree.open(tmp_path / "store", seed=0) as store:
        for i in range(3):
            store.insert([float(i)], i)

        def fails(memories, kind):
            raise MemoryError

        monkeypatch.setattr(store._session.state(), "insert", fails)
        with pytest.raises(MemoryError):
            store.query([1.0])
        assert store.query([1.0], k=3).values == [1, 0, 2]
        assert store.verify().ok


def test_whoever_looks_while_memories_are_taken_in_reads_them_from_the_disk(tmp_path, monkeypatch):
    with memorytree.open(tmp_path / "store", seed=0) as store:
        for i in range(3):
            store.insert([float(i)], i)
        image, seen = store._session.state(), []

        def interrupted(memories, kind, insert=store._session.state().insert):
            seen.append(store.get(0))  # as the handler of a signal might, or a scorer of one's own
            insert(memories, kind)

        monkeypatch.setattr(image, "insert", interrupted)
        assert image.take_in(store._facts["keys"])
        assert seen == [0]
        assert store.query([1.0], k=3).values == [1, 0, 2]
        assert store.verify().ok
