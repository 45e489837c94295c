"""A plot that several experiments have: what each system gives for its time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memorytree.lab import plots
from memorytree.lab.experiments.sets import title
from memorytree.lab.results import Results
from memorytree.lab.tables import Cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def batch_us(results: Results, peer: str, dataset: str) -> Cell:
    """The time of a query among many, or of a call where a peer has no batches."""
    return results.least("query_us", peer=peer, dataset=dataset)


def against_time(
    results: Results,
    sets: Sequence[str],
    peers: Sequence[str],
    figure: str,
    what: str,
) -> Figure:
    """A panel for each data set with a point for each peer: a figure against the time of a query."""
    panels = []
    for dataset in sets:
        panel = plots.Panel(dataset, "CPU ms a query", what, logx=True)
        for peer in peers:
            value, us = results.mean(figure, peer=peer, dataset=dataset), batch_us(results, peer, dataset).value
            points = [] if value is None or us is None else [(us / 1e3, value)]
            panel.lines.append(plots.Line(title(peer), points, peer))
        panels.append(panel)
    return plots.clouds(panels)
