"""routing="graph": links between near memories, and a search that follows them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree.config import GraphRouting, LinearScorer
from memorytree.engine.graph_search import SPARE
from memorytree.errors import InvalidOption
from memorytree.results import NO_ID
from tests.trees import PlainTree as MemoryTree


def clustered(seed, n=2000, n_queries=200, d=24):
    """(keys, queries) from overlapping clusters."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(60, d))
    rows = centers[rng.integers(60, size=n + n_queries)] + 0.7 * rng.normal(size=(n + n_queries, d))
    return rows[:n].astype(np.float32), rows[n:].astype(np.float32)


def nearest(keys, queries, k, scorer="distance"):
    """The rows of the k nearest keys of each query, by exact search."""
    if scorer == "cosine":
        keys, queries = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (keys, queries))
    return np.argsort(np.linalg.norm(queries[:, None] - keys[None], axis=2), axis=1)[:, :k]


def recall(tree, queries, expected, beam):
    """The share of the expected ids that are found."""
    found = tree.query_many(queries, k=expected.shape[1], beam=beam).ids
    return np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, expected, strict=True)])


def filled(keys, **options):
    tree = MemoryTree(**{"routing": "graph", "seed": 0, **options})
    tree.insert_many(keys, range(len(keys)))
    return tree


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scorer", ["distance", "cosine"])
def test_graph_search_is_nearly_exact(scorer, seed):
    keys, queries = clustered(seed)
    tree = filled(keys, scorer=scorer, seed=seed)
    principal = filled(keys, routing="principal", scorer=scorer, seed=seed)
    for k in (1, 10):
        expected = nearest(keys, queries, k, scorer)
        assert recall(tree, queries, expected, 2) > recall(principal, queries, expected, 2) + 0.1
        assert recall(tree, queries, expected, 16) > 0.93
        assert recall(tree, queries, expected, 32) > 0.97


@pytest.mark.parametrize("order", ["built at once", "sorted"])
def test_recall_does_not_depend_on_insertion_order(order):
    keys, queries = clustered(1)
    if order == "sorted":
        keys = keys[np.argsort(keys[:, 0])]
        tree = filled(keys)
    else:
        tree = MemoryTree.build(keys, range(len(keys)), routing="graph", seed=0)
    tree.check()
    assert recall(tree, queries, nearest(keys, queries, 10), 16) > 0.93


@pytest.mark.parametrize("beam", [300, 2**62])
def test_beam_of_all_memories_is_exact(rng, beam):
    keys, queries = rng.normal(size=(300, 5)).astype(np.float32), rng.normal(size=(40, 5)).astype(np.float32)
    np.testing.assert_array_equal(filled(keys).query_many(queries, k=7, beam=beam).ids, nearest(keys, queries, 7))


def test_beam_limits_the_memories_scanned(rng):
    keys = rng.normal(size=(4000, 32)).astype(np.float32)  # no near neighbours, so the search stops only at its limit
    tree = filled(keys, routing=GraphRouting(neighbours=16))
    for beam, leaves in ((1, 1), (8, 2), (32, 3)):
        scanned = (tree.query_many(keys[:50] + 0.1, k=4000, beam=beam).ids != NO_ID).sum(axis=1)
        assert scanned.max() <= leaves * tree.stats().largest_leaf + 16 * (2 * beam + SPARE + 1)


