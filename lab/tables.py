"""Tables of figures with their spread over runs, and their rendering in Markdown, in HTML and on a terminal."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, isfinite, log10
from statistics import fmean, stdev
from typing import Any

from rich.table import Table as RichTable

NOT_RUN = "not run"


@dataclass(frozen=True)
class Cell:
    """A mean or least figure over several runs, or the status that explains why there is none.

    >>> str(Cell.of([0.41, 0.4, 0.42])), str(Cell.of([1234.5])), str(Cell(status="missing"))
    ('0.410 ± 0.010', '1,234', 'missing')
    """

    value: float | None = None
    sd: float | None = None
    runs: int = 0
    status: str = "ok"

    @classmethod
    def of(cls, figures: Iterable[float]) -> Cell:
        """Return the mean of figures over runs, and their standard deviation if there are several."""
        known = [float(figure) for figure in figures]
        if not known:
            return cls(status=NOT_RUN)
        return cls(fmean(known), stdev(known) if len(known) > 1 else None, len(known))

    @classmethod
    def least(cls, figures: Iterable[float]) -> Cell:
        """Return the least of figures over runs, which other processes on the machine have disturbed least."""
        known = [float(figure) for figure in figures]
        return cls(min(known), None, len(known)) if known else cls(status=NOT_RUN)

    def times(self, factor: float) -> Cell:
        """Return the cell multiplied by a factor, to change its unit."""
        if self.value is None:
            return self
        return Cell(self.value * factor, None if self.sd is None else self.sd * factor, self.runs, self.status)

    def __str__(self) -> str:
        if self.value is None:
            return self.status
        whole = not self.sd and float(self.value).is_integer()
        places = 0 if whole else decimals(self.value)
        spread = "" if self.sd is None else f" ± {self.sd:,.{places}f}"
        return f"{self.value:,.{places}f}{spread}" + ("" if self.status == "ok" else f" ({self.status})")


def decimals(value: float) -> int:
    """Return the decimal places that show three significant digits, at most five.

    >>> [decimals(x) for x in (0.0123, 0.5, 7.3, 42.0, 12345.0, 0.0)]
    [4, 3, 2, 1, 0, 3]
    """
    if value == 0 or not isfinite(value):
        return 3
    return max(0, min(5, 2 - floor(log10(abs(value)))))


@dataclass(frozen=True)
class Column:
    """The head of a column; `better` is "less" or "more" if its best figure is marked, else None."""

    title: str
    better: str | None = None


@dataclass
class Table:
    """A table: the first column names the rows, other cells are `Cell`s or text.

    >>> table = Table("Errors", ["system", Column("error", "less")])
    >>> table.add("ours", 0.25)
    >>> table.add("exact 1-NN", None)
    >>> [[str(cell) for cell in row] for row in table.rows]
    [['ours', '0.250'], ['exact 1-NN', '']]
    """

    title: str
    columns: Sequence[Column | str]
    rows: list[list[Cell | str]] = field(default_factory=list)
    note: str = ""

    def __post_init__(self) -> None:
        self.heads = [column if isinstance(column, Column) else Column(column) for column in self.columns]

    def add(self, *cells: Cell | str | float | None) -> None:
        """Add a row; a number becomes a figure of one run, None an empty cell."""
        if len(cells) != len(self.columns):
            raise ValueError(f"a row of {len(cells)} cells, but {self.title!r} has {len(self.columns)} columns")
        self.rows.append([_as_cell(cell) for cell in cells])

    def numeric(self, place: int) -> bool:
        """Return whether a column holds figures (or the status of missing ones)."""
        return any(isinstance(row[place], Cell) for row in self.rows)

    def best(self, place: int) -> set[int]:
        """Return the numbers of the rows with the best figure of a column, as displayed; none if fewer than two have one."""
        better = self.heads[place].better
        figures = {
            number: cell.value
            for number, row in enumerate(self.rows)
            if isinstance(cell := row[place], Cell) and cell.value is not None
        }
        if better is None or len(figures) < 2:
            return set()
        extreme = (min if better == "less" else max)(figures.values())
        if extreme == 0:
            return {number for number, value in figures.items() if value == 0}
        places = decimals(extreme)
        return {number for number, value in figures.items() if round(value, places) == round(extreme, places)}

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain data."""
        return {
            "title": self.title,
            "note": self.note,
            "columns": [vars(column) for column in self.heads],
            "rows": [[cell if isinstance(cell, str) else vars(cell) for cell in row] for row in self.rows],
        }

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Table:
        """Return the table from the plain data of `to_json`."""
        columns = [Column(**column) for column in plain["columns"]]
        rows: list[list[Cell | str]] = [
            [cell if isinstance(cell, str) else Cell(**cell) for cell in row] for row in plain["rows"]
        ]
        return cls(plain["title"], columns, rows, plain["note"])


def _as_cell(given: Cell | str | float | None) -> Cell | str:
    if given is None:
        return ""
    return given if isinstance(given, Cell | str) else Cell(float(given), None, 1)


def markdown(table: Table) -> str:
    """Return the table in Markdown; the best figure of a column is bold."""
    best = [table.best(place) for place in range(len(table.columns))]

    def shown(number: int, place: int, cell: Cell | str) -> str:
        text = str(cell).replace("|", "\\|")
        return f"**{text}**" if number in best[place] else text

    lines = [
        "| " + " | ".join(column.title for column in table.heads) + " |",
        "|" + "|".join("---:" if table.numeric(place) else "---" for place in range(len(table.columns))) + "|",
        *(
            "| " + " | ".join(shown(number, place, cell) for place, cell in enumerate(row)) + " |"
            for number, row in enumerate(table.rows)
        ),
    ]
    note = f"\n\n{table.note}" if table.note else ""
    return f"### {table.title}\n\n" + "\n".join(lines) + note


def to_html(table: Table) -> str:
    """Return the table in HTML; the best figure of a column is strong, and missing figures are grey."""
    best = [table.best(place) for place in range(len(table.columns))]

    def shown(number: int, place: int, cell: Cell | str) -> str:
        text = html.escape(str(cell))
        if place == 0:
            return f'<th scope="row">{text}</th>'
        if number in best[place]:
            return f"<td><strong>{text}</strong></td>"
        unmeasured = isinstance(cell, Cell) and cell.value is None
        return f'<td class="none">{text}</td>' if unmeasured else f"<td>{text}</td>"

    head = "".join(f'<th scope="col">{html.escape(column.title)}</th>' for column in table.heads)
    body = "\n".join(
        "<tr>" + "".join(shown(number, place, cell) for place, cell in enumerate(row)) + "</tr>"
        for number, row in enumerate(table.rows)
    )
    note = f'<p class="note">{html.escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="wide"><table><caption>{html.escape(table.title)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n{note}"
    )


def to_rich(table: Table, row_styles: Mapping[str, str] = {}) -> RichTable:
    """Return the table for a terminal; `row_styles` maps the text of a last cell to the style of its row."""
    shown = RichTable(title=table.title, title_justify="left")
    for place, column in enumerate(table.heads):
        shown.add_column(column.title, justify="right" if table.numeric(place) else "left")
    best = [table.best(place) for place in range(len(table.columns))]
    for number, row in enumerate(table.rows):
        cells = (f"[bold]{cell}[/]" if number in best[place] else str(cell) for place, cell in enumerate(row))
        shown.add_row(*cells, style=row_styles.get(str(row[-1])))
    return shown
