"""TextMemory: remember, recall, reward, forget, and reopening."""

import gc
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import memorytree
from memorytree import TextMemory
from memorytree.errors import (
    InvalidOption,
    InvalidReceipt,
    InvalidReward,
    ReadOnlyStore,
    StoreLocked,
    UnknownId,
)
from memorytree.text.encoders import WordKeys

UMBRELLA = "The umbrella stands behind the door"
DRIZZLE = "the thing against drizzle, behind what?"


# ---- recall


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
def test_recall_finds_the_answer(memory, question, answer):
    assert memory.recall(question, k=3)[0].id == answer


def test_a_text_scores_one_for_itself(memory, facts):
    for id, text in enumerate(facts):
        assert memory.recall(text, k=1)[0] == (id, text, pytest.approx(1.0, abs=1e-6), memory.metadata(id))


def test_filters_are_exact(memory):
    def found(where):
        return set(memory.recall("Lisbon", 9, where=where).ids.tolist())

    assert found({"name": "Bob"}) == {1, 5}
    assert found({"name": ["Bob", "Carla"], "number": [3, 5]}) == {3, 5}
    assert found({"name": "Zoe"}) == set()


def test_an_empty_memory_recalls_nothing():
    with TextMemory() as memory:
        assert list(memory.recall("anything?")) == []


def test_explain_names_words(memory, facts):
    best = memory.explain("Where does the cat sleep?", 1).candidates[0]
    assert best.hit.value == facts[2]
    assert {name for name, _ in best.parts} <= {"cat", "the cat", "~ cat", "~cat ", "~slee", "~leep", "~ sle", "(other)"}


# ---- remember and forget


def test_get_and_ids(memory, facts):
    assert list(memory) == memory.ids() == list(range(7))
    assert memory.ids(where={"name": "Bob"}) == [1, 5]
    assert memory[3] == memory.get(3) == facts[3]
    assert memory.get(99) is None
    assert memory.get(99, "nothing") == "nothing"


VALUES = [1, 2, True, "1", None]


def test_filters_match_value_and_type():
    described = [{name: value} for name in "ab" for value in VALUES] + [{"a": 1, "b": value} for value in VALUES] + [{}]

    def equal(one, two):
        return one == two and isinstance(one, bool) == isinstance(two, bool)

    def matches(metadata, where):
        return all(any(name in metadata and equal(metadata[name], one) for one in values) for name, values in where.items())

    @given(st.dictionaries(st.sampled_from("ab"), st.lists(st.sampled_from(VALUES), max_size=3)))
    @settings(max_examples=50)
    def check(where):
        assert memory.ids(where) == [id for id, metadata in enumerate(described) if matches(metadata, where)]

    with TextMemory(seed=0) as memory:
        memory.remember_many([f"text {number}" for number in range(len(described))], described)
        check()


def test_update_metadata(memory):
    memory.update_metadata(1, {"number": 9, "checked": True})
    assert memory.metadata(1) == {"number": 9, "name": "Bob", "checked": True}
    assert memory.ids(where={"checked": True, "number": 9}) == [1]
    memory.update_metadata(1, {"name": "Rob"}, replace=True)
    assert memory.metadata(1) == {"name": "Rob"}
    assert memory.recall("How does Bob go to work?", 1)[0].metadata == {"name": "Rob"}
    with pytest.raises(UnknownId):
        memory.update_metadata(99, {"name": "Rob"})


def test_forget_removes_a_text(memory):
    assert memory.forget(3) == 1
    assert 3 not in memory
    assert len(memory) == 6
    assert 3 not in memory.recall("When was Carla born?", 9).ids
    for call in (memory.forget, memory.metadata, memory.__getitem__):
        with pytest.raises(UnknownId):
            call(3)


def test_forget_where(memory):
    assert memory.forget(where={"name": "Bob"}) == 2
    assert memory.forget(where={"name": "Bob"}) == 0
    assert memory.ids() == [0, 2, 3, 4, 6]


