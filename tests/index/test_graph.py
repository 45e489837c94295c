"""routing="graph": links between near memories, and a search that follows them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.config import GraphRouting, LinearScorer
from memorytree.engine.graph.copies import COPY
from memorytree.errors import InvalidOption
from memorytree.results import NO_ID

GRAPH = GraphRouting(flat=0)


def clustered(seed, n=2000, n_queries=200, d=24, spread=1.0):
    """(keys, queries) from overlapping clusters."""
    rng = np.random.default_rng(seed)
    centers = spread * rng.normal(size=(60, d))
    rows = centers[rng.integers(60, size=n + n_queries)] + 0.7 * rng.normal(size=(n + n_queries, d))
    return rows[:n].astype(np.float32), rows[n:].astype(np.float32)


def distances(keys, queries, scorer="distance"):
    """The distances (queries, keys) by which a scorer ranks, in double precision."""
    keys, queries = keys.astype(np.float64), queries.astype(np.float64)
    if scorer == "cosine":
        keys, queries = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (keys, queries))
    return np.sqrt(np.maximum((queries**2).sum(1)[:, None] + (keys**2).sum(1) - 2 * queries @ keys.T, 0))


def recall(tree, keys, queries, k=10, scorer="distance", **options):
    """The part of the k best that a query finds; of equally distant ones any."""
    furthest = np.sort(distances(keys, queries, scorer), axis=1)[:, k - 1]
    scores = tree.query_many(queries, k, **options).scores.astype(np.float64)
    found = -scores if scorer == "distance" else np.sqrt(np.maximum(2 - 2 * scores, 0))
    scale = np.abs(keys).max() * np.sqrt(keys.shape[1])
    return np.mean(found <= furthest[:, None] * (1 + 1e-3) + 1e-4 * scale)


def filled(keys, **options):
    tree = MemoryTree(**{"routing": GRAPH, "seed": 0, **options})
    tree.insert_many(keys, range(len(keys)))
    return tree


def stress_keys(name, rng, n=3000):
    """Keys of a difficult shape, and queries like them."""
    normal = rng.normal(size=(n, 16))
    shapes = {
        "sorted": lambda: normal[np.argsort(normal[:, 0])],
        "drift": lambda: normal + np.linspace(0, 20, n)[:, None],
        "equal keys": lambda: np.repeat(rng.normal(size=(n // 40, 8)), 40, axis=0),
        "nearly equal keys": lambda: np.repeat(rng.normal(size=(n // 40, 8)), 40, axis=0) + 1e-4 * rng.normal(size=(n, 8)),
        "clusters far apart": lambda: normal + 1e5 * rng.normal(size=(5, 16))[rng.integers(5, size=n)],
        "one far outlier": lambda: np.vstack([normal[:-1], np.full((1, 16), 1e6)]),
        "scale 1e-6": lambda: 1e-6 * normal,
        "scale 1e6": lambda: 1e6 * normal,
        "constant features": lambda: np.hstack([normal[:, :3], np.ones((n, 20))]),
        "one feature": lambda: normal[:, :1],
        "many features": lambda: clustered(3, 1000, 0, 1000)[0],
        "one-hot": lambda: np.eye(64)[rng.integers(64, size=n)] * rng.integers(1, 50, size=(n, 1)),
        "heavy tails": lambda: rng.standard_t(1.2, size=(n, 16)),
        "on a line": lambda: np.linspace(0, 1, n)[:, None] * np.ones((1, 8)),
    }  # fmt: skip
    keys = shapes[name]().astype(np.float32)
    if name != "sorted" and name != "drift":
        rng.shuffle(keys)
    queries = rng.choice(len(keys), 100, replace=False)
    return np.delete(keys, queries, axis=0), keys[queries]


STRESS = (
    "sorted", "drift", "equal keys", "nearly equal keys", "clusters far apart", "one far outlier", "scale 1e-6", "scale 1e6",
    "constant features", "one feature", "many features", "one-hot", "heavy tails", "on a line",
)  # fmt: skip


@pytest.mark.parametrize("name", STRESS)
def test_plain_query_finds_nearly_all(name, rng):
    keys, queries = stress_keys(name, rng)
    tree = filled(keys)
    tree.check()
    assert recall(tree, keys, queries) > 0.97
    stored = keys[rng.choice(len(keys), 300, replace=False)]
    assert np.all(tree.query_many(stored).scores == 0)  # a memory is found under its own key


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("scorer", ["distance", "cosine"])
def test_default_is_accurate_for_every_number_of_hits(scorer, seed):
    keys, queries = clustered(seed)
    tree = filled(keys, scorer=scorer, seed=seed)
    for k in (1, 10, 50):
        assert recall(tree, keys, queries, k, scorer) > 0.98
    assert recall(tree, keys, queries, 10, scorer, recall=1) == 1
    assert tree.stats().expected_recall > 0.98
    assert tree.stats().measured_at == 1024


def test_recall_follows_the_target(rng):
    keys, queries = rng.normal(size=(4000, 24)).astype(np.float32), rng.normal(size=(200, 24)).astype(np.float32)
    tree = filled(keys)
    low, middle, high = (recall(tree, keys, queries, recall=target) for target in (0.6, 0.9, 0.99))
    assert 0.6 < low < middle < high
    assert 0.9 < middle < 0.98 < high


def test_queries_from_outside_the_range_of_keys_are_compared_well(rng):
    keys = rng.normal(size=(3000, 24)).astype(np.float32)
    assert recall(filled(keys), keys, 3 + 3 * rng.normal(size=(100, 24)).astype(np.float32)) > 0.98


@pytest.mark.parametrize("n", [0, 1, 2, 7, 255, 256, 257])
def test_few_memories_are_all_found(n, rng):
    keys = rng.normal(size=(n, 5)).astype(np.float32)
    tree = filled(keys)
    found = tree.query_many(rng.normal(size=(20, 5)), 10).ids
    assert ((found != NO_ID).sum(axis=1) == min(n, 10)).all()
    if n:
        assert sorted(tree.query(keys[0], n).ids.tolist()) == list(range(n))


def test_memory_built_at_once_is_accurate():
    keys, queries = clustered(1)
    tree = MemoryTree.build(keys, range(len(keys)), routing=GRAPH, seed=0)
    tree.check()
    assert recall(tree, keys, queries) > 0.97


@pytest.mark.parametrize("beam", [300, 2**62])
def test_beam_of_all_memories_is_exact(rng, beam):
    keys, queries = rng.normal(size=(300, 5)).astype(np.float32), rng.normal(size=(40, 5)).astype(np.float32)
    expected = np.argsort(distances(keys, queries), axis=1)[:, :7]
    np.testing.assert_array_equal(filled(keys).query_many(queries, k=7, beam=beam).ids, expected)


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
    assert not np.isin(tree.query_many(queries, k=50).ids, removed).any()
    assert recall(tree, keys[kept], queries) > 0.97


def test_recall_stays_high_when_nine_in_ten_are_replaced_again_and_again(rng):
    keys, queries = clustered(6)
    tree = filled(keys)
    for _ in range(4):
        replaced = rng.permutation(len(keys))[: len(keys) * 9 // 10].tolist()
        for id in replaced:
            tree.remove(id)
        tree.insert_many(keys[replaced], replaced, ids=replaced)
        tree.check()
    assert recall(tree, keys, queries) > 0.97


def test_recall_stays_high_at_capacity_under_drift():
    keys, queries = clustered(4, n=4000)
    keys += (np.arange(len(keys)) / 2000)[:, None].astype(np.float32)
    tree = filled(keys, capacity=1000)
    tree.check()
    assert recall(tree, keys[3000:], queries + 2) > 0.97


def test_codes_give_way_to_keys_when_a_second_cluster_lies_far_away(rng):
    near = rng.normal(size=(600, 8)).astype(np.float32)
    keys = np.vstack([near, 1e4 + near])
    tree = filled(near)
    assert len(tree.index.arrays()["codes"])
    tree.insert_many(keys[600:], range(600, 1200))
    assert not len(tree.index.arrays()["codes"])
    assert recall(tree, keys, keys[::7] + np.float32(0.1)) > 0.97


def test_one_of_equal_keys_is_in_the_graph(rng):
    points = rng.normal(size=(30, 3)).astype(np.float32)
    keys = np.repeat(points, 100, axis=0)[rng.permutation(3000)]
    tree = filled(keys)
    assert np.count_nonzero(tree.index.arrays()["copies"][:3000] != COPY) == 30
    hits = tree.query(points[0], 150)
    assert np.count_nonzero(hits.scores == 0) == 100
    for id in np.flatnonzero((keys == points[0]).all(axis=1))[:99].tolist():
        tree.remove(id)
    tree.check()
    assert np.count_nonzero(tree.query(points[0], 150).scores == 0) == 1


def test_ties_between_equal_keys_do_not_depend_on_order():
    keys = np.zeros((40, 2), np.float32)
    one, other = filled(keys), MemoryTree(routing=GRAPH, seed=0)
    other.insert_many(keys, range(39, -1, -1), ids=np.arange(39, -1, -1))
    assert one.query([0.0, 0.0], 9).ids.tolist() == other.query([0.0, 0.0], 9).ids.tolist()


def test_search_passes_through_excluded_memories():
    keys, queries = clustered(5)
    expected = np.argsort(distances(keys, queries), axis=1)[:, :15]
    hits = filled(keys).query_many(queries, k=5, exclude=expected[:, :10])
    assert np.mean([len(np.intersect1d(a, b)) / 5 for a, b in zip(hits.ids, expected[:, 10:], strict=True)]) > 0.97
    assert not any(np.isin(a, b).any() for a, b in zip(hits.ids, expected[:, :10], strict=True))


@pytest.mark.parametrize("part", [0.5, 0.1, 0.01, 0.001])
def test_filtered_query_finds_the_best_that_are_allowed(part, rng, monkeypatch):
    monkeypatch.setattr("memorytree.index.graph.ALLOWED_SCAN", 100)  # otherwise all of these would be scanned
    monkeypatch.setattr("memorytree.index.graph.SCANNED", 0)
    keys, queries = clustered(7, n=6000)
    keys[5000:] = keys[:1000]  # copies, of which some are allowed
    allowed = np.flatnonzero(rng.random(6000) < part)
    hits = filled(keys).query_many(queries, 10, allowed=allowed)
    assert np.isin(hits.ids[hits.ids != NO_ID], allowed).all()
    assert recall(filled(keys), keys[allowed], queries, min(10, len(allowed)), allowed=allowed) > 0.97


def test_filter_that_fits_nothing_finds_nothing():
    tree = filled(clustered(0, n=500)[0])
    assert len(tree.query(np.zeros(24), 5, allowed=[])) == 0
    assert len(tree.query(np.zeros(24), 5, allowed=[7_000, 8_000])) == 0
    assert tree.query(np.zeros(24), 5, allowed=[3], exclude=[3]).ids.tolist() == []


def test_graph_follows_a_learned_projection(rng):
    labels = rng.integers(20, size=1000)
    X = np.hstack([rng.normal(size=(20, 4))[labels] * 3, 3 * rng.normal(size=(1000, 10))])
    tree = MemoryTree.build(X, labels.tolist(), scorer="metric", routing="graph", seed=0)
    errors = []
    for _ in range(8):
        hits = tree.query_many(X, k=10, exclude=np.arange(1000)[:, None])
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
    width = data.draw(st.sampled_from([8, 32]))
    capacity = data.draw(st.sampled_from([None, 20]))
    tree = MemoryTree(routing=GraphRouting(neighbours=width, flat=0), leaf_factor=1, seed=0, capacity=capacity)
    names = ["insert", "insert", "insert many", "replace", "remove", "reroute", "sweep", "query", "filter"]
    for _ in range(data.draw(st.integers(1, 12))):
        name = data.draw(st.sampled_from(names))
        if name == "insert":
            tree.insert(data.draw(st.lists(st.integers(-3, 3), min_size=2, max_size=2)), None)
        elif name == "insert many":
            n, seed = data.draw(st.sampled_from([5, 60, 300])), data.draw(st.integers(0, 9))
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
        elif name == "filter" and len(tree):
            allowed = list(tree)[:: data.draw(st.integers(1, 3))]
            found = tree.query([0.5, 0.5], k=len(tree), allowed=allowed).ids.tolist()
            assert sorted(found) == sorted(allowed)
        tree.check()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("neighbours", 70),
        ("neighbours", 3),
        ("neighbours", NO_ID),
        ("neighbours", 50),
        ("copies", 2),
        ("copies", 3),
        ("graph", -1.0),
        ("graph", np.nan),
        ("scaling", np.inf),
    ],
)
def test_check_notices_contradictory_graphs(name, value):
    tree = filled(np.arange(60.0)[:, None])
    tree.check()
    array = tree.index.arrays()[name]
    array.reshape(len(array), -1)[min(3, len(array) - 1), 0] = value
    with pytest.raises(ValueError, match="contradict"):
        tree.check()


def test_saved_graph_continues_as_the_one_that_was_saved(tmp_path):
    keys, queries = clustered(8, n=1500)
    tree = filled(keys[:1000])
    tree.save(tmp_path / "tree")
    again = MemoryTree.load(tmp_path / "tree")
    for each in (tree, again):
        each.insert_many(keys[1000:], range(500))
        each.remove(3)
    np.testing.assert_array_equal(tree.query_many(queries, 10).ids, again.query_many(queries, 10).ids)


@pytest.mark.parametrize("neighbours", [3, 1000, 8.5, "8", float("nan"), None, True])
def test_invalid_number_of_neighbours_is_refused(neighbours):
    with pytest.raises(InvalidOption, match="neighbours"):
        GraphRouting(neighbours=neighbours)


@pytest.mark.parametrize("recall", [-0.1, 1.1, float("nan"), "high", True])
def test_invalid_recall_is_refused(recall):
    tree = filled([[1.0], [2.0]])
    with pytest.raises(InvalidOption, match="recall"):
        tree.query([1.0], recall=recall)
    with pytest.raises(InvalidOption, match="recall"):
        tree.query_many([[1.0]], recall=recall)


def test_number_of_neighbours_may_be_a_numpy_integer(tmp_path):
    tree = filled([[1.0]], routing=GraphRouting(neighbours=np.int64(8), flat=0))
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
