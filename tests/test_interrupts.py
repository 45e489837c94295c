"""Ctrl-C at any moment: the tree is whole, and goes on."""

import signal
import sys
import threading
import time

import pytest

from memorytree import MemoryTree
from memorytree.checks import check_tree
from memorytree.locks import ReadersWriterLock
from tests.trees import matrix

needs_signals = pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="needs signals to threads")


@pytest.fixture
def interrupts():
    """Ctrl-C is a KeyboardInterrupt, also where the tests run in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_at(call, moment):
    """Do a call, with Ctrl-C at its so manieth step; returns whether it has ended before that.

    Python looks for signals where a function of its own begins and where one of C has ended, and nowhere else on our way.
    """
    steps = 0

    def look(frame, event, argument):
        nonlocal steps
        steps += event in ("call", "c_return")
        if steps == moment and event in ("call", "c_return"):
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(look)
    try:
        call()
    except (KeyboardInterrupt, SystemError, TypeError):  # Numba makes the last two of one that comes while it looks at types
        pass
    finally:
        sys.setprofile(None)
    return steps < moment


def grown():
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
        "update": lambda: tree.update(hits, [1.0] * len(hits)),
        "query": lambda: tree.query(X[0], k=3),
        "learn": tree.learn,
    }


def read_and_write(tree):
    [x] = matrix(1, 3)
    tree.insert(x, tree.query(x).values)


@needs_signals
@pytest.mark.parametrize("name", ["insert", "insert_many", "replace", "remove", "update", "query", "learn"])
def test_an_interrupted_call_leaves_a_whole_tree(interrupts, name):
    calls(grown())[name]()  # compilers are not to be interrupted here
    moment, unharmed = 1, False
    while not unharmed:
        tree = grown()
        unharmed = interrupt_at(calls(tree)[name], moment)
        check_tree(tree)
        assert sorted(tree) == sorted(tree._values)
        # Nobody waits for one who will never leave: another thread can read and write.
        worker = threading.Thread(target=read_and_write, args=(tree,), daemon=True)
        worker.start()
        worker.join(60)
        assert not worker.is_alive(), f"{name} was interrupted at step {moment}, and holds a lock"
        moment += 1
    assert moment > 5


@needs_signals
def test_a_writer_that_waits_is_interrupted_when_it_has_written(interrupts):
    tree = MemoryTree(seed=0)
    tree.insert_many(matrix(50), range(50))
    inside = threading.Event()

    def read():
        with tree._lock.reading():
            inside.set()
            time.sleep(0.3)

    reader = threading.Thread(target=read)
    reader.start()
    inside.wait()
    threading.Timer(0.1, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        tree.insert(matrix(1)[0], "late")
    reader.join()
    assert len(tree) == 51
    check_tree(tree)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_reading_while_reading_does_not_wait_for_a_writer_that_waits():
    lock = ReadersWriterLock()
    inside, ended = threading.Event(), threading.Event()

    def write():
        inside.wait()
        lock.acquire_write()
        lock.release_write()

    def read():
        with lock.reading():
            inside.set()
            while not lock._awaited:
                time.sleep(0.001)
            with lock.reading():
                ended.set()

    threads = [threading.Thread(target=job, daemon=True) for job in (write, read)]
    for thread in threads:
        thread.start()
    assert ended.wait(60)
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
