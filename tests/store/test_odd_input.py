"""A store says what is wrong with what it refuses, and keeps what is only odd."""

import math

import numpy as np
import pytest

import memorytree
from memorytree.errors import (
    InvalidKey,
    InvalidOption,
    InvalidReceipt,
    InvalidReward,
    StoreClosed,
    UnknownId,
    UnsupportedValue,
)
from tests.store.conftest import reopened


def test_what_cannot_be_kept_is_refused_and_leaves_no_trace(store):
    first = store.insert([1.0, 2.0], "kept")
    before = store.operations
    for error, call in (
        (InvalidKey, lambda: store.insert([1.0], "short")),
        (InvalidKey, lambda: store.insert([math.nan, 1.0], "nan")),
        (InvalidKey, lambda: store.insert_many([[1.0, 2.0], [math.inf, 0.0]], ["fine", "not"])),
        (InvalidOption, lambda: store.insert_many([[1.0, 2.0]], ["one", "two"])),
        (InvalidOption, lambda: store.insert_many([[1.0, 2.0]], ["one"], metadata=[{}, {}])),
        (UnsupportedValue, lambda: store.insert([1.0, 2.0], object())),
        (UnsupportedValue, lambda: store.insert_many([[1.0, 2.0]] * 2, ["fine", object()])),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", metadata={"tags": ["a"]})),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", metadata={1: "a"})),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", metadata={"weight": math.nan})),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", ttl=-1)),
        (InvalidOption, lambda: store.insert([1.0, 2.0], "x", id=-3)),
        (InvalidOption, lambda: store.query([1.0, 2.0], where={"user": {"a": 1}})),
        (InvalidOption, lambda: store.query([1.0, 2.0], where="user")),
        (InvalidKey, lambda: store.query([1.0], where={"user": "x"})),
        (UnknownId, lambda: store.remove(99)),
        (UnknownId, lambda: store.remove_many([first, 99])),
        (UnknownId, lambda: store.metadata(99)),
        (InvalidReceipt, lambda: store.reward("nonsense", {first: 1.0})),
        (InvalidReward, lambda: store.reward(store.query([1.0, 2.0]).receipt_id, {first: 1.5})),
        (InvalidReward, lambda: store.reward(store.query([1.0, 2.0]).receipt_id, {99: 1.0})),
        (InvalidReward, lambda: store.reward(store.query([1.0, 2.0]).receipt_id, [1.0])),
        (InvalidReceipt, lambda: store.update([1], [1.0])),
        (InvalidOption, lambda: memorytree.open(store.path.parent / "other", mode="a")),
        (InvalidOption, lambda: memorytree.open(store.path.parent / "other", durability="some")),
    ):  # fmt: skip
        with pytest.raises(error):
            call()
    assert list(store) == [first]
    assert store.operations == before
    assert store.verify().ok


def test_what_was_settled_when_the_store_was_made_stays(tmp_path):
    with memorytree.open(tmp_path / "store", seed=4, routing="paper", settings={"language": "en"}):
        pass
    with memorytree.open(tmp_path / "store", routing="paper") as store:
        assert store.settings == {"language": "en"}
    with pytest.raises(InvalidOption, match="settled"):
        memorytree.open(tmp_path / "store", settings={"language": "fi"})
    with pytest.raises(InvalidOption, match="made with routing='paper'"):
        memorytree.open(tmp_path / "store", routing="principal")
    with pytest.raises(InvalidOption, match="settings"):
        memorytree.open(tmp_path / "another", settings={"function": print})


def test_a_closed_store_says_so(store):
    store.close()
    store.close()
    for use in (lambda: len(store), lambda: store.query([1.0]), lambda: store.insert([1.0], 1)):
        with pytest.raises(StoreClosed):
            use()


def test_a_label_that_does_not_fit_the_database_is_refused(store):
    with pytest.raises(InvalidOption, match="64 bits"):
        store.insert([1.0], "x", label=2**70)
    assert len(store) == 0


def test_numbers_at_the_edge_are_kept_or_refused(store):
    with pytest.raises(InvalidOption, match="at most"):
        store.insert([1.0], "too many", id=2**62 - 1)
    id = store.insert([1.0], "x", id=2**61)
    token = store.query([1.0]).receipt_id
    store.reward(token, {id: -0.0})
    store.insert_many([[2.0]], ["old"], ids=[7], times=[(-0.0, None)])
    store.insert([1.0], "n", id=8, metadata={"count": np.int64(3), "share": np.float32(0.5), "yes": np.True_})
    assert store.query([1.0], where={"count": np.int64(3)}).ids == [8]
    assert store.metadata(8) == {"count": 3, "share": 0.5, "yes": True}
    assert store.reward(token, {id: None}) == (0, 0)
    store = reopened(store)
    assert store.verify().ok
    assert store.times(7) == (0.0, None)
    store.close()


def test_what_makes_no_sense_makes_no_store(tmp_path):
    for error, wrong in (
        (InvalidOption, {"routing": "nonsense"}),
        (InvalidOption, {"settings": {1: "a"}}),
        (InvalidOption, {"settings": "abc"}),
        (InvalidOption, {"trees": 0}),
    ):
        with pytest.raises(error):
            memorytree.open(tmp_path / "store", **wrong)
    assert not (tmp_path / "store").exists()


def test_behind_the_largest_id_there_is_none_and_the_store_stays_whole(store):
    largest = 2**61
    store.insert([1.0, 2.0], "first")
    store.insert([1.0, 3.0], "last", id=largest)
    for more in (
        lambda: store.insert([1.0, 4.0], "alone"),
        lambda: store.insert([1.0, 4.0], "with a label", label="x"),
        lambda: store.insert_many([[1.0, 4.0]] * 2, ["both", "or none"], ids=[5, None]),
    ):
        with pytest.raises(InvalidOption, match="ids go up to"):
            more()
    assert store.insert([1.0, 5.0], "one that is free", id=7) == 7
    again = reopened(store)
    assert list(again) == [0, largest, 7]
    assert again.verify().ok


def test_times_are_pairs_and_ids_to_leave_out_may_come_in_any_form(store):
    with pytest.raises(InvalidOption, match="pairs"):
        store.insert_many([[1.0, 2.0]], ["x"], times=[5])
    store.insert_many([[1.0, 2.0], [1.0, 3.0]], ["a", "b"], metadata={"kind": "x"})
    for exclude in (np.array([[0, -1]]), ([0] for _ in range(1)), [[0]]):
        for where in (None, {"kind": "x"}):
            rows = exclude if not hasattr(exclude, "send") else ([0] for _ in range(1))
            assert store.query_many([[1.0, 2.0]], 2, where=where, exclude=rows)[0].ids == [1]


def test_what_is_nested_too_deep_for_anybody_is_refused(store):
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(UnsupportedValue):
        store.insert([1.0, 2.0], deep)
    assert len(store) == 0
