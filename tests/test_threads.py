"""Readers and writers in several threads: no torn answers, no lost writes, no waiting for ever."""

import threading

import numpy as np
import pytest

from memorytree import MemoryTree
from memorytree.checks import check_tree
from tests.trees import ROUTINGS, matrix

PATIENCE = 60  # seconds after which a thread counts as stuck


def together(*jobs):
    """Run jobs in threads of their own; all must end, and end well."""
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
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "a thread is stuck"
    if failures:
        raise failures[0]


@pytest.mark.parametrize("routing", ROUTINGS)
def test_readers_see_only_memories_that_are_there_while_a_writer_works(routing):
    X = matrix(1500, 3)
    tree = MemoryTree(routing=routing, seed=0)
    tree.insert_many(X[:500], range(500))
    begun, gone, answers = [500], [], []  # ids below begun[0] may be there; those in gone are not
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
            assert 0 <= id < begun[0], "never alive"
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

    together(write, read(0), read(500), read(1000))
    check_tree(tree)
    assert done.is_set()
    assert set(tree) == set(range(1500)) - set(gone)
    assert len(answers) > 10, "the readers had no turn while the writer worked"


@pytest.mark.parametrize("routing", ROUTINGS)
def test_two_writers_and_a_reader_lose_nothing(routing):
    X = matrix(800, 3)
    tree = MemoryTree(routing=routing, seed=0)
    tree.insert(X[0], 0, id=0)

    def writer(first):
        def job():
            for id in range(first, 800, 2):
                tree.insert(X[id], id, id=id)
                hits = tree.query(X[id], 2, explore=0.5)
                tree.update(hits, [1.0] * len(hits))
                if id % 5 == 0:
                    tree.remove(id)
                if id % 200 < 2:
                    tree.reroute(5)

        return job

    def reader():
        for x in X:
            assert all(hit.id == hit.value for hit in tree.query(x, 3))

    together(writer(0), writer(1), reader)
    check_tree(tree)
    there = [id for id in range(800) if id % 5]
    assert sorted(tree) == there
    tree.sweep()
    assert tree.query_many(X[there]).ids[:, 0].tolist() == there


def test_batches_from_two_writers_are_both_there():
    X = matrix(6000, 2)
    tree = MemoryTree(routing="principal", seed=0)
    halves = [range(3000), range(3000, 6000)]

    def look():
        for _ in range(20):
            assert len(tree.query(X[0], 5)) <= 5
            str(tree.stats())

    together(*(lambda ids=ids: tree.insert_many(X[ids], ids, ids=ids) for ids in halves), look)
    check_tree(tree)
    assert tree.query_many(X).ids[:, 0].tolist() == list(range(6000))
