"""scorer="tfidf": scores follow the counts of the stored memories; with `expansion` memories learn terms of queries."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree.config import TermLists
from memorytree.errors import InvalidOption
from tests.index.sparse_keys import OPERATIONS, documents, list_arrays
from tests.trees import PlainTree as MemoryTree

NARROW = TermLists(breadth=1, reads=2, scored=2, homes=2)
WIDE = TermLists(breadth=1e6, reads=1e6, scored=10**6)
EXPANDING = TermLists(expansion=0.5)


def importance_by_name(tree):
    """{feature: importance} of a tree with named keys."""
    if tree.index is None:
        return {}
    arrays = list_arrays(tree)
    names = [tree.keys.feature_name(number) for number in arrays["names"][1:].tolist()]
    return dict(zip(names, arrays["importance"][1:].tolist(), strict=True))


def exact_scores(query, keys, importance):
    """The scores by id, computed by their definition from the stored keys."""
    documents = Counter(name for key in keys.values() for name in key)

    def weight(name):
        return importance.get(name, 1.0) * math.log(1 + len(keys) / (documents[name] + 0.5)) ** 2

    def length(key):
        return math.sqrt(sum(importance.get(name, 1.0) * w * w for name, w in key.items()))

    total = sum(weight(name) * w * w for name, w in query.items())
    scores = {}
    for id, key in keys.items():
        shared = sum(weight(name) * query[name] * key[name] for name in query.keys() & key.keys())
        scores[id] = shared / total * math.sqrt(length(query) / length(key)) if total and key else 0.0
    return scores


class ExpansionModel:
    """What a tree should hold: keys in order of use, and the terms that memories have learned."""

    def __init__(self, capacity, expansion):
        self.keys, self.learned, self.capacity, self.expansion = {}, {}, capacity, expansion

    def insert(self, id, key):
        self.remove(id)
        if self.capacity and len(self.keys) == self.capacity:
            self.remove(next(iter(self.keys)))
        self.keys[id], self.learned[id] = key, {}

    def remove(self, id):
        self.keys.pop(id, None)
        self.learned.pop(id, None)

    def reward(self, query, ids, rewards):
        for id, reward in zip(ids, rewards, strict=True):
            if reward is None:
                continue
            if reward:
                self.keys[id] = self.keys.pop(id)
            if self.expansion:
                self.expand(id, query, reward)

    def expand(self, id, query, reward):
        learned = self.learned[id]
        for name, weight in query.items():
            if name not in self.keys[id] and (name in learned or reward):
                learned[name] = learned.get(name, 0.0) + self.expansion * (reward * weight - learned.get(name, 0.0))
        self.learned[id] = {name: weight for name, weight in learned.items() if weight >= 0.01}

    def expanded_keys(self):
        return {id: {**key, **self.learned[id]} for id, key in self.keys.items()}


@pytest.mark.parametrize("capacity", [None, 6])
@pytest.mark.parametrize("routing", [NARROW, replace(WIDE, expansion=0.5), replace(NARROW, expansion=0.5)])
def test_scores_match_counts_after_any_operations(routing, capacity):
    queries = st.dictionaries(st.sampled_from("abcdefghxy"), st.just(1.0), min_size=1)

    @given(operations=st.lists(OPERATIONS, max_size=30), query=queries)
    @settings(max_examples=20)
    def run(operations, query):
        tree = MemoryTree(routing=routing, scorer="tfidf", capacity=capacity, seed=0)
        model = ExpansionModel(capacity, routing.expansion)
        for name, *arguments in operations:
            if name == "insert":
                model.insert(tree.insert(arguments[0], None), arguments[0])
            elif name == "replace":
                model.insert(tree.insert(arguments[0], None, id=arguments[1]), arguments[0])
            elif name == "remove" and model.keys:
                id = list(model.keys)[arguments[0] % len(model.keys)]
                tree.remove(id)
                model.remove(id)
            elif name == "reward" and model.keys:
                hits = tree.query(arguments[0], 3)
                rewards = arguments[1][: len(hits)]
                tree.reward(hits, rewards)
                model.reward(arguments[0], hits.ids.tolist(), rewards)
            elif name in ("sweep", "refit"):
                getattr(tree, name)()
            tree.check()
        assert {id: tree.key(id) for id in tree} == model.keys
        if model.keys:
            found = tree.query(query, len(model.keys), beam=100)
            expected = exact_scores(query, model.expanded_keys(), importance_by_name(tree))
            assert set(found.ids.tolist()) == set(model.keys)
            assert np.all(np.diff(found.scores) <= 0)
            for hit in found:
                assert hit.score == pytest.approx(expected[hit.id], rel=1e-5, abs=1e-6)

    run()


def test_rarity_of_a_term_follows_insertions_and_removals():
    tree = MemoryTree(scorer="tfidf", seed=0)
    for name in ("dog", "cat", "other0", "other1", "other2"):
        tree.insert({name: 1.0}, name)
    query = {"dog": 1.0, "cat": 1.0}
    dogs = [tree.insert({"dog": 1.0, f"own{i}": 1.0}, i) for i in range(30)]
    assert tree.query(query)[0].value == "cat"
    cats = [tree.insert({"cat": 1.0, f"own{i}": 1.0}, i) for i in range(60)]
    assert tree.query(query)[0].value == "dog"
    for id in cats:
        tree.remove(id)
    assert tree.query(query)[0].value == "cat"
    for id in dogs:
        tree.remove(id)
    assert len(set(tree.query(query, 2).scores)) == 1
    assert tree.key(0) == {"dog": 1.0}


def test_built_and_inserted_trees_have_the_same_counts():
    X = documents(150)
    built = MemoryTree.build(X, range(150), scorer="tfidf", seed=0)
    inserted = MemoryTree(scorer="tfidf", seed=0)
    inserted.insert_many(X, range(150))
    np.testing.assert_array_equal(list_arrays(built)["documents"], list_arrays(inserted)["documents"])


@pytest.mark.parametrize(("name", "amount", "reason"), [("documents", 1, "counted by term"), ("given", 999, "given")])
def test_counts_that_contradict_the_memories_are_refused(name, amount, reason):
    state = MemoryTree.build(documents(60), range(60), scorer="tfidf", seed=0).state_dict()
    state["index"][f"lists.{name}"] += amount
    with pytest.raises(ValueError, match=reason):
        MemoryTree.from_state_dict(state)


def test_explanation_adds_up_to_the_score():
    tree = MemoryTree(scorer="tfidf", seed=0)
    for i in range(40):
        tree.insert({"the": 1.0, f"word{i}": 1.0}, i)
    best = tree.explain({"word3": 1.0, "the": 1.0}, 1).candidates[0]
    parts = dict(best.parts)
    assert best.hit.value == 3
    assert parts["word3"] > 5 * parts["the"] > 0
    assert sum(parts.values()) == pytest.approx(best.hit.score, rel=1e-5)


# ---- expansion


@pytest.mark.parametrize("scorer", ["tfidf", "cosine"])
def test_memory_learns_and_unlearns_terms_of_queries(scorer):
    tree = MemoryTree(routing=EXPANDING, scorer=scorer, seed=0)
    car, _ = tree.insert_many([{"car": 1.0, "red": 1.0}, {"car": 1.0, "blue": 1.0}], ["red", "blue"])
    for i in range(20):
        tree.insert({f"other{i}": 1.0}, i)
    query, learned_only = {"automobile": 1.0, "car": 0.1}, {"automobile": 1.0}
    hits = tree.query(query, 2)
    tree.reward(hits, [float(id == car) for id in hits.ids])
    tree.check()
    assert tree.query(learned_only)[0].id == car
    assert tree.key(int(car)) == {"car": 1.0, "red": 1.0}
    best = tree.explain(query, 1).candidates[0]
    assert best.hit.id == car
    assert "automobile" in dict(best.parts)
    assert tree.score(learned_only, [car])[0] > 0
    for _ in range(12):
        tree.reward(tree.query(query, 1), [0.0])
    tree.check()
    assert tree.score(learned_only, [car])[0] == 0
    tree.remove(int(car))
    tree.check()


def test_learned_terms_of_a_memory_are_limited():
    tree = MemoryTree(routing=EXPANDING, scorer="tfidf", seed=0)
    id = tree.insert({"a": 1.0}, None)
    for i in range(40):
        tree.reward(tree.query({"a": 1.0, **{f"word{i} {j}": 1.0 for j in range(30)}}), [1.0])
    tree.check()
    [_, length] = tree.index.keys.key(id)[0]
    assert length == 1 + 512


def test_batch_equals_loop_with_expansion():
    X, Q = documents(150), documents(40, seed=1)
    batch, loop = (
        MemoryTree.build(X, range(150), routing=TermLists(breadth=2, scored=8, expansion=0.3), scorer="tfidf", seed=3)
        for _ in range(2)
    )
    hits = batch.query_many(Q, 4)
    rewards = (hits.ids % 2).astype(float)
    one_by_one = [loop.query(Q[i], 4) for i in range(40)]
    learned = [loop.reward(row, given[: len(row)]).learned for row, given in zip(one_by_one, rewards, strict=True)]
    assert batch.reward_many(hits, rewards).learned == sum(learned) > 0
    first, second = batch.index.state_dict(), loop.index.state_dict()
    assert {name: array.tobytes() for name, array in first.items()} == {n: array.tobytes() for n, array in second.items()}


def test_loaded_tree_continues_like_the_saved_one_with_expansion(tmp_path):
    X, Q = documents(300), documents(40, seed=1)
    trees = [MemoryTree(routing=TermLists(breadth=2, expansion=0.3), scorer="tfidf", capacity=120, seed=0) for _ in range(2)]
    for part in (slice(0, 100), slice(100, 200), slice(200, 300)):
        for tree in trees:
            tree.insert_many(X[part], range(*part.indices(300)))
            hits = tree.query_many(Q, 5)
            tree.reward_many(hits, (hits.ids % 3 == 0).astype(float))
            tree.remove(int(hits.ids[3, 0]))
        trees[1].save(tmp_path / "tree")
        trees[1] = MemoryTree.load(tmp_path / "tree")
        first, second = (tree.query_many(Q, 5) for tree in trees)
        assert first.ids.tolist() == second.ids.tolist()
        assert first.scores.tolist() == second.scores.tolist()


@pytest.mark.parametrize("scorer", ["metric", "values"])
def test_expansion_refuses_rerankers(scorer):
    with pytest.raises(InvalidOption, match="terms of queries"):
        MemoryTree(routing=EXPANDING, scorer=scorer).insert({"a": 1.0}, None)


@pytest.mark.parametrize("options", [{}, {"routing": "paper"}, {"trees": 2}])
def test_tfidf_needs_term_lists(options):
    key = {"a": 1.0} if "trees" in options else [1.0, 2.0]
    with pytest.raises(InvalidOption, match="tfidf"):
        MemoryTree(scorer="tfidf", **options).insert(key, None)
