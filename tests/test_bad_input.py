"""Every wrong argument is refused by name, and leaves the tree bit for bit as it was."""

import numpy as np
import pytest
import scipy.sparse

from memorytree import MemoryForest, MemoryTree, MemoryTreeError
from memorytree.errors import InvalidKey, InvalidOption, InvalidReceipt, InvalidReward, UnknownId
from memorytree.scoring import metric
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
    "an id that none could follow": (lambda t: t.insert(x, 0, id=2**62), InvalidOption),
    "an iterator for a batch": (lambda t: t.query_many(iter(X)), InvalidKey),
    "a new label with bad features": (lambda t: t.insert(x, 0, label="new", features="bad"), InvalidOption),
    "new labels with a bad key": (lambda t: t.insert_many([x, x * np.nan], "ab", labels=["new", "newer"]), InvalidKey),
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
        {"scorer": metric(rank=0)},
    ],
    ids=str,
)
def test_a_wrong_option_is_refused_by_the_constructor(option):
    with pytest.raises(InvalidOption):
        MemoryTree(**option)
    with pytest.raises(InvalidOption):
        MemoryForest(2, scorer="linear")


@pytest.mark.parametrize("scorer", ["distance", "cosine", "metric", "linear"])
@pytest.mark.parametrize("weight", [np.nan, np.inf, 1e20])
def test_a_query_that_could_teach_nonsense_is_refused_whatever_the_scorer(scorer, weight):
    tree = grown(n=80, scorer=scorer)
    with pytest.raises(InvalidKey), np.errstate(over="ignore"):
        tree.query(np.full(4, weight, np.float32), explore=1.0)


def test_a_refused_memory_brings_no_names():
    tree = MemoryTree(seed=0)
    tree.insert({"a": 1.0}, 1)
    before = state(tree)
    with pytest.raises(InvalidOption):
        tree.insert({"b": 1.0}, 2, label="new", features="bad")
    assert state(tree) == before


def test_hits_that_are_not_there_may_be_excluded():
    tree = grown(n=40)
    found = tree.query_many(X, k=60)  # more than there are: the rows end with -1
    assert (tree.query_many(X, k=5, exclude=found.ids).ids == -1).all()


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


@pytest.mark.parametrize("column", [-1, 100, 2**31 - 1])
@pytest.mark.parametrize("weights", [[1.0, 2.0], [0.0, 2.0]])  # as scipy's tools leave them, and to be put in order
def test_a_column_outside_is_no_key(column, weights):
    tree = MemoryTree(seed=0)
    tree.insert(scipy.sparse.csr_matrix(([1.0], [3], [0, 1]), shape=(1, 100)), "kept")
    x = scipy.sparse.csr_matrix((weights, [3, 4], [0, 2]), shape=(1, 100))
    x.indices[1] = column
    for call in (lambda: tree.insert(x, "no"), lambda: tree.query(x), lambda: tree.insert_many(x, ["no"])):
        with pytest.raises(InvalidKey, match="outside"):
            call()
    assert len(tree) == 1
