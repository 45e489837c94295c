"""Pictures of a tree, as text or with matplotlib. Everything here only reads; the caller holds the lock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from memorytree.engine.arrays import COUNT, LEFT, NONE, RIGHT, ROOT
from memorytree.engine.terms.lists import NO_FEATURE, arrays_of
from memorytree.routing import TermsCore

# Term lists have no levels: for each that is asked for, so many terms are shown.
TERMS_A_LEVEL = 5
BAR = 40
# From here on it is worth telling that rewards have changed how much a term counts.
LEARNED = 0.02


class Term(NamedTuple):
    """A term: its name, how many memories have it, and how much rewards have made it count (1: nothing learned)."""

    name: str
    memories: int
    importance: float

    @property
    def learned(self) -> str:
        """What has been learned of it, if anything."""
        return f"x{self.importance:.2f}" if abs(self.importance - 1) > LEARNED else ""


def draw_text(tree: Any, depth: int, names: Mapping[Any, str] | None = None) -> str:
    """The upper levels of a tree as text, or the terms that most memories have."""
    if tree._core is None:
        return "(empty)"
    if (lists := _lists_of(tree)) is not None:
        return _terms_as_text(tree, lists, depth, names)
    core = tree._core.shown
    nodes = core.arrays()["nodes"]
    lines: list[str] = []

    def walk(node: int, level: int, prefix: str, branch: str, below: str) -> None:
        is_leaf = nodes[node, LEFT] == NONE
        more = "" if is_leaf or level < depth else " ..."
        lines.append(f"{prefix}{branch}{'leaf' if is_leaf else 'node'} {node}: {nodes[node, COUNT]:,}{more}")
        if not is_leaf and level < depth:
            walk(int(nodes[node, LEFT]), level + 1, prefix + below, "├─ ", "│  ")
            walk(int(nodes[node, RIGHT]), level + 1, prefix + below, "└─ ", "   ")

    walk(int(core.counters[ROOT]), 0, "", "", "")
    return "\n".join(lines)


def draw_bars(tree: Any, depth: int, ax: Any, names: Mapping[Any, str] | None = None) -> Any:
    """The same as bars: as wide as the memories below, the darker the less even the node cuts."""
    import matplotlib.pyplot as plt

    lists = _lists_of(tree)
    if ax is None:
        rows = depth if lists is None else 0.5 * TERMS_A_LEVEL * depth
        _, ax = plt.subplots(figsize=(9, 0.6 * (rows + 2)), layout="constrained")
    if lists is not None:
        return _terms_as_bars(tree, lists, depth, ax, names)
    if tree._core is not None:
        core = tree._core.shown
        nodes = core.arrays()["nodes"]
        shades = plt.get_cmap("cividis_r")
        waiting = [(int(core.counters[ROOT]), 0, 0)]
        while waiting:
            node, start, level = waiting.pop()
            count, left, right = int(nodes[node, COUNT]), int(nodes[node, LEFT]), int(nodes[node, RIGHT])
            if left == NONE:
                ax.barh(level, count, left=start, height=0.9, color="#dddddd", edgecolor="white", linewidth=0.5)
                continue
            heavier = max(nodes[left, COUNT], nodes[right, COUNT]) / count
            ax.barh(level, count, left=start, height=0.9, color=shades(2 * heavier - 1), edgecolor="white", linewidth=0.5)
            if level < depth:
                waiting += [(left, start, level + 1), (right, start + int(nodes[left, COUNT]), level + 1)]
    ax.invert_yaxis()
    ax.set_xlabel("memories, from the leftmost leaf to the rightmost")
    ax.set_ylabel("level")
    ax.set_title("Width: memories below a node. Darker: less even. Grey: a leaf.", fontsize=10)
    return ax


def _lists_of(tree: Any) -> TermsCore | None:
    """The term lists of a tree, also where another core stands before them; None if it has none."""
    core = tree._core
    while core is not None and not isinstance(core, TermsCore):
        core = getattr(core, "base", None)
    return core


def _commonest(tree: Any, core: TermsCore, most: int, names: Mapping[Any, str] | None) -> tuple[list[Term], int]:
    """The terms that most memories have, with names if names are given for some; and how many terms there are."""
    arrays = arrays_of(core.lists)
    documents = arrays["documents"][: core.terms].copy()
    documents[NO_FEATURE] = 0
    vocabulary = tree._keys.vocabulary()
    found: list[Term] = []
    for term in np.argsort(-documents, kind="stable").tolist():
        feature = int(arrays["names"][term])
        if len(found) == most or not documents[term]:
            break
        known = feature if vocabulary is None else vocabulary[feature]
        name = str(known) if names is None else names.get(known)
        if name is not None:
            found.append(Term(name, int(documents[term]), float(arrays["importance"][term])))
    return found, int(np.count_nonzero(documents))


def _terms_as_text(tree: Any, core: TermsCore, depth: int, names: Mapping[Any, str] | None) -> str:
    shown, every = _commonest(tree, core, TERMS_A_LEVEL * depth, names)
    widest = max((term.memories for term in shown), default=1)
    long = max((len(term.name) for term in shown), default=0)
    lines = [f"{len(tree):,} memories in lists by {every:,} terms{'; the commonest:' if shown else ''}"]
    for term in shown:
        bar = "█" * max(1, round(BAR * term.memories / widest))
        lines.append(f"{term.name:>{long}}  {bar} {term.memories:,} {term.learned}".rstrip())
    return "\n".join(lines)


def _terms_as_bars(tree: Any, core: TermsCore, depth: int, ax: Any, names: Mapping[Any, str] | None) -> Any:
    shown, every = _commonest(tree, core, TERMS_A_LEVEL * depth, names)
    bars = ax.barh(range(len(shown)), [term.memories for term in shown], height=0.8, color="#4c6a92")
    ax.bar_label(bars, [f"{term.memories:,} {term.learned}" for term in shown], padding=3, fontsize=9)
    ax.set_yticks(range(len(shown)), [term.name for term in shown])
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlabel("memories")
    ax.set_title(f"{len(tree):,} memories by {every:,} terms. Behind x: how much rewards made a term count.", fontsize=10)
    return ax
