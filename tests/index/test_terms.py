"""routing="terms": every memory can be found, answers are exact, rewards teach the importance of terms."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree.config import TermLists
from memorytree.engine.terms.lists import FLAGS, LENGTH, PINNED
from memorytree.errors import InvalidOption
from tests.index.sparse_keys import (
    OPERATIONS,
    documents,
    error,
    importance,
    list_arrays,
    one_term_per_class,
    reward_own_class,
)
from tests.trees import PlainTree as MemoryTree

NARROW = TermLists(breadth=1, reads=2, scored=2, homes=2)
WIDE = TermLists(breadth=1e6, reads=1e6, scored=10**6)
SCORERS = ["distance", "cosine"]


def exact_scores(Q, X, scorer):
    """The scores (queries, keys) by their definition."""
    Q, X = Q.toarray().astype(np.float64), X.toarray().astype(np.float64)
    if scorer == "distance":
        return -np.sqrt(((Q[:, None] - X[None]) ** 2).sum(axis=2))
    lengths = np.outer(np.linalg.norm(Q, axis=1), np.linalg.norm(X, axis=1))
    return np.divide(Q @ X.T, lengths, out=np.zeros(lengths.shape), where=lengths > 0)


# ---- contents and answers


def apply(tree, model, name, arguments):
    """Apply one of `OPERATIONS` to a tree, and to a dict of keys by id in order of use."""
    if name in ("insert", "replace"):
        id = arguments[1] if name == "replace" else None
        model.pop(id, None)  # it is then the newest
        if tree.config.capacity and len(model) == tree.config.capacity:
            del model[next(iter(model))]
        model[tree.insert(arguments[0], str(arguments[0]), id=id)] = arguments[0]
    elif name == "remove" and model:
        id = list(model)[arguments[0] % len(model)]
        tree.remove(id)
        del model[id]
    elif name == "reward" and model:
        hits = tree.query(arguments[0], 3)
        rewards = arguments[1][: len(hits)]
        tree.reward(hits, rewards)
        for id in [hit.id for hit, reward in zip(hits, rewards, strict=True) if reward]:
            model[id] = model.pop(id)
    elif name in ("reroute", "sweep", "refit"):
        getattr(tree, name)(*arguments)


def check_contents(tree, model, scorer):
    """Every key of the model is stored, and found by a query with it."""
    assert {id: tree.key(id) for id in tree} == model
    for id, x in model.items():
        found = tree.query(x, len(model), beam=100)
        scores = dict(zip(found.ids.tolist(), found.scores.tolist(), strict=True))
        assert set(scores) == set(model)
        if x or scorer == "distance":
            assert found.scores[0] == pytest.approx(1.0 if scorer == "cosine" else 0.0)
            assert scores[id] == found.scores[0]


@pytest.mark.parametrize("capacity", [None, 6])
@pytest.mark.parametrize("scorer", SCORERS)
def test_term_index_matches_dict(scorer, capacity):
    @given(operations=st.lists(OPERATIONS, max_size=40))
    @settings(max_examples=40)
    def run(operations):
        tree, model = MemoryTree(routing=NARROW, scorer=scorer, capacity=capacity, seed=0), {}
        for name, *arguments in operations:
            apply(tree, model, name, arguments)
            if name == "sweep":
                assert tree.sweep() == 0
            tree.check()
            check_contents(tree, model, scorer)

    run()


@pytest.mark.parametrize("scorer", SCORERS)
def test_unlimited_lists_are_exact(scorer):
    X, Q = documents(200), documents(60, seed=1)
    tree = MemoryTree(routing=WIDE, scorer=scorer, seed=0)
    tree.insert_many(X, range(200))
    scores, share_a_term = exact_scores(Q, X, scorer), (abs(Q) @ abs(X).T).toarray() > 0
    hits = tree.query_many(Q, 5, beam=10)
    for i in range(60):
        if share_a_term[i].sum() >= 5:
            best = np.sort(scores[i][share_a_term[i]])[::-1][:5]
            np.testing.assert_allclose(hits.scores[i], best, atol=1e-6)
            np.testing.assert_allclose(scores[i, hits.ids[i]], hits.scores[i], atol=1e-6)
    # With k of all memories, those without a shared term are returned as well.
    np.testing.assert_allclose(tree.query_many(Q, 200).scores, np.sort(scores)[:, ::-1], atol=1e-6)


@pytest.mark.parametrize("build", [False, True])
@pytest.mark.parametrize("scorer", SCORERS)
def test_every_memory_is_found_by_its_own_key(scorer, build):
    X = documents(1500, 200, 0.04)
    if build:
        tree = MemoryTree.build(X, range(1500), scorer=scorer, seed=0)
    else:
        tree = MemoryTree(scorer=scorer, seed=0)
        tree.insert_many(X, range(1500))
    tree.check()
    assert (X[tree.query_many(X).ids[:, 0]] != X).nnz == 0


def test_empty_key_is_found_by_an_empty_query():
    tree = MemoryTree(seed=0)
    tree.insert_many([{"a": 1.0}, {}, {"b": 1.0}], ["a", "empty", "b"])
    for i in range(100):
        tree.insert({f"w{i}": 1.0}, i)
    assert tree.query({}).values == ["empty"]
    assert tree.query({})[0].score == 0
    tree.remove(1)
    tree.check()
    assert len(tree.query({})) == 1


def test_query_without_shared_terms_returns_memories_used_last():
    tree = MemoryTree(seed=0)
    ids = tree.insert_many([{"a": 1.0}, {"b": 1.0}, {"c": 2.0}], "abc")
    assert set(tree.query({"new": 1.0}, 2).values) == {"b", "c"}
    tree.reward(tree.query({"a": 1.0}), [1.0])
    assert set(tree.query({"new": 1.0}, 2).values) == {"a", "c"}
    assert set(tree.query({"new": 1.0}, 3, exclude=[int(ids[2])]).values) == {"a", "b"}


def test_equal_keys_are_all_returned():
    tree = MemoryTree(routing=NARROW, seed=0)
    tree.insert_many([{"a": 1.0, "b": 2.0}] * 50, range(50))
    tree.check()
    hits = tree.query({"a": 1.0, "b": 2.0}, 50)
    assert sorted(hits.ids) == list(range(50))
    assert set(hits.scores) == {0.0}


@pytest.mark.parametrize("scorer", SCORERS)
def test_scores_do_not_depend_on_the_number_of_terms(scorer):
    """Queries use a direct table where there are few terms and a search where there are many, with equal bits."""
    rows = documents(60)
    rows.resize(60, 2000)
    others = scipy.sparse.csr_matrix(np.eye(1900, 2000, k=100, dtype=np.float32))
    few, many = (MemoryTree(routing=WIDE, scorer=scorer, seed=0) for _ in range(2))
    few.insert_many(rows, range(60))
    many.insert_many(scipy.sparse.vstack([rows, others], "csr"), range(1960))
    queries = rows[[i for i in range(60) if rows[i].nnz]]
    for tree in (few, many):
        hits = tree.query_many(queries, 3)
        assert tree.reward_many(hits, (hits.ids % 3 == 0).astype(float)).learned
    first, second = few.query_many(queries, 3), many.query_many(queries, 3)
    assert first.ids.tolist() == second.ids.tolist()
    assert first.scores.tolist() == second.scores.tolist()


# ---- lists


def test_lists_are_limited_and_refilled_after_removals():
    tree = MemoryTree(routing=TermLists(breadth=1, homes=8), seed=0)
    ids = [tree.insert({"common": 1.0 + i / 100, f"own{i}": 5.0}, i) for i in range(100)]
    common = 1
    lengths = list_arrays(tree)["lists"][:, LENGTH]
    assert lengths.max() == 6  # log2 102; no entry is pinned, as each memory has a term of its own
    for id in ids[90:]:
        tree.remove(id)
    assert list_arrays(tree)["lists"][common, LENGTH] == 0
    tree.reroute(90)
    tree.check()
    assert list_arrays(tree)["lists"][common, LENGTH] == 6
    assert tree.query({"common": 1.0}).values == [84]


@pytest.mark.boundscheck
@pytest.mark.parametrize("breadth", [1, 2, 100])
def test_built_lists_hold_heaviest_entries_and_memories_without_other_homes(breadth):
    X = documents(300)
    X.data = np.ceil(X.data * 4) / 4  # many equal weights
    tree = MemoryTree.build(X, range(300), routing=TermLists(breadth=breadth, homes=3), scorer="cosine", seed=0)
    arrays, columns = list_arrays(tree), X.toarray()
    limit = int(breadth * np.log2(302))
    pinned = []
    for term, (begin, _, length, _) in enumerate(arrays["lists"].tolist()):
        members = arrays["members"][begin : begin + length]
        is_pinned = members & PINNED > 0
        rows = (members >> FLAGS)[~is_pinned].tolist()
        pinned += (members >> FLAGS)[is_pinned].tolist()
        if term:
            weights = columns[:, arrays["names"][term]]
            order = [row for row in np.argsort(-weights, kind="stable").tolist() if weights[row]]
            assert sorted(rows) == sorted(order[:limit])
    empty = np.flatnonzero(~columns.any(axis=1)).tolist()
    assert len(set(pinned)) == len(pinned)
    assert set(empty) <= set(pinned)
    assert (breadth < 100) == (len(pinned) > len(empty))
    tree.check()


@pytest.mark.parametrize("capacity", [None, 50])
def test_batch_equals_loop_when_keys_are_compacted_often(capacity):
    X, ids = documents(900, 300, 0.1), np.arange(900) % 170
    batch, loop = (MemoryTree(routing="terms", scorer="cosine", capacity=capacity, seed=3) for _ in range(2))
    batch.insert_many(X, range(900), ids=ids)
    for i in range(900):
        loop.insert(X[i], i, id=int(ids[i]))
    first, second = batch.index.state_dict(), loop.index.state_dict()
    assert {name: array.tobytes() for name, array in first.items()} == {n: array.tobytes() for n, array in second.items()}


def test_full_key_pool_is_not_compacted_at_every_insertion():
    """Where every insertion evicts a memory, compaction leaves half of the pool free."""
    size = len(MemoryTree.build(documents(1), [0], routing="terms", seed=0).index.keys.arrays()["key_features"])
    n = 8 * size - 1
    tree = MemoryTree(routing="terms", capacity=n, seed=0)
    X = scipy.sparse.csr_matrix(np.ones((1, 1), np.float32))
    tree.insert_many(scipy.sparse.vstack([X] * n, "csr"), range(n))
    compactions = 0
    for i in range(20):
        before = tree.index.keys.arrays()["key_features"].ctypes.data
        tree.insert(X, i)
        compactions += tree.index.keys.arrays()["key_features"].ctypes.data != before
    assert compactions <= 1


def test_refit_replaces_the_lists_and_shares_the_keys():
    X, classes = one_term_per_class(np.random.default_rng(0), 300)
    tree = MemoryTree.build(X, range(300), scorer="cosine", seed=0)
    reward_own_class(tree, X, classes, classes, k=5)
    keys, lists = tree.index.keys, tree.index.lists
    tree.refit()
    assert tree.index.keys is keys
    assert tree.index.lists is not lists
    tree.check()
    assert tree.query_many(X).ids[:, 0].tolist() == list(range(300))


SPOILED = {
    "members": lambda array: array + 4,
    "weights": lambda array: array + 1,
    "homes": lambda array: array + 1,
    "importance": lambda array: -array,
    "lists": lambda array: array + 1,
    "names": lambda array: array[:-1],
    "free": lambda array: array + 10**6,
}


@pytest.mark.parametrize("name", SPOILED)
def test_lists_that_contradict_the_memories_are_refused(name):
    state = MemoryTree.build(documents(60), range(60), seed=0).state_dict()
    state["index"][f"lists.{name}"] = SPOILED[name](state["index"][f"lists.{name}"])
    with pytest.raises(ValueError, match=r"lists|contradict"):
        MemoryTree.from_state_dict(state)


def test_removed_key_leaves_no_trace_in_files(tmp_path):
    tree = MemoryTree(seed=0)
    secret, _ = tree.insert_many([{"a": 123.456, "b": 1.0}, {"b": 2.0}], "ab")
    tree.remove(int(secret))
    tree.save(tmp_path / "tree")
    assert np.float32(123.456).tobytes() not in (tmp_path / "tree").read_bytes()


# ---- learning


def test_exploration_replaces_one_list():
    tree = MemoryTree(routing=TermLists(breadth=1, reads=1, homes=1), scorer="cosine", seed=0)
    for i in range(60):
        tree.insert({f"w{i % 7}": 1.0, f"v{i % 5}": 1.0, f"u{i}": 0.5}, i)
    x = {"w1": 3.0, "v2": 2.0, "u9": 1.0}

    def explored():
        return [tree.query(x, 2, explore=1.0, exploration_seed=draw) for draw in range(10)]

    usual, first = tree.query(x, 2), explored()
    assert usual.receipt.branch == "exploit"
    assert {hits.receipt.branch for hits in first} == {"leaf"}
    assert any(hits.ids.tolist() != usual.ids.tolist() for hits in first)
    assert [hits.ids.tolist() for hits in explored()] == [hits.ids.tolist() for hits in first]
    assert tree.reward(str(first[0].receipt), [1.0, 0.0]).learned == 1
    assert np.any(importance(tree) != 1)


@pytest.mark.parametrize("scorer", [*SCORERS, "tfidf"])
def test_rewards_teach_which_terms_matter(scorer):
    X, classes = one_term_per_class(np.random.default_rng(0), 2000)
    Q, expected = one_term_per_class(np.random.default_rng(1), 1000)
    errors = {}
    for name, wanted in (("true", classes), ("shuffled", np.random.default_rng(2).permutation(classes))):
        tree = MemoryTree.build(X, range(2000), scorer=scorer, seed=0)
        before = error(tree, Q, classes, expected)
        for _ in range(3):
            reward_own_class(tree, X, classes, wanted)
            tree.sweep()
        tree.check()
        errors[name] = error(tree, Q, classes, expected)
    assert before > 0.3
    assert errors["true"] < 0.1 * before
    assert errors["shuffled"] >= before


def test_learned_importances_keep_a_key_its_own_best_hit():
    X, classes = one_term_per_class(np.random.default_rng(0), 300)
    tree = MemoryTree.build(X, range(300), scorer="cosine", seed=0)
    assert reward_own_class(tree, X, classes, classes, k=5).learned > 0
    hits = tree.query_many(X)
    assert hits.ids[:, 0].tolist() == list(range(300))
    assert set(hits.scores[:, 0].tolist()) == {1.0}


@pytest.mark.parametrize("scale", [1e-44, 1e-36, 1e-20, 1e14])
def test_learning_does_not_depend_on_the_length_of_keys(scale):
    X, classes = one_term_per_class(np.random.default_rng(0), 300)
    ids = MemoryTree.build(X, range(300), scorer="cosine", seed=0).query_many(X, 5, exclude=np.arange(300)[:, None]).ids
    learned = []
    for factor in (1.0, scale):
        tree = MemoryTree.build(X * factor, range(300), scorer="cosine", seed=0)
        hits = tree.query_many(X * factor, 5)
        hits.ids[:] = ids
        tree.reward_many(hits, (classes[ids] == classes[:, None]).astype(float))
        learned.append(importance(tree))
        tree.check()
    assert np.ptp(learned[0]) > 0.1
    # Denormal numbers have few digits.
    np.testing.assert_allclose(learned[1], learned[0], rtol=1e-3 if scale > 1e-40 else 0.2)


@pytest.mark.parametrize("rate", [0.1, 2.0, 10.0, 1e6])
def test_steps_of_any_size_have_the_right_direction(rate):
    X = scipy.sparse.csr_matrix([[1.0, 0, 1, 0], [0, 1, 0, 1]])
    tree = MemoryTree.build(X, ["right", "wrong"], routing=TermLists(rate=rate), scorer="cosine", seed=0)
    hits = tree.query(scipy.sparse.csr_matrix([[1.0, 1, 0, 0]]), 2)
    tree.reward(hits, [float(value == "right") for value in hits.values])
    arrays = list_arrays(tree)
    learned = dict(zip(arrays["names"].tolist(), arrays["importance"].tolist(), strict=True))
    assert learned[1] < 1 < learned[0]
    assert learned[0] * learned[1] == pytest.approx(1, rel=1e-3)  # both by the same factor


@pytest.mark.parametrize("rewards", [[0.0] * 3, [1.0] * 3, [None] * 3, [None, 1.0, None]])
def test_rewards_without_differences_change_no_importance(rewards):
    tree = MemoryTree.build(documents(50), range(50), seed=0)
    assert tree.reward(tree.query(documents(2)[1], 3), rewards).learned == 0
    assert np.all(importance(tree) == 1)


# ---- inspection and options


@pytest.mark.parametrize("scorer", SCORERS)
def test_explanation_names_the_terms(scorer):
    tree = MemoryTree(scorer=scorer, seed=0)
    for i in range(40):
        tree.insert({"the": 0.1, f"word{i}": 1.0}, i)
    x = {"word3": 1.0, "the": 0.1, "new": 0.2}
    explanation = tree.explain(x, 2)
    best = explanation.candidates[0]
    assert [candidate.hit for candidate in explanation.candidates] == list(tree.query(x, 2))
    assert best.hit.value == 3
    assert "word3" in dict(best.parts) or scorer == "distance"
    assert explanation.n_scored == 41
    assert tree.plot().startswith("40 memories in lists by 41 terms")


@pytest.mark.parametrize("routing", ["terms", TermLists()])
def test_term_lists_refuse_dense_keys_and_several_trees(routing):
    tree = MemoryTree(routing=routing, seed=0)
    with pytest.raises(InvalidOption, match="sparse"):
        tree.insert([1.0, 2.0], "dense")
    assert len(tree) == 0
    with pytest.raises(InvalidOption, match="trees"):
        MemoryTree(trees=2, routing=routing)
    MemoryTree(trees=2, seed=0).insert({"a": 1.0}, "sparse")  # "auto" uses trees there


@pytest.mark.parametrize(
    "options",
    [
        {"breadth": 0},
        {"homes": 0},
        {"scored": -1},
        {"rate": float("nan")},
        {"reads": 0},
        {"expansion": -0.1},
        {"expansion": 1.5},
    ],
)
def test_invalid_options_of_term_lists_are_refused(options):
    with pytest.raises(InvalidOption, match=next(iter(options))):
        TermLists(**options)
