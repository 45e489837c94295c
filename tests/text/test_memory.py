"""Texts come back for the questions they answer, with what is known of them, until they are forgotten."""

import gc
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memorytree
from memorytree import TextMemory
from memorytree.errors import (
    ConflictingReward,
    InvalidOption,
    InvalidReceipt,
    InvalidReward,
    ReadOnlyStore,
    StoreLocked,
    UnknownId,
)

FACTS = [
    "Ada's favourite colour is green",
    "Bob takes the train to work",
    "The cat sleeps on the red sofa",
    "Carla was born in Lisbon in 1985",
    "The meeting about the budget is on Monday",
    "Bob is allergic to peanuts",
    "Ada's sister lives in Lisbon as well",
]


@pytest.fixture
def memory():
    with TextMemory(seed=0) as memory:
        memory.remember_many(FACTS, metadata=[{"number": i, "name": text.split()[0]} for i, text in enumerate(FACTS)])
        yield memory


def letters(texts):
    """An encoder: how often each letter occurs."""
    return np.array([[text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is Ada's favourite color?", 0),
        ("How does Bob go to work?", 1),
        ("where do cats sleep", 2),
        ("When was CARLA born?", 3),
        ("budgets meeting", 4),
        ("Bob's allergies", 5),
    ],
)
def test_a_question_recalls_the_text_that_answers_it(memory, question, answer):
    found = memory.recall(question, k=3)
    assert found[0].text == found.texts[0] == FACTS[answer]
    assert found[0].id == found.ids[0] == answer
    assert found[0].metadata == {"number": answer, "name": FACTS[answer].split()[0]}
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert len(found) == 3
    assert found[1:] == list(found)[1:]


def test_a_text_recalls_itself_with_the_score_one(memory):
    for text in FACTS:
        assert memory.recall(text, k=1)[0] == (
            FACTS.index(text),
            text,
            pytest.approx(1.0, abs=1e-6),
            memory.metadata(FACTS.index(text)),
        )


def test_a_filter_is_kept_to(memory):
    assert (
        memory.recall("Who lives in Lisbon?", where={"name": "Bob"}).ids
        == memory.recall("Lisbon", 9, where={"name": "Bob"}).ids
    )
    assert set(memory.recall("Lisbon", 9, where={"name": "Bob"}).ids) == {1, 5}
    assert set(memory.recall("Lisbon", 9, where={"name": ["Bob", "Carla"], "number": [3, 5]}).ids) == {3, 5}
    assert len(memory.recall("Lisbon", where={"name": "nobody"})) == 0


def test_texts_are_there_until_they_are_forgotten(memory):
    assert list(memory) == list(range(7))
    assert memory[3] == FACTS[3]
    memory.forget(3)
    assert 3 not in memory
    assert len(memory) == 6
    assert 3 not in memory.recall("When was Carla born?", 9).ids
    for ask in (memory.forget, memory.metadata, memory.__getitem__):
        with pytest.raises(UnknownId):
            ask(3)
    assert memory.remember("Carla was born in Porto", id=3) == 3
    assert memory.recall("When was Carla born?", 1)[0].text == "Carla was born in Porto"


def test_anything_may_be_known_of_a_text(memory):
    about = {"text": "x", "self": True, "question": None, "k": 1.5, "wo": "日本"}
    assert memory.metadata(memory.remember("a text", **about)) == about
    assert memory.recall("a text", where={"self": True}).texts == ["a text"]


def test_a_text_lives_as_long_as_it_is_told_to(memory):
    gone = memory.remember("the password is swordfish", ttl=0)
    assert gone not in memory
    assert gone not in memory.recall("What is the password?", 9).ids
    stays = memory.remember("the password is tuna", ttl=3600)
    assert memory.recall("What is the password?", 1).ids == [stays]


REWARDS = {
    "the id of the useful one": lambda ids, useful: useful,
    "a set of ids": lambda ids, useful: {useful},
    "a mapping": lambda ids, useful: {id: float(id == useful) for id in ids},
    "a list": lambda ids, useful: [float(id == useful) for id in ids],
}


@pytest.mark.parametrize("how", REWARDS)
@pytest.mark.parametrize("by_receipt", [False, True])
def test_a_reward_teaches_the_words_of_the_question(memory, how, by_receipt):
    wanted = memory.remember("The umbrella stands behind the door")
    question = "the thing against drizzle, behind what?"
    found = memory.recall(question, 8)
    rewards = REWARDS[how](found.ids, wanted)
    assert memory.recall("drizzle", 1)[0].score == 0
    assert memory.reward(found.receipt if by_receipt else found, rewards).learned == 1
    assert memory.recall("drizzle", 1)[0].score > 0
    assert memory.recall("drizzle", 1)[0].id == wanted
    # The same again changes nothing; another reward is refused.
    assert memory.reward(found, rewards).learned == 0
    with pytest.raises(ConflictingReward):
        memory.reward(found, {wanted: 0.5})


def test_what_was_learned_lasts(tmp_path):
    with TextMemory(tmp_path / "memory", seed=0) as memory:
        memory.remember_many(FACTS)
        wanted = memory.remember("The umbrella stands behind the door", place="hall")
        receipt = memory.recall("the thing against drizzle, behind what?", 8).receipt
    with TextMemory(tmp_path / "memory") as memory:
        assert memory.reward(receipt, wanted).learned == 1
        before = memory.recall("drizzle on Monday", 8)
    for _ in range(2):  # first from the log and the snapshot, then from the snapshot alone
        with TextMemory(tmp_path / "memory", mode="r") as memory:
            after = memory.recall("drizzle on Monday", 8)
            assert list(after) == list(before)
            assert memory.recall("drizzle", 1)[0].metadata == {"place": "hall"}
            with pytest.raises(ReadOnlyStore):
                memory.remember("no")
            assert not memory.store.verify().damage
    for snapshot in (tmp_path / "memory" / "snapshots").iterdir():
        for file in snapshot.iterdir():
            file.unlink()
        snapshot.rmdir()
    with TextMemory(tmp_path / "memory") as memory:
        assert list(memory.recall("drizzle on Monday", 8)) == list(before)
        with pytest.raises(StoreLocked):
            TextMemory(tmp_path / "memory")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("remember"), st.sampled_from(FACTS), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.integers(0, 9)),
        st.tuples(st.just("reward"), st.sampled_from(FACTS), st.integers(0, 2)),
        st.tuples(st.just("reopen")),
    ),
    max_size=15,
)


