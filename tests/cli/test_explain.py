def test_names_the_words_that_count(store):
    told = store("explain", "green tea", "-k", 2, "--json").json
    best = told["candidates"][0]
    assert (best["id"], best["text"]) == (0, "Ada likes green tea")
    assert len(told["candidates"]) == 2
    assert told["looked_at"] >= 1
    features = {part["feature"] for part in best["parts"]}
    assert features
    assert all(set(feature.strip("~ ").split()) <= {"green", "tea"} or feature.startswith("~") for feature in features)


def test_scores_are_those_of_recall(store):
    explained = store("explain", "Ada plays", "--json").json["candidates"]
    recalled = store("recall", "Ada plays", "--json").json["hits"]
    assert [(one["id"], one["score"]) for one in explained] == [(one["id"], one["score"]) for one in recalled]


def test_for_people(store):
    lines = store("explain", "green tea").out.splitlines()
    assert "because of" in lines[0]
    assert "tea +" in lines[1]
    assert "looked at" in lines[-1]


def test_nothing_to_explain(run):
    run("init")
    assert run("explain", "anything", code=1).err == "memorytree: nothing found\n"
