"""The tfidf scorer says what a count of the memories that are there now says; and memories learn the words of questions."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memorytree.routing import terms

from memorytree import MemoryForest, MemoryTree
from memorytree.checks import check_tree
from memorytree.errors import DamagedFile, InvalidOption
from tests.test_terms import STEPS, documents, importance, planted
from tests.trees import state

NARROW = terms(breadth=1, reads=2, scored=2, homes=2)
WIDE = terms(breadth=1e6, reads=1e6, scored=10**6)


def told(tree):
    """{feature: importance} of a tree with named keys."""
    if tree._core is None:
        return {}
    lore = tree._core.lore()
    names = [tree._keys._names[number] for number in lore["names"][1:]]
    return dict(zip(names, lore["importance"][1:].tolist(), strict=True))


def by_hand(query, keys, learned):
    """The score of every key, from nothing but the keys that are there and what was learned of features."""
    documents = Counter(name for key in keys.values() for name in key)

    def weight(name):
        return learned.get(name, 1.0) * math.log(1 + len(keys) / (documents[name] + 0.5)) ** 2

    def length(key):
        return math.sqrt(sum(learned.get(name, 1.0) * w * w for name, w in key.items()))

    asked = sum(weight(name) * w * w for name, w in query.items())
    scores = {}
    for id, key in keys.items():
        shared = sum(weight(name) * query[name] * key[name] for name in query.keys() & key.keys())
        scores[id] = shared / asked * math.sqrt(length(query) / length(key)) if asked and key else 0.0
    return scores


class ByHand:
    """What a tree with `expansion` should hold: the keys, in order of use, and the terms added to them."""

    def __init__(self, capacity, expansion):
        self.keys, self.learned, self.capacity, self.expansion = {}, {}, capacity, expansion

    def insert(self, id, key):
        self.forget(id)
        if self.capacity and len(self.keys) == self.capacity:
            self.forget(next(iter(self.keys)))
        self.keys[id], self.learned[id] = key, {}

    def forget(self, id):
        self.keys.pop(id, None)
        self.learned.pop(id, None)

    def update(self, query, ids, rewards):
        for id, reward in zip(ids, rewards, strict=True):
            if reward is None:
                continue
            if reward:
                self.keys[id] = self.keys.pop(id)
            if self.expansion:
                self.take_up(id, query, reward)

    def take_up(self, id, query, reward):
        learned = self.learned[id]
        for name, weight in query.items():
            if name not in self.keys[id] and (name in learned or reward):
                learned[name] = learned.get(name, 0.0) + self.expansion * (reward * weight - learned.get(name, 0.0))
        self.learned[id] = {name: weight for name, weight in learned.items() if weight >= 0.01}

    def whole_keys(self):
        return {id: {**key, **self.learned[id]} for id, key in self.keys.items()}


@pytest.mark.parametrize("capacity", [None, 6])
@pytest.mark.parametrize("routing", [NARROW, WIDE._replace(expansion=0.5), NARROW._replace(expansion=0.5)])
def test_whatever_came_and_went_scores_are_those_counted_from_scratch(routing, capacity):
    asked = st.dictionaries(st.sampled_from("abcdefghxy"), st.just(1.0), min_size=1)

    @given(steps=st.lists(STEPS, max_size=30), asked=asked)
    @settings(max_examples=20)
    def walk(steps, asked):
        tree = MemoryTree(routing=routing, scorer="tfidf", capacity=capacity, seed=0)
        model = ByHand(capacity, routing.expansion)
        for name, *what in steps:
            if name == "insert":
                model.insert(tree.insert(what[0], None), what[0])
            elif name == "upsert":
                model.insert(tree.insert(what[0], None, id=what[1]), what[0])
            elif name == "remove" and model.keys:
                id = list(model.keys)[what[0] % len(model.keys)]
                tree.remove(id)
                model.forget(id)
            elif name == "update" and model.keys:
                hits = tree.query(what[0], 3)
                tree.update(hits, what[1][: len(hits)])
                model.update(what[0], hits.ids, what[1][: len(hits)])
            elif name in ("sweep", "learn"):
                getattr(tree, name)()
            check_tree(tree)
        assert {id: tree.key(id) for id in tree} == model.keys
        if model.keys:
            found = tree.query(asked, len(model.keys), beam=100)
            expected = by_hand(asked, model.whole_keys(), told(tree))
            assert set(found.ids) == set(model.keys)
            assert found.scores == sorted(found.scores, reverse=True)
            for hit in found:
                assert hit.score == pytest.approx(expected[hit.id], rel=1e-5, abs=1e-6)

    walk()


def test_a_term_becomes_common_and_rare_again_while_the_stored_keys_stay():
    tree = MemoryTree(scorer="tfidf", seed=0)
    tree.insert({"dog": 1.0}, "dog")
    tree.insert({"cat": 1.0}, "cat")
    for i in range(3):
        tree.insert({f"other{i}": 1.0}, i)
    asked = {"dog": 1.0, "cat": 1.0}
    dogs = [tree.insert({"dog": 1.0, f"own{i}": 1.0}, i) for i in range(30)]
    assert tree.query(asked)[0].value == "cat"  # dogs are everywhere
    cats = [tree.insert({"cat": 1.0, f"own{i}": 1.0}, i) for i in range(60)]
    assert tree.query(asked)[0].value == "dog"
    for id in cats:
        tree.remove(id)
    assert tree.query(asked)[0].value == "cat"
    for id in dogs:
        tree.remove(id)
    assert len(set(tree.query(asked, 2).scores)) == 1
    assert tree.key(0) == {"dog": 1.0}


def test_reading_changes_nothing():
    tree = MemoryTree.build(documents(100), range(100), scorer="tfidf", seed=0)
    before = state(tree)
    tree.query_many(documents(20, seed=1), 5, beam=3, explore=0.5)
    tree.explain(documents(20, seed=1)[3], 4)
    tree.stats()
    assert state(tree) == before


def test_a_batch_is_a_loop_and_a_built_tree_knows_the_same_counts():
    X, Q = documents(150), documents(40, seed=1)
    routing = terms(breadth=2, scored=8, expansion=0.3)
    whole, loop = (MemoryTree(routing=routing, scorer="tfidf", seed=3) for _ in "ab")
    built = MemoryTree.build(X, range(150), routing=routing, scorer="tfidf", seed=3)
    whole.insert_many(X, range(150))
    for i in range(150):
        loop.insert(X[i], i)
    assert state(whole) == state(loop)
    assert np.array_equal(built._core.lore()["documents"], whole._core.lore()["documents"])
    batch, rows = whole.query_many(Q, 4), [loop.query(Q[i], 4) for i in range(40)]
    assert [row.scores for row in batch] == [row.scores for row in rows]
    rewards = (batch.ids % 2).astype(float)
    learned = [loop.update(row, given[: len(row)]) for row, given in zip(rows, rewards, strict=True)]
    assert whole.update_many(batch, rewards).learned == sum(one.learned for one in learned) > 0
    assert state(whole) == state(loop)
    check_tree(whole)


@pytest.mark.parametrize("expansion", [0, 0.3])
def test_a_loaded_tree_goes_on_as_if_it_had_never_stopped(tmp_path, expansion):
    X, Q = documents(300), documents(40, seed=1)
    routing = terms(breadth=2, expansion=expansion)
    straight, stopped = (MemoryTree(routing=routing, scorer="tfidf", capacity=120, seed=0) for _ in "ab")
    for part in (slice(0, 100), slice(100, 200), slice(200, 300)):
        for tree in (straight, stopped):
            tree.insert_many(X[part], range(*part.indices(300)))
            hits = tree.query_many(Q, 5)
            tree.update_many(hits, (hits.ids % 3 == 0).astype(float))
            tree.remove(int(hits.ids[3, 0]))
        stopped.save(tmp_path / "tree")
        stopped = MemoryTree.load(tmp_path / "tree")
        check_tree(stopped)
        first, second = straight.query_many(Q, 5), stopped.query_many(Q, 5)
        assert first.ids.tolist() == second.ids.tolist()
        assert first.scores.tolist() == second.scores.tolist()


@pytest.mark.parametrize(
    ("name", "spoil", "why"), [("documents", 1, "counted by term"), ("given", 999, "as they were given")]
)
def test_counts_that_do_not_fit_the_memories_are_refused(tmp_path, name, spoil, why):
    tree = MemoryTree.build(documents(60), range(60), scorer="tfidf", seed=0)
    whole = tree._core.lore
    tree._core.lore = lambda: whole() | {name: whole()[name] + spoil}
    tree.save(tmp_path / "tree")
    with pytest.raises(DamagedFile, match=why):
        MemoryTree.load(tmp_path / "tree")


@pytest.mark.parametrize("scorer", ["tfidf", "cosine"])
def test_a_memory_answers_to_the_words_in_which_it_was_useful_until_they_prove_wrong(scorer):
    tree = MemoryTree(routing=terms(expansion=0.5), scorer=scorer, seed=0)
    car, _ = tree.insert_many([{"car": 1.0, "red": 1.0}, {"car": 1.0, "blue": 1.0}], ["red", "blue"])
    for i in range(20):
        tree.insert({f"other{i}": 1.0}, i)
    asked = {"automobile": 1.0, "car": 0.1}
    hits = tree.query(asked, 2)
    tree.update(hits, [float(id == car) for id in hits.ids])
    check_tree(tree)
    assert tree.query({"automobile": 1.0})[0].id == car
    assert tree.key(int(car)) == {"car": 1.0, "red": 1.0}
    best = tree.explain(asked, 1).candidates[0]
    assert best.hit.id == car
    assert "automobile" in dict(best.parts)
    for _ in range(12):
        tree.update(tree.query(asked, 1), [0.0])
    check_tree(tree)
    assert tree._core.place_of(int(car), learned=True)[0]["key_features"].size == 2
    tree.remove(int(car))
    check_tree(tree)


def test_learned_words_have_a_limit():
    tree = MemoryTree(routing=terms(expansion=0.5), scorer="tfidf", seed=0)
    id = tree.insert({"a": 1.0}, None)
    for i in range(40):
        tree.update(tree.query({"a": 1.0, **{f"word{i} {j}": 1.0 for j in range(30)}}), [1.0])
    check_tree(tree)
    assert tree._core.place_of(id, learned=True)[0]["key_features"].size == 1 + 512


@pytest.mark.parametrize("wrong", [{"routing": terms(expansion=-0.1)}, {"routing": terms(expansion=1.5)}])
def test_an_uptake_that_cannot_be_is_refused(wrong):
    with pytest.raises(InvalidOption, match="expansion"):
        MemoryTree(**wrong)


@pytest.mark.parametrize("scorer", ["metric", "values"])
def test_scorers_with_other_eyes_do_not_look_at_learned_words(scorer):
    with pytest.raises(InvalidOption, match="take up"):
        MemoryTree(routing=terms(expansion=0.5), scorer=scorer).insert({"a": 1.0}, None)


def test_rewards_teach_which_terms_tell():
    X, labels = planted(np.random.default_rng(0), 2000)
    T, wanted = planted(np.random.default_rng(1), 1000)
    tree = MemoryTree.build(X, range(2000), scorer="tfidf", seed=0)
    before = np.mean(labels[tree.query_many(T).ids[:, 0]] != wanted)
    for _ in range(3):
        hits = tree.query_many(X, 10, exclude=[[i] for i in range(2000)])
        tree.update_many(hits, (labels[hits.ids] == labels[:, None]).astype(float))
    check_tree(tree)
    assert np.any(importance(tree) != 1)
    assert np.mean(labels[tree.query_many(T).ids[:, 0]] != wanted) < 0.1 < 0.3 < before


def test_an_explanation_tells_the_parts_of_the_score():
    tree = MemoryTree(scorer="tfidf", seed=0)
    for i in range(40):
        tree.insert({"the": 1.0, f"word{i}": 1.0}, i)
    best = tree.explain({"word3": 1.0, "the": 1.0}, 1).candidates[0]
    parts = dict(best.parts)
    assert best.hit.value == 3
    assert parts["word3"] > 5 * parts["the"] > 0
    assert sum(parts.values()) == pytest.approx(best.hit.score, rel=1e-5)


def test_dense_keys_trees_and_forests_know_no_terms():
    for tree in (MemoryTree(scorer="tfidf"), MemoryTree(scorer="tfidf", routing="paper")):
        with pytest.raises(InvalidOption, match="tfidf"):
            tree.insert([1.0, 2.0], "dense")
        assert len(tree) == 0
    with pytest.raises(InvalidOption, match="tfidf"):
        MemoryForest(2, scorer="tfidf").insert({"a": 1.0}, "sparse")
