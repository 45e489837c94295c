"""The paper's table of desiderata, with figures in place of ticks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab import plots, published
from lab.experiments.base import Claim, Experiment, Findings, Picture, Plan
from lab.experiments.claims import format_figure
from lab.experiments.data import linear, title
from lab.experiments.fitting import exponent
from lab.parts import Part, options
from lab.results import Results, status
from lab.tables import Cell, Column, Table

JOB = "lab.trials.desiderata:trial"
SIZES, QUICK_SIZES = (1_000, 3_000, 10_000, 30_000, 100_000), (400, 1_200)
SEEDED = 10_000  # larger sizes have one seed

# Thresholds of the ticks.
LOW_TIME = 0.5  # exponent of query time: clearly sublinear
SMALL_SPACE = 256  # bytes beyond the key a memory, which is what the key itself takes
CONSISTENT = 0.01
INCREMENTAL = 0.6  # exponent of the cost of one more memory


@dataclass(frozen=True)
class Approach:
    """A row of the table: the paper's name, the baseline, and the baseline before feedback, if it learns."""

    name: str
    baseline: str
    before: str | None = None
    ticks: str = ""  # the row of the paper's table, if its name differs


APPROACHES = (
    Approach("inverted index", "bm25"),
    Approach("supervised learning", "vw-oaa"),
    Approach("nearest neighbour", "exact-1nn"),
    Approach("approximate NN", "hnswlib"),
    Approach("approximate NN, by lists", "faiss-ivf", ticks="approximate NN"),
    Approach("learned NN", "nca", "exact-1nn"),
    Approach("hashing", "faiss-lsh"),
    Approach("differentiable memory", "attention", "exact-1nn"),
    Approach("CMT, VW's", "vw-memory-tree-3", "vw-memory-tree-1", "CMT"),
    Approach("CMT, ours", "cmt", "cmt-u", "CMT"),
    Approach("memorytree, default", "ours", "ours-u", "CMT"),
)


class Desiderata(Experiment):
    """The desired properties: fast, small, self-consistent, incremental, learning. The paper has ticks; here are figures.

    One workload for all: n memories with 64 features, of which 16 separate the n / 10 values and 48 are noise. The
    inverted index reads the same keys as words, a word for each of a key's sixteen largest features and its sign.
    Exponents are slopes of log time against log n, from 1,000 to the n that was reached (0: constant, 1: linear). Insertion
    is the time to learn everything divided by n. One more memory is the time to learn another row after n, or, for systems
    that cannot, to learn everything again. Self-consistency error is the share of stored keys that return another memory,
    or another value from systems that store no memories. Error is on fresh keys, before and after feedback: before is the
    same system without it, for supervised learning a constant answer, for the learned metric and for attention the nearest
    neighbour. Sizes above 10,000 and linear systems have one seed.
    """

    name = "desiderata"
    title = "Desiderata, measured"

    def parts(self, plan: Plan) -> Sequence[Part]:
        """Return every system at every size; in a quick run all sizes are one part."""
        baselines = dict.fromkeys(
            baseline for approach in _approaches(plan) for baseline in (approach.baseline, approach.before) if baseline
        )
        if plan.quick:
            return [Part(baseline, "workload", 0, JOB, options(sizes=QUICK_SIZES)) for baseline in baselines]
        return [
            Part(baseline, "workload", seed, JOB, options(sizes=(n,)), slow=n > 30_000 and _heavy(baseline))
            for n in SIZES
            for baseline in baselines
            for seed in plan.over(linear(baseline) or n > SEEDED)
        ]

    def findings(self, plan: Plan, results: Results) -> Findings:
        """Return the table of figures, the paper's ticks beside ours, and times against n."""
        measured = {approach.name: Measured(approach, results) for approach in _approaches(plan)}
        found = Findings([_table(measured), _ticks(measured), _times(measured, "query_us"), _times(measured, "more_us")])
        found.pictures = [_picture(measured)]
        found.claims = _claims({approach.name: measured[approach.name] for approach in APPROACHES})
        found.alternatives = _elsewhere(measured)
        return found


