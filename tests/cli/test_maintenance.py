"""stats, plot, verify and repair."""

import pytest

import memorytree


@pytest.fixture
def vectors(run, tmp_path, rng):
    """`run` beside a store of vectors."""
    with memorytree.open(tmp_path / "vectors", routing="principal", seed=0) as made:
        made.insert_many(rng.normal(size=(300, 8)), range(300))
    return run


@pytest.fixture
def damaged(store, tmp_path):
    """`run` beside a store in which a byte of the text "Bob takes the train to work" was changed."""
    database = tmp_path / "memories" / "memories.sqlite"
    content = database.read_bytes()
    assert b"Bob takes the train" in content
    database.write_bytes(content.replace(b"Bob takes the train", b"Bob takes the drain"))
    return store


@pytest.mark.parametrize("command", ["verify", "repair", "stats", "plot", "export"])
def test_a_missing_store(run, command):
    assert "not a store" in run(command, "--store", "nowhere", code=3).err


# ---- stats


def test_stats_as_json(store):
    data = store("stats", "--json").json
    assert data["store"] == "memories"
    assert data["memories"] == data["tree"]["memories"] == 4
    assert data["bytes_on_disk"] > data["tree"]["key_bytes"] > 0
    assert "text" in data["app_settings"]
    store("forget", 0)
    assert store("stats", "--json").json["memories"] == 3


def test_stats_as_text(store):
    figures = dict(line.strip().split("  ", 1) for line in store("stats").out.splitlines())
    assert figures["store"] == "memories"
    assert figures["memories"] == "4"


def test_stats_of_vectors(vectors):
    data = vectors("stats", "--store", "vectors", "--json").json
    assert data["memories"] == 300
    assert data["tree"]["depth"] == len(data["tree"]["levels"]) > 0


# ---- plot


def test_plot_of_vectors(vectors):
    lines = vectors("plot", "--store", "vectors", "--depth", 1).out.splitlines()
    assert len(lines) == 3
    assert lines[0].endswith(": 300")
    assert vectors("plot", "--store", "vectors", "--depth", 1, "--json").json == {"picture": lines}


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_plot_to_a_file(store, tmp_path, ending, start):
    pytest.importorskip("matplotlib")
    assert store("plot", "--out", f"tree.{ending}", "--json").json == {"file": f"tree.{ending}"}
    assert (tmp_path / f"tree.{ending}").read_bytes().startswith(start)


def test_plot_refuses_other_files(store):
    assert ".svg" in store("plot", "--out", "tree.doc", code=2).err
    assert store("plot", "--out", "no/folder/tree.png", code=3).out == ""


def test_plot_of_texts_shows_common_words(store):
    _, *words = store("plot").out.splitlines()
    counts = {line.split()[0]: int(line.split()[2]) for line in words}
    assert counts["ada"] == counts["plays"] == counts["the"] == 2
    assert counts["chess"] == 1
    assert len(store("plot", "--depth", 1).out.splitlines()) == 6


def test_plot_ignores_values_that_are_not_text(store):
    store("import", input='{"key": {"columns": 1073741824, "weights": [[1, 1.0]]}, "value": 5}')
    assert "ada" in store("plot").out


def test_a_missing_extra_is_named(store, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    message = 'memorytree: matplotlib is not installed: pip install "memorytree[plot]"\n'
    assert store("plot", "--out", "tree.png", code=2).err == message


# ---- verify and repair


def test_verify_of_an_intact_store(store):
    assert store("verify", "--json").json == {"ok": True, "memories": 4, "rewards": 0, "damage": []}
    assert store("verify").out.startswith("4 memories and 0 rewards")


def test_verify_reports_damage(damaged):
    report = damaged("verify", "--json", code=1).json
    assert not report["ok"]
    assert any("memory 2" in line for line in report["damage"])
    assert "damaged: " in damaged("verify", code=1).out


def test_repair_recovers_a_text(damaged, tmp_path):
    report = damaged("repair", "--json").json
    assert report["memories"] == 4
    assert report["from_snapshot"] == 1
    assert (tmp_path / report["kept"] / "memories.sqlite").is_file()
    assert damaged("verify", "--json").json["ok"]
    assert damaged("recall", "the train", "-k", 1, "--json").json["hits"][0]["text"] == "Bob takes the train to work"


def test_repair_as_text(store):
    assert store("repair").out.startswith("saved 4 memories")


def test_repair_without_a_database(store, tmp_path):
    database = tmp_path / "memories" / "memories.sqlite"
    database.write_bytes(bytes(22) + database.read_bytes()[22:])
    assert store("repair", "--json").json["memories"] == 4
    assert store("recall", "chess", "--json").json["hits"][0]["id"] == 2
