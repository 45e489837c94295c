"""TreeIndex: where a batch moves leaves together."""

import pytest

from memorytree.engine.arrays import ROOMS, SLOTS
from tests.trees import PlainTree as MemoryTree
from tests.trees import key_of, keys_of, matrix, state


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_batch_compacts_leaves_where_the_loop_would(kind):
    X = matrix(2_040)
    whole, loop = (MemoryTree(routing="principal", seed=3) for _ in range(2))
    for tree in (whole, loop):
        tree.insert_many(keys_of(kind, X[:2_000]), range(2_000))
        tree.refit()  # moves leaves; their former slots are gaps
        assert 4 * tree.index.counters[SLOTS] > 5 * tree.index.counters[ROOMS] + 4096
    whole.insert_many(keys_of(kind, X[2_000:]), range(40))
    for i, x in enumerate(X[2_000:]):
        loop.insert(key_of(kind, x), i)
    assert 4 * whole.index.counters[SLOTS] <= 5 * whole.index.counters[ROOMS] + 4096
    assert state(whole) == state(loop)
    whole.check()