def _approaches(plan: Plan) -> list[Approach]:
    """Return the approaches of the paper, and the user's own baselines that are suited."""
    own = {approach.baseline: approach for approach in APPROACHES}
    systems = plan.systems(tuple(own), "classes", lambda baseline: "dense" in baseline.keys)
    return [own.get(baseline) or Approach(baseline, baseline) for baseline in systems]


def _heavy(baseline: str) -> bool:
    return linear(baseline) or baseline.startswith("vw-memory-tree")


class Measured:
    """The figures of an approach."""

    def __init__(self, approach: Approach, results: Results):
        self.approach = approach
        self.by_size = _by_size(results, approach.baseline)
        self.by_size_before = _by_size(results, approach.before) if approach.before else {}
        self.status = status(results.select(baseline=approach.baseline))

    @property
    def largest(self) -> int | None:
        """The largest n that finished."""
        return max(self.by_size, default=None)

    def at(self, figure: str) -> Cell:
        """Return a figure at the largest n."""
        if self.largest is None:
            return Cell(status=self.status)
        known = [one[figure] for one in self.by_size[self.largest]]
        return Cell.least(known) if figure.endswith("_us") else Cell.of(known)

    def points(self, figure: str) -> list[tuple[float, float]]:
        """Return a time at every n, the least over seeds."""
        return [(float(n), min(one[figure] for one in found)) for n, found in sorted(self.by_size.items())]

    def power(self, figure: str) -> Cell:
        """Return the exponent with which a time grows."""
        points = self.points(figure)
        return Cell(exponent(points), None, len(points)) if len(points) > 1 else Cell(status=self.status)

    @property
    def again(self) -> bool:
        """Whether one more memory requires learning everything again."""
        return any(size["again"] for found in self.by_size.values() for size in found)

    @property
    def before(self) -> Cell:
        """The error before feedback, at the largest n."""
        if self.largest is None:
            return Cell(status=self.status)
        if self.approach.baseline == "vw-oaa":
            return Cell(1 - 10 / self.largest, None, 1)
        if not self.approach.before:
            return self.at("error")
        return Cell.of(one["error"] for one in self.by_size_before.get(self.largest, ()))

    def ticks(self) -> dict[str, bool | None]:
        """Return which of the five properties it has by our thresholds; None if not measured."""
        before, after = self.before.value, self.at("error").value
        learned = None if before is None or after is None else after < before - 0.01
        return {
            "low time": _under(self.power("query_us"), LOW_TIME),
            "small space": _under(self.at("beyond_key"), SMALL_SPACE),
            "self-consistent": _under(self.at("own_key_error"), CONSISTENT),
            "incremental": False if self.again else _under(self.power("more_us"), INCREMENTAL),
            "learning": learned,
        }


def _under(cell: Cell, limit: float) -> bool | None:
    return None if cell.value is None else cell.value <= limit


def _by_size(results: Results, baseline: str) -> dict[int, list[Mapping[str, Any]]]:
    found: dict[int, list[Mapping[str, Any]]] = {}
    for one in results.select(baseline=baseline):
        for size in one.get("sizes", ()) if one.get("status") in ("ok", "stopped") else ():
            found.setdefault(size["n"], []).append(size)
    return found


def _table(measured: Mapping[str, Measured]) -> Table:
    heads = [
        Column("approach"), Column("measured"), Column("at n"), Column("query time: exponent", "less"),
        Column("insertion: exponent"), Column("µs a query", "less"), Column("one more memory, µs", "less"),
        Column("bytes beyond the key", "less"), Column("self-consistency error", "less"), Column("error before feedback"),
        Column("error after", "less"),
    ]  # fmt: skip
    table = Table("Figures", heads)
    for name, one in measured.items():
        more = one.at("more_us")
        table.add(
            name,
            title(one.approach.baseline),
            f"{one.largest:,}" if one.largest else one.status,
            one.power("query_us"),
            one.power("insert_us"),
            one.at("query_us"),
            f"{more} (all again)" if one.again else more,
            one.at("beyond_key"),
            one.at("own_key_error"),
            one.before,
            one.at("error"),
        )
    return table


