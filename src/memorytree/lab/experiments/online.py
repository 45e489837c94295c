"""The figure of online classification: each row is predicted, then learned from, once."""

from __future__ import annotations

from collections.abc import Sequence

from memorytree.lab import plots
from memorytree.lab.experiments.base import Claim, Experiment, Findings, Picture, Plan
from memorytree.lab.experiments.sets import linear, sets_of, title
from memorytree.lab.experiments.verdicts import Pair, against_best, judged
from memorytree.lab.parts import Part
from memorytree.lab.results import Results
from memorytree.lab.tables import Column, Table

SETS = ("omniglot-15", "wikipara-3")
OURS = ("cmt-u", "cmt", "ours", "ours-best")
RIVALS = ("vw-memory-tree-1", "vw-memory-tree-1-fast", "vw-emt", "vw-recall-tree", "vw-lomtree")
LINEAR = ("vw-oaa",)
EVERYONE = (*OURS, *RIVALS, *LINEAR)


class Online(Experiment):
    """One pass: every row is predicted before it is learned from.

    Progressive error is the share of all rows so far that were predicted wrongly; bits are log2 of the accuracy over that
    of the best constant answer so far, the paper's entropy reduction. Omniglot with 15 rows a class takes the place of ALOI.
    The paper's curves are given without numbers, so there are none to put beside ours. A new order of the rows for each
    seed; one against all, whose time is linear in the classes, has one, and is stopped after 15 minutes of CPU time. CPU s
    is all that a run takes, and with Vowpal Wabbit most of that is writing each row as text and reading it, twice: compare
    the times of the table of few-shot classification.
    """

    name = "online"
    title = "Online classification"

    def parts(self, plan: Plan) -> Sequence[Part]:
        """Every learner on every set."""
        return [
            Part(peer, dataset, seed, job="online", slow=peer in LINEAR)
            for dataset in sets_of("classes", plan, SETS)
            for peer in _everyone(plan)
            for seed in plan.over(linear(peer))
        ]

    def findings(self, plan: Plan, results: Results) -> Findings:
        """A table for each set, the two curves, and who is ahead."""
        sets = sets_of("classes", plan, SETS)
        everyone = _everyone(plan)
        found = Findings([_table(results, dataset, everyone) for dataset in sets])
        found.pictures = [_curves(results, sets, everyone, place) for place in (1, 2)]
        found.claims = _claims(results, sets)
        return found


def _everyone(plan: Plan) -> Sequence[str]:
    """Who can learn row by row."""
    return plan.systems(EVERYONE, "classes", lambda peer: peer.incremental)


def _table(results: Results, dataset: str, everyone: Sequence[str]) -> Table:
    heads = [
        Column("learner"),
        Column("seeds"),
        Column("progressive error", "less"),
        Column("bits", "more"),
        Column("CPU s"),
    ]
    table = Table(dataset, heads)
    for peer in everyone:
        wanted = {"peer": peer, "dataset": dataset}
        error, bits = results.cell("error", **wanted), results.cell("entropy_reduction", **wanted)
        table.add(title(peer), results.runs(**wanted), error, bits, results.least("cpu_s", **wanted))
    return table


def _curves(results: Results, sets: Sequence[str], everyone: Sequence[str], place: int) -> Picture:
    """The curve of the first seed of everyone: errors (1) or bits (2) against rows seen."""
    panels = []
    for dataset in sets:
        panel = plots.Panel(dataset, "rows seen", ("progressive error", "bits")[place - 1], logx=True)
        for peer in everyone:
            curves = [one["curve"] for one in results.of(peer=peer, dataset=dataset) if one.get("curve")]
            points = [(point[0], point[place]) for curve in curves[:1] for point in curve if point[place] is not None]
            panel.lines.append(plots.Line(title(peer), points, peer))
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
        judged(
            "paper", "Online, CMT is ahead of LOMTree and Recall Tree (bits).",
            pairs("cmt", ("vw-lomtree", "vw-recall-tree")), more=True,
        ),
        judged(
            "paper", "Online, CMT is ahead of one against all (bits).", pairs("cmt", LINEAR), more=True,
            reason="One leaf of its tree holds too few candidates where keys are dense and much alike.",
        ),
        judged(
            "ours", "Online, our default is a bit or more ahead of every logarithmic-time learner (bits, theirs plus one).",
            pairs("ours", RIVALS, lead=1.0), more=True,
        ),
        judged("ours", "Online, our default is ahead of one against all (bits).", pairs("ours", LINEAR), more=True),
    ]  # fmt: skip
