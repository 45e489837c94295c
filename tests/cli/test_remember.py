"""init, remember and forget."""

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


def ids(run):
    return [id for id, _, _ in memories(run)]


# ---- init


def test_init_creates_the_default_store(run, tmp_path):
    assert run("init", "--json").json == {"store": "memories", "memories": 0}
    assert (tmp_path / "memories" / "memories.sqlite").is_file()


def test_init_keeps_an_existing_store(store):
    assert store("init", "--json").json["memories"] == 4


def test_option_and_environment_name_the_store(run, monkeypatch):
    run("init", "--store", "one")
    monkeypatch.setenv("MEMORYTREE_STORE", "two")
    run("init")
    run("remember", "only in two")
    assert run("stats", "--json").json["memories"] == 1
    assert run("stats", "--json", "-s", "one").json["memories"] == 0


def test_capacity(run):
    run("init", "--capacity", 2)
    run("remember", "first thing", "second thing", "third thing")
    assert run("stats", "--json").json["memories"] == 2
    assert "capacity" in run("init", "--capacity", 3, code=2).err


def test_init_refuses_other_directories(run, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("Dear")
    assert "dear.txt" in run("init", "--store", "letters", code=3).err


def test_only_init_creates_a_store(run, tmp_path):
    assert "memorytree init" in run("remember", "x", code=3).err
    assert not (tmp_path / "memories").exists()


# ---- remember


def test_texts_and_metadata_are_stored(run):
    run("init")
    result = run("remember", "one text", "another", "--meta", "user=ada", "--meta", "year=1843", "--meta", "real=true")
    assert result.out == "remembered 2 texts: 0-1\n"
    metadata = {"user": "ada", "year": 1843, "real": True}
    assert memories(run) == [(0, "one text", metadata), (1, "another", metadata)]


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(TEXTS, METADATA), min_size=1, max_size=6))
def test_json_lines_are_stored_and_exported(store, given):
    lines = "\n".join(json.dumps({"text": text, "metadata": metadata}) for text, metadata in given)
    ids = [line["id"] for line in store("remember", "--jsonl", "--json", input=lines).lines]
    assert memories(store)[-len(given) :] == [(id, *one) for id, one in zip(ids, given, strict=True)]


def test_lines_from_standard_input(run):
    run("init")
    result = run("remember", "--json", "--meta", "from=pipe", input="first\r\n\n  second\nthird")
    assert [line["text"] for line in result.lines] == ["first", "  second", "third"]
    assert [metadata for _, _, metadata in memories(run)] == [{"from": "pipe"}] * 3


def test_a_line_overrides_options(run):
    run("init")
    lines = '{"text": "a b", "metadata": {"x": 2}, "id": 7}\n{"text": "c d", "metadata": null}'
    run("remember", "--jsonl", "--meta", "x=1", input=lines)
    assert memories(run) == [(7, "a b", {"x": 2}), (8, "c d", {"x": 1})]


def test_an_id_is_replaced(store):
    store("remember", "Ada likes coffee", "--id", 0)
    assert [text for id, text, _ in memories(store) if id == 0] == ["Ada likes coffee"]
    assert "single text" in store("remember", "a", "b", "--id", 0, code=2).err


def test_ttl(run):
    run("init")
    run("remember", "soon forgotten", "--ttl", "0")
    run("remember", "stays", "--ttl", "2w")
    assert [text for _, text, _ in memories(run)] == ["stays"]
    assert "1h30m" in run("remember", "x", "--ttl", "soon", code=2).err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"text": "fine"}\n{"text": 7}', "line 2"),
        ('{"text": "fine"}\n{"txt": "x"}', "line 2 is not an object with 'text'"),
        ('{"text": "fine"}\n\nnot json', "line 3 is not JSON"),
        ('{"text": "fine", "tags": []}', "'tags'"),
        ('{"text": "fine", "metadata": {"a": [1]}}', "'a'"),
        ('{"text": "fine", "ttl": "later"}', "'later'"),
        ('{"text": "fine", "id": "7"}', '"id"'),
        ('{"text": "fine"}\n{"text": " "}', "a text must"),
    ],
)
def test_all_or_none_are_stored(store, lines, message):
    assert message in store("remember", "--jsonl", input=lines, code=2).err
    assert len(memories(store)) == 4


def test_wrong_usage_of_remember(store, monkeypatch):
    assert "NAME=VALUE" in store("remember", "x", "--meta", "novalue", code=2).err
    assert "give none" in store("remember", "x", "--jsonl", code=2).err
    monkeypatch.setattr(input, "is_interactive", lambda: True)
    assert "pipe it in" in store("remember", code=2).err


# ---- forget


@pytest.fixture
def many(store):
    store("remember", "--meta", "kind=item", input="\n".join(f"item {i}" for i in range(20)))
    return store


def test_forget_by_id(store):
    assert store("forget", 1, 3, "--json").json == {"forgotten": [1, 3]}
    assert ids(store) == [0, 2]


def test_forget_where(store):
    assert store("forget", "--where", "who=ada").out == "forgot 2 memories: 0, 3\n"
    assert ids(store) == [1, 2]


def test_an_unknown_id_forgets_nothing(store):
    assert "99" in store("forget", 0, 99, code=2).err
    assert ids(store) == [0, 1, 2, 3]


def test_no_match(store):
    result = store("forget", "--where", "who=zoe", "--json", code=1)
    assert result.json == {"forgotten": []}
    assert "no memory matches" in result.err


def test_forget_asks_on_a_terminal(many, monkeypatch):
    monkeypatch.setattr(input, "is_interactive", lambda: True)
    assert "20 memories" in many("forget", "--where", "kind=item", input="n\n", code=1).err
    assert len(ids(many)) == 24
    many("forget", "--where", "kind=item", input="y\n")
    assert len(ids(many)) == 4


def test_forget_needs_yes_elsewhere(many):
    assert "--yes" in many("forget", "--where", "kind=item", code=2).err
    assert len(ids(many)) == 24
    many("forget", "--where", "kind=item", "--yes")
    assert len(ids(many)) == 4


def test_wrong_usage_of_forget(store):
    assert "or --where" in store("forget", code=2).err
    assert "not both" in store("forget", 1, "--where", "who=ada", code=2).err
