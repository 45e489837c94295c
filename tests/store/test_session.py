"""Readers, threads and other processes beside the one writing process."""

import ctypes
import io
import multiprocessing
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest

import memorytree
from memorytree import MemoryStore, MemoryTree
from memorytree.errors import (
    ReadOnlyStore,
    StoreError,
    StoreLocked,
    UnknownId,
)
from memorytree.store import snapshots
from memorytree.store.learning import StoreLearner
from tests.trees import matrix


def test_second_writer_is_refused_by_name(store):
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


def test_reader_follows_the_writer(tmp_path):
    X = matrix(80)
    with memorytree.open(tmp_path / "store", seed=0, durability="normal") as writer:
        with pytest.raises(UnknownId), memorytree.open(tmp_path / "store", mode="r") as reader:
            reader[0]
        with memorytree.open(tmp_path / "store", mode="r") as reader:
            for number, x in enumerate(X):
                writer.insert(x, number)
                if number % 9 == 0:
                    writer.reward(writer.query(x, k=2), [1.0] * min(2, number + 1))
                if number % 11 == 0:
                    writer.remove(number)
                if number % 23 == 0:
                    writer.checkpoint()
                if number % 5 == 0:
                    assert list(reader) == list(writer)
                    assert list(reader.query(x, k=3)) == list(writer.query(x, k=3))
            with pytest.raises(ReadOnlyStore):
                reader.insert(X[0], "no")
            # A reader that did not follow while the log was trimmed reads the new snapshot.
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


def test_other_processes_see_whole_operations(tmp_path):
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


def in_a_fork(act, fork=os.fork):
    """The exit code of a fork that does something: 7 if a store refuses it."""
    child = fork()
    if child == 0:
        try:
            act()
        except StoreError:
            os._exit(7)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# By Python, and by a C library without Python's own hooks.
@pytest.mark.parametrize("fork", [os.fork, lambda: ctypes.PyDLL(None).fork()])
def test_fork_cannot_write(store, fork):
    for x in matrix(5):
        store.insert(x, "parent")
    assert in_a_fork(lambda: store.insert(matrix(1)[0], "child"), fork) == 7
    assert store.insert(matrix(1)[0], "parent") == 5
    assert store.verify().ok


def test_fork_that_closes_writes_nothing(store):
    for x in matrix(5):
        store.insert(x, "parent")
    before = [path for path in store.path.rglob("*") if "writer" not in path.name]
    assert in_a_fork(store.close) == 0
    assert [path for path in store.path.rglob("*") if "writer" not in path.name] == before
    assert store.insert(matrix(1)[0], "parent") == 5
    assert store.verify().ok


def test_filters_beside_a_writing_thread(tmp_path):
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


def test_threads_see_each_insert_at_once(tmp_path):
    failures, X = [], matrix(200)
    with memorytree.open(tmp_path / "store", seed=0, durability="normal") as store:
        newest = [store.insert(X[0], 0)]
        stop = threading.Event()

        def read_newest(read):
            try:
                while not stop.is_set():
                    id = newest[0]
                    assert read(id) == id
            except BaseException as error:
                failures.append(error)

        reads = (store.get, lambda id: store.query(X[id], beam=64)[0].value)
        readers = [threading.Thread(target=read_newest, args=(read,)) for read in reads]
        for reader in readers:
            reader.start()
        for i, x in enumerate(X[1:], 1):
            newest[0] = store.insert(x, i)
        stop.set()
        for reader in readers:
            reader.join()
        assert sorted(store) == list(range(200))
        assert store.verify().ok
    assert not failures, failures[0]


def test_interrupted_reader_loads_again(tmp_path, monkeypatch):
    with memorytree.open(tmp_path / "store", seed=0) as writer:
        writer.insert_many(matrix(9), [f"value {i}" for i in range(9)])
        with memorytree.open(tmp_path / "store", mode="r") as reader:
            assert reader[5] == "value 5"
            writer.remove_many([0, 1, 2])
            writer.checkpoint()
            writer.insert(matrix(1)[0], "more")
            assert reader[5] == "value 5"
            assert reader.verify().ok

            # A reader whose following fails loads the store again.
            writer.remove(3)
            writer.insert(matrix(1)[0], "even more")
            assert list(reader) == list(writer)
            writer.remove(4)
            with monkeypatch.context() as patch:
                patch.setattr(MemoryTree, "remove", None)
                with pytest.raises(TypeError):
                    list(reader)
            assert list(reader) == list(writer)


@pytest.mark.parametrize("look", ["verify", "backup"])
def test_replaced_snapshot_is_no_damage(tmp_path, monkeypatch, look):
    """A writer replaces the snapshot twice while it is being read."""
    with memorytree.open(tmp_path / "store", seed=0) as store:
        store.insert_many(matrix(20), range(20))
        store.checkpoint()
        reader, found_in, disturbances = memorytree.open(store.path, mode="r"), snapshots.found_in, [1, 2]

        def disturbed(folder):
            found = found_in(folder)
            if disturbances and threading.current_thread() is looking:
                disturbances.pop()
                with monkeypatch.context() as quiet:
                    quiet.setattr(snapshots, "found_in", found_in)
                    store.insert(matrix(1)[0], "more", label="x")
                    store.checkpoint()
            return found

        looking = threading.current_thread()
        monkeypatch.setattr(snapshots, "found_in", disturbed)
        if look == "verify":
            assert memorytree.store.verify(store.path).ok
        else:
            reader.backup(tmp_path / "copy")
        assert not disturbances
        monkeypatch.undo()
        reader.close()
        if look == "backup":
            assert memorytree.store.verify(tmp_path / "copy").ok
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with memorytree.open(tmp_path / "copy") as copy:
                    assert len(copy) == 22


WRITES = {
    "insert": lambda store: store.insert([1.0], "x"),
    "insert_many": lambda store: store.insert_many([[1.0]], ["x"]),
    "update_metadata": lambda store: store.update_metadata(0, {}),
    "remove": lambda store: store.remove(0),
    "remove_many": lambda store: store.remove_many([0]),
    "import_jsonl": lambda store: store.import_jsonl(io.StringIO('{"key": [1.0], "value": "x"}')),
    "reward": lambda store: store.reward(store.query([1.0]), [1.0]),
    "reward_many": lambda store: store.reward_many(store.query_many([[1.0]]), [[1.0]]),
    "withdraw": lambda store: store.withdraw(1),
    "reset_learning": lambda store: store.reset_learning(),
    "refit": lambda store: store.refit(),
    "sweep": lambda store: store.sweep(),
    "reroute": lambda store: store.reroute(1),
    "checkpoint": lambda store: store.checkpoint(),
    "compact": lambda store: store.compact(),
}


def test_reader_refuses_every_method_that_writes(store):
    methods = {name for kind in (MemoryStore, StoreLearner) for name in vars(kind) if not name.startswith("_")}
    assert methods - {"rewards"} == set(WRITES)
    store.insert([1.0], "first")
    with memorytree.open(store.path, mode="r") as reader:
        for write in WRITES.values():
            with pytest.raises(ReadOnlyStore):
                write(reader)
    assert store.version == 1
