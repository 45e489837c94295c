"""routing="neighbours": memories that know who is near, and a search that goes from one to the next."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memorytree.routing import principal
from memorytree.scoring import linear

from memorytree import MemoryForest, MemoryTree
from memorytree.checks import check_arrays, check_tree
from memorytree.engine.arrays import NONE
from memorytree.engine.graph_search import SPARE
from memorytree.errors import InvalidOption


def drawn(seed, n=3000, asked=200, d=24):
    """Rows in clusters that overlap, and queries like them."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(60, d))
    rows = centers[rng.integers(60, size=n + asked)] + 0.7 * rng.normal(size=(n + asked, d))
    return rows[:n].astype(np.float32), rows[n:].astype(np.float32)


def nearest(keys, asked, k, scorer="distance"):
    if scorer == "cosine":
        keys, asked = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (keys, asked))
    return np.argsort(np.linalg.norm(asked[:, None] - keys[None], axis=2), axis=1)[:, :k]


def recall(tree, asked, wanted, beam, ids=None):
    found = tree.query_many(asked, k=wanted.shape[1], beam=beam).ids
    wanted = wanted if ids is None else ids[wanted]
    return np.mean([len(np.intersect1d(a, b)) / len(b) for a, b in zip(found, wanted, strict=True)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scorer", ["distance", "cosine"])
def test_a_search_finds_what_an_exact_one_does(scorer, seed):
    keys, asked = drawn(seed)
    tree = MemoryTree(routing="neighbours", scorer=scorer, seed=seed)
    tree.insert_many(keys, range(len(keys)))
    plain = MemoryTree(routing="principal", scorer=scorer, seed=seed)
    plain.insert_many(keys, range(len(keys)))
    for k in (1, 10):
        wanted = nearest(keys, asked, k, scorer)
        assert recall(tree, asked, wanted, 2) > recall(plain, asked, wanted, 2) + 0.1
        assert recall(tree, asked, wanted, 16) > 0.93
        assert recall(tree, asked, wanted, 32) > 0.97


def test_a_tree_that_is_built_at_once_finds_as_much():
    keys, asked = drawn(0)
    built = MemoryTree.build(keys, range(len(keys)), routing="neighbours", seed=0)
    check_tree(built)
    assert recall(built, asked, nearest(keys, asked, 10), 16) > 0.93


def test_rows_that_come_sorted_are_found_as_well():
    keys, asked = drawn(1)
    keys = keys[np.argsort(keys[:, 0])]
    tree = MemoryTree(routing="neighbours", seed=0)
    tree.insert_many(keys, range(len(keys)))
    assert recall(tree, asked, nearest(keys, asked, 10), 16) > 0.93


def test_a_beam_as_wide_as_the_tree_is_an_exact_search(rng):
    keys, asked = rng.normal(size=(300, 5)).astype(np.float32), rng.normal(size=(40, 5)).astype(np.float32)
    tree = MemoryTree(routing="neighbours", seed=0)
    tree.insert_many(keys, range(300))
    for beam in (300, 2**62):
        np.testing.assert_array_equal(tree.query_many(asked, k=7, beam=beam).ids, nearest(keys, asked, 7))


def test_a_search_is_as_long_as_its_beam_says(rng):
    keys = rng.normal(size=(4000, 32)).astype(np.float32)  # nothing is near anything: there is always somebody to ask
    tree = MemoryTree(routing=principal(neighbours=16), seed=0)
    tree.insert_many(keys, range(4000))
    for beam, leaves in ((1, 1), (8, 2), (32, 3)):
        seen = (tree.query_many(keys[:50] + 0.1, k=4000, beam=beam).ids != NONE).sum(axis=1)
        assert seen.max() <= leaves * tree.stats().largest_leaf + 16 * (2 * beam + SPARE + 1)


@pytest.mark.parametrize("order", ["first", "last", "random"])
def test_those_who_are_left_know_each_other_when_many_go(order):
    keys, asked = drawn(2)
    tree = MemoryTree(routing="neighbours", seed=0)
    tree.insert_many(keys, range(len(keys)))
    leave = {
        "first": np.arange(len(keys)),
        "last": np.arange(len(keys))[::-1],
        "random": np.random.default_rng(3).permutation(len(keys)),
    }[order]
    gone, kept = leave[:2000], np.sort(leave[2000:])
    for number, id in enumerate(gone.tolist()):
        tree.remove(id)
        if number % 100 == 0:
            check_tree(tree)
    check_tree(tree)
    assert not np.isin(tree.query_many(asked, k=50, beam=8).ids, gone).any()
    assert recall(tree, asked, nearest(keys[kept], asked, 10), 16, kept) > 0.93


def test_a_full_memory_goes_on_finding_what_is_there():
    keys, asked = drawn(4, n=6000)
    keys += (np.arange(len(keys)) / 2000)[:, None].astype(np.float32)  # and what comes is no longer like what came
    tree = MemoryTree(routing="neighbours", seed=0, capacity=1000)
    tree.insert_many(keys, range(len(keys)))
    check_tree(tree)
    assert recall(tree, asked + 3, nearest(keys[5000:], asked + 3, 10), 16, np.arange(5000, 6000)) > 0.93


def test_clusters_far_apart_are_found_whole(rng):
    """Neighbours know nobody outside their cluster: the tree has to lead into the right one."""
    centers = 10 * rng.normal(size=(80, 32))
    kind = rng.integers(80, size=4200)
    rows = (centers[kind] + rng.normal(size=(4200, 32))).astype(np.float32)
    tree = MemoryTree(routing="neighbours", seed=0)
    tree.insert_many(rows[:4000], range(4000))
    assert recall(tree, rows[4000:], nearest(rows[:4000], rows[4000:], 10), 16) > 0.9


def test_a_key_finds_itself_among_many_that_are_equal(rng):
    keys = np.repeat(rng.normal(size=(5, 3)), 300, axis=0).astype(np.float32)
    keys = np.vstack([keys, rng.normal(size=(500, 3)).astype(np.float32)])
    tree = MemoryTree(routing="neighbours", seed=0)
    tree.insert_many(keys, range(len(keys)))
    check_tree(tree)
    assert np.all(tree.query_many(keys, k=1).scores == 0)


def test_copies_do_not_keep_others_from_being_met(rng):
    points = rng.normal(size=(150, 8)).astype(np.float32)
    keys = np.repeat(points, 40, axis=0)[rng.permutation(6000)]
    tree = MemoryTree(routing="neighbours", seed=0)
    tree.insert_many(keys, range(6000))
    check_tree(tree)
    asked = rng.normal(size=(200, 8)).astype(np.float32)
    wanted = np.linalg.norm(asked[:, None] - points[None], axis=2).min(axis=1)
    assert np.mean(np.isclose(-tree.query_many(asked, k=1, beam=16).scores[:, 0], wanted, atol=1e-4)) > 0.6


def test_how_many_neighbours_may_be_any_kind_of_whole_number(tmp_path):
    tree = MemoryTree(routing=principal(neighbours=np.int64(8)), seed=0)
    tree.insert([1.0], "one")
    tree.save(tmp_path / "tree")
    assert MemoryTree.load(tmp_path / "tree")[0] == "one"


def test_excluded_memories_show_the_way_but_are_not_returned():
    keys, asked = drawn(5)
    tree = MemoryTree(routing="neighbours", seed=0)
    tree.insert_many(keys, range(len(keys)))
    wanted = nearest(keys, asked, 15)
    hits = tree.query_many(asked, k=5, beam=16, exclude=wanted[:, :10])
    assert np.mean([len(np.intersect1d(a, b)) / 5 for a, b in zip(hits.ids, wanted[:, 10:], strict=True)]) > 0.9
    assert not any(np.isin(a, b).any() for a, b in zip(hits.ids, wanted[:, :10], strict=True))


def test_a_learned_space_has_neighbours_too(rng):
    kind = rng.integers(20, size=1000)
    X = np.hstack([rng.normal(size=(20, 4))[kind] * 3, 3 * rng.normal(size=(1000, 10))])
    memory = MemoryTree.build(X, kind.tolist(), scorer="metric", routing="neighbours", seed=0)
    errors = []
    for _ in range(8):
        hits = memory.query_many(X, k=10, beam=8, exclude=np.arange(1000)[:, None])
        right = kind[hits.ids] == kind[:, None]
        errors.append(1 - right[:, 0].mean())
        memory.update_many(hits, right.astype(float))
        check_tree(memory)
        memory.learn()
    check_tree(memory)
    assert errors[-1] < 0.1 < 0.3 < errors[0]


def test_a_forest_may_have_neighbours(rng):
    keys = rng.normal(size=(400, 6)).astype(np.float32)
    forest = MemoryForest(2, routing="neighbours", seed=0)
    forest.insert_many(keys, range(400))
    forest.remove(7)
    check_tree(forest)
    assert forest.query(keys[8]).ids == [8]


@pytest.mark.boundscheck
@given(st.data())
def test_neighbours_know_each_other_whatever_happens(data):
    width = data.draw(st.sampled_from([4, 5, 32]))
    capacity = data.draw(st.sampled_from([None, 20]))
    tree = MemoryTree(routing=principal(neighbours=width), leaf_factor=1, seed=0, capacity=capacity)
    for _ in range(data.draw(st.integers(1, 12))):
        what = data.draw(st.sampled_from(["insert", "insert", "many", "replace", "remove", "reroute", "sweep", "ask"]))
        if what == "insert":
            tree.insert(data.draw(st.lists(st.integers(-3, 3), min_size=2, max_size=2)), None)
        elif what == "many":
            n, seed = data.draw(st.integers(1, 60)), data.draw(st.integers(0, 9))
            tree.insert_many(np.random.default_rng(seed).integers(-5, 5, size=(n, 2)), range(n))
        elif what == "replace" and len(tree):
            tree.insert([9.0, 9.0], None, id=data.draw(st.sampled_from(list(tree))))
        elif what == "remove" and len(tree):
            tree.remove(data.draw(st.sampled_from(list(tree))))
        elif what == "reroute":
            tree.reroute(5)
        elif what == "sweep":
            tree.sweep()
        elif what == "ask" and len(tree):
            tree.query([0.5, 0.5], k=data.draw(st.integers(1, 9)), beam=data.draw(st.integers(1, 9)), explore=0.5)
        check_tree(tree)


def test_lists_that_contradict_each_other_are_noticed():
    def told(**changes):
        tree = MemoryTree(routing="neighbours", seed=0)
        tree.insert_many(np.arange(60.0)[:, None], range(60))
        arrays = tree._core.arrays()
        for name, (place, value) in changes.items():
            arrays[name][place] = value
        return arrays

    check_arrays(told(), False, False)
    for changes in (
        {"neighbours": ((3, 0), 70)},
        {"neighbours": ((3, 0), 3)},
        {"neighbours": ((3, 0), NONE)},
        {"neighbours": ((3, 0), 50)},
        {"link_distances": ((3, 0), 0.25)},
        {"link_distances": ((3, 0), 9e9)},
    ):
        with pytest.raises(ValueError, match="contradicts"):
            check_arrays(told(**changes), False, False)


@pytest.mark.parametrize(
    "settings",
    [
        {"routing": principal(neighbours=3)},
        {"routing": principal(neighbours=1000)},
        {"routing": principal(neighbours=8.5)},
        {"routing": principal(neighbours="8")},
        {"routing": principal(neighbours=float("nan"))},
        {"routing": principal(neighbours=None)},
        {"routing": principal(neighbours=True)},
        {"routing": "neighbours", "scorer": "linear"},
        {"routing": "neighbours", "scorer": linear()},
    ],
    ids=str,
)
def test_what_cannot_have_neighbours_is_refused(settings):
    with pytest.raises(InvalidOption):
        MemoryTree(**settings).insert([1.0, 2.0], None)


def test_sparse_keys_have_no_neighbours():
    tree = MemoryTree(routing="neighbours")
    with pytest.raises(InvalidOption, match="dense"):
        tree.insert({"rain": 1.0}, None)
    assert len(tree) == 0
    tree.insert([1.0], "still of use")
    assert len(tree) == 1
