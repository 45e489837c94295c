"""Filters on metadata are exact."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memorytree
from memorytree.store.columns import MAX_UNSORTED, MetadataColumn
from tests.trees import matrix


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A store in which many memories match each filter."""
    with memorytree.open(tmp_path_factory.mktemp("large"), seed=0, durability="normal") as store:
        rows = [{"user": id % 7, "kind": "fact" if id % 3 else "task"} for id in range(5000)]
        store.insert_many(matrix(5000), range(5000), metadata=rows)
        yield store


@settings(max_examples=20)
@given(data=st.data())
def test_filtered_query_is_exact(large, data):
    users = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    kinds = data.draw(st.lists(st.sampled_from(["fact", "task", "none such"]), min_size=1, max_size=3))
    k = data.draw(st.integers(1, 12))
    x = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=4, max_size=4)), np.float32)
    hits = large.query(x, k, where={"user": users, "kind": kinds})
    matching = [id for id in range(5000) if id % 7 in users and ("fact" if id % 3 else "task") in kinds]
    assert len(hits) == min(k, len(matching))
    assert set(hits.ids) <= set(matching)
    assert len(set(hits.ids)) == len(hits)
    assert hits.scores.tolist() == sorted(hits.scores.tolist(), reverse=True)


def test_true_is_not_one_and_none_is_a_value(store):
    a = store.insert([1.0], "a", metadata={"flag": True, "note": None})
    b = store.insert([1.0], "b", metadata={"flag": 1})
    store.insert([1.0], "c")
    for where, ids in (
        ({"flag": True}, [a]),
        ({"flag": 1}, [b]),
        ({"note": None}, [a]),
        ({"absent": "x"}, []),
        ({"flag": []}, []),
    ):
        assert store.query([1.0], k=3, where=where).ids.tolist() == ids
        assert store.ids(where) == ids


def test_filtered_batch_explores_as_single_queries(store):
    store.insert_many(matrix(2500), range(2500), metadata=[{"even": i % 2 == 0} for i in range(2500)])
    X = matrix(20, seed=4)
    found = store.query_many(X, k=3, where={"even": True}, explore=0.7, exploration_seed=5)
    single = [store.query(x, k=3, where={"even": True}, explore=0.7, exploration_seed=5 + i) for i, x in enumerate(X)]
    assert [row.ids.tolist() for row in found] == [hits.ids.tolist() for hits in single]
    assert [row.receipt.decision for row in found] == [hits.receipt.decision for hits in single]


def test_beam_zero_respects_filter_and_expiry(tmp_path, monkeypatch):
    rows = [{f"word {i % 7}": 1.0, f"word {i % 5} more": 2.0} for i in range(40)]
    with memorytree.open(tmp_path / "store", routing="terms", scorer="cosine", seed=0) as store:
        store.insert_many(rows, range(40), metadata=[{"even": i % 2 == 0} for i in range(40)])
        store.insert(rows[3], "short-lived", ttl=10)
        assert len(store.query(rows[3], 5, beam=0)) == 5
        assert all(value % 2 == 0 for value in store.query(rows[3], 5, beam=0, where={"even": True}).values)
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 60)
        assert "short-lived" not in store.query(rows[3], 5, beam=0).values
        assert "short-lived" not in store.query_many(rows[3:5], 5, beam=0)[0].values


@given(changes=st.lists(st.tuples(st.integers(0, 8), st.sampled_from("abc")), max_size=30), sort=st.booleans())
def test_column_finds_changed_values(changes, sort):
    n = MAX_UNSORTED + 100 if sort else 9
    column, model = MetadataColumn(), ["a"] * n
    column.set(list(range(n)), "a")
    column.places(column.codes_of(["a"]))
    for place, value in changes:
        column.set([place], value)
        model[place] = value
    for value in "abc":
        codes = column.codes_of([value])
        expected = [place for place in range(n) if model[place] == value]
        found = [place for place in column.places(codes).tolist() if column.code_at(place) in codes]
        assert found == expected
        assert sum(column.counts[code] for code in codes) == len(expected)


def test_update_metadata_changes_what_filters_match(store):
    store.insert_many([[1.0], [2.0]], ["a", "b"], metadata={"kind": "fact", "user": "ann"})
    store.update_metadata(0, {"kind": "task", "done": None})
    assert store.metadata(0) == {"kind": "task", "user": "ann", "done": None}
    assert store.ids({"kind": "task"}) == [0]
    assert store.ids({"kind": "fact"}) == [1]
    store.update_metadata(0, {"kind": "note"}, replace=True)
    assert store.metadata(0) == {"kind": "note"}
    assert store.ids({"user": "ann"}) == [1]
    assert store.verify().ok


@pytest.mark.parametrize("where", [None, {"user": 1}])
def test_unknown_option_of_a_batch_is_refused(large, where):
    with pytest.raises(TypeError, match="beem"):
        large.query_many(matrix(2), where=where, beem=8)
