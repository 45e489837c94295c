"""The paper's four ablations, and ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab import plots
from lab.experiments.base import Claim, Experiment, Findings, Picture, Plan
from lab.experiments.claims import Pair, format_figure, judge
from lab.experiments.data import title
from lab.parts import Part, options
from lab.results import Results, status
from lab.tables import Cell, Column, Table

JOBS = "lab.trials.ablation"
SHOTS = (1, 2, 3, 5, 15)
SHOT_BASELINES = ("cmt-u", "cmt", "ours")
HEADS = {
    "error": Column("test error", "less"),
    "before": Column("before learning", "less"),
    "train_error": Column("training error", "less"),
    "own_key_error": Column("self-consistency error", "less"),
    "after_sweep": Column("after a sweep", "less"),
    "query_us": Column("µs a query", "less"),
    "insert_us": Column("µs an insertion", "less"),
    "fit_s": Column("training CPU s", "less"),
    "learn_s": Column("learning CPU s", "less"),
    "bytes": Column("bytes a memory"),
    "memories": Column("memories kept"),
}


@dataclass(frozen=True)
class Sweep:
    """One setting that is varied: the title of its table, the data set, the job, and the figures that are shown."""

    name: str
    what: str
    dataset: str
    job: str
    settings: tuple[tuple[str, Any], ...]
    figures: tuple[str, ...]
    baseline: str = "ours"

    def part(self, seed: int, quick: bool) -> Part:
        """Return the part for a seed."""
        dataset, settings = (_made(self.dataset), _quick(self.settings)) if quick else (self.dataset, self.settings)
        return Part(self.baseline, dataset, seed, f"{JOBS}:{self.job}", settings)

    def points(self, results: Results, plan: Plan) -> dict[Any, list[Mapping[str, Any]]]:
        """Return the figures of each value, a list with one entry for each seed."""
        found: dict[Any, list[Mapping[str, Any]]] = {}
        for seed in plan.over(linear=False):
            one = results.found.get(self.part(seed, plan.quick), {})
            for point in one.get("points", ()) if one.get("status") in ("ok", "stopped") else ():
                found.setdefault(point["value"], []).append(point)
        return found


def _made(dataset: str) -> str:
    return "made-classes" if dataset.startswith("omniglot") else "made-text"


def _quick(settings: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, Any], ...]:
    """Return settings with only the first and the last value, and two passes."""
    reduce: dict[str, Callable[[Any], Any]] = {"values": lambda values: (values[0], values[-1]), "passes": lambda many: 2}
    return tuple((name, reduce[name](value) if name in reduce else value) for name, value in settings)


DENSE, SPARSE = "omniglot-15", "wikipara-3"
SCORERS = ("distance", "cosine", "linear", "metric")
_TREE = ("error", "query_us", "insert_us", "own_key_error", "bytes")
SWEEPS = (
    Sweep(
        "reroutes", "Reroutes d: self-consistency (paper's routing, unsupervised, 4 passes)", "wikipara-1", "reroutes",
        options(values=(0, 1, 2, 5, 10, 20), passes=4, center=False), ("own_key_error", "after_sweep"), "cmt-u",
    ),
    Sweep(
        "reroutes-dense", "Reroutes d on dense keys (centred)", "omniglot-1", "reroutes",
        options(values=(0, 1, 2, 5, 10, 20), passes=4, center=True), ("own_key_error", "after_sweep"), "cmt-u",
    ),
    Sweep(
        "passes", "Passes of Update after the first (paper's routing)", "wikipara-1", "passes",
        options(passes=6, reroutes=5, center=False, updates=True), ("train_error", "error"), "cmt",
    ),
    Sweep(
        "passes-control", "The same reroutes without any Update", "wikipara-1", "passes",
        options(passes=6, reroutes=5, center=False, updates=False), ("train_error", "error"), "cmt",
    ),
    Sweep(
        "leaf", "Leaf factor c (paper's routing, centred)", DENSE, "tree",
        options(vary="leaf_factor", values=(1, 2, 4, 8, 16, 32), routing="paper", center=True), _TREE, "cmt-u",
    ),
    Sweep(
        "leaf-principal", "Leaf factor c (principal routing)", DENSE, "tree",
        options(vary="leaf_factor", values=(1, 2, 4, 8, 16, 32), routing="principal"), _TREE,
    ),
    Sweep("beam", "Beam, dense keys", DENSE, "tree", options(vary="beam", values=(1, 2, 4, 8, 16, 32, 64)), _TREE),
    Sweep("beam-sparse", "Beam, sparse keys", SPARSE, "tree", options(vary="beam", values=(1, 2, 4, 8)), _TREE),
    Sweep(
        "trees", "Number of trees, a beam of 4 each", DENSE, "tree",
        options(vary="trees", values=(1, 2, 4, 8), beam=4), _TREE,
    ),
    Sweep(
        "routing", "Routing, dense keys (centred), a beam of 4", DENSE, "tree",
        options(vary="routing", values=("paper", "principal"), beam=4, center=True), _TREE,
    ),
    Sweep(
        "routing-sparse", "Routing, sparse keys", SPARSE, "tree",
        options(vary="routing", values=("paper", "principal", "terms")), _TREE,
    ),
    Sweep(
        "supervision", "Supervision of our classifier", DENSE, "classifier",
        options(vary="supervision", values=("none", "reward", "labels")), ("error", "query_us", "fit_s"),
    ),
    Sweep(
        "capacity", "Capacity, as a share of the rows", DENSE, "classifier",
        options(vary="capacity", values=(0.1, 0.25, 0.5, 1.0)), ("error", "query_us", "fit_s", "memories"),
    ),
    Sweep(
        "scorer", "Scorer, dense keys, one pass of rewards, a beam of 16", DENSE, "scorer",
        options(values=SCORERS, beam=16, k=10), ("before", "error", "query_us", "learn_s"),
    ),
    Sweep(
        "scorer-sparse", "Scorer, sparse keys, one pass of rewards", "clinc150", "scorer",
        options(values=SCORERS, beam=1, k=10), ("before", "error", "query_us", "learn_s"),
    ),
)  # fmt: skip
BY_NAME = {sweep.name: sweep for sweep in SWEEPS}


class Ablations(Experiment):
    """One setting at a time: its influence on error and time.

    The paper's four: reroutes d against self-consistency error and passes against training error (wikipara 1-shot), the leaf
    factor c against error and time, and rows a class against error and time (omniglot, in the place of ALOI). Then ours:
    beam, number of trees, routing, scorer and capacity. The prediction is the value of the best memory, except where our
    classifier is named. Self-consistency error is the share of stored keys that return another memory than their own.
    A query is one of a batch of 2,000; CPU time, the least over seeds.
    """

    name = "ablations"
    title = "Ablations"

    def parts(self, plan: Plan) -> Sequence[Part]:
        """Return every sweep, and the rows a class, whose parts are those of the few-shot experiment."""
        seeds = plan.over(linear=False)
        swept = [sweep.part(seed, plan.quick) for sweep in SWEEPS for seed in seeds]
        return [
            *swept,
            *(Part(baseline, name, seed) for name in _shot_sets(plan) for baseline in SHOT_BASELINES for seed in seeds),
        ]

    def findings(self, plan: Plan, results: Results) -> Findings:
        """Return a table for each sweep, the paper's four plots, and ours."""
        found = Findings([_table(sweep, results, plan) for sweep in SWEEPS])
        found.tables.append(_shots_table(results, plan))
        found.pictures = [_papers(results, plan), _ours(results, plan)]
        found.claims = _claims(results, plan)
        return found


