"""Reads leave no trace, and an answer depends on nothing but the tree and the question."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from tests.trees import KINDS, ROUTINGS, grown, key_of, keys_of, matrix, state, survives

READS = {
    "query": lambda tree, x, X, path: tree.query(x, 3, beam=2, exclude=[1]).receipt,
    "explore": lambda tree, x, X, path: tree.query(x, 2, explore=1.0).receipt,
    "query_many": lambda tree, x, X, path: tree.query_many(X, 3, threads=2).values,
    "explore_many": lambda tree, x, X, path: tree.query_many(X, 2, explore=0.5)[0].receipt,
    "stats": lambda tree, x, X, path: str(tree.stats()),
    "explain": lambda tree, x, X, path: str(tree.explain(x)),
    "draw": lambda tree, x, X, path: tree.draw(),
    "key": lambda tree, x, X, path: [tree.key(id) for id in tree],
    "values": lambda tree, x, X, path: (len(tree), repr(tree), tree[3], tree.get(-1), 3 in tree),
    "save": lambda tree, x, X, path: tree.save(path),
}


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_no_mix_of_reads_changes_the_tree(kind, routing, tmp_path):
    tree = grown(kind, routing, 120, capacity=120)
    before = state(tree)
    Q = matrix(20, seed=1)

    @given(names=st.lists(st.sampled_from(sorted(READS)), max_size=8), i=st.integers(0, 19))
    @settings(max_examples=10)
    def mix(names, i):
        for name in names:
            READS[name](tree, key_of(kind, Q[i]), keys_of(kind, Q), tmp_path / "tree")
            assert state(tree) == before, name

    mix()
    for name, read in READS.items():
        read(tree, key_of(kind, Q[0]), keys_of(kind, Q), tmp_path / "tree")
        assert state(tree) == before, name


def test_asking_about_unknown_features_changes_nothing():
    tree = grown("named")
    before = state(tree)
    tree.query({"never seen": 1.0, "f0": 2.0}, 3)
    tree.query_many([{"nor this": 1.0}], 3)
    tree.explain({"or this": 1.0})
    assert state(tree) == before


@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_reads_in_between_do_not_change_what_writes_make(kind, routing):
    watched, alone = (grown(kind, routing, 60) for _ in range(2))
    for i, x in enumerate(matrix(60, seed=2)):
        watched.query(key_of(kind, x), 3, explore=0.5)
        for tree in (watched, alone):
            tree.insert(key_of(kind, x), i)
    assert state(watched) == state(alone)


@pytest.mark.parametrize("how", [{}, {"beam": 3}], ids=str)
@pytest.mark.parametrize(("kind", "routing"), KINDS)
def test_answers_do_not_depend_on_the_order_or_the_subset_asked(kind, routing, how):
    tree = grown(kind, routing, 150)
    Q = matrix(40, seed=3)
    whole = tree.query_many(keys_of(kind, Q), 4, **how)
    order = np.random.default_rng(0).permutation(40)
    for rows in (order, order[:7], order[:1], order[::-1], np.zeros(3, int)):
        part = tree.query_many(keys_of(kind, Q[rows]), 4, **how)
        np.testing.assert_array_equal(part.ids, whole.ids[rows])
        np.testing.assert_array_equal(part.scores, whole.scores[rows])


@pytest.mark.parametrize("routing", ROUTINGS)
def test_ties_are_broken_the_same_way_in_another_process(routing):
    tree = MemoryTree(routing=routing, seed=4)
    tree.insert_many([[float(i % 5), 1.0] for i in range(200)], range(200))
    Q = [[float(i % 5), 1.0] for i in range(10)]
    ids = tree.query_many(Q, 3).ids.tolist()
    explored = [tree.query(Q[0], 2, explore=1.0, draw=n).ids for n in range(20)]
    assert ids[:5] == ids[5:]
    survives(
        f"""
from memorytree import MemoryTree
tree = MemoryTree(routing={routing!r}, seed=4)
tree.insert_many([[float(i % 5), 1.0] for i in range(200)], range(200))
assert tree.query_many({Q}, 3).ids.tolist() == {ids}
assert [tree.query({Q[0]}, 2, explore=1.0, draw=n).ids for n in range(20)] == {explored}
"""
    )


def test_ties_depend_on_the_seed():
    def answers(seed):
        tree = MemoryTree(routing="principal", seed=seed)
        tree.insert_many(np.ones((40, 2)), range(40))
        return tree.query([1.0, 1.0], 40).ids

    assert sorted(answers(0)) == list(range(40))
    assert len({tuple(answers(seed)) for seed in range(4)}) == 4
