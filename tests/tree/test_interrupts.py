"""Ctrl-C at any moment leaves a consistent tree that can be used further."""

import signal
import sys
import threading

import pytest

from memorytree import MemoryTree
from tests.trees import matrix

needs_signals = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to threads")
TIMEOUT = 60  # seconds after which a thread is reported as stuck


@pytest.fixture
def _interrupts():
    """Ctrl-C raises KeyboardInterrupt, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_at(call, moment):
    """Call a function with Ctrl-C at this step; returns whether it ended before that.

    Python looks for signals where a Python function begins and where a C function has ended.
    """
    steps = 0

    def count(frame, event, argument):
        nonlocal steps
        steps += event in ("call", "c_return")
        if steps == moment and event in ("call", "c_return"):
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(count)
    try:
        call()
    except (KeyboardInterrupt, SystemError, TypeError):  # Numba raises the last two if interrupted while it looks at types
        pass
    finally:
        sys.setprofile(None)
    return steps < moment


def full_tree():
    tree = MemoryTree(seed=0, routing="paper", capacity=60)
    tree.insert_many(matrix(60, 3), range(60))
    return tree


def calls(tree):
    X = matrix(6, 3, seed=1)
    hits = tree.query(X[0], k=2, explore=1.0)
    return {
        "insert": lambda: tree.insert(X[0], "new", label="a"),
        "insert_many": lambda: tree.insert_many(X, range(6), labels=["a", "b"] * 3),
        "replace": lambda: tree.insert(X[0], "other", id=3),
        "remove": lambda: tree.remove(5),
        "reward": lambda: tree.reward(hits, [1.0] * len(hits)),
        "query": lambda: tree.query(X[0], k=3),
        "refit": tree.refit,
    }


def read_and_write(tree):
    [x] = matrix(1, 3)
    tree.insert(x, tree.query(x).values)


@needs_signals
@pytest.mark.usefixtures("_interrupts")
@pytest.mark.parametrize("name", ["insert", "insert_many", "replace", "remove", "reward", "query", "refit"])
def test_an_interrupted_call_leaves_a_consistent_tree(name):
    calls(full_tree())[name]()  # compiles, which is not to be interrupted
    moment, ended = 1, False
    while not ended:
        tree = full_tree()
        ended = interrupt_at(calls(tree)[name], moment)
        tree.check()
        # No lock is held any more: another thread can read and write.
        worker = threading.Thread(target=read_and_write, args=(tree,), daemon=True)
        worker.start()
        worker.join(TIMEOUT)
        assert not worker.is_alive(), f"{name} was interrupted at step {moment}, and holds a lock"
        moment += 1
    assert moment > 5


@needs_signals
@pytest.mark.usefixtures("_interrupts")
def test_a_waiting_writer_writes_before_it_is_interrupted():
    reading, interrupted = threading.Event(), threading.Event()

    def scorer(x, keys, features):
        reading.set()
        assert interrupted.wait(TIMEOUT)
        return keys[:, 0]

    tree = MemoryTree(scorer=scorer, seed=0)
    tree.insert_many(matrix(50), range(50))
    reader = threading.Thread(target=tree.query, args=(matrix(1)[0],), daemon=True)
    reader.start()
    assert reading.wait(TIMEOUT)

    def interrupt():
        while signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # until the writer waits
            pass
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        interrupted.set()

    helper = threading.Thread(target=interrupt, daemon=True)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        tree.insert(matrix(1)[0], "late")
    for thread in (reader, helper):
        thread.join(TIMEOUT)
        assert not thread.is_alive()
    assert len(tree) == 51
    tree.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