def _shot_sets(plan: Plan) -> list[str]:
    return ["made-classes"] if plan.quick else [f"omniglot-{shots}" for shots in SHOTS]


def _cell(points: Sequence[Mapping[str, Any]], figure: str) -> Cell:
    known = [point[figure] for point in points if point.get(figure) is not None]
    return Cell.least(known) if figure.endswith(("_us", "_s", "bytes")) else Cell.of(known)


def _table(sweep: Sweep, results: Results, plan: Plan) -> Table:
    part = sweep.part(0, plan.quick)
    table = Table(f"{sweep.what}: {part.dataset}", [Column("value"), *(HEADS[figure] for figure in sweep.figures)])
    for value, points in sweep.points(results, plan).items():
        table.add(str(value), *(_cell(points, figure) for figure in sweep.figures))
    if not table.rows:
        own = {"baseline": part.baseline, "dataset": part.dataset, **dict(part.options)}
        table.add(status(results.select(job=part.job, **own)), *(Cell(status="–") for _ in sweep.figures))
    return table


def _shots_table(results: Results, plan: Plan) -> Table:
    heads = [Column(f"{baseline}: {what}") for baseline in SHOT_BASELINES for what in ("error", "µs a query")]
    table = Table("Rows a class: test error and time", [Column("data set"), *heads])
    for name in _shot_sets(plan):
        cells: list[Cell] = []
        for baseline in SHOT_BASELINES:
            wanted = {"baseline": baseline, "dataset": name, "job": "batch"}
            cells += [results.cell("error", **wanted), results.least("query_us", **wanted)]
        table.add(name, *cells)
    return table


