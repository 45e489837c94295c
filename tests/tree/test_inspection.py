"""Statistics, explanations and pictures, beyond the contract of every index."""

from collections import Counter

import pytest

from memorytree import MemoryTree
from memorytree.results import Level
from tests.trees import TREES, grown, key_of, matrix


@pytest.mark.parametrize(("kind", "routing"), TREES)
def test_statistics_agree_with_the_paths_to_all_memories(kind, routing):
    tree = grown(kind, routing, 300)
    tree.sweep()  # every memory lies where its own key leads
    stats = tree.stats()
    paths, leaves, below = [], Counter(), [Counter() for _ in range(stats.depth + 1)]
    children = {}
    for x in matrix(300):
        why = tree.explain(key_of(kind, x), 1)
        nodes = [step.node for step in why.steps] + [why.leaf]
        paths.append(nodes)
        leaves[why.leaf] += 1
        for level, node in enumerate(nodes):
            below[level][node] += 1
            children.setdefault(node, set()).update(nodes[level + 1 : level + 2])
    assert stats.memories == len(tree) == 300
    assert stats.leaves == len(leaves)
    assert stats.largest_leaf == max(leaves.values()) <= stats.leaf_limit
    assert stats.depth == max(map(len, paths)) - 1
    assert stats.average_depth == pytest.approx(sum(len(path) - 1 for path in paths) / 300)
    assert len(stats.levels) == stats.depth
    for level, shown in enumerate(stats.levels):
        inner = [node for node in below[level] if children[node]]
        heavier = [max(below[level + 1][child] for child in children[node]) / below[level][node] for node in inner]
        assert shown == Level(len(inner), pytest.approx(sum(heavier) / len(inner)))
    assert stats.key_bytes == 300 * 4 * (4 if kind == "dense" else 8)
    assert (stats.router_error is None) == (routing != "paper")
    assert (stats.neighbours is not None) == (routing == "graph")
    assert stats.router_error is None or 0 <= stats.router_error <= 1
    assert "heavier side by level" in str(stats)


def test_statistics_of_an_empty_tree_are_zero():
    stats = MemoryTree().stats()
    assert (stats.memories, stats.leaves, stats.depth, stats.bytes) == (0, 0, 0, 0)
    assert MemoryTree().plot() == "(empty)"


@pytest.mark.parametrize("scorer", ["distance", "cosine"])
@pytest.mark.parametrize(("kind", "routing"), TREES)
def test_an_explanation_lists_the_three_largest_parts(kind, routing, scorer):
    tree = grown(kind, routing, 250, scorer=scorer)
    for q in matrix(5, seed=1):
        why = tree.explain(key_of(kind, q), 5)
        assert why.searched_neighbours == (routing == "graph")
        for candidate in why.candidates:
            parts = [abs(part) for name, part in candidate.parts if name != "(other)"]
            assert parts == sorted(parts, reverse=True)
            assert 1 <= len(parts) <= 3
            if kind == "named":
                assert {name for name, _ in candidate.parts} <= {"f0", "f1", "f2", "f3", "(other)"}


def test_the_parts_of_a_score_add_up():
    distance = grown("dense", "principal", 100, d=3)
    cosine = grown("dense", "principal", 100, d=3, scorer="cosine")
    for x in matrix(20, 3, seed=1):
        for candidate in distance.explain(x).candidates:
            assert sum(part for _, part in candidate.parts) == pytest.approx(candidate.hit.score, rel=5e-3)
        for candidate in cosine.explain(x).candidates:
            assert sum(part for _, part in candidate.parts) == pytest.approx(candidate.hit.score, rel=5e-3)


@pytest.mark.parametrize(("kind", "routing"), TREES)
def test_a_picture_as_text_shows_all_nodes_within_the_depth(kind, routing):
    tree = grown(kind, routing, 200)
    lines = tree.plot(depth=100).split("\n")
    assert sum("leaf" in line for line in lines) == tree.stats().leaves
    assert sum("node" in line for line in lines) == sum(level.nodes for level in tree.stats().levels)
    assert len(tree.plot(depth=0).split("\n")) == 1
    assert tree.plot(depth=0).endswith("200 ...")


def test_matplotlib_draws_on_the_given_axes():
    plt = pytest.importorskip("matplotlib.pyplot")
    tree = grown(n=300)
    figure, ax = plt.subplots()
    try:
        assert tree.plot(ax, depth=3) is ax
        widths = Counter()
        for bar in ax.patches:
            widths[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
        assert widths[0] == widths[1] == 300
        assert set(widths) <= set(range(5))
        made = tree.plot(True)
        assert made is not ax
        assert made.patches
        assert MemoryTree().plot(True) is not None
    finally:
        plt.close("all")
    assert figure


def test_pictures_show_the_given_names_of_features():
    tree = MemoryTree(seed=0)
    tree.insert({"rain": 1.0, "sun": 2.0}, "weather")
    assert "RAIN" in tree.plot(names={"rain": "RAIN"})
