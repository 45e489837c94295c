"""routing="flat": exact answers, the order of the engine, and the learning of term lists, without compiled code."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import FlatRouting, InvalidOption, MemoryTree, TermLists
from memorytree.engine.rng import GAMMA as ENGINE_GAMMA
from memorytree.engine.terms import learning as engine_learning
from memorytree.engine.terms import lists as engine_lists
from memorytree.index import flat_learning, ties
from memorytree.index.base import QueryRequest, no_exclusions
from memorytree.results import NO_ID
from tests.index.sparse_keys import documents
from tests.trees import KEYS, keys_of, matrix, survives

UNLIMITED = {"reads": 1e6, "scored": 10**6, "flat": 0}
SCORERS = ("distance", "cosine")


def brute_force(X, x, scorer):
    """The scores of all rows by their definition."""
    X, x = X.astype(np.float64), x.astype(np.float64)
    if scorer == "distance":
        return -np.sqrt(((X - x) ** 2).sum(axis=1))
    lengths = np.linalg.norm(X, axis=1) * np.linalg.norm(x)
    return np.divide(X @ x, lengths, out=np.zeros(len(X)), where=lengths > 0)


# ---- dense keys


@pytest.mark.parametrize("scorer", SCORERS)
@given(
    n=st.integers(1, 120),
    d=st.integers(1, 40),
    seed=st.integers(0, 100),
    scale=st.sampled_from([1e-12, 1e-6, 1.0, 1e6, 1e10]),
    shift=st.sampled_from([0.0, 1.0, 1e4]),
    kinds=st.integers(1, 200),
)
@settings(max_examples=60)
def test_answers_are_the_best_by_brute_force(scorer, n, d, seed, scale, shift, kinds):
    rng = np.random.default_rng(seed)
    X = ((rng.normal(size=(kinds, d)) + shift) * scale).astype(np.float32)[rng.integers(kinds, size=n)]
    tree = MemoryTree(routing="flat", scorer=scorer, seed=seed)
    tree.insert_many(X, range(n))
    Q = np.concatenate([X[:3], ((rng.normal(size=(3, d)) + shift) * scale).astype(np.float32)])
    k = int(rng.integers(1, n + 1))
    found = tree.query_many(Q, k)
    for i, x in enumerate(Q):
        exact, near = brute_force(X, x, scorer), {"rtol": 1e-5, "atol": 1e-6 if scorer == "cosine" else 0.0}
        np.testing.assert_allclose(found.scores[i], np.sort(exact)[::-1][:k], **near)
        np.testing.assert_allclose(exact[found.ids[i]], found.scores[i], **near)
        assert list(tree.query(x, k)) == list(found[i])
        if i < len(Q) - 3 and scorer == "distance":
            assert np.array_equal(X[found.ids[i, 0]], x)


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("scorer", SCORERS)
def test_scores_do_not_depend_on_the_row_of_a_key(kind, scorer):
    X, x = matrix(300, 37), keys_of(kind, matrix(1, 37, seed=1))[0]
    scores = set()
    for shift in range(0, 300, 13):
        tree = MemoryTree(routing="flat", scorer=scorer, seed=0)
        tree.insert_many(keys_of(kind, np.roll(X, shift, axis=0)), range(300), ids=np.roll(np.arange(300), shift))
        scores.add(tuple(sorted((hit.id, hit.score) for hit in tree.query(x, 300))))
    assert len(scores) == 1


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("scorer", SCORERS)
def test_equal_distances_are_ordered_as_in_a_tree(kind, scorer):
    X = np.repeat(matrix(5), 12, axis=0)
    flat, tree = (MemoryTree(routing=routing, scorer=scorer, seed=3) for routing in ("flat", "principal"))
    for each in (flat, tree):
        each.insert_many(keys_of(kind, X), range(60))
    Q = keys_of(kind, X[::12])
    assert flat.query_many(Q, 12).ids.tolist() == tree.query_many(Q, 12, beam=100).ids.tolist()


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("kind", KEYS)
def test_only_allowed_memories_are_returned(kind, share):
    X, rng = matrix(300), np.random.default_rng(1)
    tree = MemoryTree(routing="flat", scorer="cosine", seed=0)
    tree.insert_many(keys_of(kind, X), range(300))
    for id in range(0, 300, 7):
        tree.remove(id)
    allowed = np.sort(rng.permutation(400)[: int(share * 400)])
    batch, _ = tree.keys.batch(keys_of(kind, matrix(4, seed=2)))
    found = tree.index.query(QueryRequest(batch, 10, 0, 4, excluded=no_exclusions(4), allowed=allowed))
    everything = tree.index.query(QueryRequest(batch, 300, 0, 4, excluded=no_exclusions(4)))
    for ids, every in zip(found.ids.tolist(), everything.ids.tolist(), strict=True):
        expected = [id for id in every if id in set(allowed.tolist())][:10]
        assert ids == expected + [NO_ID] * (10 - len(expected))


def test_breadth_and_recall_change_nothing():
    tree = MemoryTree(routing="flat", seed=0)
    tree.insert_many(matrix(50), range(50))
    x = matrix(3, seed=1)
    plain = tree.index.query(QueryRequest(x, 5, 0, 3, excluded=no_exclusions(3)))
    for options in ({"beam": 1}, {"beam": 40}, {"recall": 0.5}):
        found = tree.index.query(QueryRequest(x, 5, 0, 3, excluded=no_exclusions(3), **options))
        np.testing.assert_array_equal(found.ids, plain.ids)


def test_removal_and_capacity_keep_arrays_small():
    tree = MemoryTree(routing="flat", capacity=50, seed=0)
    for i, x in enumerate(matrix(3000)):
        tree.insert(x, i)
    assert tree.stats().spare_bytes < 4 * tree.stats().bytes
    words = MemoryTree(routing="flat", capacity=50, seed=0)
    for i, x in enumerate(keys_of("sparse", matrix(3000))):
        words.insert(x, i)
    words.check()
    assert words.stats().spare_bytes < 4 * words.stats().bytes


# ---- sparse keys


def apply_to_both(trees, rng, X, steps):
    """Insert, replace, remove and reward the same in several trees."""
    for _ in range(steps):
        choice, row = rng.random(), int(rng.integers(X.shape[0]))
        known = list(trees[0])
        if choice < 0.5 or len(known) < 8:
            id = int(rng.integers(60)) if choice < 0.1 else None
            for tree in trees:
                tree.insert(X[row], row, id=id)
        elif choice < 0.65:
            for tree in trees:
                tree.remove(known[row % len(known)])
        else:
            ids = rng.choice(known, size=4, replace=False)
            rewards = rng.choice([0.0, 0.5, 1.0, np.nan], size=4)
            for tree in trees:
                decisions = np.array([[0, -1, -1, -1]])
                tree.reward_queries(X[row : row + 1], ids[None], rewards[None], decisions)


@pytest.mark.parametrize("expansion", [0.0, 0.3])
@pytest.mark.parametrize("scorer", [*SCORERS, "tfidf"])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=15)
def test_sparse_scores_and_learning_are_those_of_term_lists(scorer, expansion, seed):
    rng, X = np.random.default_rng(seed), documents(120, 60, 0.08, seed=seed % 7)
    options = {"rate": 0.5, "expansion": expansion}
    flat = MemoryTree(routing=FlatRouting(**options), scorer=scorer, seed=1)
    lists = MemoryTree(routing=TermLists(**options, **UNLIMITED), scorer=scorer, seed=1)
    apply_to_both((flat, lists), rng, X, 120)
    flat.check()
    features = np.arange(60)
    np.testing.assert_allclose(flat.index.weights(features), lists.index.weights(features), rtol=1e-4)
    n = len(flat)
    ids = np.array(sorted(flat))
    for x in documents(10, 60, 0.08, seed=99):
        np.testing.assert_allclose(flat.score(x, ids), lists.score(x, ids), rtol=1e-4, atol=1e-5)
        found = flat.query(x, n)
        assert sorted(found.ids.tolist()) == ids.tolist()
        np.testing.assert_allclose(found.scores, flat.score(x, found.ids), rtol=1e-6)
        assert np.all(np.diff(found.scores) <= 0)


def test_constants_are_those_of_the_engine():
    assert engine_lists.MAX_IMPORTANCE == flat_learning.MAX_IMPORTANCE
    assert engine_learning.EPSILON == flat_learning.EPSILON
    assert ties.GAMMA == ENGINE_GAMMA


def test_memories_without_a_shared_term_follow_in_order_of_use():
    tree = MemoryTree(routing="flat", scorer="cosine", seed=0)
    ids = tree.insert_many([{"a": 1.0}, {"b": 1.0}, {"c": 2.0}, {"d": 1.0, "a": 1.0}], "abcd")
    assert set(tree.query({"new": 1.0}, 2).values) == {"c", "d"}
    tree.reward(tree.query({"b": 1.0}), [1.0])
    assert set(tree.query({"new": 1.0}, 2).values) == {"b", "d"}
    assert set(tree.query({"new": 1.0}, 2, exclude=[int(ids[3])]).values) == {"b", "c"}
    assert tree.query({"d": 1.0}, 3).values[0] == "d"
    assert set(tree.query({"d": 1.0}, 3).values) == {"d", "b", "c"}


def test_empty_key_is_found_by_an_empty_query():
    for scorer in (*SCORERS, "tfidf"):
        tree = MemoryTree(routing="flat", scorer=scorer, seed=0)
        tree.insert_many([{"a": 1.0}, {}, {"b": 1.0}], ["a", "empty", "b"])
        assert tree.query({}).values == ["empty"]
        tree.remove(1)
        assert len(tree.query({})) == 1


def test_damaged_state_of_terms_is_refused():
    tree = MemoryTree(routing="flat", scorer="cosine", seed=0)
    tree.insert_many(documents(20), range(20))
    for name, value in (("importance", 0), ("importance", np.nan), ("gradients", -1), ("given", 10**6), ("terms", 0)):
        state = tree.state_dict()
        state["index"][f"keys.{name}"][3] = value
        with pytest.raises(ValueError, match="contradictory"):
            MemoryTree.from_state_dict(state)
    for name, value in (("ids", 0), ("ids", -5), ("order", 3), ("labels", -7), ("next_id", 1)):
        state = tree.state_dict()
        state["index"][name][-1] = value
        with pytest.raises(ValueError, match="contradictory"):
            MemoryTree.from_state_dict(state)


# ---- options, and what is not imported


@pytest.mark.parametrize(
    "options", [{"trees": 2}, {"scorer": "metric"}, {"scorer": "linear"}, {"scorer": lambda x, k, f: k}]
)
def test_other_scorers_and_several_trees_are_refused(options):
    with pytest.raises(InvalidOption, match="flat"):
        MemoryTree(routing="flat", **options)


def test_tfidf_needs_sparse_keys():
    with pytest.raises(InvalidOption, match="sparse"):
        MemoryTree(routing="flat", scorer="tfidf").insert([1.0], "dense")


@pytest.mark.parametrize("options", [{"rate": 0}, {"temperature": -1}, {"expansion": 2}])
def test_invalid_options_of_flat_routing_are_refused(options):
    with pytest.raises(InvalidOption, match="flat"):
        FlatRouting(**options)


FIRST_LINES = {
    "dense": """
