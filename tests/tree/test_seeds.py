"""Seeds and interruptions of a stream of writes, beyond the contract of every index."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from tests.trees import ROUTINGS, grown, keys_of, matrix, state, survives


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_other_seeds_give_other_learned_routers(kind):
    shapes = set()
    for seed in range(3):
        tree = grown(kind, "paper", 400, seed=seed)
        shapes.add(tree.query_many(keys_of(kind, matrix(100, seed=1)), 5).ids.tobytes())
    assert len(shapes) == 3


def test_seed_decides_ties():
    def answers(seed):
        tree = MemoryTree(routing="principal", seed=seed)
        tree.insert_many(np.ones((40, 2)), range(40))
        return tree.query([1.0, 1.0], 40).ids.tolist()

    assert sorted(answers(0)) == list(range(40))
    assert len({tuple(answers(seed)) for seed in range(4)}) == 4


@pytest.mark.parametrize("routing", ROUTINGS)
@given(stops=st.sets(st.integers(0, 79)), seed=st.integers(0, 5))
@settings(max_examples=10)
def test_pickling_after_any_write_makes_no_difference(routing, stops, seed):
    stopped, straight = (MemoryTree(routing=routing, seed=seed, capacity=40) for _ in range(2))
    for i, x in enumerate(matrix(80, 3, seed)):
        stopped.insert(x, i)
        straight.insert(x, i)
        if i in stops:
            stopped = pickle.loads(pickle.dumps(stopped))
    assert state(stopped) == state(straight)


@pytest.mark.parametrize("routing", ROUTINGS)
def test_ties_are_equal_in_another_process(routing):
    tree = MemoryTree(routing=routing, seed=4)
    tree.insert_many([[float(i % 5), 1.0] for i in range(200)], range(200))
    Q = [[float(i % 5), 1.0] for i in range(10)]
    ids = tree.query_many(Q, 3).ids.tolist()
    explored = [tree.query(Q[0], 2, explore=1.0, exploration_seed=n).ids.tolist() for n in range(20)]
    assert ids[:5] == ids[5:]
    survives(
        f"""
from memorytree import MemoryTree
tree = MemoryTree(routing={routing!r}, seed=4)
tree.insert_many([[float(i % 5), 1.0] for i in range(200)], range(200))
assert tree.query_many({Q}, 3).ids.tolist() == {ids}
assert [tree.query({Q[0]}, 2, explore=1.0, exploration_seed=n).ids.tolist() for n in range(20)] == {explored}
"""
    )


def test_unused_capacity_of_arrays_is_not_part_of_the_state():
    states = [state(grown("sparse", n=300)) for _ in range(3)]
    junk = np.random.default_rng(0).integers(1, 255, 10**6).astype(np.uint8)  # makes fresh memory differ
    del junk
    states += [state(grown("sparse", n=300)) for _ in range(3)]
    assert all(other == states[0] for other in states)
