import json

import pytest


@pytest.fixture
def asked(store):
    return store("recall", "Ada plays chess", "-k", 3, "--json").json


def ids(answer):
    return [hit["id"] for hit in answer["hits"]]


def score(run, id):
    return {hit["id"]: hit["score"] for hit in run("recall", "Ada plays chess", "-k", 4, "--json").json["hits"]}[id]


def test_a_rewarded_text_gains_on_the_others(store, asked):
    best, other, *_ = ids(asked)
    before = score(store, other) - score(store, best)
    store("reward", asked["receipt"], *(f"{id}={int(id == other)}" for id in ids(asked)))
    assert score(store, other) - score(store, best) > before


def test_ids_alone_are_the_useful_ones(store, asked):
    other = ids(asked)[1]
    store("reward", asked["receipt"], other)
    said = store("reward", asked["receipt"], f"{ids(asked)[0]}=1", code=2).err
    assert "has had the reward 0.0" in said


def test_the_same_again_changes_nothing_and_another_is_refused(store, asked):
    id = ids(asked)[0]
    store("reward", asked["receipt"], f"{id}=1", f"{ids(asked)[1]}=0")
    again = store("reward", asked["receipt"], f"{id}=1", "--json").json
    assert again == {"receipts": 1, "learned": 0, "skipped": 0}
    assert "has had the reward 1.0" in store("reward", asked["receipt"], f"{id}=0.5", code=2).err


def test_from_a_pipe(store, asked):
    answers = store("recall", "--json", input="chess\nthe train\n").lines
    lines = [{"receipt": one["receipt"], "rewards": {str(ids(one)[0]): 1, str(ids(one)[1]): 0}} for one in answers]
    lines.append({"receipt": asked["receipt"], "rewards": [0, None, 1]})
    told = store("reward", "--jsonl", "--json", input="\n".join(map(json.dumps, lines))).json
    assert told["receipts"] == 3
    assert store("verify", "--json").json["rewards"] == 6


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["0=2"], "0 to 1"),
        (["0=much"], "ID=REWARD"),
        (["0=1", "1"], "ID=REWARD"),
        (["99=1"], "99"),
        ([], "ID=REWARD"),
    ],
)
def test_bad_rewards(store, asked, arguments, complaint):
    told = store("reward", asked["receipt"], *arguments, code=2)
    assert complaint in told.err
    assert told.out == ""


def test_bad_receipts(store, asked, run):
    assert "not a receipt" in store("reward", "abc", "0=1", code=2).err
    run("init", "--store", "elsewhere")
    assert "another store" in run("reward", asked["receipt"], "0=1", "--store", "elsewhere", code=2).err
    assert "give no other" in store("reward", "--jsonl", asked["receipt"], code=2).err
    line = json.dumps({"receipt": asked["receipt"], "rewards": "all"})
    assert "line 1" in store("reward", "--jsonl", input=line, code=2).err
