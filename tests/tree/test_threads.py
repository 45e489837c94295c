"""Readers and writers in several threads: no torn answers, no lost writes, no deadlock."""

import threading

import numpy as np
import pytest

from memorytree import MemoryTree
from tests.trees import ROUTINGS, matrix

TIMEOUT = 60  # seconds after which a thread is reported as stuck


def run_together(*jobs):
    """Run each job in its own thread; all must end without an error."""
    failures = []

    def guarded(job):
        try:
            job()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=guarded, args=(job,), daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert not any(thread.is_alive() for thread in threads), "a thread is stuck"
    if failures:
        raise failures[0]


@pytest.mark.parametrize("routing", ROUTINGS)
def test_readers_see_only_stored_memories_while_a_writer_works(routing):
    X = matrix(1500, 3)
    tree = MemoryTree(routing=routing, seed=0)
    tree.insert_many(X[:500], range(500))
    begun, gone, answers = [500], [], []  # ids below begun[0] may be stored; those in gone are not
    done = threading.Event()

    def write():
        try:
            for id in range(500, 1500):
                begun[0] = id + 1
                tree.insert(X[id], id)
                if id % 2:
                    tree.remove(id - 400)
                    gone.append(id - 400)
                if id % 100 == 0:
                    tree.sweep()
        finally:
            done.set()

    def check(i, removed, hits):
        for id, value, score in hits:
            assert 0 <= id < begun[0], "never stored"
            assert value == id
            assert score == pytest.approx(-float(np.linalg.norm(X[i] - X[id])), abs=1e-4)
            assert id not in removed, "removed before the query began"

    def read(start):
        def job():
            i = start
            for _ in range(5000):
                removed = set(gone[-200:])
                check(i, removed, tree.query(X[i], 3, beam=1 + i % 3, explore=0.5 * (i % 2 and i % 3 == 0)))
                answers.append(i)
                if i % 40 == 0:
                    rows = [(i + j) % 1500 for j in range(8)]
                    batch = tree.query_many(X[rows], 2, threads=2)
                    assert all(v in (None, id) for h in batch for id, v, _ in h)
                    assert tree.stats().memories <= 1001  # 1,000, and one inserted before another is removed
                i = (i + 1) % 1500
                if done.is_set():
                    return

        return job

    run_together(write, read(0), read(500), read(1000))
    tree.check()
    assert done.is_set()
    assert set(tree) == set(range(1500)) - set(gone)
    assert len(answers) > 10, "no reader had the lock while the writer worked"


@pytest.mark.parametrize("routing", ROUTINGS)
def test_two_writers_and_a_reader_lose_nothing(routing):
    X = matrix(800, 3)
    tree = MemoryTree(routing=routing, experiences=0, seed=0)
    tree.insert(X[0], 0, id=0)

    def writer(first):
        def job():
            for id in range(first, 800, 2):
                tree.insert(X[id], id, id=id)
                hits = tree.query(X[id], 2, explore=0.5)
                tree.reward(hits, [1.0] * len(hits))
                if id % 5 == 0:
                    tree.remove(id)
                if id % 200 < 2:
                    tree.reroute(5)

        return job

    def reader():
        for x in X:
            assert all(hit.id == hit.value for hit in tree.query(x, 3))

    run_together(writer(0), writer(1), reader)
    tree.check()
    stored = [id for id in range(800) if id % 5]
    assert sorted(tree) == stored
    tree.sweep()
    assert tree.query_many(X[stored]).ids[:, 0].tolist() == stored


def test_batches_from_two_writers_are_both_stored():
    X = matrix(6000, 2)
    tree = MemoryTree(routing="principal", seed=0)
    halves = [range(3000), range(3000, 6000)]

    def look():
        for _ in range(20):
            assert len(tree.query(X[0], 5)) <= 5
            str(tree.stats())

    run_together(*(lambda ids=ids: tree.insert_many(X[ids], ids, ids=ids) for ids in halves), look)
    tree.check()
    assert tree.query_many(X).ids[:, 0].tolist() == list(range(6000))
