"""A picture of a race: errors, entropy reduction, and times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from examples.demo.race import CONSTANT, SCAN, TREE, Race, entropy_reduction, error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The palette of Okabe and Ito for colour-blind readers; the dashes differ too.
_STYLE: dict[str, dict[str, Any]] = {
    TREE: {"color": "#0072B2", "linestyle": "-", "linewidth": 2.2, "zorder": 3},
    SCAN: {"color": "#D55E00", "linestyle": "--", "linewidth": 1.8},
    CONSTANT: {"color": "#555555", "linestyle": ":", "linewidth": 1.8},
}

_SETTLED = 5
"""Below this number of right predictions, the accuracy of the constant predictor is mostly chance."""


def draw(race: Race, path: Path, functions: int) -> None:
    """Write the picture as a PNG."""
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(12.5, 4.6), layout=ConstrainedLayoutEngine(w_pad=0.12))
        errors, entropies, times = figure.subplots(1, 3)
    _draw_errors(race, errors)
    _draw_entropies(race, entropies)
    _draw_times(race, times)
    for axes in (errors, entropies, times):
        axes.grid(color="#E6E6E6", linewidth=0.8)
        axes.set_axisbelow(True)
    handles, names = errors.get_legend_handles_labels()
    figure.legend(handles[::-1], names[::-1], loc="outside upper center", ncols=3, frameon=False)
    figure.supxlabel(
        f"Each of {len(race.labels):,} docstring paragraphs is queried (which of {functions:,} functions and classes does "
        "it describe?), then inserted.",
        fontsize=10, color="#333333",
    )  # fmt: skip
    figure.savefig(path, format="png", dpi=130)


def _draw_errors(race: Race, axes: Axes) -> None:
    from matplotlib.ticker import PercentFormatter

    rows = _rows_axis(race, axes)
    for system in (CONSTANT, SCAN, TREE):
        axes.plot(rows, error(race.right[system])[rows - 1], label=system, **_STYLE[system])
    first_of_function = error(race.seen_before)[rows - 1]
    axes.fill_between(rows, first_of_function, color="#DDDDDD", zorder=0)
    axes.text(
        rows[-1] * 0.97, first_of_function[-1] / 2, "first paragraph of a function", ha="right", va="center", color="#444444"
    )
    axes.set(ylim=(0, 1.03), ylabel="wrong answers so far", title="Error (lower is better)")
    axes.yaxis.set_major_formatter(PercentFormatter(1, 0))


def _draw_entropies(race: Race, axes: Axes) -> None:
    rows = _rows_axis(race, axes)
    settled = np.cumsum(race.right[CONSTANT]) >= _SETTLED
    for system in (SCAN, TREE):
        bits = np.where(settled, entropy_reduction(race.right[system], race.right[CONSTANT]), np.nan)
        axes.plot(rows, bits[rows - 1], label=system, **_STYLE[system])
    axes.set(ylabel="bits more than the constant predictor", title="Entropy reduction (higher is better)")
    axes.set_ylim(bottom=0)


def _rows_axis(race: Race, axes: Axes) -> np.ndarray:
    """Label the axis of rows; return the rows to show, without the first few, whose errors are mostly chance."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    rows = len(race.labels)
    axes.set(xlabel="paragraphs", xlim=(0, rows))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    return np.arange(rows // 50, rows) + 1


def _draw_times(race: Race, axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for system, seconds in ((SCAN, race.scan_times), (TREE, race.tree_times)):
        axes.loglog(race.sizes, np.multiply(seconds, 1e6), marker="o", markersize=4, label=system, **_STYLE[system])
    axes.set(xlabel="memories", ylabel="µs, one thread", title="Time of a query (lower is better)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.set_major_formatter(FuncFormatter(_plain))
        axis.set_minor_formatter(NullFormatter())


def _plain(number: float, _: object) -> str:
    return f"{number:,.0f}"
