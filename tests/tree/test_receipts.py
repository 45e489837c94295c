"""Receipts of queries: rewards given late, by forged receipts, or to another tree."""

import numpy as np
import pytest

from memorytree import InvalidReceipt, MemoryTree, Receipt, RewardResult
from memorytree.receipts import Decision
from tests.trees import KEYS, grown, key_of, keys_of, matrix, state, survives


def test_a_forged_node_is_ignored_and_does_not_crash():
    survives(
        """
from memorytree import MemoryTree, MemoryTreeError, Receipt
from memorytree.receipts import Decision
tree = MemoryTree(routing="paper", seed=0)
tree.insert_many([[float(i), float(i % 7)] for i in range(200)], range(200))
key = tree.query([0.0, 0.0]).receipt.key
for node in (-(10**9), -(10**6), -2, -1, 10**6, 2**31):
    for generation in range(-1, 4):
        receipt = Receipt(key, (0,), Decision(1, node, generation, 0))
        for form in (receipt, str(receipt)):
            try:
                assert tree.reward(form, [1.0]).learned == 0
            except MemoryTreeError:
                pass
"""
    )


@pytest.mark.parametrize(
    "change",
    [
        {"decision": Decision(1, 10**30, 0, 0)},
        {"decision": Decision(1, 0, 10**30, 0)},
        {"decision": Decision(7, 0, 0, 0)},
        {"ids": (10**30,)},
        {"key": b"odd"},
        {"key": object()},
        {"ids": [[1]]},
        {"decision": (0, -1, -1, -1)},
    ],
    ids=lambda fields: "-".join(fields),
)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_receipt_with_impossible_fields_is_refused(kind, change):
    tree = grown(kind)
    before = state(tree)
    fields = {"key": tree.query(key_of(kind, matrix(1)[0])).receipt.key, "ids": (0,), **change}
    with pytest.raises(InvalidReceipt):
        tree.reward(Receipt(**fields), [1.0])
    assert state(tree) == before


@pytest.mark.parametrize("keys", ["list", "scipy.sparse.csr_matrix"])
def test_a_leaf_does_not_learn_like_a_router(keys):
    survives(
        f"""
import scipy.sparse
from memorytree import MemoryTree, Receipt
from memorytree.receipts import Decision
tree = MemoryTree(routing="paper", seed=0, reroutes=0)
tree.insert_many({keys}([[float(i % 13), float(i % 7), 1.0] for i in range(91)]), range(91))
for id in range(91):
    receipt, leaf = tree.query(tree.key(id)).receipt, tree.explain(tree.key(id)).leaf
    for generation in range(3):
        for action in (0, 1):
            forged = Receipt(receipt.key, receipt.ids, Decision(1, leaf, generation, action))
            assert tree.reward(forged, [1.0]).learned == 0, "a leaf has learned"
"""
    )


def test_hits_with_wider_keys_are_refused_and_do_not_crash():
    survives(
        """
import numpy as np
from memorytree import InvalidReceipt, MemoryTree
rng = np.random.default_rng(0)
narrow, wide = MemoryTree(routing="paper", seed=0), MemoryTree(routing="paper", seed=0)
narrow.insert_many(rng.normal(size=(200, 3)), range(200))
wide.insert_many(rng.normal(size=(200, 200_000)), range(200))
for draw in range(40):
    hits = wide.query(rng.normal(size=200_000), explore=1.0, exploration_seed=draw)
    for form in (hits, hits.receipt):
        try:
            narrow.reward(form, [1.0])
        except InvalidReceipt:
            continue
        raise AssertionError("keys of 200,000 features taught a tree of 3")
"""
    )


# Any mapping fits any tree of mappings.
OTHERS = [(kind, other) for kind in KEYS for other in KEYS if (kind, other) != ("named", "named")]


@pytest.mark.parametrize(("kind", "other"), OTHERS)
def test_hits_of_a_tree_with_other_keys_are_refused(kind, other):
    tree, stranger = grown(kind, d=4), grown(other, d=3)
    hits = stranger.query(key_of(other, matrix(1, 3)[0]), explore=1.0, exploration_seed=1)
    batch = stranger.query_many(keys_of(other, matrix(2, 3)), explore=1.0, exploration_seed=1)
    before = state(tree)
    with pytest.raises(InvalidReceipt):
        tree.reward(hits, [1.0])
    with pytest.raises(InvalidReceipt):
        tree.reward_many(batch, np.ones((2, 1)))
    assert state(tree) == before


@pytest.mark.parametrize("kind", ["dense", "sparse", "named"])
def test_hits_from_before_the_first_memory_teach_nothing(kind):
    tree = MemoryTree(routing="paper", seed=0)
    X = keys_of(kind, matrix(2))
    hits, batch = tree.query(key_of(kind, matrix(2)[0])), tree.query_many(X, k=2)
    for memories in ([], "ab"):
        tree.insert_many(X[: len(memories)], memories)
        assert tree.reward(hits, []) == RewardResult(0, 0)
        assert tree.reward_many(batch, np.full((2, 2), np.nan)) == RewardResult(0, 0)


def test_a_receipt_of_a_store_is_refused():
    tree = grown()
    receipt = tree.query(matrix(1)[0]).receipt
    with pytest.raises(InvalidReceipt, match="store"):
        tree.reward(Receipt(receipt.key, receipt.ids, issuer=b"store"), [1.0])


def test_rewards_for_unknown_features_do_not_move_other_features():
    tree = MemoryTree(routing="paper", seed=0, reroutes=0)
    rng = np.random.default_rng(0)
    for i in range(60):
        tree.insert({f"w{j}": 1.0 for j in rng.choice(12, 3, replace=False)}, i)

    def margins(x):
        return [step.margin for step in tree.explain(x).steps]

    assert margins({"never stored": 1.0}) == margins({})
    for draw in range(40):
        tree.reward(tree.query({"w0": 1.0, "rewarded": 5.0}, explore=1.0, exploration_seed=draw), [1.0])
    assert margins({"never stored": 1.0}) == margins({})
