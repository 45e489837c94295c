"""Wrong arguments, beyond the contract of every index: they raise a typed error and change nothing."""

import numpy as np
import pytest
import scipy.sparse

from memorytree import MemoryTree, MemoryTreeError, Projection
from memorytree.errors import InvalidKey, InvalidOption, InvalidReceipt, InvalidReward, UnknownId
from tests.trees import grown, matrix, state

X = matrix(2, seed=9)
x = X[0]
WRONG = {
    "rewards of a batch: None": (lambda t: t.reward_many(t.query_many(X), None), InvalidReward),
    "rewards of a batch: one number": (lambda t: t.reward_many(t.query_many(X), 1.0), InvalidReward),
    "rewards of a batch: flat": (lambda t: t.reward_many(t.query_many(X), [1.0, 1.0]), InvalidReward),
    "rewards of a batch: ragged": (lambda t: t.reward_many(t.query_many(X, k=2), [[1.0], [1.0, 0.0]]), InvalidReward),
    "rewards of a batch: text": (lambda t: t.reward_many(t.query_many(X), [["a"], ["b"]]), InvalidReward),
    "reward_many of single hits": (lambda t: t.reward_many(t.query(x), [[1.0]]), InvalidReceipt),
    "ids beyond 64 bits": (lambda t: t.insert_many(X, "ab", ids=[1, 2**70]), InvalidOption),
    "remove a float": (lambda t: t.remove(2.0), UnknownId),
    "exclude one number": (lambda t: t.query(x, exclude=5), InvalidOption),
    "exclude fractions": (lambda t: t.query(x, exclude=[5.7]), InvalidOption),
    "exclude beyond 64 bits": (lambda t: t.query(x, exclude=[2**70]), InvalidOption),
    "exclude of a batch: one number": (lambda t: t.query_many(X, exclude=5), InvalidOption),
    "exclude of a batch: None in a row": (lambda t: t.query_many(X, exclude=[[1], None]), InvalidOption),
    "k of a batch beyond 64 bits": (lambda t: t.query_many(X, k=10**30), InvalidOption),
    "beam beyond 64 bits": (lambda t: t.query(x, beam=10**30), InvalidOption),
    "seed beyond 64 bits": (lambda t: t.query(x, explore=1.0, exploration_seed=2**64), InvalidOption),
    "a number for a batch": (lambda t: t.insert_many(5, []), InvalidKey),
    "None for a batch": (lambda t: t.insert_many(None, ["a"]), InvalidKey),
    "None for values": (lambda t: t.insert_many(X, None), InvalidOption),
    "an id that none could follow": (lambda t: t.insert(x, 0, id=2**62), InvalidOption),
    "an iterator for a batch": (lambda t: t.query_many(iter(X)), InvalidKey),
    "new labels with a bad key": (lambda t: t.insert_many([x, x * np.nan], "ab", labels=["new", "newer"]), InvalidKey),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_argument_raises_its_error_and_changes_nothing(case):
    call, error = WRONG[case]
    tree = grown(n=40)
    before = state(tree)
    with pytest.raises(MemoryTreeError) as raised:
        call(tree)
    assert isinstance(raised.value, error)
    assert state(tree) == before


@pytest.mark.parametrize("weight", ["1.5", 10**400, np.complex64(1j), np.array([1.0])], ids=lambda w: type(w).__name__)
def test_a_weight_is_one_real_number(weight):
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
def test_an_empty_tree_checks_arguments_too(call):
    with pytest.raises(MemoryTreeError):
        call(MemoryTree(seed=0))


@pytest.mark.parametrize(
    "options",
    [
        {"scorer": []},
        {"routing": np.zeros(2)},
        {"center": "no"},
        {"capacity": 10**30},
        {"reroutes": 10**30},
        {"leaf_factor": None},
        {"trees": 0},
        {"trees": -1},
        {"trees": 2.5},
        {"trees": "two"},
        {"trees": 2, "scorer": "linear"},
    ],
    ids=str,
)
def test_the_constructor_refuses_wrong_options(options):
    with pytest.raises(InvalidOption):
        MemoryTree(**options)


def test_an_options_object_checks_itself():
    with pytest.raises(InvalidOption):
        Projection(rank=0)


def test_a_refused_memory_adds_no_feature_names():
    tree = MemoryTree(seed=0)
    tree.insert({"a": 1.0}, 1)
    before = state(tree)
    with pytest.raises(InvalidOption):
        tree.insert({"b": 1.0}, 2, label="new", features="bad")
    assert state(tree) == before


def test_queries_with_unknown_features_add_no_feature_names():
    tree = grown("named")
    before = state(tree)
    tree.query({"never stored": 1.0, "f0": 2.0}, 3)
    tree.query_many([{"nor this": 1.0}], 3)
    tree.explain({"or this": 1.0})
    assert state(tree) == before


def test_a_key_too_large_for_float32_is_refused_silently():
    tree = grown(n=5)
    with pytest.raises(InvalidKey), np.errstate(all="raise"):
        tree.insert([1e300, 0, 0, 0], 0)


@pytest.mark.parametrize("column", [-1, 100, 2**31 - 1])
@pytest.mark.parametrize("weights", [[1.0, 2.0], [0.0, 2.0]])  # as scipy's tools leave them, and to be put in order
def test_a_column_outside_the_matrix_is_refused(column, weights):
    tree = MemoryTree(seed=0)
    tree.insert(scipy.sparse.csr_matrix(([1.0], [3], [0, 1]), shape=(1, 100)), "kept")
    key = scipy.sparse.csr_matrix((weights, [3, 4], [0, 2]), shape=(1, 100))
    key.indices[1] = column
    for call in (lambda: tree.insert(key, "no"), lambda: tree.query(key), lambda: tree.insert_many(key, ["no"])):
        with pytest.raises(InvalidKey, match="outside"):
            call()
    assert len(tree) == 1