# ---- plots


def _line(name: str, figure: str, label: str, results: Results, plan: Plan, x: str = "value") -> plots.Line:
    """Return a line of one figure against the value, or against another figure."""
    points: list[tuple[float, ...]] = []
    for value, found in BY_NAME[name].points(results, plan).items():
        cell = _cell(found, figure)
        across = float(value) if x == "value" else _cell(found, x).value
        if cell.value is not None and across is not None:
            points.append((across, cell.value, cell.sd or 0.0))
    return plots.Line(label, points)


def _papers(results: Results, plan: Plan) -> Picture:
    error, passes = "self-consistency error", "passes of Update after the first"
    first = plots.Panel("(a) reroutes d", "reroutes an insertion (d)", error, from_zero=True)
    first.lines = [
        _line("reroutes", "own_key_error", "wikipara 1-shot", results, plan),
        _line("reroutes-dense", "own_key_error", "omniglot 1-shot, centred", results, plan),
    ]
    second = plots.Panel("(b) passes: wikipara 1-shot", passes, "training error", from_zero=True)
    second.lines = [
        _line("passes", "train_error", "Update", results, plan),
        _line("passes-control", "train_error", "the same reroutes, no Update", results, plan),
    ]
    third = plots.Panel("(c) leaf factor c: omniglot 15-shot", "CPU µs a query (c = 1, 2, 4 … 32)", "test error", logx=True)
    third.lines = [
        _line("leaf", "error", "paper's routing, centred", results, plan, "query_us"),
        _line("leaf-principal", "error", "principal routing", results, plan, "query_us"),
    ]
    fourth = plots.Panel(
        "(d) rows a class: omniglot", "CPU µs a query (1, 2, 3, 5, 15 rows a class)", "test error", logx=True
    )
    for baseline in SHOT_BASELINES:
        points = []
        for name in _shot_sets(plan):
            wanted = {"baseline": baseline, "dataset": name, "job": "batch"}
            us, wrong = results.least("query_us", **wanted).value, results.mean("error", **wanted)
            points += [(us, wrong)] if us is not None and wrong is not None else []
        fourth.lines.append(plots.Line(title(baseline), points, baseline))
    caption = (
        "The paper's four ablations: (a) reroutes drive self-consistency errors down, (b) so do passes, with or without "
        "rewards, (c) larger leaves buy accuracy with time, (d) more rows a class lower the error while time grows slowly."
    )
    return Picture("paper", caption, plots.lines([first, second, third, fourth], columns=2))


