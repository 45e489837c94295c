import memorytree


def test_counts_what_is_there(store):
    told = store("stats", "--json").json
    assert told["store"] == "memories"
    assert told["memories"] == 4
    assert told["tree"]["memories"] == 4
    assert told["bytes_on_disk"] > told["tree"]["key_bytes"] > 0
    store("forget", 0)
    assert store("stats", "--json").json["memories"] == 3


def test_for_people(store):
    figures = dict(line.strip().split("  ", 1) for line in store("stats").out.splitlines())
    assert figures["store"] == "memories"
    assert figures["memories"] == "4"


def test_any_store(run, tmp_path, rng):
    with memorytree.open(tmp_path / "vectors", seed=0) as made:
        made.insert_many(rng.normal(size=(200, 8)), range(200))
    told = run("stats", "--store", "vectors", "--json").json
    assert told["memories"] == 200
    assert told["tree"]["depth"] == len(told["tree"]["levels"]) > 0
