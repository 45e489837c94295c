"""A plot of several experiments: a score of each system against its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab import plots
from lab.experiments.data import title
from lab.results import Results
from lab.tables import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def batch_us(results: Results, baseline: str, dataset: str) -> Cell:
    """Return the time of a query in a batch, or of a call if a baseline has no batches."""
    return results.least("query_us", baseline=baseline, dataset=dataset)


def against_time(
    results: Results,
    sets: Sequence[str],
    baselines: Sequence[str],
    figure: str,
    what: str,
) -> Figure:
    """Return a plot with a panel for each data set and a point for each baseline: a figure against the time of a query."""
    panels = []
    for dataset in sets:
        panel = plots.Panel(dataset, "CPU ms a query", what, logx=True)
        for baseline in baselines:
            value, us = results.mean(figure, baseline=baseline, dataset=dataset), batch_us(results, baseline, dataset).value
            points = [] if value is None or us is None else [(us / 1e3, value)]
            panel.lines.append(plots.Line(title(baseline), points, baseline))
        panels.append(panel)
    return plots.clouds(panels)
