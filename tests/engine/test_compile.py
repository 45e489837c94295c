"""How helpers are compiled: those that only read count no references, and nobody loses count."""

import gc

import numpy as np
import pytest
import scipy.sparse
from numba.core.runtime import _nrt_python, rtsys

from memorytree import MemoryForest, MemoryTree
from memorytree.engine.jit import COUNTING, helper, kernel


@helper
def longest(left, right):
    if left.shape[0] > right.shape[0]:
        return left.shape[0]
    for number in right:
        if number < 0:
            return -right.shape[0]
    return right.shape[0]


@helper
def twice_the_longest(left, right):
    return 2 * longest(left, right) if left.shape[0] else longest(right, right)


@helper
def the_longer(left, right):
    return left if left.shape[0] > right.shape[0] else right


@helper
def its_sum(left, right):
    total = 0.0
    for number in the_longer(left, right):
        total += number
    return total


@helper
def distance(left, right):
    return np.abs(left - right[: left.shape[0]]).sum()


@helper
def spread(left, right):
    return right[right > 0].sum() + left[np.argsort(left)][0]


@kernel
def largest(numbers):
    return numbers.max()


@helper
def told_by_a_kernel(left, right):
    return max(largest(left), largest(right)) if left.shape[0] else largest(right)


@kernel
def ask(left, right):
    numbers = twice_the_longest(left, right), its_sum(left, right), distance(left, right), spread(left, right)
    return numbers, told_by_a_kernel(left, right), the_longer(left, right)


def counts_references(function) -> bool:
    [compiled] = function.overloads.values()
    return any(name in compiled.library.get_llvm_str() for name in COUNTING)


def test_a_helper_that_only_reads_counts_no_references():
    assert ask(np.ones(2), np.ones(3))[0] == (6, 3.0, 0.0, 4.0)
    assert not counts_references(longest)
    assert not counts_references(twice_the_longest)


@pytest.mark.parametrize("function", [the_longer, its_sum, distance, spread, told_by_a_kernel])
def test_a_helper_counts_what_it_makes_is_given_or_gives_away(function):
    assert np.array_equal(ask(np.ones(2), np.ones(3))[2], np.ones(3))
    assert counts_references(function)


def everything(kind, X, options, trees):
    tree = kind(seed=1, **({"trees": 2} if trees else {}), **options)
    tree.insert_many(X, list(range(X.shape[0])))
    for beam in (1, 4):
        hits = tree.query_many(X[:40], 5, beam=beam, explore=0.3)
        tree.update_many(hits, np.where(hits.ids % 3 == 0, 1.0, 0.0))
    tree.query(X[0], 3, exclude=[0])
    for id in list(tree)[:60]:
        tree.remove(id)
    tree.insert_many(X[:60], list(range(60)))
    tree.learn()
    tree.sweep()


@pytest.mark.parametrize(
    ("options", "sparse", "trees"),
    [
        ({}, False, False),
        ({}, False, True),
        ({"routing": "paper"}, False, False),
        ({"routing": "paper", "scorer": "linear"}, False, False),
        ({"scorer": "metric"}, False, False),
        ({"capacity": 150}, False, False),
        ({}, True, False),
        ({"scorer": "tfidf"}, True, False),
        ({"routing": "paper", "scorer": "cosine"}, True, False),
        ({"routing": "paper", "scorer": "linear"}, True, False),
    ],
)
def test_every_array_is_let_go_once(options, sparse, trees):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12)).astype(np.float32)
    X = scipy.sparse.csr_matrix(X * (rng.random(X.shape) < 0.4)) if sparse else X
    kind = MemoryForest if trees else MemoryTree
    everything(kind, X, options, trees)  # compiled, and whatever stays for good is there
    _nrt_python.memsys_enable_stats()
    try:
        gc.collect()
        before = rtsys.get_allocation_stats()
        everything(kind, X, options, trees)
        gc.collect()
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.mi_alloc > before.mi_alloc
    assert after.mi_alloc - after.mi_free == before.mi_alloc - before.mi_free
    assert after.alloc - after.free == before.alloc - before.free
