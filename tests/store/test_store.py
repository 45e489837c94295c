"""A store holds what it was given, for every kind of key and value, and says what is wrong with what it refuses."""

import contextlib
import math
import multiprocessing
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import memorytree
from memorytree.errors import (
    ConflictingReward,
    DamagedStore,
    InvalidKey,
    InvalidOption,
    InvalidReceipt,
    InvalidReward,
    ReadOnlyStore,
    StoreClosed,
    StoreError,
    StoreLocked,
    UnknownId,
    UnsupportedValue,
)
from memorytree.packing import packed_value, unpacked
from memorytree.store import repair, verify
from memorytree.store.database import seal_of
from memorytree.store.exchange import as_json, from_json
from tests.faults import damage
from tests.trees import KINDS, key_of, keys_of, matrix

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)


@pytest.fixture
def store(tmp_path):
    with memorytree.open(tmp_path / "store", seed=0, durability="normal") as store:
        yield store


def reopened(store):
    """The store, closed and opened again."""
    store.close()
    return memorytree.open(store.path, durability="normal")


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_every_kind_of_key_comes_back_and_learns(tmp_path, kind, routing):
    X = np.round(np.abs(matrix(40)), 2)
    with memorytree.open(tmp_path / "store", routing=routing, seed=0, durability="normal") as store:
        store.insert_many(keys_of(kind, X[:30]), range(30), labels=[i % 3 for i in range(30)])
        for x in X[30:]:
            store.insert(key_of(kind, x), "single", metadata={"late": True})
        hits = store.query(key_of(kind, X[3]), k=3)
        store.update(hits, [1.0, 0.0, None])
        store.learn()
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
            assert rebuilt.query(key_of(kind, X[7]), k=1, beam=8).ids == [7]
            assert rebuilt.verify().ok


@settings(max_examples=50)
@given(value=PLAIN)
def test_values_come_back_as_they_were(value):
    assert unpacked(packed_value(value)) == value
    assert from_json(as_json(value)) == value


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


def test_what_cannot_be_kept_is_refused_and_leaves_no_trace(store):
    first = store.insert([1.0, 2.0], "kept")
    before = store.operations
    for error, call in (
        (InvalidKey, lambda: store.insert([1.0], "short")),
        (InvalidKey, lambda: store.insert([math.nan, 1.0], "nan")),
        (InvalidKey, lambda: store.insert_many([[1.0, 2.0], [math.inf, 0.0]], ["fine", "not"])),
        (InvalidOption, lambda: store.insert_many([[1.0, 2.0]], ["one", "two"])),
        (InvalidOption, lambda: store.insert_many([[1.0, 2.0]], ["one"], metadata=[{}, {}])),
        (UnsupportedValue, lambda: store.insert([1.0, 2.0], object())),
        (UnsupportedValue, lambda: store.insert_many([[1.0, 2.0]] * 2, ["fine", object()])),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", metadata={"tags": ["a"]})),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", metadata={1: "a"})),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", metadata={"weight": math.nan})),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", ttl=-1)),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", id=-3)),
        (InvalidOption, lambda: store.query([1.0, 2.0], where={"user": {"a": 1}})),
        (InvalidOption, lambda: store.query([1.0, 2.0], where="user")),
        (InvalidKey, lambda: store.query([1.0], where={"user": "x"})),
        (UnknownId, lambda: store.remove(99)),
        (UnknownId, lambda: store.remove_many([first, 99])),
        (UnknownId, lambda: store.metadata(99)),
        (InvalidReceipt, lambda: store.reward("nonsense", {first: 1.0})),
        (InvalidReward, lambda: store.reward(store.query([1.0, 2.0]).receipt_id, {first: 1.5})),
        (InvalidReward, lambda: store.reward(store.query([1.0, 2.0]).receipt_id, {99: 1.0})),
        (InvalidReward, lambda: store.reward(store.query([1.0, 2.0]).receipt_id, [1.0])),
        (InvalidReceipt, lambda: store.update([1], [1.0])),
        (InvalidOption, lambda: memorytree.open(store.path.parent / "other", mode="a")),
        (InvalidOption, lambda: memorytree.open(store.path.parent / "other", durability="some")),
    ):  # fmt: skip
        with pytest.raises(error):
            call()
    assert list(store) == [first]
    assert store.operations == before
    assert store.verify().ok


