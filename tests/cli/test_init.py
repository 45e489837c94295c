def test_makes_a_store_in_the_default_place(run, tmp_path):
    assert run("init", "--json").json == {"store": "memories", "memories": 0}
    assert (tmp_path / "memories" / "memories.sqlite").is_file()


def test_a_store_that_is_there_stays(store):
    assert store("init", "--json").json["memories"] == 4


def test_option_and_environment_name_the_store(run, monkeypatch):
    run("init", "--store", "one")
    monkeypatch.setenv("MEMORYTREE_STORE", "two")
    run("init")
    run("remember", "only in two")
    assert run("stats", "--json").json["memories"] == 1
    assert run("stats", "--json", "-s", "one").json["memories"] == 0


def test_capacity_is_kept_to(run):
    run("init", "--capacity", 2)
    run("remember", "first thing", "second thing", "third thing")
    assert run("stats", "--json").json["memories"] == 2
    assert "capacity" in run("init", "--capacity", 3, code=2).err


def test_a_folder_with_other_files_is_refused(run, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("Dear")
    assert "dear.txt" in run("init", "--store", "letters", code=3).err
