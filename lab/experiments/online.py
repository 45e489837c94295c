"""The figure of online classification: one pass in which each row is predicted, then learned."""

from __future__ import annotations

from collections.abc import Sequence

from lab import plots
from lab.experiments.base import Claim, Experiment, Findings, Picture, Plan
from lab.experiments.claims import Pair, against_best, judge
from lab.experiments.data import datasets_for, linear, title
from lab.parts import Part
from lab.results import Results
from lab.tables import Column, Table

SETS = ("omniglot-15", "wikipara-3")
OURS = ("cmt-u", "cmt", "ours", "ours-best")
RIVALS = ("vw-memory-tree-1", "vw-memory-tree-1-fast", "vw-emt", "vw-recall-tree", "vw-lomtree")
LINEAR = ("vw-oaa",)
ALL_SYSTEMS = (*OURS, *RIVALS, *LINEAR)


class Online(Experiment):
    """One pass: every row is predicted before it is learned.

    Progressive error is the share of all rows so far that were predicted wrongly; bits are log2 of the accuracy over that
    of the best constant answer so far, the paper's entropy reduction. Omniglot with 15 rows a class takes the place of ALOI.
    The paper gives its curves without numbers, so they are not compared. A new order of the rows for each
    seed; one against all, whose time is linear in the classes, has one, and is stopped after 15 minutes of CPU time. CPU s
    is the time of the whole run; with Vowpal Wabbit most of that is writing each row as text and reading it twice, so
    compare times in the table of few-shot classification.
    """

    name = "online"
    title = "Online classification"

    def parts(self, plan: Plan) -> Sequence[Part]:
        """Return every learner on every set."""
        return [
            Part(baseline, dataset, seed, job="online", slow=baseline in LINEAR)
            for dataset in datasets_for("classes", plan, SETS)
            for baseline in _systems(plan)
            for seed in plan.over(linear(baseline))
        ]

    def findings(self, plan: Plan, results: Results) -> Findings:
        """Return a table for each set, the two curves, and the claims."""
        sets = datasets_for("classes", plan, SETS)
        systems = _systems(plan)
        found = Findings([_table(results, dataset, systems) for dataset in sets])
        found.pictures = [_curves(results, sets, systems, place) for place in (1, 2)]
        found.claims = _claims(results, sets)
        return found


def _systems(plan: Plan) -> Sequence[str]:
    """Return the systems that learn row by row."""
    return plan.systems(ALL_SYSTEMS, "classes", lambda baseline: baseline.incremental)


def _table(results: Results, dataset: str, systems: Sequence[str]) -> Table:
    heads = [
        Column("learner"),
        Column("seeds"),
        Column("progressive error", "less"),
        Column("bits", "more"),
        Column("CPU s"),
    ]
    table = Table(dataset, heads)
    for baseline in systems:
        wanted = {"baseline": baseline, "dataset": dataset}
        error, bits = results.cell("error", **wanted), results.cell("entropy_reduction", **wanted)
        table.add(title(baseline), results.runs(**wanted), error, bits, results.least("cpu_s", **wanted))
    return table


def _curves(results: Results, sets: Sequence[str], systems: Sequence[str], place: int) -> Picture:
    """Return the curve of the first seed of each system: errors (1) or bits (2) against rows."""
    panels = []
    for dataset in sets:
        panel = plots.Panel(dataset, "rows", ("progressive error", "bits")[place - 1], logx=True)
        for baseline in systems:
            curves = [one["curve"] for one in results.select(baseline=baseline, dataset=dataset) if one.get("curve")]
            points = [(point[0], point[place]) for curve in curves[:1] for point in curve if point[place] is not None]
            panel.lines.append(plots.Line(title(baseline), points, baseline))
        panels.append(panel)
    name, caption = (
        ("error", "Progressive error: our default falls earliest and furthest; lower is better."),
        ("bits", "Entropy reduction over the best constant answer so far: higher is better, and ours grows fastest."),
    )[place - 1]
    return Picture(name, caption, plots.lines(panels))


def _claims(results: Results, sets: Sequence[str]) -> list[Claim]:
    def pairs(one: str, others: Sequence[str], lead: float = 0.0) -> list[Pair]:
        found = against_best(results, "entropy_reduction", one, others, sets, more=True)
        return [pair._replace(other=None if pair.other is None else pair.other + lead) for pair in found]

    return [
        judge(
            "paper", "Online, CMT is ahead of LOMTree and Recall Tree (bits).",
            pairs("cmt", ("vw-lomtree", "vw-recall-tree")), more=True,
        ),
        judge(
            "paper", "Online, CMT is ahead of one against all (bits).", pairs("cmt", LINEAR), more=True,
            reason="One leaf of its tree holds too few candidates if keys are dense and similar.",
        ),
        judge(
            "ours", "Online, our default is a bit or more ahead of every logarithmic-time learner (bits, theirs plus one).",
            pairs("ours", RIVALS, lead=1.0), more=True,
        ),
        judge("ours", "Online, our default is ahead of one against all (bits).", pairs("ours", LINEAR), more=True),
    ]  # fmt: skip
