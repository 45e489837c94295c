"""Memories as JSON Lines."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memorytree
from memorytree.errors import InvalidOption
from memorytree.store.import_export import from_json, to_json
from tests.trees import key_of, keys_of, matrix

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50)
@given(value=PLAIN)
def test_values_come_back_from_json(value):
    assert from_json(to_json(value)) == value


@pytest.mark.parametrize("kind", ["dense", "sparse", "named"])
def test_import_restores_an_export(tmp_path, kind):
    X = np.round(matrix(12), 3)
    file, again = tmp_path / "file.jsonl", tmp_path / "again.jsonl"
    with memorytree.open(tmp_path / "source", seed=0) as source, memorytree.open(tmp_path / "copy", seed=0) as copy:
        source.insert_many(keys_of(kind, X), [{"n": i, "b": b"x"} for i in range(12)], labels=["l", None] * 6)
        source.insert(key_of(kind, X[0]), (1, 2), metadata={"user": "u"}, ttl=1e6, id=77)
        source.remove(5)
        assert source.export_jsonl(file) == 12
        assert copy.import_jsonl(file) == 12
        assert list(copy) == list(source)
        for id in source:
            assert copy[id] == source[id]
            assert copy.metadata(id) == source.metadata(id)
            assert copy.timestamps(id) == source.timestamps(id)
        copy.export_jsonl(again)
        assert again.read_text() == file.read_text()


@pytest.mark.parametrize(
    "line",
    [
        '{"key": [2.0]}',
        '{"key": [2.0], "value": 1, "colour": 2}',
        "[1]",
        "nonsense",
        '{"key": {"columns": 2, "weights": [[5, 1]]}, "value": 1}',
    ],
)
def test_bad_line_imports_nothing(tmp_path, store, line):
    (tmp_path / "bad.jsonl").write_text('{"key": [1.0], "value": 1}\n' + line + "\n")
    with pytest.raises(InvalidOption, match="line 2"):
        store.import_jsonl(tmp_path / "bad.jsonl")
    assert len(store) == 0


def test_imported_times_are_checked(tmp_path, store):
    (tmp_path / "bad.jsonl").write_text('{"key": [1.0], "value": 1, "created": "today"}\n')
    with pytest.raises(InvalidOption, match="a time"):
        store.import_jsonl(tmp_path / "bad.jsonl")
    (tmp_path / "good.jsonl").write_text('{"key": [1.0], "value": 1, "created": -0.0}\n')
    store.import_jsonl(tmp_path / "good.jsonl")
    assert store.timestamps(0) == (0.0, None)
    assert store.verify().ok


def test_export_does_not_overwrite_a_directory(tmp_path, store):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(memorytree.errors.StoreError, match="not empty"):
        store.export_jsonl(tmp_path / "full")
