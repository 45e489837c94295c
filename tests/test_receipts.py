"""A receipt finds its way back: through JSON, after changes, and never into memory that is not its own."""

import numpy as np
import pytest

from memorytree import Learned, MemoryTree, MemoryTreeError, Receipt
from tests.trees import KEYS, grown, key_of, keys_of, matrix, state, survives


def forged(explored, hits=((0, 0, 0),), key=(0.0,) * 4):
    receipt = Receipt("node", (), explored, "left", 0.5, hits, list(key))
    return Receipt.from_dict(receipt.to_dict())


def test_a_receipt_with_a_node_that_cannot_be_is_refused_and_does_not_crash():
    survives(
        """
from memorytree import MemoryTree, MemoryTreeError, Receipt
tree = MemoryTree(routing="paper", seed=0)
tree.insert_many([[float(i), float(i % 7)] for i in range(200)], range(200))
for node in (-(10**9), -(10**6), -2, -1, 10**6, 2**31):
    for generation in range(-1, 4):
        receipt = Receipt("node", (), (node, generation), "left", 0.5, ((0, 0, 0),), [0.0, 0.0])
        try:
            assert tree.update(receipt.to_dict(), [1.0]).learned == 0
        except MemoryTreeError:
            pass
"""
    )


@pytest.mark.parametrize("explored", [(10**30, 0), (0, 10**30)])
def test_numbers_beyond_64_bits_are_refused_as_a_receipt(explored):
    tree = grown()
    before = state(tree)
    with pytest.raises(MemoryTreeError):
        tree.update(forged(explored), [1.0])
    with pytest.raises(MemoryTreeError):
        tree.update(forged((0, 0), hits=((10**30, 0, 0),)), [1.0])
    assert state(tree) == before


@pytest.mark.parametrize("keys", ["list", "scipy.sparse.csr_matrix"])
def test_a_leaf_is_never_taught_as_if_it_were_a_router(keys):
    survives(
        f"""
import scipy.sparse
from memorytree import MemoryTree, MemoryTreeError, Receipt
tree = MemoryTree(routing="paper", seed=0, reroutes=0)
tree.insert_many({keys}([[float(i % 13), float(i % 7), 1.0] for i in range(91)]), range(91))
for place in range(91):
    found = tree.query(tree.key(place)).receipt
    for action in ("left", "right"):
        receipt = Receipt("node", (), found.hits[0][1:], action, 0.5, found.hits, found.key)
        try:
            assert tree.update(receipt, [1.0]).learned == 0, "a leaf has learned"
        except MemoryTreeError:
            pass
"""
    )


@pytest.mark.parametrize("change", [{"branch": "twig"}, {"hits": ((1,),)}, {"key": object()}, {"key": [[1]]}])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_receipt_that_makes_no_sense_is_refused_by_name(kind, change):
    tree = grown(kind)
    fields = {"branch": "node", "path": (), "explored": (0, 0), "action": "left", "probability": 0.5, "hits": ((0, 0, 0),)}
    receipt = Receipt(**{**fields, "key": tree.query(key_of(kind, matrix(1)[0])).receipt.key, **change})
    with pytest.raises(MemoryTreeError):
        tree.update(receipt, [1.0])


def test_hits_of_a_tree_with_wider_keys_are_refused_and_do_not_crash():
    survives(
        """
import numpy as np
from memorytree import MemoryTree, MemoryTreeError
rng = np.random.default_rng(0)
narrow, wide = MemoryTree(routing="paper", seed=0), MemoryTree(routing="paper", seed=0)
narrow.insert_many(rng.normal(size=(200, 3)), range(200))
wide.insert_many(rng.normal(size=(200, 200_000)), range(200))
for draw in range(40):
    hits = wide.query(rng.normal(size=200_000), explore=1.0, draw=draw)
    try:
        narrow.update(hits, [1.0])
    except MemoryTreeError:
        continue
    raise AssertionError("keys of 200,000 features taught a tree of 3")
"""
    )


# Names are open: any mapping fits any tree of mappings.
OTHERS = [(kind, other) for kind in KEYS for other in KEYS if (kind, other) != ("named", "named")]


@pytest.mark.parametrize(("kind", "other"), OTHERS)
def test_hits_of_a_tree_with_other_keys_are_refused_and_nothing_changes(kind, other):
    tree = grown(kind, d=4)
    stranger = grown(other, d=3)
    hits = stranger.query(key_of(other, matrix(1, 3)[0]), explore=1.0, draw=1)
    batch = stranger.query_many(keys_of(other, matrix(2, 3)), explore=1.0, draw=1)
    before = state(tree)
    with pytest.raises(MemoryTreeError):
        tree.update(hits, [1.0])
    assert state(tree) == before
    with pytest.raises(MemoryTreeError):
        tree.update_many(batch, np.ones((2, 1)))
    assert state(tree) == before


@pytest.mark.parametrize("kind", ["dense", "sparse", "named"])
def test_hits_from_before_the_first_memory_teach_nothing(kind):
    tree = MemoryTree(routing="paper", seed=0)
    X = keys_of(kind, matrix(2))
    hits, batch = tree.query(key_of(kind, matrix(2)[0])), tree.query_many(X, k=2)
    for memories in ([], "ab"):
        tree.insert_many(X[: len(memories)], memories)
        assert tree.update(hits, []) == Learned(0, 0)
        assert tree.update_many(batch, np.full((2, 2), np.nan)) == Learned(0, 0)


def test_a_batch_has_the_receipts_of_single_queries_however_deep_the_tree():
    X = np.cumsum(np.random.default_rng(0).exponential(size=(3000, 1)), axis=0)
    tree = MemoryTree(routing="paper", seed=0, balance=1e-6, reroutes=0)
    tree.insert_many(X, range(3000))
    assert tree.stats().depth > 64
    some = X[::100]
    batch = tree.query_many(some, k=2, explore=1.0, draw=3)
    for i, x in enumerate(some):
        assert batch[i].receipt == tree.query(x, k=2, explore=1.0, draw=3 + i).receipt


@pytest.mark.parametrize("explore", [0.5, 1.0])
def test_row_i_of_an_exploring_batch_has_the_receipt_of_the_single_query(explore):
    tree = grown()
    X = matrix(5, seed=1)
    batch = tree.query_many(X, k=3, explore=explore, draw=7)
    for i, x in enumerate(X):
        assert batch[i].receipt == tree.query(x, k=3, explore=explore, draw=7 + i).receipt


def test_changing_the_array_after_the_query_does_not_change_what_is_learned():
    X = matrix(20, seed=1)
    one, other = grown(), grown()
    hits, same = one.query_many(X, explore=1.0, draw=1), other.query_many(X.copy(), explore=1.0, draw=1)
    X[:] = 0
    assert [row.receipt for row in hits] == [row.receipt for row in same]
    rewards = np.ones((20, 1))
    assert one.update_many(hits, rewards) == other.update_many(same, rewards)
    assert state(one) == state(other)


def test_a_reward_for_an_unknown_feature_teaches_nothing_about_other_features():
    tree = MemoryTree(routing="paper", seed=0, reroutes=0)
    rng = np.random.default_rng(0)
    for i in range(60):
        tree.insert({f"w{j}": 1.0 for j in rng.choice(12, 3, replace=False)}, i)

    def margins(x):
        return [step.margin for step in tree.explain(x).steps]

    assert margins({"never seen": 1.0}) == margins({})
    for draw in range(40):
        tree.update(tree.query({"w0": 1.0, "rewarded": 5.0}, explore=1.0, draw=draw), [1.0])
    assert margins({"never seen": 1.0}) == margins({})
