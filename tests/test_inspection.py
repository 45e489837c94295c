"""Figures add up, explanations fit the answers, pictures show the tree."""

from collections import Counter

import pytest

from memorytree import MemoryForest, MemoryTree
from memorytree.inspection import Level
from tests.trees import TREES, grown, key_of, matrix


@pytest.mark.parametrize(("kind", "routing"), TREES)
def test_figures_add_up(kind, routing):
    tree = grown(kind, routing, 300)
    tree.sweep()  # so that every memory lies where its own key leads
    X, stats = matrix(300), tree.stats()
    paths, leaves, below = [], Counter(), [Counter() for _ in range(stats.depth + 1)]
    children = {}
    for id, x in enumerate(X):
        hits = tree.query(key_of(kind, x))
        assert hits.ids == [id]
        leaf = hits.receipt.hits[0][1]
        nodes = [step.node for step in tree.explain(key_of(kind, x)).steps] + [leaf]
        assert [node for node, _ in hits.receipt.path][-1] in nodes
        paths.append(nodes)
        leaves[leaf] += 1
        for level, node in enumerate(nodes):
            below[level][node] += 1
            children.setdefault(node, set()).update(nodes[level + 1 : level + 2])
    assert stats.memories == len(tree) == 300
    assert stats.leaves == len(leaves)
    assert stats.largest_leaf == max(leaves.values()) <= stats.leaf_limit
    assert stats.depth == max(map(len, paths)) - 1
    assert stats.average_depth == pytest.approx(sum(len(path) - 1 for path in paths) / 300)
    assert len(stats.levels) == stats.depth
    for level, told in enumerate(stats.levels):
        inner = [node for node in below[level] if children[node]]
        heavier = [max(below[level + 1][child] for child in children[node]) / below[level][node] for node in inner]
        assert told == Level(len(inner), pytest.approx(sum(heavier) / len(inner)))
    assert stats.key_bytes == 300 * 4 * (4 if kind == "dense" else 8)
    assert stats.bytes == stats.key_bytes + stats.other_bytes
    assert stats.other_bytes > 0
    assert stats.spare_bytes >= 0
    assert (stats.router_error is None) == (routing != "paper")
    assert (stats.neighbours is not None) == (routing == "neighbours")
    assert stats.router_error is None or 0 <= stats.router_error <= 1
    assert "heavier side by level" in str(stats)


def test_figures_of_an_empty_tree_are_zero():
    stats = MemoryTree().stats()
    assert (stats.memories, stats.leaves, stats.depth, stats.bytes) == (0, 0, 0, 0)
    assert str(stats)
    assert MemoryTree().explain([1.0]).candidates == ()
    assert MemoryTree().draw() == "(empty)"


@pytest.mark.parametrize("scorer", ["distance", "cosine"])
@pytest.mark.parametrize(("kind", "routing"), TREES)
def test_an_explanation_fits_the_answer(kind, routing, scorer):
    tree = grown(kind, routing, 250, scorer=scorer)
    for q in matrix(30, seed=1):
        hits = tree.query(key_of(kind, q), 5)
        why = tree.explain(key_of(kind, q), 5)
        assert why.candidates[0].hit == hits[0]
        assert [candidate.hit for candidate in why.candidates] == list(hits)
        assert why.went_on == (routing == "neighbours")
        assert why.went_on or why.leaf == hits.receipt.hits[0][1]
        assert all((step.margin > 0) == (step.side == "right") for step in why.steps)
        assert why.steps[0].left + why.steps[0].right == 250
        for above, step in zip(why.steps, why.steps[1:], strict=False):
            assert step.left + step.right == getattr(above, above.side)
        assert why.looked_at == getattr(why.steps[-1], why.steps[-1].side)
        for candidate in why.candidates:
            parts = [abs(part) for _, part in candidate.parts]
            assert parts == sorted(parts, reverse=True)
            assert 1 <= len(parts) <= 3
            if kind == "named":
                assert {name for name, _ in candidate.parts} <= {"f0", "f1", "f2", "f3"}
        assert f"id {hits[0].id}" in str(why)


def test_the_parts_of_a_score_add_up():
    tree = grown("dense", "principal", 100, d=3)
    cosine = grown("dense", "principal", 100, d=3, scorer="cosine")
    for x in matrix(20, 3, seed=1):
        for candidate in tree.explain(x).candidates:
            assert sum(part for _, part in candidate.parts) == pytest.approx(-(candidate.hit.score**2), rel=1e-4)
        for candidate in cosine.explain(x).candidates:
            assert sum(part for _, part in candidate.parts) == pytest.approx(candidate.hit.score, abs=1e-5)


@pytest.mark.parametrize(("kind", "routing"), TREES)
def test_a_drawing_as_text_shows_every_leaf_that_lies_within_the_depth(kind, routing):
    tree = grown(kind, routing, 200)
    stats = tree.stats()
    lines = tree.draw(depth=100).split("\n")
    sizes = [int(line.rsplit(" ", 1)[1].replace(",", "")) for line in lines if "leaf" in line]
    assert len(sizes) == stats.leaves
    assert sum(sizes) == 200
    assert sum("node" in line for line in lines) == sum(level.nodes for level in stats.levels)
    assert len(tree.draw(depth=0).split("\n")) == 1
    assert tree.draw(depth=0).endswith("200 ...")


def test_a_drawing_with_matplotlib_goes_on_the_axes_given():
    plt = pytest.importorskip("matplotlib.pyplot")
    tree = grown(n=300)
    figure, ax = plt.subplots()
    try:
        assert tree.draw(ax, depth=3) is ax
        widths = Counter()
        for bar in ax.patches:
            widths[round(bar.get_y() + bar.get_height() / 2)] += bar.get_width()
        assert widths[0] == widths[1] == 300
        assert set(widths) <= set(range(5))
        made = tree.draw(True)
        assert made is not ax
        assert made.patches
        assert MemoryTree().draw(True) is not None
    finally:
        plt.close("all")
    assert figure


def by_the_first_number(x, keys, features):
    return keys[:, 0]


@pytest.mark.parametrize(
    "tree",
    [
        MemoryTree(scorer=by_the_first_number, seed=0),
        MemoryTree(scorer="linear", seed=0),
        MemoryTree(scorer="metric", seed=0),
        MemoryForest(3, seed=0),
        MemoryForest(3, scorer="metric", seed=0),
        MemoryTree(scorer="values", seed=0),
    ],
    ids=["own", "linear", "metric", "forest", "forest, metric", "values"],
)
def test_an_explanation_tells_what_a_query_returns(tree):
    X = matrix(200)
    tree.insert_many(X, range(200), features=X[:, :2])
    for _ in range(2):
        for x in matrix(5, seed=1):
            hits, told = tree.query(x, k=3), tree.explain(x, k=3)
            assert [candidate.hit for candidate in told.candidates] == [pytest.approx(hit) for hit in hits]
            tree.update(hits, [1.0, 0.0, 0.0][: len(hits)])


def test_names_of_features_are_looked_up_by_the_names_they_have():
    tree = MemoryTree(seed=0)
    tree.insert({"rain": 1.0, "sun": 2.0}, "weather")
    assert "RAIN" in tree.draw(names={"rain": "RAIN"})
