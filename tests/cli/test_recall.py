def test_the_best_text_comes_first(store):
    answer = store("recall", "What does Ada drink, tea?", "-k", 2, "--json").json
    assert answer["question"] == "What does Ada drink, tea?"
    assert answer["hits"][0]["id"] == 0
    assert answer["hits"][0]["text"] == "Ada likes green tea"
    assert answer["hits"][0]["metadata"] == {"who": "ada", "n": 0}
    assert len(answer["hits"]) == 2
    assert answer["hits"][0]["score"] > answer["hits"][1]["score"]


def test_the_table_shows_all_a_person_needs(store):
    head, first, *_, last = store("recall", "green tea").out.splitlines()
    assert head.split() == ["id", "score", "text", "metadata"]
    assert first.split()[0] == "0"
    assert "Ada likes green tea" in first
    assert "who=ada, n=0" in first
    assert last.startswith("receipt ")


def test_only_what_fits_the_filter(store):
    def found(*where):
        return {hit["id"] for hit in store("recall", "Ada plays", "-k", 9, "--json", *where).json["hits"]}

    assert found("--where", "who=ada") == {0, 3}
    assert found("--where", "who=ada", "--where", "who=bob") == {0, 1, 3}
    assert found("--where", "who=ada", "--where", "n=3") == {3}
    assert store("recall", "Ada", "--where", "n=3.5", code=1).out == ""


def test_nothing_found_is_said_and_coded(run):
    run("init")
    told = run("recall", "anything", "--json", code=1)
    assert told.json["hits"] == []
    assert told.err == "memorytree: nothing found\n"


def test_questions_from_a_pipe(store):
    told = store("recall", "--json", "-k", 1, input="chess?\n\nthe train\n").lines
    assert [(answer["question"], answer["hits"][0]["id"]) for answer in told] == [("chess?", 2), ("the train", 1)]
    assert store("recall", input="chess?\nthe train\n").out.splitlines()[0] == "chess?"


def test_what_is_remembered_does_nothing_to_the_terminal(run):
    run("init")
    run("remember", "a \x1b[31mred[/] [bold]alert\x07")
    out = run("recall", "red alert").out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[bold]alert" in out
    assert run("recall", "red alert", "--json").json["hits"][0]["text"] == "a \x1b[31mred[/] [bold]alert\x07"


def test_a_question_must_say_something(store):
    assert "text" in store("recall", " ", code=2).err


def test_only_what_fits_well_enough(store):
    assert [hit["id"] for hit in store("recall", "chess", "--min-score", 0.01, "--json").json["hits"]] == [2]
    assert store("recall", "quantum", "--min-score", 0.01, "--json", code=1).json["hits"] == []
