"""Ctrl-C at any moment of an operation: a store holds the operation or does not, and continues."""

import itertools
import signal
import sys
import threading

import pytest

from tests.inspected_store import InspectedStore
from tests.store.conftest import reopened
from tests.trees import matrix


@pytest.fixture
def interrupts():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Interruption:
    """Ctrl-C at one step of a call. Python delivers signals where one of its functions begins and where one of C ends."""

    def __init__(self, moment):
        self.moment, self.steps = moment, 0

    def __call__(self, frame, event, argument):
        self.steps += event in ("call", "c_return")
        if self.steps == self.moment and event in ("call", "c_return"):
            signal.raise_signal(signal.SIGINT)

    def during(self, call):
        """Do a call. Returns whether it ended before the step came."""
        sys.setprofile(self)
        try:
            call()
        finally:
            sys.setprofile(None)
        return self.steps < self.moment


def in_a_thread(call):
    """What a call in another thread returns; it fails if the call does not end."""
    results = []
    worker = threading.Thread(target=lambda: results.append(call()), daemon=True)
    worker.start()
    worker.join(60)
    assert results, "a lock is held"
    return results[0]


OPERATIONS = {
    "insert": (lambda store, x: store.insert(x, "new", metadata={"kind": "new"}), 1),
    "insert_many": (lambda store, x: store.insert_many([x, x], ["new", "new"], labels=["a", "b"]), 2),
    "remove": (lambda store, x: store.remove(next(iter(store))), -1),
    "update_metadata": (lambda store, x: store.update_metadata(next(iter(store)), {"kind": str(x)}), 0),
    "reward": (lambda store, x: store.reward(store.query(x), [1.0]), 0),
}


def interrupted_at(moment, store, operation, gained):
    """Interrupt an operation, and check what it leaves. Returns whether it was over before that."""
    [x] = matrix(1, seed=moment)
    size, version = len(store), store.version
    try:
        return Interruption(moment).during(lambda: operation(store, x))
    except (KeyboardInterrupt, SystemError, TypeError):  # Numba turns an interrupt while it reads types into the other two
        # The store is used while the exception still holds the frames that were interrupted.
        assert (len(store), store.version) in [(size, version), (size + gained, version + 1)]
        assert len(in_a_thread(lambda: store.query(x))) == 1
    finally:
        store.tree.check()
    return False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # an interrupt while a generator is deleted
@pytest.mark.parametrize(
    ("name", "public", "every"),
    [("insert", "", 1), ("insert", "1", 3), *((name, "", 5) for name in OPERATIONS if name != "insert")],
)
def test_interrupted_operation_is_whole(interrupts, monkeypatch, tmp_path, name, public, every):
    monkeypatch.setenv("MEMORYTREE_PUBLIC_SIGNALS", public)
    operation, gained = OPERATIONS[name]
    with InspectedStore(tmp_path / "store", seed=0, durability="normal", leaf_factor=1) as store:
        store.insert_many(matrix(300), range(300))
        operation(store, matrix(1, seed=1)[0])  # compiles
        moments = itertools.count(1, every)
        last = next(moment for moment in moments if interrupted_at(moment, store, operation, gained))
        assert last > 50
        assert in_a_thread(lambda: store.insert(matrix(1)[0], "from another thread")) in store
        assert store.verify().ok
        held = {id: store[id] for id in store}
    with reopened(store) as again:
        assert {id: again[id] for id in again} == held
