"""A table of several experiments: a row for each system on one data set, built column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lab import published
from lab.experiments.data import title
from lab.results import Results
from lab.tables import Cell, Column, Table


class SystemTable:
    """Builds a table; the first columns are the systems and their numbers of runs."""

    def __init__(self, results: Results, dataset: str, baselines: Sequence[str], runs: str = "seeds"):
        self._results, self._dataset, self._baselines = results, dataset, baselines
        self.stand_in = published.STANDS_FOR.get(dataset, "")  # the paper's set that this one substitutes
        self._heads: list[Column] = []
        self._rows: list[list[Cell | str]] = [[] for _ in baselines]
        self.add("system", title)
        self.add(runs, lambda baseline: results.runs(baseline=baseline, dataset=dataset))

    def add(self, head: str, cell: Callable[[str], Cell | str], better: str | None = None) -> None:
        """Add a column with a cell for each system."""
        self._heads.append(Column(head, better))
        for row, baseline in zip(self._rows, self._baselines, strict=True):
            row.append(cell(baseline))

    def mean(self, head: str, figure: str, better: str) -> None:
        """Add the mean of a figure over runs."""
        self.add(head, lambda baseline: self._results.cell(figure, baseline=baseline, dataset=self._dataset), better)

    def least(self, head: str, figure: str, unit: float = 1.0, better: str | None = "less") -> None:
        """Add the least of a figure over runs in some unit, which is how times are given."""
        self.add(
            head, lambda baseline: self._results.least(figure, baseline=baseline, dataset=self._dataset).times(unit), better
        )

    def paper(
        self,
        head: str,
        scores: Mapping[tuple[str, str], Any],
        shown: Callable[[Any], str],
        systems: Mapping[str, str] = published.SYSTEMS,
    ) -> None:
        """Add the paper's figures, keyed by (set, system); `systems` maps a baseline to the paper's name for it."""

        def cell(baseline: str) -> str:
            score = scores.get((self.stand_in, systems.get(baseline, "")))
            return shown(score) if score else ""

        self.add(head, cell)

    def table(self, note: str = "") -> Table:
        """Return the table, with the note if the paper has figures for the set."""
        return Table(self._dataset, self._heads, self._rows, note if self.stand_in else "")
