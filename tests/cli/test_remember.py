import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memorytree.cli import input

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30).filter(str.strip)
METADATA = st.dictionaries(
    st.text("abc", min_size=1), st.one_of(st.text(max_size=4), st.integers(-9, 9), st.booleans(), st.none())
)


def memories(run):
    return [(line["id"], line["value"], line.get("metadata", {})) for line in run("export").lines]


def test_texts_and_metadata_are_kept(run):
    run("init")
    told = run("remember", "one text", "another", "--meta", "user=ada", "--meta", "year=1843", "--meta", "real=true")
    assert told.out == "remembered 2 texts: 0-1\n"
    known = {"user": "ada", "year": 1843, "real": True}
    assert memories(run) == [(0, "one text", known), (1, "another", known)]


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXTS, METADATA), min_size=1, max_size=6))
def test_what_goes_in_by_a_pipe_comes_out_by_a_pipe(store, given):
    lines = "\n".join(json.dumps({"text": text, "metadata": metadata}) for text, metadata in given)
    ids = [line["id"] for line in store("remember", "--jsonl", "--json", input=lines).lines]
    assert memories(store)[-len(given) :] == [(id, *one) for id, one in zip(ids, given, strict=True)]


def test_lines_of_text_from_a_pipe(run):
    run("init")
    told = run("remember", "--json", "--meta", "from=pipe", input="first\r\n\n  second\nthird")
    assert [line["text"] for line in told.lines] == ["first", "  second", "third"]
    assert {told["from"] for _, _, told in memories(run)} == {"pipe"}


def test_a_line_says_more_than_the_command(run):
    run("init")
    lines = '{"text": "a b", "metadata": {"x": 2}, "id": 7}\n{"text": "c d", "metadata": null}'
    run("remember", "--jsonl", "--meta", "x=1", input=lines)
    assert memories(run) == [(7, "a b", {"x": 2}), (8, "c d", {"x": 1})]


def test_an_id_that_is_there_is_replaced(store):
    store("remember", "Ada likes coffee", "--id", 0)
    assert [text for id, text, _ in memories(store) if id == 0] == ["Ada likes coffee"]
    assert "single text" in store("remember", "a", "b", "--id", 0, code=2).err


def test_gone_after_its_time(run):
    run("init")
    run("remember", "soon forgotten", "--ttl", "0")
    run("remember", "stays", "--ttl", "2w")
    assert [text for _, text, _ in memories(run)] == ["stays"]
    assert "1h30m" in run("remember", "x", "--ttl", "soon", code=2).err


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ('{"text": "fine"}\n{"text": 7}', "line 2"),
        ('{"text": "fine"}\n{"txt": "x"}', "line 2 is not an object with 'text'"),
        ('{"text": "fine"}\n\nnot json', "line 3 is not JSON"),
        ('{"text": "fine", "tags": []}', "'tags'"),
        ('{"text": "fine", "metadata": {"a": [1]}}', "'a'"),
        ('{"text": "fine", "ttl": "later"}', "'later'"),
        ('{"text": "fine"}\n{"text": " "}', "a text is"),
    ],
)
def test_all_or_none(store, lines, complaint):
    assert complaint in store("remember", "--jsonl", input=lines, code=2).err
    assert len(memories(store)) == 4


def test_wrong_usage(store, monkeypatch):
    assert "NAME=VALUE" in store("remember", "x", "--meta", "novalue", code=2).err
    assert "give no others" in store("remember", "x", "--jsonl", code=2).err
    monkeypatch.setattr(input, "somebody_types", lambda: True)
    assert "pipe it in" in store("remember", code=2).err


def test_only_init_makes_a_store(run, tmp_path):
    assert "memorytree init" in run("remember", "x", code=3).err
    assert not (tmp_path / "memories").exists()