def test_forget_takes_an_id_or_a_filter(memory):
    for arguments in ({}, {"id": 1, "where": {"name": "Bob"}}):
        with pytest.raises(InvalidOption, match="either"):
            memory.forget(**arguments)
    assert len(memory) == 7


def test_an_id_is_replaced(memory):
    assert memory.remember("Carla was born in Porto", id=3) == 3
    assert memory.recall("When was Carla born?", 1)[0].text == "Carla was born in Porto"
    assert len(memory) == 7


def test_metadata_of_any_name(memory):
    metadata = {"text": "x", "id": True, "ttl": None, "k": 1.5, "wo": "日本"}
    assert memory.metadata(memory.remember("a text", metadata)) == metadata
    assert memory.recall("a text", where={"id": True}).texts == ["a text"]


def test_a_text_expires(memory):
    gone = memory.remember("the password is swordfish", ttl=0)
    assert gone not in memory
    assert gone not in memory.recall("What is the password?", 9).ids
    stays = memory.remember("the password is tuna", ttl=timedelta(hours=1))
    assert memory.recall("What is the password?", 1).ids == [stays]


def test_remember_many_without_texts(memory):
    assert memory.remember_many([]) == []


@pytest.mark.parametrize("text", ["", "  \n", None, 5, b"bytes"])
def test_invalid_text_is_refused(memory, text):
    for call in (memory.remember, memory.recall, lambda text: memory.remember_many(["fine", text])):
        with pytest.raises(InvalidOption, match="text"):
            call(text)
    assert len(memory) == 7


def test_invalid_arguments_are_refused(memory):
    with pytest.raises(InvalidOption, match="list of texts"):
        memory.remember_many("one text")
    with pytest.raises(InvalidOption, match="mode"):
        TextMemory(mode="r")
    with pytest.raises(InvalidOption, match="metadata"):
        memory.remember("fine", {"place": ["a", "list"]})
    with pytest.raises(InvalidOption, match="k must"):
        memory.recall("fine", 0)


def test_capacity_removes_the_least_recently_useful(facts):
    with TextMemory(seed=0, capacity=3) as memory:
        memory.remember_many(facts[:3])
        memory.reward(memory.recall(facts[0], 2), 0)
        memory.remember(facts[3])
        assert set(memory) == {0, 2, 3}


# ---- reward

REWARDS = {
    "id": lambda ids, useful: useful,
    "ids": lambda ids, useful: {useful},
    "mapping": lambda ids, useful: {id: float(id == useful) for id in ids},
    "list": lambda ids, useful: [float(id == useful) for id in ids],
}


@pytest.mark.parametrize("form", REWARDS)
@pytest.mark.parametrize("by_token", [False, True])
def test_a_reward_teaches_words_of_the_question(memory, form, by_token):
    wanted = memory.remember(UMBRELLA)
    hits = memory.recall(DRIZZLE, 8)
    rewards = REWARDS[form](hits.ids.tolist(), wanted)
    assert memory.recall("drizzle", 1)[0].score == 0
    assert memory.reward(str(hits.receipt) if by_token else hits, rewards).learned == 1
    assert memory.recall("drizzle", 1)[0].score > 0
    assert memory.recall("drizzle", 1)[0].id == wanted


def test_the_last_reward_counts(memory):
    hits = memory.recall("Lisbon", 3)
    memory.reward(hits, [1.0, 0.0, None])
    assert memory.reward(hits, [1.0, 0.0, None]) == (0, 0, 0)
    assert memory.reward(hits.receipt, {int(hits.ids[0]): 0.5}).experiences == 1
    assert [past.active for past in memory.rewards()] == [False, True, True]


def test_invalid_rewards_are_refused(memory):
    hits = memory.recall("Lisbon", 2)
    for rewards in ([1.0], {99: 1.0}, 99, [2.0, 0.0], "10", b"10"):
        with pytest.raises(InvalidReward):
            memory.reward(hits, rewards)


def test_invalid_receipts_are_refused(memory):
    hits = memory.recall("Lisbon", 2)
    for receipt in ("nonsense", str(hits.receipt)[:-2], 5, None):
        with pytest.raises(InvalidReceipt):
            memory.reward(receipt, [1.0, 0.0])
    with TextMemory(seed=0) as other, pytest.raises(InvalidReceipt, match="another"):
        other.reward(hits, {0: 1.0})


