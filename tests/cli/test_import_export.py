"""export, import and backup, and what is allowed while another process writes."""

import os
import subprocess

import numpy as np
import pytest

import memorytree
from memorytree.cli import input


def test_an_imported_copy_gives_the_same_answers(store):
    exported = store("export").out
    store("init", "--store", "copy", "--seed", 0)
    assert store("import", "--store", "copy", "--json", input=exported).json == {"imported": 4}
    assert store("export", "--store", "copy").out == exported
    hits = [store("recall", "Ada plays", "--json", "--store", place).json["hits"] for place in ("memories", "copy")]
    assert hits[0] == hits[1]


def test_export_and_import_of_a_file(store, tmp_path):
    assert store("export", "out.jsonl").out == "exported 4 memories to out.jsonl\n"
    assert (tmp_path / "out.jsonl").read_text() == store("export").out
    assert store("export", "out.jsonl", "--json").json == {"file": "out.jsonl", "exported": 4}
    store("forget", 0, 1)
    assert store("import", "out.jsonl").out == "imported 4 memories\n"
    assert len(store("export").lines) == 4


def test_export_of_vectors(run, tmp_path, rng):
    X = rng.normal(size=(30, 4)).astype(np.float32)
    for name in ("one", "two"):
        memorytree.open(tmp_path / name, seed=0).close()
    with memorytree.open(tmp_path / "one") as made:
        made.insert_many(X, [{"row": i, "blob": bytes([i])} for i in range(30)])
    run("import", "--store", "two", input=run("export", "--store", "one").out)
    with memorytree.open(tmp_path / "two", mode="r") as copied:
        assert copied[7] == {"row": 7, "blob": b"\x07"}
        assert copied.query(X[7])[0].id == 7


def test_all_or_none_are_imported(store):
    good = store("export").out
    bad = good.replace('"id": 0', '"id": 50') + '{"value": "no key"}\n'
    assert "line 5 is not a memory" in store("import", input=bad, code=2).err
    assert len(store("export").lines) == 4


def test_missing_files(store, monkeypatch):
    assert store("import", "missing.jsonl", code=2).out == ""
    assert store("export", "no/such/folder/out.jsonl", code=3).err.startswith("memorytree: ")
    monkeypatch.setattr(input, "is_interactive", lambda: True)
    assert "pipe it in" in store("import", code=2).err


def test_input_must_be_utf8(store, tmp_path):
    (tmp_path / "latin.jsonl").write_bytes('{"text": "caf\u00e9"}'.encode("latin1"))
    assert "UTF-8" in store("import", "latin.jsonl", code=2).err


def test_backup_is_a_store(store):
    assert store("backup", "copies/monday", "--json").json == {"backup": "copies/monday", "memories": 4}
    assert store("export", "--store", "copies/monday").out == store("export").out
    assert store("verify", "--store", "copies/monday", "--json").json["ok"]


def test_backup_overwrites_nothing(store):
    store("backup", "copy")
    assert "new directory" in store("backup", "copy", code=3).err


@pytest.mark.parametrize("command", ["export", "stats", "recall", "explain", "plot", "verify", "backup"])
def test_reading_beside_a_writer(store, command, tmp_path):
    arguments = {"recall": ["tea"], "explain": ["tea"], "backup": ["copy"]}.get(command, [])
    with memorytree.open(tmp_path / "memories"):
        result = store(command, *arguments, "--json")
    assert all(isinstance(line, dict) for line in result.lines)


@pytest.mark.parametrize("command", ["remember", "forget", "reward", "import", "repair"])
def test_writing_beside_a_writer_is_refused(store, command, tmp_path):
    receipt = store("recall", "tea", "--json").json["receipt"]
    arguments = {"remember": ["x"], "forget": ["1"], "reward": [receipt, "1=1"]}.get(command, [])
    with memorytree.open(tmp_path / "memories"):
        assert "writer" in store(command, *arguments, input="", code=4).err


def test_export_keeps_links_pipes_and_other_files(store, tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "out.jsonl.part").write_text("another file")
    exported = store("export").out
    store("export", "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == exported
    store("export", "out.jsonl")
    assert (tmp_path / "out.jsonl.part").read_text() == "another file"
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", tmp_path / "pipe"], stdout=subprocess.PIPE, text=True) as reading:
        store("export", "pipe")
        assert reading.stdout.read() == exported
    assert (tmp_path / "pipe").is_fifo()
    assert "directory" in store("export", ".", code=3).err
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part") and path.name != "out.jsonl.part"]


@pytest.mark.parametrize("column", ["-1", "1.5", "1073741824", "99999999999999", "9" * 30])
def test_invalid_columns_are_refused(store, column):
    line = '{"key": {"columns": 1073741824, "weights": [[%s, 1]]}, "value": "x"}' % column  # noqa: UP031  (the text has braces)
    assert "line 1" in store("import", input=line, code=2).err
    assert store("verify").code == 0


def test_deep_nesting_is_refused_or_stored(run, tmp_path):
    run("init")
    assert "too deep" in run("import", input="[" * 100_000 + "]" * 100_000, code=2).err
    assert "too deep" in run("remember", "--jsonl", input="[" * 100_000 + "]" * 100_000, code=2).err
    deep = "bottom"
    for _ in range(300):
        deep = [deep]
    for name in ("one", "two"):
        memorytree.open(tmp_path / name, seed=0).close()
    with memorytree.open(tmp_path / "one") as one, memorytree.open(tmp_path / "two") as two:
        one.insert([1.0], deep)
        one.export_jsonl(tmp_path / "deep.jsonl")
        two.import_jsonl(tmp_path / "deep.jsonl")
        assert two[0] == deep