def test_what_was_settled_when_the_store_was_made_stays(tmp_path):
    with memorytree.open(tmp_path / "store", seed=4, routing="paper", settings={"language": "en"}):
        pass
    with memorytree.open(tmp_path / "store", routing="paper") as store:
        assert store.settings == {"language": "en"}
    with pytest.raises(InvalidOption, match="settled"):
        memorytree.open(tmp_path / "store", settings={"language": "fi"})
    with pytest.raises(InvalidOption, match="made with routing='paper'"):
        memorytree.open(tmp_path / "store", routing="principal")
    with pytest.raises(InvalidOption, match="settings"):
        memorytree.open(tmp_path / "another", settings={"function": print})


def test_a_receipt_outlives_the_process_and_tells_forgeries(tmp_path, store):
    ids = store.insert_many(matrix(30), range(30))
    hits = store.query(matrix(30)[4], k=3)
    token = hits.receipt_id
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
        assert hits.receipt_id
        store.query(x, k=2, where={"no": "one"})
    assert files == {path: path.read_bytes() for path in files}


def test_batches_are_one_operation_and_agree_with_single_calls(tmp_path):
    X = matrix(60)
    with memorytree.open(tmp_path / "a", seed=0) as many, memorytree.open(tmp_path / "b", seed=0) as single:
        many.insert_many(X, range(60), metadata=[{"even": i % 2 == 0} for i in range(60)])
        for i, x in enumerate(X):
            single.insert(x, i, metadata={"even": i % 2 == 0})
        assert many.operations == 1
        found = many.query_many(X[:9], k=3)
        assert [row.ids for row in found] == [single.query(x, k=3).ids for x in X[:9]]
        assert [row.values for row in found] == [single.query(x, k=3).values for x in X[:9]]
        filtered = many.query_many(X[:9], k=3, where={"even": True})
        assert [row.ids for row in filtered] == [single.query(x, k=3, where={"even": True}).ids for x in X[:9]]
        assert found[0].metadata == single.query(X[0], k=3).metadata
        rewards = np.full((9, 3), np.nan)
        rewards[:, 0] = 1.0
        many.update_many(found, rewards)
        assert many.operations == 2
        assert many.update_many(found, rewards) == (0, 0)
        assert many.reward(found.receipt_id(2), {found[2].ids[0]: 1.0}) == (0, 0)
        assert many.verify().rewards == 9


@settings(max_examples=20)
@given(data=st.data())
def test_filters_are_exact_where_many_memories_fit(data):
    store = _big_store()
    users = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    kinds = data.draw(st.lists(st.sampled_from(["fact", "task", "none such"]), min_size=1, max_size=3))
    k = data.draw(st.integers(1, 12))
    x = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=4, max_size=4)), np.float32)
    where = {"user": users, "kind": kinds}
    hits = store.query(x, k, where=where)
    fitting = [id for id in range(5000) if id % 7 in users and ("fact" if id % 3 else "task") in kinds]
    assert len(hits) == min(k, len(fitting))
    assert set(hits.ids) <= set(fitting)
    assert len(set(hits.ids)) == len(hits)
    assert hits.scores == sorted(hits.scores, reverse=True)


_BIG: list = []


def _big_store():
    import tempfile

    if not _BIG:
        folder = tempfile.TemporaryDirectory()
        store = memorytree.open(Path(folder.name) / "store", seed=0, durability="normal")
        rows = [{"user": id % 7, "kind": "fact" if id % 3 else "task"} for id in range(5000)]
        store.insert_many(matrix(5000), range(5000), metadata=rows)
        _BIG.extend([store, folder])
    return _BIG[0]


