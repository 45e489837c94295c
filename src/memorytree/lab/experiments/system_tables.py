"""A table that several experiments have: a row for each system on one data set, made column by column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memorytree.lab import published
from memorytree.lab.experiments.sets import title
from memorytree.lab.results import Results
from memorytree.lab.tables import Cell, Column, Table


class SystemTable:
    """The columns so far; begins with the systems and how many runs each had."""

    def __init__(self, results: Results, dataset: str, peers: Sequence[str], runs: str = "seeds"):
        self._results, self._dataset, self._peers = results, dataset, peers
        self.stand_in = published.STANDS_FOR.get(dataset, "")  # the paper's set that this one takes the place of
        self._heads: list[Column] = []
        self._rows: list[list[Cell | str]] = [[] for _ in peers]
        self.add("system", title)
        self.add(runs, lambda peer: results.runs(peer=peer, dataset=dataset))

    def add(self, head: str, cell: Callable[[str], Cell | str], better: str | None = None) -> None:
        """A column with a cell for each system."""
        self._heads.append(Column(head, better))
        for row, peer in zip(self._rows, self._peers, strict=True):
            row.append(cell(peer))

    def mean(self, head: str, figure: str, better: str) -> None:
        """The mean of a figure over runs."""
        self.add(head, lambda peer: self._results.cell(figure, peer=peer, dataset=self._dataset), better)

    def least(self, head: str, figure: str, unit: float = 1.0, better: str | None = "less") -> None:
        """The least of a figure over runs, in some unit: how times are given."""
        self.add(head, lambda peer: self._results.least(figure, peer=peer, dataset=self._dataset).times(unit), better)

    def paper(
        self,
        head: str,
        scores: Mapping[tuple[str, str], Any],
        shown: Callable[[Any], str],
        systems: Mapping[str, str] = published.SYSTEMS,
    ) -> None:
        """What the paper has for its own set, by (set, system); `systems` says what it calls a peer. Else empty."""

        def cell(peer: str) -> str:
            score = scores.get((self.stand_in, systems.get(peer, "")))
            return shown(score) if score else ""

        self.add(head, cell)

    def table(self, note: str = "") -> Table:
        """The table, with a note below it where the paper has figures."""
        return Table(self._dataset, self._heads, self._rows, note if self.stand_in else "")
