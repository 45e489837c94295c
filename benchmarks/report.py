"""What a benchmark found: tables, targets, perhaps a plot; printed, and kept as JSON and Markdown."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

from memorytree.lab.datasets import TEST_ROWS, Dataset, load
from memorytree.lab.measuring import circumstances


@dataclass
class Job:
    """What a benchmark is given: sizes, data, seed, and `step(what, steps=None)` to say how far it is."""

    quick: bool
    data: Path | None
    seed: int
    step: Callable

    def load(self, name: str, *, seed: int = 0, tests: int | None = TEST_ROWS) -> Dataset:
        """Return a data set, or a few of its classes, rows or images for a quick run."""
        return load(name, self.data, seed=seed, quick=self.quick, tests=tests)

    def seeds(self, many: int = 5) -> range:
        """Return the seeds to run: so many, or one for a quick run."""
        return range(self.seed, self.seed + (1 if self.quick else many))


@dataclass
class Target:
    """One figure that must be reached."""

    what: str
    wanted: str
    measured: str
    reached: bool | None  # None: could not be measured

    @property
    def verdict(self) -> str:
        return {True: "reached", False: "not reached", None: "not measured"}[self.reached]


@dataclass
class Table:
    """Rows of plain values under column names."""

    title: str
    columns: list[str]
    rows: list[list] = field(default_factory=list)

    def add(self, *cells) -> None:
        self.rows.append(list(cells))


@dataclass
class Report:
    """All that a benchmark found out."""

    title: str
    about: str
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    runs: dict = field(default_factory=dict)  # every single run, for the JSON file
    figure: object | None = None  # a matplotlib figure

    def at_least(self, what: str, wanted: float, measured: float | None, unit: str = "") -> None:
        self._target(what, "at least", wanted, measured, unit, lambda: measured >= wanted)

    def at_most(self, what: str, wanted: float, measured: float | None, unit: str = "") -> None:
        self._target(what, "at most", wanted, measured, unit, lambda: measured <= wanted)

    def _target(self, what, bound, wanted, measured, unit, holds) -> None:
        unit = unit if unit in ("", "x", "%") else f" {unit}"
        shown = "-" if measured is None else number(measured) + unit
        reached = None if measured is None else bool(holds())
        self.targets.append(Target(what, f"{bound} {number(wanted)}{unit}", shown, reached))

    def target_table(self) -> Table:
        rows = [[target.what, target.wanted, target.measured, target.verdict] for target in self.targets]
        return Table("Targets", ["what", "to reach", "measured", ""], rows)


def number(value) -> str:
    """Show a figure with three digits that count."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def print_report(report: Report, console: Console) -> None:
    console.rule(report.title, align="left")
    for table in [*report.tables, report.target_table()]:
        if not table.rows:
            continue
        shown = RichTable(title=table.title, title_justify="left")
        for place, column in enumerate(table.columns):
            shown.add_column(column, justify="left" if place == 0 else "right")
        for row in table.rows:
            style = {"reached": "green", "not reached": "red", "not measured": "yellow"}.get(row[-1])
            shown.add_row(*map(number, row), style=style)
        console.print(shown)
    for name in report.missing:
        console.print(f"missing: {name}", style="yellow")


def markdown(report: Report, context: dict) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in context["versions"].items())
    place = f"{context['cpu']}, {context['cores']} cores, {context['ram_gb']} GB, {context['system']}"
    parts = [f"# {report.title}", report.about.strip(), f"Measured {context['date']} on {place}; {versions}."]
    for table in [report.target_table(), *report.tables]:
        if table.rows:
            head = "| " + " | ".join(table.columns) + " |"
            line = "|" + "---|" * len(table.columns)
            rows = ["| " + " | ".join(map(number, row)) + " |" for row in table.rows]
            parts.append("\n".join([f"## {table.title}\n", head, line, *rows]))
    parts += [f"Missing: {name}" for name in report.missing]
    return "\n\n".join(parts) + "\n"


def write_report(report: Report, name: str, out: Path, *, quick: bool, seed: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    context = circumstances(seed, quick)
    text = markdown(report, context)
    if report.figure is not None:
        for kind in ("png", "svg"):
            report.figure.savefig(
                out / f"{name}.{kind}", dpi=150, bbox_inches="tight", metadata={"Date": None} if kind == "svg" else None
            )
        text += f"\n![{report.title}]({name}.png)\n"
    (out / f"{name}.md").write_text(text, encoding="utf8")
    whole = {
        "title": report.title,
        "circumstances": context,
        "targets": [{**vars(target), "verdict": target.verdict} for target in report.targets],
        "tables": [vars(table) for table in report.tables],
        "missing": report.missing,
        "runs": report.runs,
    }
    (out / f"{name}.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf8")