def test_true_is_not_one_and_none_is_a_value(store):
    a = store.insert([1.0], "a", metadata={"flag": True, "note": None})
    b = store.insert([1.0], "b", metadata={"flag": 1})
    store.insert([1.0], "c")
    assert store.query([1.0], k=3, where={"flag": True}).ids == [a]
    assert store.query([1.0], k=3, where={"flag": 1}).ids == [b]
    assert store.query([1.0], k=3, where={"note": None}).ids == [a]
    assert store.query([1.0], k=3, where={"absent": "x"}).ids == []
    assert store.query([1.0], k=3, where={"flag": []}).ids == []


def test_a_second_writer_is_told_who_holds_the_store(store):
    store.insert([1.0], "mine")
    with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
        memorytree.open(store.path)
    program = "import sys, memorytree; memorytree.open(sys.argv[1])"
    run = subprocess.run(
        [sys.executable, "-c", program, str(store.path)],
        env={**os.environ, "PYTHONPATH": str(Path(memorytree.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert f"process {os.getpid()}" in run.stderr
    assert store.query([1.0]).values == ["mine"]


def test_readers_follow_the_writer_and_cannot_write(tmp_path):
    X = matrix(80)
    with memorytree.open(tmp_path / "store", seed=0, durability="normal") as writer:
        with pytest.raises(UnknownId), memorytree.open(tmp_path / "store", mode="r") as reader:
            reader[0]
        with memorytree.open(tmp_path / "store", mode="r") as reader:
            for number, x in enumerate(X):
                writer.insert(x, number)
                if number % 9 == 0:
                    writer.update(writer.query(x, k=2), [1.0] * min(2, number + 1))
                if number % 11 == 0:
                    writer.remove(number)
                if number % 23 == 0:
                    writer.checkpoint()
                if number % 5 == 0:
                    assert list(reader) == list(writer)
                    assert reader.query(x, k=3).ids == writer.query(x, k=3).ids
            with pytest.raises(ReadOnlyStore):
                reader.insert(X[0], "no")
            # A reader that slept while the log was trimmed reads the new snapshot.
            for x in X:
                writer.insert(x, "more")
            writer.checkpoint()
            writer.insert(X[0], "last")
            assert list(reader) == list(writer)
        assert writer.verify().ok


def _read_much(path, stop, failures):
    try:
        with memorytree.open(path, mode="r") as reader:
            while not stop.is_set():
                hits = reader.query([0.0, 0.0, 0.0, 0.0], k=5)
                assert all(value == id for id, value in zip(hits.ids, hits.values, strict=True))
    except BaseException as error:
        failures.put(repr(error))
        raise


def test_readers_in_other_processes_see_whole_operations(tmp_path):
    context = multiprocessing.get_context("spawn")
    stop, failures = context.Event(), context.Queue()
    with memorytree.open(tmp_path / "store", seed=0, durability="normal") as writer:
        writer.insert_many(matrix(50), range(50))
        readers = [context.Process(target=_read_much, args=(tmp_path / "store", stop, failures)) for _ in range(2)]
        for reader in readers:
            reader.start()
        for number in range(50, 250):
            writer.insert(matrix(1, seed=number)[0], number, id=number)
            if number % 40 == 0:
                writer.checkpoint()
                writer.backup(tmp_path / f"backup {number}")
        stop.set()
        for reader in readers:
            reader.join()
        assert failures.empty(), failures.get()
        assert [reader.exitcode for reader in readers] == [0, 0]
        for number in range(80, 250, 40):
            with memorytree.open(tmp_path / f"backup {number}") as copy:
                assert list(copy) == list(range(number + 1))
                assert copy.verify().ok


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    for use in (lambda: len(store), lambda: store.query([1.0]), lambda: store.insert([1.0], 1)):
        with pytest.raises(StoreClosed):
            use()


def test_export_and_import_carry_everything(tmp_path, store):
    for kind in ("dense", "sparse", "named"):
        with memorytree.open(tmp_path / kind, seed=0) as source:
            X = np.round(matrix(12), 3)
            source.insert_many(keys_of(kind, X), [{"n": i, "b": b"x"} for i in range(12)], labels=["l", None] * 6)
            source.insert(key_of(kind, X[0]), (1, 2), metadata={"user": "u"}, ttl=1e6, id=77)
            source.remove(5)
            file = tmp_path / f"{kind}.jsonl"
            assert source.export(file) == 12
            with memorytree.open(tmp_path / f"{kind} copy", seed=0) as copy:
                assert copy.import_(file) == 12
                assert list(copy) == list(source)
                for id in source:
                    assert copy[id] == source[id]
                    assert copy.metadata(id) == source.metadata(id)
                    assert copy.times(id) == source.times(id)
                again = tmp_path / f"{kind} again.jsonl"
                copy.export(again)
                assert again.read_text() == file.read_text()
    (tmp_path / "bad.jsonl").write_text('{"key": [1.0], "value": 1}\n{"key": [2.0]}\n')
    with pytest.raises(InvalidOption, match="line 2"):
        store.import_(tmp_path / "bad.jsonl")
    assert len(store) == 0


def test_an_own_scorer_must_be_given_again(tmp_path):
    def nearest(x, keys, features):
        return -np.abs(keys - x).sum(axis=1)

    with memorytree.open(tmp_path / "store", scorer=nearest, seed=0) as store:
        store.insert_many(matrix(30), range(30))
        expected = store.query(matrix(30)[3], k=3).ids
        assert store.query(matrix(30)[3], k=3, where={"no": 1}).ids == []
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
        store.update_many(found, (found.ids % 2).astype(float))
        expected = [store.query(x, k=4).ids for x in X]
    with memorytree.open(tmp_path / "values") as store:
        assert [store.query(x, k=4).ids for x in X] == expected
        store.insert(X[0], "plain")
    with memorytree.open(tmp_path / "metric", scorer="metric", seed=0) as store:
        store.insert_many(X, range(120))
        found = store.query_many(X[:40], k=4)
        store.update_many(found, (found.ids % 2).astype(float))
        expected = [store.query(x, k=4).ids for x in X]
        among = store.query(X[0], k=3, where={"x": 1})
        assert among.ids == []
    with memorytree.open(tmp_path / "metric") as store:
        assert [store.query(x, k=4).ids for x in X] == expected


def test_a_failure_in_memory_after_the_commit_is_made_good(store, monkeypatch):
    store.insert_many(matrix(20), range(20))
    tree = store._current().tree

    def broken(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(tree, "insert", broken)
    with pytest.raises(KeyboardInterrupt):
        store.insert(matrix(1)[0], "interrupted")
    assert len(store) == 21  # it was committed before the interruption
    assert store.get(20) == "interrupted"
    assert store.verify().ok


def test_sparse_rows_of_any_form_are_the_same_key(store):
    dense = np.array([[0.0, 2.0, 0.0, 1.0]])
    store.insert(scipy.sparse.coo_matrix(dense), "coo")
    assert store.query(scipy.sparse.csc_matrix(dense), k=1).values == ["coo"]
    assert store.key(0).toarray().tolist() == dense.tolist()


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


def test_a_fork_may_not_write_through_the_store_of_its_parent(store):
    store.insert([1.0], "parent")
    store._owner += 1  # as it is for a fork
    with pytest.raises(StoreError, match="fork"):
        store.insert([1.0], "child")
    store._owner -= 1


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


def test_a_label_that_does_not_fit_the_database_is_refused(store):
    with pytest.raises(InvalidOption, match="64 bits"):
        store.insert([1.0], "x", label=2**70)
    assert len(store) == 0


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


def test_numbers_at_the_edge_are_kept_or_refused(store):
    id = store.insert([1.0], "x", id=2**62 - 1)
    with pytest.raises(InvalidOption, match="ids go up to"):
        store.insert([1.0], "too many")
    token = store.query([1.0]).receipt_id
    store.reward(token, {id: -0.0})
    store.insert_many([[2.0]], ["old"], ids=[7], times=[(-0.0, None)])
    store.insert([1.0], "n", id=8, metadata={"count": np.int64(3), "share": np.float32(0.5), "yes": np.True_})
    assert store.query([1.0], where={"count": np.int64(3)}).ids == [8]
    assert store.metadata(8) == {"count": 3, "share": 0.5, "yes": True}
    assert store.reward(token, {id: None}) == (0, 0)
    store = reopened(store)
    assert store.verify().ok
    assert store.times(7) == (0.0, None)
    store.close()


def test_what_makes_no_sense_makes_no_store(tmp_path):
    for error, wrong in (
        (InvalidOption, {"routing": "nonsense"}),
        (InvalidOption, {"settings": {1: "a"}}),
        (InvalidOption, {"settings": "abc"}),
        (InvalidOption, {"trees": 0}),
    ):
        with pytest.raises(error):
            memorytree.open(tmp_path / "store", **wrong)
    assert not (tmp_path / "store").exists()


def test_features_may_be_there_for_some_and_of_different_lengths(tmp_path):
    def scorer(x, keys, features):
        return -np.abs(keys - x).sum(axis=1)

    path = tmp_path / "store"
    with memorytree.open(path, seed=0, scorer=scorer) as store:
        store.insert_many([[1.0], [2.0], [3.0]], "abc", features=[[1.0, 2.0], None, [1.0, 2.0, 3.0]])
        store.export(tmp_path / "file.jsonl")
    for happens in (lambda: None, lambda: shutil.rmtree(path / "snapshots"), lambda: repair(path, scorer)):
        happens()
        with memorytree.open(path, scorer=scorer) as store:
            assert [len(store._current().tree._features.get(id, ())) for id in range(3)] == [2, 0, 3]
    with memorytree.open(tmp_path / "copy", seed=0, scorer=scorer) as copy:
        copy.import_(tmp_path / "file.jsonl")
        copy.export(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "file.jsonl").read_text()


def test_threads_that_filter_beside_a_writer_see_memories_once_and_whole(tmp_path):
    failures = []
    with memorytree.open(tmp_path / "store", seed=0, durability="normal") as store:
        store.insert_many(matrix(3000), range(3000), metadata=[{"user": i % 2} for i in range(3000)])
        stop = threading.Event()

        def ask():
            try:
                while not stop.is_set():
                    for where in ({"user": 1}, {"late": True}):
                        hits = store.query(matrix(1)[0], k=30, where=where)
                        assert len(set(hits.ids)) == len(hits)
                        assert all(next(iter(where)) in metadata for metadata in hits.metadata)
            except BaseException as error:
                failures.append(error)

        readers = [threading.Thread(target=ask) for _ in range(2)]
        for reader in readers:
            reader.start()
        for round in range(15):
            rows = [{"late": True, f"field {round}": i} for i in range(40)]
            ids = store.insert_many(matrix(40, seed=round), range(40), metadata=rows)
            store.remove_many(ids[:20])
        stop.set()
        for reader in readers:
            reader.join()
    assert not failures, failures[0]


def test_a_reader_takes_value_and_place_from_one_image(tmp_path):
    with memorytree.open(tmp_path / "store", seed=0) as writer:
        writer.insert_many(matrix(9), [f"value {i}" for i in range(9)])
        with memorytree.open(tmp_path / "store", mode="r") as reader:
            assert reader[5] == "value 5"
            writer.remove_many([0, 1, 2])
            writer.checkpoint()
            writer.insert(matrix(1)[0], "more")
            assert reader[5] == "value 5"
            assert reader.verify().ok

            # Interrupted while it follows the writer, a reader begins anew.
            writer.remove(3)
            writer.insert(matrix(1)[0], "even more")
            tree = reader._current().tree
            writer.remove(4)
            tree.remove = None
            with pytest.raises(TypeError):
                list(reader)
            assert list(reader) == list(writer)


def test_batches_with_filters_explore_as_single_queries_do(store):
    store.insert_many(matrix(2500), range(2500), metadata=[{"even": i % 2 == 0} for i in range(2500)])
    X = matrix(20, seed=4)
    found = store.query_many(X, k=3, where={"even": True}, explore=0.7, draw=5)
    single = [store.query(x, k=3, where={"even": True}, explore=0.7, draw=5 + i) for i, x in enumerate(X)]
    assert [row.ids for row in found] == [hits.ids for hits in single]
    assert [row.receipt.branch for row in found] == [hits.receipt.branch for hits in single]


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