@pytest.mark.parametrize("order", ["first", "last", "random"])
def test_neighbours_stay_linked_after_removals(order):
    keys, queries = clustered(2)
    n = len(keys)
    tree = filled(keys)
    ids = {"first": np.arange(n), "last": np.arange(n)[::-1], "random": np.random.default_rng(3).permutation(n)}[order]
    removed, kept = ids[: 2 * n // 3], np.sort(ids[2 * n // 3 :])
    for number, id in enumerate(removed.tolist()):
        tree.remove(id)
        if number % 100 == 0:
            tree.check()
    tree.check()
    assert not np.isin(tree.query_many(queries, k=50, beam=8).ids, removed).any()
    assert recall(tree, queries, kept[nearest(keys[kept], queries, 10)], 16) > 0.93


def test_recall_stays_high_at_capacity_under_drift():
    keys, queries = clustered(4, n=4000)
    keys += (np.arange(len(keys)) / 2000)[:, None].astype(np.float32)
    tree = filled(keys, capacity=1000)
    tree.check()
    assert recall(tree, queries + 2, 3000 + nearest(keys[3000:], queries + 2, 10), 16) > 0.93


def test_search_finds_separated_clusters(rng):
    """Links stay within a cluster, so the tree must route the query to the right one."""
    centers = 10 * rng.normal(size=(80, 32))
    rows = (centers[rng.integers(80, size=4200)] + rng.normal(size=(4200, 32))).astype(np.float32)
    keys, queries = rows[:4000], rows[4000:]
    assert recall(filled(keys), queries, nearest(keys, queries, 10), 16) > 0.9


def test_key_finds_itself_among_many_equal_keys(rng):
    keys = np.repeat(rng.normal(size=(5, 3)), 300, axis=0).astype(np.float32)
    keys = np.vstack([keys, rng.normal(size=(500, 3)).astype(np.float32)])
    tree = filled(keys)
    tree.check()
    assert np.all(tree.query_many(keys, k=1).scores == 0)


def test_equal_keys_do_not_crowd_out_other_links(rng):
    points = rng.normal(size=(150, 8)).astype(np.float32)
    tree = filled(np.repeat(points, 40, axis=0)[rng.permutation(6000)])
    tree.check()
    queries = rng.normal(size=(200, 8)).astype(np.float32)
    shortest = np.linalg.norm(queries[:, None] - points[None], axis=2).min(axis=1)
    assert np.mean(np.isclose(-tree.query_many(queries, k=1, beam=16).scores[:, 0], shortest, atol=1e-4)) > 0.6


def test_search_passes_through_excluded_memories():
    keys, queries = clustered(5)
    expected = nearest(keys, queries, 15)
    hits = filled(keys).query_many(queries, k=5, beam=16, exclude=expected[:, :10])
    assert np.mean([len(np.intersect1d(a, b)) / 5 for a, b in zip(hits.ids, expected[:, 10:], strict=True)]) > 0.9
    assert not any(np.isin(a, b).any() for a, b in zip(hits.ids, expected[:, :10], strict=True))


def test_graph_follows_a_learned_projection(rng):
    labels = rng.integers(20, size=1000)
    X = np.hstack([rng.normal(size=(20, 4))[labels] * 3, 3 * rng.normal(size=(1000, 10))])
    tree = MemoryTree.build(X, labels.tolist(), scorer="metric", routing="graph", seed=0)
    errors = []
    for _ in range(8):
        hits = tree.query_many(X, k=10, beam=8, exclude=np.arange(1000)[:, None])
        correct = labels[hits.ids] == labels[:, None]
        errors.append(1 - correct[:, 0].mean())
        tree.reward_many(hits, correct.astype(float))
        tree.check()
        tree.refit()
    tree.check()
    assert errors[-1] < 0.1 < 0.3 < errors[0]


@pytest.mark.boundscheck
@given(st.data())
def test_links_are_mutual_after_any_operations(data):
    width = data.draw(st.sampled_from([4, 5, 32]))
    capacity = data.draw(st.sampled_from([None, 20]))
    tree = MemoryTree(routing=GraphRouting(neighbours=width), leaf_factor=1, seed=0, capacity=capacity)
    names = ["insert", "insert", "insert many", "replace", "remove", "reroute", "sweep", "query"]
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(names))
        if name == "insert":
            tree.insert(data.draw(st.lists(st.integers(-3, 3), min_size=2, max_size=2)), None)
        elif name == "insert many":
            n, seed = data.draw(st.integers(1, 60)), data.draw(st.integers(0, 9))
            tree.insert_many(np.random.default_rng(seed).integers(-5, 5, size=(n, 2)), range(n))
        elif name == "replace" and len(tree):
            tree.insert([9.0, 9.0], None, id=data.draw(st.sampled_from(list(tree))))
        elif name == "remove" and len(tree):
            tree.remove(data.draw(st.sampled_from(list(tree))))
        elif name == "reroute":
            tree.reroute(5)
        elif name == "sweep":
            tree.sweep()
        elif name == "query" and len(tree):
            tree.query([0.5, 0.5], k=data.draw(st.integers(1, 9)), beam=data.draw(st.integers(1, 9)), explore=0.5)
        tree.check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("neighbours", 70),
        ("neighbours", 3),
        ("neighbours", NO_ID),
        ("neighbours", 50),
        ("link_distances", 0.25),
        ("link_distances", 9e9),
    ],
)
def test_check_notices_contradictory_links(name, value):
    tree = filled(np.arange(60.0)[:, None])
    tree.check()
    tree.index.arrays()[name][3, 0] = value
    with pytest.raises(ValueError, match="contradict"):
        tree.check()


@pytest.mark.parametrize("neighbours", [3, 1000, 8.5, "8", float("nan"), None, True])
def test_invalid_number_of_neighbours_is_refused(neighbours):
    with pytest.raises(InvalidOption, match="neighbours"):
        GraphRouting(neighbours=neighbours)


def test_number_of_neighbours_may_be_a_numpy_integer(tmp_path):
    tree = filled([[1.0]], routing=GraphRouting(neighbours=np.int64(8)))
    tree.save(tmp_path / "tree")
    assert len(MemoryTree.load(tmp_path / "tree")) == 1


@pytest.mark.parametrize("scorer", ["linear", LinearScorer()])
def test_graph_refuses_linear_scores(scorer):
    with pytest.raises(InvalidOption, match="links"):
        MemoryTree(routing="graph", scorer=scorer).insert([1.0, 2.0], None)


def test_graph_refuses_sparse_keys_and_stays_usable():
    tree = MemoryTree(routing="graph")
    with pytest.raises(InvalidOption, match="dense"):
        tree.insert({"rain": 1.0}, None)
    assert len(tree) == 0
    tree.insert([1.0], "one")
    assert len(tree) == 1