def test_a_memory_that_was_closed_goes_on_as_one_that_was_not(tmp_path_factory):
    @given(STEPS)
    @settings(max_examples=10)
    def walk(steps):
        folder = tmp_path_factory.mktemp("memory")
        stopped, straight = TextMemory(folder, seed=0, durability="normal"), TextMemory(seed=0)
        for name, *what in steps:
            if name == "reopen":
                stopped.close()
                stopped = TextMemory(folder, durability="normal")
                continue
            for memory in (stopped, straight):
                if name == "remember":
                    memory.remember(what[0], id=what[1])
                elif name == "forget" and what[0] in memory:
                    memory.forget(what[0])
                elif name == "reward":
                    found = memory.recall(what[0], 3)
                    if len(found) > what[1]:
                        memory.reward(found, found.ids[what[1]])
        for text in FACTS:
            assert list(stopped.recall(text, 9)) == list(straight.recall(text, 9))
        stopped.close()
        straight.close()

    walk()


def test_a_memory_without_a_path_leaves_nothing_behind():
    memory = TextMemory(seed=0)
    folder = Path(memory.store.path)
    memory.remember("soon gone")
    assert folder.exists()
    memory.close()
    del memory
    gc.collect()
    assert not folder.exists()


def test_an_encoder_makes_the_keys(tmp_path):
    with TextMemory(tmp_path / "memory", encoder=letters, seed=0) as memory:
        memory.remember_many(FACTS)
        assert memory.recall("taB the iNrat ot korw sekbO", 1)[0].text in FACTS
        assert memory.recall(FACTS[2].upper()[::-1], 1)[0].id == 2
        assert memory.explain(FACTS[2], 2).candidates[0].hit.id == 2
    with TextMemory(tmp_path / "memory", encoder=lambda texts: letters(texts) * 3) as memory:
        assert memory.recall(FACTS[5], 1)[0].id == 5
    for other in (None, lambda texts: letters(texts)[:, ::-1], lambda texts: letters(texts)[:, :5]):
        with pytest.raises(InvalidOption, match="encoder"):
            TextMemory(tmp_path / "memory", encoder=other)


