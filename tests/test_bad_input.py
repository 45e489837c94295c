"""Every wrong argument is refused by name, and leaves the tree bit for bit as it was."""

import numpy as np
import pytest

from memorytree import MemoryTree, MemoryTreeError
from memorytree.errors import InvalidKey, InvalidOption, InvalidReceipt, InvalidReward, UnknownId
from tests.trees import grown, matrix, state

X = matrix(2, seed=9)
x = X[0]
BAD = {
    "rewards: None": (lambda t: t.update(t.query(x), None), InvalidReward),
    "rewards of a batch: None": (lambda t: t.update_many(t.query_many(X), None), InvalidReward),
    "rewards of a batch: one number": (lambda t: t.update_many(t.query_many(X), 1.0), InvalidReward),
    "rewards of a batch: flat": (lambda t: t.update_many(t.query_many(X), [1.0, 1.0]), InvalidReward),
    "rewards of a batch: ragged": (lambda t: t.update_many(t.query_many(X, k=2), [[1.0], [1.0, 0.0]]), InvalidReward),
    "rewards of a batch: text": (lambda t: t.update_many(t.query_many(X), [["a"], ["b"]]), InvalidReward),
    "update_many of single hits": (lambda t: t.update_many(t.query(x), [[1.0]]), InvalidReceipt),
    "id beyond 64 bits": (lambda t: t.insert(x, 0, id=2**63), InvalidOption),
    "ids beyond 64 bits": (lambda t: t.insert_many(X, "ab", ids=[1, 2**70]), InvalidOption),
    "remove a list": (lambda t: t.remove([1]), UnknownId),
    "value of a list": (lambda t: t[[1]], UnknownId),
    "remove True": (lambda t: t.remove(True), UnknownId),
    "remove a float": (lambda t: t.remove(2.0), UnknownId),
    "exclude text": (lambda t: t.query(x, exclude=["a"]), InvalidOption),
    "exclude one number": (lambda t: t.query(x, exclude=5), InvalidOption),
    "exclude fractions": (lambda t: t.query(x, exclude=[5.7]), InvalidOption),
    "exclude beyond 64 bits": (lambda t: t.query(x, exclude=[2**70]), InvalidOption),
    "exclude of a batch: one number": (lambda t: t.query_many(X, exclude=5), InvalidOption),
    "exclude of a batch: None in a row": (lambda t: t.query_many(X, exclude=[[1], None]), InvalidOption),
    "k of a batch beyond 64 bits": (lambda t: t.query_many(X, k=10**30), InvalidOption),
    "beam beyond 64 bits": (lambda t: t.query(x, beam=10**30), InvalidOption),
    "beam True": (lambda t: t.query(x, beam=True), InvalidOption),
    "draw beyond 64 bits": (lambda t: t.query(x, explore=1.0, draw=2**64), InvalidOption),
    "explore None": (lambda t: t.query(x, explore=None), InvalidOption),
    "a number for a batch": (lambda t: t.insert_many(5, []), InvalidKey),
    "None for a batch": (lambda t: t.insert_many(None, ["a"]), InvalidKey),
    "None for values": (lambda t: t.insert_many(X, None), InvalidOption),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_argument_is_refused_by_name_and_nothing_changes(case):
    call, error = BAD[case]
    tree = grown(n=40)
    before = state(tree)
    with pytest.raises(MemoryTreeError) as refused:
        call(tree)
    assert isinstance(refused.value, error)
    assert state(tree) == before


@pytest.mark.parametrize("weight", ["1.5", 10**400, np.complex64(1j), np.array([1.0])], ids=lambda w: type(w).__name__)
def test_a_weight_that_is_not_one_real_number_is_refused(weight):
    tree = MemoryTree(seed=0)
    with pytest.raises(InvalidKey):
        tree.insert({"a": weight}, 0)
    assert len(tree) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.query([1.0], k=0),
        lambda t: t.query([float("nan")]),
        lambda t: t.query("text"),
        lambda t: t.query([1.0], beam=0),
        lambda t: t.query([1.0], explore=2),
        lambda t: t.query_many(None),
        lambda t: t.query_many(5),
        lambda t: t.explain("text"),
    ],
)
def test_an_empty_tree_refuses_what_a_full_one_would(call):
    with pytest.raises(MemoryTreeError):
        call(MemoryTree(seed=0))


@pytest.mark.parametrize(
    "option",
    [
        {"scorer": []},
        {"routing": np.zeros(2)},
        {"center": "no"},
        {"capacity": 10**30},
        {"reroutes": 10**30},
        {"leaf_factor": None},
    ],
    ids=str,
)
def test_a_wrong_option_is_refused_by_the_constructor(option):
    with pytest.raises(InvalidOption):
        MemoryTree(**option)


def test_a_key_too_large_for_float32_is_refused_without_a_warning():
    tree = grown(n=5)
    with pytest.raises(InvalidKey), np.errstate(all="raise"):
        tree.insert([1e300, 0, 0, 0], 0)


def test_rewards_may_be_any_iterable():
    tree, same = grown(n=40), grown(n=40)
    assert tree.update(tree.query(x, k=2), (r for r in [1.0, None])) == same.update(same.query(x, k=2), [1.0, None])
    assert state(tree) == state(same)


def test_an_empty_batch_is_no_error():
    tree = grown(n=40)
    nothing = np.empty((0, 4))
    assert tree.update_many(tree.query_many(nothing, k=2), np.empty((0, 2))) == (0, 0)
    assert len(tree.insert_many(nothing, [])) == 0
    fresh = MemoryTree(seed=0)
    assert len(fresh.insert_many([], [])) == 0
    assert len(MemoryTree.build([], [])) == 0