# ---- on disk


@pytest.fixture
def taught(tmp_path, facts):
    """The path of a memory that has learned, and what it answers."""
    with TextMemory(tmp_path / "memory", seed=0) as memory:
        memory.remember_many(facts)
        wanted = memory.remember(UMBRELLA, {"place": "hall"})
        token = str(memory.recall(DRIZZLE, 8).receipt)
    with TextMemory(tmp_path / "memory") as memory:
        assert memory.reward(token, wanted).learned == 1
        return tmp_path / "memory", list(memory.recall("drizzle on Monday", 8))


def test_learning_lasts(taught):
    path, expected = taught
    for _ in range(2):  # first from the log and the snapshot, then from the snapshot alone
        with TextMemory(path, mode="r") as memory:
            assert list(memory.recall("drizzle on Monday", 8)) == expected
            assert memory.recall("drizzle", 1)[0].metadata == {"place": "hall"}
            assert not memory.store.verify().damage


def test_learning_lasts_without_snapshots(taught):
    path, expected = taught
    for snapshot in (path / "snapshots").iterdir():
        for file in snapshot.iterdir():
            file.unlink()
        snapshot.rmdir()
    with TextMemory(path) as memory:
        assert list(memory.recall("drizzle on Monday", 8)) == expected


def test_one_writer_and_readers(taught):
    path, _ = taught
    with TextMemory(path), TextMemory(path, mode="r") as reader:
        with pytest.raises(ReadOnlyStore):
            reader.remember("no")
        with pytest.raises(StoreLocked):
            TextMemory(path)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("remember"), st.integers(0, 6), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.integers(0, 9)),
        st.tuples(st.just("reward"), st.integers(0, 6), st.integers(0, 2)),
        st.tuples(st.just("reopen")),
    ),
    max_size=15,
)


def test_reopening_changes_no_answer(tmp_path_factory, facts):
    @given(STEPS)
    @settings(max_examples=10)
    def run(steps):
        path = tmp_path_factory.mktemp("memory")
        reopened, open_throughout = TextMemory(path, seed=0, durability="normal"), TextMemory(seed=0)
        for name, *arguments in steps:
            if name == "reopen":
                reopened.close()
                reopened = TextMemory(path, durability="normal")
                continue
            for memory in (reopened, open_throughout):
                if name == "remember":
                    memory.remember(facts[arguments[0]], id=arguments[1])
                elif name == "forget" and arguments[0] in memory:
                    memory.forget(arguments[0])
                elif name == "reward":
                    hits = memory.recall(facts[arguments[0]], 3)
                    if len(hits) > arguments[1]:
                        memory.reward(hits, hits[arguments[1]].id)
        for text in facts:
            assert list(reopened.recall(text, 9)) == list(open_throughout.recall(text, 9))
        reopened.close()
        open_throughout.close()

    run()


def test_a_temporary_memory_leaves_no_files():
    memory = TextMemory(seed=0)
    path = Path(memory.store.path)
    memory.remember("soon gone")
    assert path.exists()
    memory.close()
    del memory
    gc.collect()
    assert not path.exists()


def test_a_store_without_texts_is_refused(tmp_path):
    memorytree.open(tmp_path / "store", **WordKeys.store_options).close()
    with pytest.raises(InvalidOption, match="no texts"):
        TextMemory(tmp_path / "store")
    memorytree.open(tmp_path / "store").close()  # the lock was released


def test_an_interrupted_creation_is_repeated(tmp_path):
    # A crash can leave a database file without tables.
    database = sqlite3.connect(tmp_path / "memories.sqlite")
    database.execute("PRAGMA journal_mode = WAL")
    database.close()
    for _ in range(2):
        with TextMemory(tmp_path) as memory:
            memory.remember("Ada's favourite colour is green", id=0)
            assert memory.recall("Ada's colour", 1).ids == [0]
