import pytest

import memorytree


@pytest.fixture
def damaged(store, tmp_path):
    """A store in which a byte of the text "Bob takes the train to work" has changed."""
    database = tmp_path / "memories" / "memories.sqlite"
    held = database.read_bytes()
    assert b"Bob takes the train" in held
    database.write_bytes(held.replace(b"Bob takes the train", b"Bob takes the drain"))
    return store


def test_a_whole_store_verifies(store):
    assert store("verify", "--json").json == {"ok": True, "memories": 4, "rewards": 0, "damage": []}
    assert store("verify").out == "4 memories and 0 rewards are whole\n"


def test_damage_is_told_and_coded(damaged):
    told = damaged("verify", "--json", code=1).json
    assert not told["ok"]
    assert any("memory 2" in line for line in told["damage"])
    assert "damaged: " in damaged("verify", code=1).out


def test_repair_saves_the_rest_and_keeps_what_was(damaged, tmp_path):
    told = damaged("repair", "--json").json
    assert told["memories"] == 4
    assert told["from_snapshot"] == 1
    assert (tmp_path / told["kept"] / "memories.sqlite").is_file()
    assert damaged("verify", "--json").json["ok"]
    assert damaged("recall", "the train", "-k", 1, "--json").json["hits"][0]["text"] == "Bob takes the train to work"


def test_repair_for_people(store):
    assert store("repair").out.startswith("saved 4 memories")


@pytest.mark.parametrize("command", ["verify", "repair", "stats", "draw", "export"])
def test_what_is_no_store(run, command):
    assert "not a store" in run(command, "--store", "nowhere", code=3).err


def test_draw_as_text(run, tmp_path, rng):
    with memorytree.open(tmp_path / "vectors", seed=0) as made:
        made.insert_many(rng.normal(size=(300, 8)), range(300))
    shallow = run("draw", "--store", "vectors", "--depth", 1).out.splitlines()
    assert len(shallow) == 3
    assert shallow[0].endswith(": 300")
    assert run("draw", "--store", "vectors", "--depth", 1, "--json").json == {"picture": shallow}


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_draw_to_a_file(store, tmp_path, ending, begins):
    pytest.importorskip("matplotlib")
    assert store("draw", "--out", f"tree.{ending}", "--json").json == {"file": f"tree.{ending}"}
    assert (tmp_path / f"tree.{ending}").read_bytes().startswith(begins)


def test_draw_knows_what_it_can_write(store):
    assert ".svg" in store("draw", "--out", "tree.doc", code=2).err
    assert store("draw", "--out", "no/folder/tree.png", code=3).out == ""


def test_draw_of_texts_shows_the_words_that_most_have(store):
    head, *words = store("draw").out.splitlines()
    assert head.startswith("4 memories in lists by ")
    shown = {line.split()[0]: int(line.split()[2]) for line in words}
    assert shown["ada"] == shown["plays"] == shown["the"] == 2
    assert shown["chess"] == 1
    assert len(store("draw", "--depth", 1).out.splitlines()) == 6


def test_a_value_that_is_no_text_does_not_keep_words_from_being_drawn(store):
    store("import", input='{"key": {"columns": 1073741824, "weights": [[1, 1.0]]}, "value": 5}')
    assert "ada" in store("draw").out


def test_repair_after_the_loss_of_the_database_leaves_a_store_for_texts(store, tmp_path):
    database = tmp_path / "memories" / "memories.sqlite"
    database.write_bytes(bytes(22) + database.read_bytes()[22:])
    assert store("repair", "--json").json["memories"] == 4
    assert store("recall", "chess", "--json").json["hits"][0]["id"] == 2
