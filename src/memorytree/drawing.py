"""Pictures of an index from its outline, as text or with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from memorytree.results import Outline, OutlineNode, OutlineTerms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FeatureNames: TypeAlias = Mapping[Any, str]
"""The names to show by feature: {feature: name}, where all features are str or all are int."""
TERMS_PER_LEVEL = 5
"""Term lists have no levels: so many terms are shown for each level asked for."""
BAR_WIDTH = 40
LEARNED = 0.02
"""From this difference to 1 on, the learned importance of a term is shown."""


class Names(NamedTuple):
    """What a picture needs beside an outline.

    Attributes:
        n: the number of memories.
        feature_name: the name of a feature by number.
        chosen: shown names by feature name, or None for all features under their own names.
    """

    n: int
    feature_name: Callable[[int], str | int]
    chosen: FeatureNames | None


class _Term(NamedTuple):
    name: str
    memories: int
    importance: float

    @property
    def learned(self) -> str:
        """The importance, if it has changed."""
        return f"x{self.importance:.2f}" if abs(self.importance - 1) > LEARNED else ""


def draw(outline: Outline, ax: Axes | bool | None, depth: int, names: Names) -> str | Axes:
    """Draw an outline as text (`ax` is None), on matplotlib axes, or on new ones (`ax` is True)."""
    if isinstance(outline, OutlineTerms):
        terms = _commonest(outline, TERMS_PER_LEVEL * depth, names)
        if ax is None:
            return _terms_as_text(terms, len(outline.features), names.n)
        return _terms_as_bars(terms, len(outline.features), names.n, new_axes(ax, 0.5 * TERMS_PER_LEVEL * depth))
    return _tree_as_text(outline) if ax is None else _tree_as_bars(outline, new_axes(ax, depth))


def new_axes(ax: Axes | bool, rows: float) -> Axes:
    """The axes given, or new ones of a height for so many rows."""
    if not isinstance(ax, bool):
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(9, 0.6 * (rows + 2)), layout="constrained")[1]


def _tree_as_text(root: OutlineNode) -> str:
    lines: list[str] = []

    def walk(node: OutlineNode, prefix: str, branch: str, below: str) -> None:
        more = "" if node.is_leaf or node.children else " ..."
        lines.append(f"{prefix}{branch}{'leaf' if node.is_leaf else 'node'} {node.number}: {node.memories:,}{more}")
        if node.children:
            walk(node.children[0], prefix + below, "├─ ", "│  ")
            walk(node.children[1], prefix + below, "└─ ", "   ")

    walk(root, "", "", "")
    return "\n".join(lines)


def _tree_as_bars(root: OutlineNode, ax: Axes) -> Axes:
    """A bar for each node, as wide as the memories below it, the darker the less evenly it splits them."""
    import matplotlib.pyplot as plt

    shades = plt.get_cmap("cividis_r")
    waiting = [(root, 0, 0)]
    while waiting:
        node, start, level = waiting.pop()
        color = "#dddddd" if node.is_leaf else shades(2 * node.heavier_side - 1)
        ax.barh(level, node.memories, left=start, height=0.9, color=color, edgecolor="white", linewidth=0.5)
        if node.children:
            left, right = node.children
            waiting += [(left, start, level + 1), (right, start + left.memories, level + 1)]
    ax.invert_yaxis()
    ax.set_xlabel("memories, from the leftmost leaf to the rightmost")
    ax.set_ylabel("level")
    ax.set_title("Width: memories below a node. Darker: less even. Grey: a leaf.", fontsize=10)
    return ax


def _commonest(outline: OutlineTerms, most: int, names: Names) -> list[_Term]:
    """The terms of most memories, among those that are to be shown."""
    found: list[_Term] = []
    rows = zip(outline.features.tolist(), outline.memories.tolist(), outline.importance.tolist(), strict=True)
    for feature, memories, importance in rows:
        if len(found) == most:
            break
        own = names.feature_name(feature)
        name = str(own) if names.chosen is None else names.chosen.get(own)
        if name is not None:
            found.append(_Term(name, memories, importance))
    return found


def _terms_as_text(terms: list[_Term], n_terms: int, n: int) -> str:
    widest = max((term.memories for term in terms), default=1)
    longest = max((len(term.name) for term in terms), default=0)
    lines = [f"{n:,} memories in lists by {n_terms:,} terms{'; the commonest:' if terms else ''}"]
    for term in terms:
        bar = "█" * max(1, round(BAR_WIDTH * term.memories / widest))
        lines.append(f"{term.name:>{longest}}  {bar} {term.memories:,} {term.learned}".rstrip())
    return "\n".join(lines)


def _terms_as_bars(terms: list[_Term], n_terms: int, n: int, ax: Axes) -> Axes:
    from matplotlib.ticker import MaxNLocator

    bars = ax.barh(range(len(terms)), [term.memories for term in terms], height=0.8, color="#4c6a92")
    ax.bar_label(bars, [f"{term.memories:,} {term.learned}" for term in terms], padding=3, fontsize=9)
    ax.set_yticks(range(len(terms)), [term.name for term in terms])
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.set_xlabel("memories")
    ax.set_title(f"{n:,} memories by {n_terms:,} terms. Behind x: what rewards made a term count.", fontsize=10)
    return ax