from memorytree import MemoryTree
tree = MemoryTree(seed=0)
id = tree.insert([1.0, 0.0], "east")
tree.insert_many([[0.0, 1.0], [-1.0, 0.0]], ["north", "west"])
hits = tree.query([0.9, 0.2], k=2)
tree.reward(hits, [1.0, 0.0])
tree.query_many([[0.9, 0.2], [0.1, 0.8]], k=2)
tree.remove(id), tree.stats(), tree.explain([0.9, 0.2]), tree.plot(), tree.refit()
""",
    "named": """
from memorytree import MemoryTree
tree = MemoryTree(scorer="tfidf", seed=0)
id = tree.insert({"rain": 1.0}, "wet")
tree.insert_many([{"sun": 1.0}, {"rain": 1.0, "sun": 1.0}], ["dry", "rainbow"])
hits = tree.query({"rain": 1.0}, k=2)
tree.reward(hits, [1.0, 0.0])
tree.remove(id), tree.stats(), tree.explain({"rain": 1.0}), tree.plot(), tree.refit()
""",
    "texts": """
from memorytree import TextMemory
with TextMemory(seed=0) as memory:
    memory.remember("Ada likes tea")
    memory.remember_many(["Bob takes the train", "Cleo plays chess"])
    hits = memory.recall("Who likes tea?")
    memory.reward(hits, [1.0, 0.0, 0.0])
    memory.forget(0)
""",
    "command line": """
import io, os, sys, tempfile
from typer.testing import CliRunner
from memorytree.cli import app
os.chdir(tempfile.mkdtemp())
def run(*arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout
run("init")
run("remember", "Ada likes tea", "Bob takes the train")
token = run("recall", "Who likes tea?", "--json").split('"receipt": "')[1].split('"')[0]
run("reward", token, "0=1", "1=0")
""",
}
HEAVY = ("numba", "scipy.sparse", "sklearn", "matplotlib")


@pytest.mark.parametrize("name", FIRST_LINES)
def test_first_operations_import_nothing_heavy(name):
    loaded = f"loaded = [name for name in {HEAVY} if name in sys.modules]"
    survives(f"{FIRST_LINES[name]}\nimport sys\n{loaded}\nassert not loaded, loaded")


def test_package_imports_no_library():
    code = "import sys, memorytree; print([name for name in ('numpy', 'numba', 'msgpack', 'rich') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