def _ours(results: Results, plan: Plan) -> Picture:
    beam = plots.Panel("leaves searched", "CPU µs a query", "test error", logx=True)
    beam.lines = [
        _line("beam", "error", "beam 1 … 64, omniglot 15-shot", results, plan, "query_us"),
        _line("trees", "error", "1 … 8 trees, a beam of 4 each", results, plan, "query_us"),
        _line("beam-sparse", "error", "beam 1 … 8, wikipara 3-shot", results, plan, "query_us"),
    ]
    capacity = plots.Panel("capacity: omniglot 15-shot", "share of the rows that is kept", "test error", from_zero=True)
    capacity.lines = [_line("capacity", "error", "our classifier", results, plan)]
    caption = (
        "Trade-offs of ours: error against time for dense keys, by a beam or more trees (left; term lists hardly "
        "need a beam), and error against the share of rows kept when the least useful rows are removed (right)."
    )
    return Picture("ours", caption, plots.lines([beam, capacity]))


# ---- claims


def _claims(results: Results, plan: Plan) -> list[Claim]:
    return [*_reroute_claims(results, plan), *_pass_claims(results, plan), *_time_claims(results, plan)]


def _values(name: str, figure: str, results: Results, plan: Plan) -> dict[Any, float]:
    found = {value: _cell(points, figure).value for value, points in BY_NAME[name].points(results, plan).items()}
    return {value: figure for value, figure in found.items() if figure is not None}


def _reroute_claims(results: Results, plan: Plan) -> list[Claim]:
    text = "Reroutes drive the self-consistency error towards zero: at the largest d it is under a tenth of that at d = 0."
    claims = []
    for name in ("reroutes", "reroutes-dense"):
        errors = _values(name, "own_key_error", results, plan)
        dataset = BY_NAME[name].part(0, plan.quick).dataset
        if len(errors) < 2:
            claims.append(Claim("paper", f"{text} ({dataset})", None, "Not measured."))
            continue
        first, last = errors[min(errors)], errors[max(errors)]
        figures = ", ".join(f"d = {d}: {format_figure(value)}" for d, value in errors.items())
        swept = _values(name, "after_sweep", results, plan)
        reason = (
            ""
            if last <= first / 10
            else f" One sweep without learning removes the rest: {format_figure(max(swept.values()))}."
        )
        claims.append(Claim("paper", f"{text} ({dataset})", last <= first / 10, f"{figures}.{reason}"))
    return claims


def _pass_claims(results: Results, plan: Plan) -> list[Claim]:
    errors, control = (_values(name, "train_error", results, plan) for name in ("passes", "passes-control"))
    text = "Passes of Update drive the training error to nearly zero (under .05)."
    if len(errors) < 2:
        return [Claim("paper", text, None, "Not measured.")]
    last = max(errors)
    figures = f"{format_figure(errors[0])} at first, {format_figure(errors[last])} after {last} passes."
    claims = [Claim("paper", text, errors[last] < 0.05, figures)]
    pair = Pair("wikipara-1", errors[last], control.get(last))
    reason = "The error falls by rerouting alone; the learning of Update adds nothing to that here."
    claims.append(
        judge(
            "paper", "Update itself helps: more than the same reroutes without it (training error).", [pair], reason=reason
        )
    )
    return claims


def _time_claims(results: Results, plan: Plan) -> list[Claim]:
    errors, times = (_values("leaf", figure, results, plan) for figure in ("error", "query_us"))
    larger = "A larger leaf factor c lowers the error, and costs time."
    if len(errors) < 2:
        return [Claim("paper", larger, None, "Not measured.")]
    low, high = min(errors), max(errors)
    figures = "; ".join(f"c = {c}: {format_figure(errors[c])} in {format_figure(times[c])} µs" for c in (low, high)) + "."
    return [Claim("paper", larger, errors[high] < errors[low] and times[high] > times[low], figures)]