def test_an_encoder_may_take_one_text(tmp_path):
    with TextMemory(tmp_path / "memory", encoder=lambda text: letters([text.lower()])[0], seed=0) as memory:
        memory.remember_many(FACTS)
        assert memory.recall(FACTS[2].upper()[::-1], 1)[0].id == 2
    with TextMemory(tmp_path / "memory", encoder=letters) as memory:  # the same, for lists
        assert memory.recall(FACTS[5], 1)[0].id == 5


def test_an_explanation_is_of_what_is_recalled(rng):
    texts = ["".join(rng.choice(list("abcdefgh"), 12)) for _ in range(400)]
    with TextMemory(encoder=letters, seed=0) as memory:
        memory.remember_many(texts)
        for question in texts[:20]:
            told = memory.explain(question[::-1], 5)
            assert [candidate.hit.id for candidate in told.candidates] == memory.recall(question[::-1], 5).ids


@pytest.mark.parametrize(
    "encoder",
    ["letters", lambda texts: 1.0, lambda texts: np.ones((len(texts) + 1, 3)), lambda texts: [["a"]] * len(texts)],
)
def test_what_is_no_encoder_is_refused(encoder):
    with pytest.raises(InvalidOption, match="encoder"):
        TextMemory(encoder=encoder)


def test_a_store_of_other_things_is_no_text_memory(tmp_path):
    memorytree.open(tmp_path / "store", **memorytree.text.keys.WordKeys.options).close()
    with pytest.raises(InvalidOption, match="no texts"):
        TextMemory(tmp_path / "store")
    memorytree.open(tmp_path / "store").close()  # and nobody holds it


def test_a_memory_whose_making_was_cut_short_is_made_again(tmp_path):
    # What a crash leaves that comes after SQLite has made its file, and before there is anything in it.
    database = sqlite3.connect(tmp_path / "memories.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
    for _ in range(2):
        with TextMemory(tmp_path) as memory:
            memory.remember(FACTS[0], id=0)
            assert memory.recall("Ada's colour", 1).ids == [0]


def test_an_explanation_names_words(memory):
    best = memory.explain("Where does the cat sleep?", 1).candidates[0]
    assert best.hit.value == FACTS[2]
    assert {name for name, _ in best.parts} <= {"cat", "the cat", "~ cat", "~cat ", "~slee", "~leep", "~ sle"}


@pytest.mark.parametrize("text", ["", "  \n", None, 5, b"bytes"])
def test_what_is_no_text_is_refused(memory, text):
    for ask in (memory.remember, memory.recall, lambda text: memory.remember_many(["fine", text])):
        with pytest.raises(InvalidOption, match="text"):
            ask(text)
    with pytest.raises(InvalidOption, match="list of texts"):
        memory.remember_many("one text")
    assert len(memory) == 7


def test_what_is_no_reward_is_refused(memory):
    found = memory.recall("Lisbon", 2)
    for wrong, error in (
        ([1.0], InvalidReward),
        ({99: 1.0}, InvalidReward),
        (99, InvalidReward),
        ([2.0, 0.0], InvalidReward),
    ):
        with pytest.raises(error):
            memory.reward(found, wrong)
    for receipt in ("nonsense", found.receipt[:-2], 5, None):
        with pytest.raises(InvalidReceipt):
            memory.reward(receipt, [1.0, 0.0])
    with TextMemory(seed=0) as other, pytest.raises(InvalidReceipt, match="another"):
        other.reward(found, {0: 1.0})


def test_what_makes_no_sense_is_refused(memory):
    with pytest.raises(InvalidOption, match="mode"):
        TextMemory(mode="r")
    with pytest.raises(InvalidOption, match="metadata"):
        memory.remember("fine", place=["a", "list"])
    with pytest.raises(InvalidOption, match="k must"):
        memory.recall("fine", 0)
    assert memory.remember_many([]) == []


def test_an_empty_memory_recalls_nothing():
    with TextMemory() as memory:
        assert list(memory.recall("anything?")) == []
        assert memory.recall("anything?").texts == []


def test_a_full_memory_lets_go_of_what_was_of_no_use_for_longest():
    with TextMemory(seed=0, capacity=3) as memory:
        memory.remember_many(FACTS[:3])
        memory.reward(memory.recall(FACTS[0], 2), 0)
        memory.remember(FACTS[3])
        assert set(memory) == {0, 2, 3}
