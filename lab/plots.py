"""Plots with one palette for colour-blind readers, a marker for each line, and axes with units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, without its yellow, which is too light for lines on white.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY, BROWN = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#777777", "#6B3E12",
)  # fmt: skip
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY)
MARKERS = "osD^vP*X<>hd"

# Colour, marker and dashes of the systems that appear in several plots: ours are blue, the paper's method is green.
STYLES: dict[str, tuple[str, str, str]] = {
    "ours": (BLUE, "o", "-"),
    "ours-best": (BLUE, "*", "--"),
    "ours-u": (BLUE, "d", ":"),
    "cmt": (GREEN, "D", "-"),
    "cmt-u": (GREEN, "d", "--"),
    "vw-memory-tree-1": (ORANGE, "p", "--"),
    "vw-memory-tree-3": (ORANGE, "^", "-"),
    "vw-memory-tree-1-fast": (ORANGE, "*", "-."),
    "vw-memory-tree-3-fast": (ORANGE, "X", "-."),
    "vw-emt": (ORANGE, "v", ":"),
    "vw-recall-tree": (PURPLE, "s", "-"),
    "vw-lomtree": (PURPLE, "P", "--"),
    "vw-oaa": (GREY, "X", "-"),
    "vw-oas": (ORANGE, "^", "-"),
    "vw-multilabel-oaa": (GREY, "X", "-"),
    "exact-1nn": (BLACK, "<", "-"),
    "exact-1nn-counts": (BLACK, "v", ":"),
    "kd-tree": (VERMILION, "s", "-"),
    "bm25": (VERMILION, "P", "--"),
    "plt": (VERMILION, "D", "-"),
    "faiss-lsh": (SKY, "s", "--"),
    "faiss-ivf": (SKY, "D", ":"),
    "nca": (VERMILION, "^", ":"),
    "attention": (PURPLE, "D", ":"),
    "hnswlib": (SKY, ">", "-"),
    "linear": (GREY, "h", "--"),
}


@dataclass
class Line:
    """One line of a plot: points (x, y), or (x, y, spread of y)."""

    label: str
    points: Sequence[tuple[float, ...]]
    style: str = ""  # a name of STYLES; empty for the next colour and marker
    bare: bool = False  # a theoretical curve: dotted, no markers


@dataclass
class Panel:
    """One pair of axes."""

    title: str
    x: str
    y: str
    lines: list[Line] = field(default_factory=list)
    logx: bool = False
    logy: bool = False
    from_zero: bool = False


def _sheet(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure  # imported here, so that `lab list` works without matplotlib

    return Figure(figsize=(width, height), layout="constrained")


def style_of(name: str, number: int) -> dict[str, Any]:
    """Return colour, marker and dashes of a line by its name, or else by its number; a user's baseline is brown."""
    if name in STYLES:
        colour, marker, dashes = STYLES[name]
    elif ":" in name:
        colour, marker, dashes = BROWN, MARKERS[number % len(MARKERS)], "-"
    else:
        colour, marker = PALETTE[number % len(PALETTE)], MARKERS[number % len(MARKERS)]
        dashes = ("-", "--", ":")[number // len(PALETTE) % 3]
    return {"color": colour, "marker": marker, "linestyle": dashes}


def lines(panels: Sequence[Panel], columns: int | None = None) -> Figure:
    """Plot panels of lines; one legend for all if all have the same lines."""
    columns = columns or min(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = _sheet(4.6 * columns, 3.6 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    for panel, axis in zip(panels, axes, strict=False):
        _draw_lines(panel, axis)
    names = [[line.label for line in panel.lines] for panel in panels]
    if len(panels) > 1 and all(one == other for one, other in pairwise(names)):
        handles, labels = axes[0].get_legend_handles_labels()
        _legend_below(figure, dict(zip(labels, handles, strict=True)))
    else:
        for panel, axis in zip(panels, axes, strict=False):
            if len(panel.lines) > 1 or any(line.bare for line in panel.lines):
                axis.legend(fontsize=7, framealpha=0.8)
    return figure


def _draw_lines(panel: Panel, axis: Axes) -> None:
    for number, line in enumerate(panel.lines):
        if not line.points:
            axis.plot([], [], label=f"{line.label}", **style_of(line.style, number))
            continue
        x, y = [point[0] for point in line.points], [point[1] for point in line.points]
        look = style_of(line.style, number)
        if line.bare:
            _, named = axis.get_legend_handles_labels()
            label = None if line.label in named else line.label  # several curves may share a label
            axis.plot(x, y, label=label, color=look["color"], linestyle=(0, (1, 1.5)), linewidth=1.4)
            continue
        spread = [point[2] for point in line.points if len(point) > 2]
        shown = {"markersize": 5, "linewidth": 1.5, "capsize": 2, **look}
        axis.errorbar(x, y, yerr=spread if len(spread) == len(x) else None, label=line.label, **shown)
    _scale(panel, axis)
    _label_axes(axis, panel)


def bars(groups: Sequence[str], heights: Mapping[str, Sequence[float | None]], y: str, styles: Mapping[str, str]) -> Figure:
    """Plot a group of bars for each name in `groups`; `heights` has a bar in every group for each label."""
    figure = _sheet(max(6.0, 1.15 * len(groups) + 1.5), 4.2)
    axis = figure.subplots()
    width = 0.86 / max(1, len(heights))
    for number, (label, values) in enumerate(heights.items()):
        look = style_of(styles.get(label, ""), number)
        at = [group + (number - (len(heights) - 1) / 2) * width for group in range(len(groups))]
        hatch = {"-": "", "--": "////", ":": "...."}[look["linestyle"]]
        known = [0.0 if value is None else value for value in values]
        axis.bar(at, known, width, label=label, color=look["color"], hatch=hatch, edgecolor="white", linewidth=0.5)
    axis.set_xticks(range(len(groups)), groups)
    axis.axhline(0, color="black", linewidth=0.6)
    handles, labels = axis.get_legend_handles_labels()
    _legend_below(figure, dict(zip(labels, handles, strict=True)))
    _label_axes(axis, Panel("", "", y))
    axis.grid(False, axis="x")
    return figure


def clouds(panels: Iterable[Panel]) -> Figure:
    """Plot panels of named single points: a score of each system against its time."""
    shown = list(panels)
    figure = _sheet(max(7.5, 4.6 * len(shown)), 4.6)
    axes = figure.subplots(1, len(shown), squeeze=False).ravel().tolist()
    handles: dict[str, Any] = {}
    for panel, axis in zip(shown, axes, strict=True):
        for number, line in enumerate(panel.lines):
            look = style_of(line.style, number) | {"linestyle": "none"}
            for point in line.points:
                (handle,) = axis.plot(point[0], point[1], markersize=8, **look)
                handles.setdefault(line.label, handle)
        _scale(panel, axis)
        _label_axes(axis, panel)
    _legend_below(figure, handles)
    return figure


def _legend_below(figure: Figure, named: Mapping[str, Any]) -> None:
    """Add one legend for all panels, in as many columns as fit."""
    columns = max(1, min(len(named), int(figure.get_figwidth() / 2.8)))
    figure.legend(
        list(named.values()), list(named), loc="outside lower center", ncols=columns, frameon=False, fontsize=8
    )  # fmt: skip


def _scale(panel: Panel, axis: Axes) -> None:
    """Set logarithmic axes where wanted, with plain numbers at as many ticks as fit."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if not any(line.points for line in panel.lines):
        axis.text(0.5, 0.5, "not measured", ha="center", color=GREY, transform=axis.transAxes)
        axis.set_xticks([])
        axis.set_yticks([])
        return
    if panel.logx:
        axis.set_xscale("log")
    if panel.logy:
        axis.set_yscale("log")
    for side, wanted in ((axis.xaxis, panel.logx), (axis.yaxis, panel.logy)):
        if wanted:
            low, high = sorted(side.get_view_interval())
            narrow = high < 50 * low
            side.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,), numticks=8))
            side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
            side.set_minor_locator(NullLocator())
    if panel.from_zero:
        axis.set_ylim(bottom=0)


def _label_axes(axis: Axes, panel: Panel) -> None:
    axis.set_title(panel.title, fontsize=10)
    axis.set_xlabel(panel.x)
    axis.set_ylabel(panel.y)
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
