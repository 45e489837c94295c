"""A store refuses invalid input with a typed error, and without a trace."""

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

KEY = [1.0, 2.0]
REFUSED = {
    "short key": (InvalidKey, lambda store: store.insert([1.0], "short")),
    "NaN in a key": (InvalidKey, lambda store: store.insert([math.nan, 1.0], "nan")),
    "infinity in a batch": (InvalidKey, lambda store: store.insert_many([KEY, [math.inf, 0.0]], ["fine", "not"])),
    "two values for one key": (InvalidOption, lambda store: store.insert_many([KEY], ["one", "two"])),
    "two metadata for one key": (InvalidOption, lambda store: store.insert_many([KEY], ["one"], metadata=[{}, {}])),
    "two ttl for one key": (InvalidOption, lambda store: store.insert_many([KEY], ["one"], ttl=[1, 2])),
    "value": (UnsupportedValue, lambda store: store.insert(KEY, object())),
    "value in a batch": (UnsupportedValue, lambda store: store.insert_many([KEY] * 2, ["fine", object()])),
    "list in metadata": (InvalidOption, lambda store: store.insert(KEY, "x", metadata={"tags": ["a"]})),
    "number as a name": (InvalidOption, lambda store: store.insert(KEY, "x", metadata={1: "a"})),
    "NaN in metadata": (InvalidOption, lambda store: store.insert(KEY, "x", metadata={"weight": math.nan})),
    "surrogate in metadata": (InvalidOption, lambda store: store.insert(KEY, "x", metadata={"a": "\ud800"})),
    "metadata that is no mapping": (InvalidOption, lambda store: store.insert(KEY, "x", metadata="fact")),
    "negative ttl": (InvalidOption, lambda store: store.insert(KEY, "x", ttl=-1)),
    "negative id": (InvalidOption, lambda store: store.insert(KEY, "x", id=-3)),
    "large label": (InvalidOption, lambda store: store.insert(KEY, "x", label=2**70)),
    "surrogate in a label": (InvalidOption, lambda store: store.insert(KEY, "x", label="\ud800")),
    "mapping in a filter": (InvalidOption, lambda store: store.query(KEY, where={"user": {"a": 1}})),
    "text as a filter": (InvalidOption, lambda store: store.query(KEY, where="user")),
    "short key with a filter": (InvalidKey, lambda store: store.query([1.0], where={"user": "x"})),
    "unknown id": (UnknownId, lambda store: store.remove(99)),
    "unknown id in a batch": (UnknownId, lambda store: store.remove_many([0, 99])),
    "nothing to remove": (InvalidOption, lambda store: store.remove()),
    "remove everything": (InvalidOption, lambda store: store.remove(where={})),
    "id and filter": (InvalidOption, lambda store: store.remove(0, where={"kind": "fact"})),
    "metadata of an unknown id": (UnknownId, lambda store: store.metadata(99)),
    "update of an unknown id": (UnknownId, lambda store: store.update_metadata(99, {})),
    "update with a list": (InvalidOption, lambda store: store.update_metadata(0, {"tags": []})),
    "token": (InvalidReceipt, lambda store: store.reward("nonsense", {0: 1.0})),
    "list as a receipt": (InvalidReceipt, lambda store: store.reward([1], [1.0])),
    "hits as a matrix": (InvalidReceipt, lambda store: store.reward_many(store.query(KEY), [[1.0]])),
    "reward above 1": (InvalidReward, lambda store: store.reward(store.query(KEY), {0: 1.5})),
    "reward for another id": (InvalidReward, lambda store: store.reward(store.query(KEY), {99: 1.0})),
    "two rewards for one hit": (InvalidReward, lambda store: store.reward(store.query(KEY), [1.0, 0.0])),
    "mode": (InvalidOption, lambda store: memorytree.open(store.path.parent / "other", mode="a")),
    "durability": (InvalidOption, lambda store: memorytree.open(store.path.parent / "other", durability="some")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_input_leaves_no_trace(store, name):
    first = store.insert(KEY, "stored")
    before = store.version
    error, call = REFUSED[name]
    with pytest.raises(error):
        call(store)
    assert list(store) == [first]
    assert store.metadata(first) == {}
    assert store.version == before
    assert store.verify().ok


def test_options_are_kept_from_creation(tmp_path):
    with memorytree.open(tmp_path / "store", seed=4, routing="paper", app_settings={"language": "en"}):
        pass
    with memorytree.open(tmp_path / "store", routing="paper") as store:
        assert store.app_settings == {"language": "en"}
    with pytest.raises(InvalidOption, match="cannot change"):
        memorytree.open(tmp_path / "store", app_settings={"language": "fi"})
    with pytest.raises(InvalidOption, match="created with routing='paper'"):
        memorytree.open(tmp_path / "store", routing="principal")
    with pytest.raises(InvalidOption, match="app_settings"):
        memorytree.open(tmp_path / "another", app_settings={"function": print})


def test_closed_store_refuses_use(store):
    store.close()
    store.close()
    for use in (lambda: len(store), lambda: store.query([1.0]), lambda: store.insert([1.0], 1), lambda: store.ids()):
        with pytest.raises(StoreClosed):
            use()
    assert "closed" in repr(store)


def test_limits_of_numbers(store):
    with pytest.raises(InvalidOption, match="at most"):
        store.insert([1.0], "too large", id=2**62 - 1)
    id = store.insert([1.0], "x", id=2**61)
    token = str(store.query([1.0]).receipt)
    store.reward(token, {id: -0.0})
    store.insert([1.0], "n", id=8, metadata={"count": np.int64(3), "share": np.float32(0.5), "yes": np.True_})
    assert store.query([1.0], where={"count": np.int64(3)}).ids.tolist() == [8]
    assert store.metadata(8) == {"count": 3, "share": 0.5, "yes": True}
    assert store.reward(token, {id: None}) == (0, 0, 0)
    store = reopened(store)
    assert store.verify().ok
    store.close()


@pytest.mark.parametrize(
    "wrong", [{"routing": "nonsense"}, {"app_settings": {1: "a"}}, {"app_settings": "abc"}, {"trees": 0}]
)
def test_invalid_options_create_no_store(tmp_path, wrong):
    with pytest.raises(InvalidOption):
        memorytree.open(tmp_path / "store", **wrong)
    assert not (tmp_path / "store").exists()


def test_no_id_follows_the_largest(store):
    largest = 2**61
    store.insert(KEY, "first")
    store.insert([1.0, 3.0], "last", id=largest)
    for insert in (
        lambda: store.insert([1.0, 4.0], "single"),
        lambda: store.insert([1.0, 4.0], "with a label", label="x"),
        lambda: store.insert_many([[1.0, 4.0]] * 2, ["both", "or none"], ids=[5, None]),
    ):
        with pytest.raises(InvalidOption, match="ids go up to"):
            insert()
    assert store.insert([1.0, 5.0], "a free id", id=7) == 7
    again = reopened(store)
    assert list(again) == [0, largest, 7]
    assert again.verify().ok


@pytest.mark.parametrize("where", [None, {"kind": "x"}])
@pytest.mark.parametrize("exclude", [np.array([[0, -1]]), "generator", [[0]]])
def test_exclude_takes_any_sequence(store, where, exclude):
    store.insert_many([KEY, [1.0, 3.0]], ["a", "b"], metadata={"kind": "x"})
    rows = ([0] for _ in range(1)) if isinstance(exclude, str) else exclude
    assert store.query_many([KEY], 2, where=where, exclude=rows)[0].ids.tolist() == [1]


def test_deeply_nested_value_is_refused(store):
    deep = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(UnsupportedValue):
        store.insert(KEY, deep)
    assert len(store) == 0
