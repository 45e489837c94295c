"""Private uses of Numba: reference counts are removed only where that is safe, and plain Numba gives equal answers."""

import gc
import json
import os
import pickle
import subprocess
import sys

import numba
import numpy as np
import pytest
import scipy.sparse
from numba import njit
from numba.core.runtime import _nrt_python, rtsys

from memorytree import GraphRouting, MemoryTree, TermLists
from memorytree.engine.jit import OPTIONS, helper, kernel
from memorytree.engine.numba_private import COUNTING, PLAIN
from tests.engine import plain_answers

needs_private = pytest.mark.skipif(PLAIN, reason="plain Numba keeps all reference counts")


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
def longer(left, right):
    return left if left.shape[0] > right.shape[0] else right


@helper
def sum_of_longer(left, right):
    total = 0.0
    for number in longer(left, right):
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
def largest_of_both(left, right):
    return max(largest(left), largest(right)) if left.shape[0] else largest(right)


@njit(**OPTIONS)  # not cached on disk, so that the helpers are compiled in every process
def call_helpers(left, right):
    numbers = twice_the_longest(left, right), sum_of_longer(left, right), distance(left, right), spread(left, right)
    return numbers, largest_of_both(left, right), longer(left, right)


def counts_references(function) -> bool:
    [compiled] = function.overloads.values()
    return any(name in compiled.library.get_llvm_str() for name in COUNTING)


@needs_private
def test_reading_helper_counts_no_references():
    assert call_helpers(np.ones(2), np.ones(3))[0] == (6, 3.0, 0.0, 4.0)
    assert not counts_references(longest)
    assert not counts_references(twice_the_longest)


@needs_private
@pytest.mark.parametrize("function", [longer, sum_of_longer, distance, spread, largest_of_both])
def test_owning_helper_counts_references(function):
    assert np.array_equal(call_helpers(np.ones(2), np.ones(3))[2], np.ones(3))
    assert counts_references(function)


def run_all_operations(X, options):
    tree = MemoryTree(seed=1, **options)
    tree.insert_many(X, list(range(X.shape[0])))
    for beam in (1, 4):
        hits = tree.query_many(X[:40], 5, beam=beam, explore=0.3)
        tree.reward_many(hits, np.where(hits.ids % 3 == 0, 1.0, 0.0))
    tree.query(X[0], 3, exclude=[0])
    for id in list(tree)[:60]:
        tree.remove(id)
    tree.insert_many(X[:60], list(range(60)))
    tree.refit()
    tree.sweep()


@pytest.mark.parametrize(
    ("options", "sparse"),
    [
        ({"routing": "principal"}, False),
        ({"trees": 2}, False),
        ({"routing": GraphRouting(flat=0)}, False),
        ({"routing": "paper"}, False),
        ({"routing": "paper", "scorer": "linear"}, False),
        ({"scorer": "metric"}, False),
        ({"routing": "principal", "capacity": 150}, False),
        ({"routing": TermLists(flat=0)}, True),
        ({"routing": TermLists(flat=0), "scorer": "tfidf"}, True),
        ({"routing": "paper", "scorer": "cosine"}, True),
        ({"routing": "paper", "scorer": "linear"}, True),
    ],
)
def test_every_array_is_freed_once(options, sparse, rng):
    X = rng.normal(size=(400, 12)).astype(np.float32)
    X = scipy.sparse.csr_matrix(X * (rng.random(X.shape) < 0.4)) if sparse else X
    run_all_operations(X, options)  # compiles, and allocates what is kept for the life of the process
    _nrt_python.memsys_enable_stats()
    try:
        gc.collect()
        before = rtsys.get_allocation_stats()
        run_all_operations(X, options)
        gc.collect()
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.mi_alloc > before.mi_alloc
    assert after.mi_alloc - after.mi_free == before.mi_alloc - before.mi_free
    assert after.alloc - after.free == before.alloc - before.free


def test_plain_numba_gives_equal_answers():
    environment = os.environ | {"MEMORYTREE_PLAIN_NUMBA": "" if PLAIN else "1"}
    other = subprocess.run(
        [sys.executable, "-m", "tests.engine.plain_answers"], env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(other.stdout) == json.loads(json.dumps(plain_answers.answers()))


CACHED_KERNEL = """
import numba
import numpy as np
from memorytree.engine.terms.lists import build_map
build_map(np.array([-1, 5], np.int32))
"""


@needs_private
def test_cache_that_another_version_has_left_is_not_read(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", CACHED_KERNEL], env=environment, check=True)
    left = list(tmp_path.rglob("*.nbi"))
    for file in left:
        file.write_bytes(pickle.dumps(numba.__version__) + b"a class that does not exist any more")
    subprocess.run([sys.executable, "-c", CACHED_KERNEL], env=environment, check=True)
    assert left
