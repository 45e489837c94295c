"""recall, reward and explain."""

import json

import pytest


def ids(answer):
    return [hit["id"] for hit in answer["hits"]]


# ---- recall


def test_the_best_text_comes_first(store):
    answer = store("recall", "What does Ada drink, tea?", "-k", 2, "--json").json
    assert answer["question"] == "What does Ada drink, tea?"
    best, second = answer["hits"]
    assert best == {"id": 0, "text": "Ada likes green tea", "score": best["score"], "metadata": {"who": "ada", "n": 0}}
    assert best["score"] > second["score"]


def test_recall_writes_a_table(store):
    head, first, *_, last = store("recall", "green tea").out.splitlines()
    assert head.split() == ["id", "score", "text", "metadata"]
    assert first.split()[0] == "0"
    assert "Ada likes green tea" in first
    assert "who=ada, n=0" in first
    assert last.startswith("receipt ")


def test_no_column_without_metadata(run):
    run("init")
    run("remember", "a text without metadata")
    head, first, _ = run("recall", "text").out.splitlines()
    assert head.split() == ["id", "score", "text"]
    assert first.endswith("a text without metadata")


def test_recall_where(store):
    def found(*where):
        return set(ids(store("recall", "Ada plays", "-k", 9, "--json", *where).json))

    assert found("--where", "who=ada") == {0, 3}
    assert found("--where", "who=ada", "--where", "who=bob") == {0, 1, 3}
    assert found("--where", "who=ada", "--where", "n=3") == {3}
    assert store("recall", "Ada", "--where", "n=3.5", code=1).out == ""


@pytest.mark.parametrize("command", ["recall", "explain"])
def test_nothing_found(run, command):
    run("init")
    assert run(command, "anything", code=1).err == "memorytree: nothing found\n"
    result = run(command, "anything", "--json", code=1)
    assert result.json.get("hits") == ([] if command == "recall" else None)


def test_min_score(store):
    assert ids(store("recall", "chess", "--min-score", 0.01, "--json").json) == [2]
    assert ids(store("recall", "quantum", "--min-score", 0.01, "--json", code=1).json) == []


def test_questions_from_standard_input(store):
    answers = store("recall", "--json", "-k", 1, input="chess?\n\nthe train\n").lines
    assert [(answer["question"], ids(answer)) for answer in answers] == [("chess?", [2]), ("the train", [1])]
    assert store("recall", input="chess?\nthe train\n").out.splitlines()[0] == "chess?"


def test_control_characters_are_not_printed(run):
    run("init")
    run("remember", "a \x1b[31mred[/] [bold]alert\x07")
    out = run("recall", "red alert").out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[bold]alert" in out
    assert run("recall", "red alert", "--json").json["hits"][0]["text"] == "a \x1b[31mred[/] [bold]alert\x07"


def test_an_empty_question_is_refused(store):
    assert "text" in store("recall", " ", code=2).err


# ---- reward


@pytest.fixture
def answer(store):
    return store("recall", "Ada plays chess", "-k", 3, "--json").json


def lead(run, one, other):
    """By how much one text scores higher than another."""
    hits = run("recall", "Ada plays chess", "-k", 4, "--json").json["hits"]
    scores = {hit["id"]: hit["score"] for hit in hits}
    return scores[one] - scores[other]


def test_a_rewarded_text_gains(store, answer):
    best, other, *_ = ids(answer)
    before = lead(store, other, best)
    store("reward", answer["receipt"], *(f"{id}={int(id == other)}" for id in ids(answer)))
    assert lead(store, other, best) > before


def test_ids_alone_are_useful(store, answer):
    best, other, *_ = ids(answer)
    given = store("reward", answer["receipt"], other, "--json").json
    assert given["experiences"] == len(answer["hits"])
    assert store("reward", answer["receipt"], f"{best}=0", "--json").json["experiences"] == 0


def test_the_last_reward_counts(store, answer):
    best, other, *_ = ids(answer)
    store("reward", answer["receipt"], f"{best}=1", f"{other}=0")
    again = store("reward", answer["receipt"], f"{best}=1", "--json").json
    assert again == {"receipts": 1, "learned": 0, "skipped": 0, "experiences": 0}
    assert store("reward", answer["receipt"], f"{best}=0.5", "--json").json["experiences"] == 1


def test_rewards_from_standard_input(store, answer):
    answers = store("recall", "--json", input="chess\nthe train\n").lines
    lines = [{"receipt": one["receipt"], "rewards": {str(ids(one)[0]): 1, str(ids(one)[1]): 0}} for one in answers]
    lines.append({"receipt": answer["receipt"], "rewards": [0, None, 1]})
    assert store("reward", "--jsonl", "--json", input="\n".join(map(json.dumps, lines))).json["receipts"] == 3
    assert store("verify", "--json").json["rewards"] == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["0=2"], "2.0"), (["0=much"], "ID=REWARD"), (["0=1", "1"], "ID=REWARD"), (["99=1"], "99"), ([], "ID=REWARD")],
)
def test_invalid_rewards_are_refused(store, answer, arguments, message):
    result = store("reward", answer["receipt"], *arguments, code=2)
    assert message in result.err
    assert result.out == ""


def test_invalid_receipts_are_refused(store, answer):
    assert "receipt" in store("reward", "abc", "0=1", code=2).err
    store("init", "--store", "elsewhere")
    assert "another store" in store("reward", answer["receipt"], "0=1", "--store", "elsewhere", code=2).err
    assert "give none" in store("reward", "--jsonl", answer["receipt"], code=2).err


@pytest.mark.parametrize(
    "line", [{"receipt": "x", "rewards": "all"}, {"receipt": "x", "rewards": {"a": 1}}, {"receipt": 1, "rewards": []}]
)
def test_invalid_reward_lines_are_refused(store, line):
    assert "line 1" in store("reward", "--jsonl", input=json.dumps(line), code=2).err


# ---- explain


def test_explain_names_words(store):
    explanation = store("explain", "green tea", "-k", 2, "--json").json
    best = explanation["candidates"][0]
    assert (best["id"], best["text"]) == (0, "Ada likes green tea")
    assert len(explanation["candidates"]) == 2
    assert explanation["n_scored"] >= 1
    features = {part["feature"] for part in best["parts"]}
    assert features
    assert all(feature[0] in "~(" or set(feature.split()) <= {"green", "tea"} for feature in features)


def test_explain_agrees_with_recall(store):
    explained = store("explain", "Ada plays", "--json").json["candidates"]
    recalled = store("recall", "Ada plays", "--json").json["hits"]
    assert [(one["id"], one["score"]) for one in explained] == [(one["id"], one["score"]) for one in recalled]


def test_explain_writes_a_table(store):
    lines = store("explain", "green tea").out.splitlines()
    assert "because of" in lines[0]
    assert "tea +" in lines[1]
    assert lines[-1].endswith("were read")
