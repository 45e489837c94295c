"""The report of a benchmark: tables, targets, perhaps a plot; printed, and written as JSON and Markdown."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import stdev

from rich.console import Console

from lab import tables
from lab.datasets import TEST_ROWS, Dataset, Source, load
from lab.documents import measured_line
from lab.measuring import measurement_context
from lab.tables import Cell, Table

VERDICTS = {True: "reached", False: "not reached", None: "not measured"}
STYLES = {"reached": "green", "not reached": "red", "not measured": "yellow"}


@dataclass
class Job:
    """The options of a run: size, data, first seed, and `step(what, steps=None)`, which reports progress."""

    quick: bool
    data: Path | None
    seed: int
    step: Callable

    def load(self, name: str, *, seed: int = 0, tests: int | None = TEST_ROWS) -> Dataset:
        """Return a data set, or a few of its classes, rows or images for a quick run."""
        return load(name, self.data, seed=seed, quick=self.quick, tests=tests)

    def load_all(self, name: str) -> tuple:
        """Return (train, truth, test, test truth) of a data set in full, also for a quick run."""
        return load(name, self.data).arrays

    def source(self, name: str, seed: int | None = None) -> Source:
        """Return the source of a data set for a child process."""
        return Source(name, self.data, self.seed if seed is None else seed, self.quick)

    def seeds(self, many: int = 5) -> range:
        """Return the seeds to run: this many, or one for a quick run."""
        return range(self.seed, self.seed + (1 if self.quick else many))


@dataclass
class Target:
    """A figure that should reach a bound."""

    what: str
    wanted: str
    measured: str
    reached: bool | None  # None: could not be measured

    @property
    def verdict(self) -> str:
        """Whether the target was reached, as text."""
        return VERDICTS[self.reached]


@dataclass
class Report:
    """The results of a benchmark."""

    title: str
    about: str
    tables: list[Table] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    runs: dict = field(default_factory=dict)  # the figures of every single run, for the JSON file
    figure: object | None = None  # a matplotlib figure

    def at_least(self, what: str, wanted: float, measured: float | None, unit: str = "") -> None:
        """Add a target that `measured` reaches from above."""
        reached = None if measured is None else bool(measured >= wanted)
        self._add_target(what, f"at least {_figure(wanted, unit)}", _figure(measured, unit), reached)

    def at_most(self, what: str, wanted: float, measured: float | None, unit: str = "") -> None:
        """Add a target that `measured` reaches from below."""
        reached = None if measured is None else bool(measured <= wanted)
        self._add_target(what, f"at most {_figure(wanted, unit)}", _figure(measured, unit), reached)

    def _add_target(self, what: str, wanted: str, measured: str, reached: bool | None) -> None:
        self.targets.append(Target(what, wanted, measured, reached))

    def target_table(self) -> Table:
        """Return the targets as a table."""
        table = Table("Targets", ["target", "wanted", "measured", "verdict"])
        for target in self.targets:
            table.add(target.what, target.wanted, target.measured, target.verdict)
        return table


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return str(Cell.of([value])) + (unit if unit in ("", "x", "%") else f" {unit}")


def spread(values: Iterable[float]) -> float | None:
    """Return the standard deviation over runs, or None for a single run."""
    values = list(values)
    return stdev(values) if len(values) > 1 else None


def print_report(report: Report, console: Console) -> None:
    """Print the tables of a report."""
    console.rule(report.title, align="left")
    for table in [*report.tables, report.target_table()]:
        if table.rows:
            console.print(tables.to_rich(table, STYLES))
    for name in report.missing:
        console.print(f"missing: {name}", style="yellow")


def markdown(report: Report, context: dict) -> str:
    """Return the report in Markdown."""
    parts = [f"# {report.title}", report.about.strip(), measured_line(context)]
    parts += [tables.markdown(table) for table in [report.target_table(), *report.tables] if table.rows]
    parts += [f"Missing: {name}" for name in report.missing]
    return "\n\n".join(parts) + "\n"


def write_report(report: Report, name: str, out: Path, job: Job) -> None:
    """Write NAME.md, NAME.json and, if the report has a figure, NAME.png and NAME.svg."""
    out.mkdir(parents=True, exist_ok=True)
    context = measurement_context(job.seed, job.quick)
    text = markdown(report, context)
    if report.figure is not None:
        for kind in ("png", "svg"):
            metadata = {"Date": None} if kind == "svg" else None
            report.figure.savefig(out / f"{name}.{kind}", dpi=150, bbox_inches="tight", metadata=metadata)
        text += f"\n![{report.title}]({name}.png)\n"
    (out / f"{name}.md").write_text(text, encoding="utf8")
    document = {
        "title": report.title,
        "circumstances": context,
        "targets": [{**vars(target), "verdict": target.verdict} for target in report.targets],
        "tables": [table.to_json() for table in report.tables],
        "missing": report.missing,
        "runs": report.runs,
    }
    (out / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf8")