def _ticks(measured: Mapping[str, Measured]) -> Table:
    table = Table("Ticks: the paper's, then ours by the figures", [Column("approach"), *map(Column, published.DESIDERATA)])
    mark = {True: "✓", False: "✗", None: "–"}
    for row, one in measured.items():
        ticks = published.TICKS.get(one.approach.ticks or row, (None,) * len(published.DESIDERATA))
        papers = dict(zip(published.DESIDERATA, ticks, strict=True))
        ours = one.ticks()
        table.add(row, *(f"{mark[papers[name]]} / {mark[ours[name]]}" for name in published.DESIDERATA))
    table.note = (
        f"Paper: {published.DESIDERATA_SOURCE}. Ours: low time, an exponent of query time of at most {LOW_TIME}; small "
        f"space, at most {SMALL_SPACE} bytes a memory beyond its key; self-consistent, an error of at most {CONSISTENT}; "
        f"incremental, an exponent of the cost of one more memory of at most {INCREMENTAL}, without learning all again; "
        "learning, an error lower by more than .01 after feedback."
    )
    return table


def _times(measured: Mapping[str, Measured], figure: str) -> Table:
    what = {"query_us": "µs a query", "more_us": "µs for one more memory"}[figure]
    sizes = sorted({n for one in measured.values() for n in one.by_size})
    table = Table(
        f"{what[0].upper() if what[0] != 'µ' else 'µ'}{what[1:]}, by n",
        [Column("approach"), *(Column(f"{n:,}") for n in sizes)],
    )
    for name, one in measured.items():
        points = dict(one.points(figure))
        table.add(
            name,
            *(
                Cell(points[n], None, 1) if n in points else Cell(status=one.status if one.status != "–" else "not run")
                for n in sizes
            ),
        )
    return table


def _picture(measured: Mapping[str, Measured]) -> Picture:
    panels = []
    for figure, name in (("query_us", "a query"), ("more_us", "one more memory")):
        panel = plots.Panel(name, "memories", "CPU µs", logx=True, logy=True)
        panel.lines = [plots.Line(row, one.points(figure), one.approach.baseline) for row, one in measured.items()]
        panels.append(panel)
    caption = (
        "Time against memories, both on logarithmic scales: a flat line is the goal. "
        "Trees and graphs stay nearly flat; scans, attention and one against all rise with n."
    )
    return Picture("", caption, plots.lines(panels))


def _claims(measured: Mapping[str, Measured]) -> list[Claim]:
    ticks = {name: one.ticks() for name, one in measured.items()}
    complete = [name for name, marks in ticks.items() if all(marks.values())]
    alone = "CMT alone has all five: low time, small space, self-consistency, incremental, learning."
    linear_reason = " Its linear scorer need not rank a key's own memory first, and routers still learn after an insertion."
    space_reason = " Besides the keys it stores their projections, the state of each value, and spare capacity."
    return [
        _claim("paper", alone, ticks["CMT, ours"], "CMT, ours", complete, linear_reason),
        _claim("ours", "Our default has all five.", ticks["memorytree, default"], "It", complete, space_reason),
    ]


def _claim(source: str, text: str, marks: Mapping[str, bool | None], subject: str, complete: list[str], cause: str) -> Claim:
    """Return the claim that a system has all five properties; the paper's also says that no other system has."""
    lacks = [name for name, has in marks.items() if has is False]
    unknown = [name for name, has in marks.items() if has is None]
    summary = f"All five by our figures: {', '.join(complete) or 'none'}."
    if lacks:
        return Claim(source, text, False, f"{summary} {subject} lacks: {', '.join(lacks)}.{cause}")
    if unknown:
        return Claim(source, text, None, f"Not measured of {subject.lower()}: {', '.join(unknown)}.")
    return Claim(source, text, source == "ours" or complete == [subject], summary)


def _elsewhere(measured: Mapping[str, Measured]) -> list[str]:
    sentences = []
    ours = measured["memorytree, default"]
    for name, one in measured.items():
        if one is ours or one.largest is None or one.largest != ours.largest:
            continue
        theirs, mine = one.at("query_us").value, ours.at("query_us").value
        if theirs is not None and mine is not None and theirs < mine:
            system = f"{name} ({title(one.approach.baseline)})"
            sentences.append(
                f"Workload of {one.largest:,} memories: {system} answers in {format_figure(theirs)} µs, "
                f"our default in {format_figure(mine)} µs; errors {one.at('error')} and {ours.at('error')}."
            )
    return sentences
