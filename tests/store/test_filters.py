"""Filters on metadata are exact."""

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import memorytree
from tests.trees import matrix


@settings(max_examples=20)
@given(data=st.data())
def test_filters_are_exact_where_many_memories_fit(data):
    store = _big_store()
    users = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=6))
    kinds = data.draw(st.lists(st.sampled_from(["fact", "task", "none such"]), min_size=1, max_size=3))
    k = data.draw(st.integers(1, 12))
    x = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=4, max_size=4)), np.float32)
    where = {"user": users, "kind": kinds}
    hits = store.query(x, k, where=where)
    fitting = [id for id in range(5000) if id % 7 in users and ("fact" if id % 3 else "task") in kinds]
    assert len(hits) == min(k, len(fitting))
    assert set(hits.ids) <= set(fitting)
    assert len(set(hits.ids)) == len(hits)
    assert hits.scores == sorted(hits.scores, reverse=True)


_BIG: list = []


def _big_store():
    import tempfile

    if not _BIG:
        folder = tempfile.TemporaryDirectory()
        store = memorytree.open(Path(folder.name) / "store", seed=0, durability="normal")
        rows = [{"user": id % 7, "kind": "fact" if id % 3 else "task"} for id in range(5000)]
        store.insert_many(matrix(5000), range(5000), metadata=rows)
        _BIG.extend([store, folder])
    return _BIG[0]


def test_true_is_not_one_and_none_is_a_value(store):
    a = store.insert([1.0], "a", metadata={"flag": True, "note": None})
    b = store.insert([1.0], "b", metadata={"flag": 1})
    store.insert([1.0], "c")
    assert store.query([1.0], k=3, where={"flag": True}).ids == [a]
    assert store.query([1.0], k=3, where={"flag": 1}).ids == [b]
    assert store.query([1.0], k=3, where={"note": None}).ids == [a]
    assert store.query([1.0], k=3, where={"absent": "x"}).ids == []
    assert store.query([1.0], k=3, where={"flag": []}).ids == []


def test_batches_with_filters_explore_as_single_queries_do(store):
    store.insert_many(matrix(2500), range(2500), metadata=[{"even": i % 2 == 0} for i in range(2500)])
    X = matrix(20, seed=4)
    found = store.query_many(X, k=3, where={"even": True}, explore=0.7, draw=5)
    single = [store.query(x, k=3, where={"even": True}, explore=0.7, draw=5 + i) for i, x in enumerate(X)]
    assert [row.ids for row in found] == [hits.ids for hits in single]
    assert [row.receipt.branch for row in found] == [hits.receipt.branch for hits in single]


def test_lists_that_are_asked_without_a_comparison_know_filters_and_ends_too(tmp_path, monkeypatch):
    rows = [{f"word {i % 7}": 1.0, f"word {i % 5} more": 2.0} for i in range(40)]
    with memorytree.open(tmp_path / "store", routing="terms", scorer="cosine", seed=0) as store:
        store.insert_many(rows, range(40), metadata=[{"even": i % 2 == 0} for i in range(40)])
        store.insert(rows[3], "short-lived", ttl=10)
        assert len(store.query(rows[3], 5, beam=0)) == 5
        assert all(value % 2 == 0 for value in store.query(rows[3], 5, beam=0, where={"even": True}).values)
        now = memorytree.store.store.time.time()
        monkeypatch.setattr(memorytree.store.store.time, "time", lambda: now + 60)
        assert "short-lived" not in store.query(rows[3], 5, beam=0).values
        assert "short-lived" not in store.query_many(rows[3:5], 5, beam=0)[0].values
