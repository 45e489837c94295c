"""The table of few-shot classification, and the bar chart of entropy reduction."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from lab import plots, published
from lab.experiments.base import Claim, Experiment, Findings, Picture, Plan
from lab.experiments.claims import Pair, against, against_best, better_elsewhere, format_figure, judge
from lab.experiments.data import datasets_for, linear, title
from lab.experiments.scatter import against_time, batch_us
from lab.experiments.system_tables import SystemTable
from lab.parts import Part
from lab.results import Results
from lab.tables import Column, Table

SETS = (
    "omniglot-1", "wikipara-1", "omniglot-2", "omniglot-3", "omniglot-5",
    "clinc150", "wikipara-2", "wikipara-3", "omniglot-15",
)  # fmt: skip
OURS = ("cmt-u", "cmt", "ours", "ours-best")
RIVALS = (
    "vw-memory-tree-1", "vw-memory-tree-3", "vw-memory-tree-1-fast", "vw-memory-tree-3-fast",
    "vw-emt", "vw-recall-tree", "vw-lomtree",
)  # fmt: skip
EXACT = ("exact-1nn", "hnswlib")
LINEAR = ("vw-oaa", "linear")
SMALL = ("clinc150", "omniglot-1")  # where these take seconds
ALL_SYSTEMS = (*OURS, *RIVALS, *EXACT, *LINEAR)
CHEAP_FIRST = ("ours", "cmt-u", *EXACT, *reversed(RIVALS), "ours-best", "cmt", *LINEAR)
CHARTED = ("cmt-u", "cmt", "ours", "vw-lomtree", "vw-recall-tree", "vw-memory-tree-3", "vw-emt", "vw-oaa", "exact-1nn")


class FewShot(Experiment):
    """Classification with few rows a class: error on test rows after training on S rows of each class.

    Omniglot's characters (1,623 classes) take the place of ImageNet S-shot and, with 15 rows a class, of ALOI; paragraphs of
    10,000 Wikipedia articles that of WikiPara; clinc150 (150 intents, 100 rows each) is ours. Test error is the share of
    2,000 test rows; bits are the paper's entropy reduction, log2 of the accuracy over that of the best constant answer. A
    query is one of a batch if the baseline has batches, else a single call; CPU time of one thread. MB is the growth of the
    process during fit; exact search does not copy dense rows. Means ± standard deviations over seeds (one seed
    if time is linear in the rows or classes); times are the least over seeds. A run is stopped after 15 minutes of CPU
    time. Our default needs no settings. CMT(u) only inserts; CMT then learns from the rewards of two passes, in which
    a query excludes its own memory (the paper does not mention this exclusion). VW's memory tree runs at the rate of the
    authors' scripts and at a hundred times that. Figures of the paper are of its own data and machines.
    """

    name = "few-shot"
    title = "Few-shot classification"

    def parts(self, plan: Plan) -> Sequence[Part]:
        """Return every system on every set."""
        return [
            Part(baseline, dataset, seed, slow=baseline in LINEAR and dataset not in SMALL)
            for baseline in plan.systems(CHEAP_FIRST, "classes")
            for dataset in datasets_for("classes", plan, SETS)
            for seed in plan.over(linear(baseline))
        ]

    def findings(self, plan: Plan, results: Results) -> Findings:
        """Return an overview, a table for each set, the bar chart, and error against time."""
        sets = sorted(datasets_for("classes", plan, SETS), key=_family)
        systems, others, charted = (plan.systems(some, "classes") for some in (ALL_SYSTEMS, (*EXACT, *LINEAR), CHARTED))
        found = Findings([_overview(results, sets, systems), *(_table(results, dataset, systems) for dataset in sets)])
        found.pictures = [_chart(results, sets, charted), _cloud(results, sets, systems)]
        found.claims = _claims(results, sets)
        found.alternatives = better_elsewhere(results, sets, others, figure="error", what="error") + _faster(results, sets)
        return found


def _family(dataset: str) -> tuple[str, int]:
    name, _, shots = dataset.partition("-")
    return name, int(shots) if shots.isdecimal() else 0


def _overview(results: Results, sets: Sequence[str], systems: Sequence[str]) -> Table:
    table = Table("Test error", [Column("system"), *(Column(name, "less") for name in sets)])
    for baseline in systems:
        table.add(title(baseline), *(results.cell("error", baseline=baseline, dataset=name) for name in sets))
    return table


def _table(results: Results, dataset: str, systems: Sequence[str]) -> Table:
    made = SystemTable(results, dataset, systems)
    made.mean("test error", "error", "less")
    made.mean("bits", "entropy_reduction", "more")
    made.least("ms a query", "query_us", 1e-3)
    made.least("training CPU s", "fit_s")
    made.least("MB the process grew by", "resident_bytes", 2**-20, better=None)
    if made.stand_in:
        made.paper(f"paper, {made.stand_in}: error", published.FEW_SHOT, lambda score: f"{score.error / 100:.3f}")
        made.paper("paper: ms", published.FEW_SHOT, lambda score: f"{score.ms:g}")
    return made.table(f"Paper: {published.FEW_SHOT_SOURCE}.")


def _chart(results: Results, sets: Sequence[str], charted: Sequence[str]) -> Picture:
    def bits(baseline: str, dataset: str) -> float | None:
        value = results.mean("entropy_reduction", baseline=baseline, dataset=dataset)
        return value if value is not None and isfinite(value) else None

    heights = {title(baseline): [bits(baseline, dataset) for dataset in sets] for baseline in charted}
    figure = plots.bars(sets, heights, "bits above the constant answer", {title(baseline): baseline for baseline in charted})
    caption = (
        "Entropy reduction on test rows, higher is better: compare our default (solid blue) with the other systems of "
        "logarithmic time; no bar means that no prediction was right, or that it was not run."
    )
    return Picture("bits", caption, figure)


def _cloud(results: Results, sets: Sequence[str], systems: Sequence[str]) -> Picture:
    shown = [name for name in ("omniglot-15", "wikipara-3", "clinc150") if name in sets] or sets[:1]
    caption = "Error against the time of a query: down and left is better."
    return Picture("time", caption, against_time(results, shown, systems, "error", "test error"))


def _claims(results: Results, sets: Sequence[str]) -> list[Claim]:
    one_shot = [name for name in sets if name.endswith("-1")] or sets
    wiki = [name for name in sets if name == "wikipara-1"] or sets
    rivals = ("vw-lomtree", "vw-recall-tree")
    return [
        judge(
            "paper", "Supervision helps: CMT is ahead of CMT(u).", against(results, "error", "cmt", "cmt-u", sets),
            reason="An update trains one random router; and with one row a class, no answer to a query that excludes its "
            "own memory is right: the error changes there only by the rerouting that comes with updates.",
        ),
        judge(
            "paper", "With one row a class, CMT without labels is ahead of LOMTree and Recall Tree.",
            against_best(results, "error", "cmt-u", rivals, one_shot),
        ),
        judge(
            "paper", "With one row a class, CMT is ahead of one against all (WikiPara).",
            against(results, "error", "cmt", "vw-oaa", wiki),
        ),
        judge(
            "paper", "CMT's lead over Recall Tree shrinks as rows a class grow (bits, with most rows against with one).",
            [_leads(results, family, sets) for family in ("omniglot", "wikipara") if f"{family}-1" in sets],
        ),
        judge(
            "ours", "Our default is ahead of every logarithmic-time baseline in error on every data set.",
            against_best(results, "error", "ours", RIVALS, sets),
        ),
    ]  # fmt: skip


def _leads(results: Results, family: str, sets: Sequence[str]) -> Pair:
    """Return the lead of CMT over Recall Tree in bits, with the most rows a class and with one."""
    most = max((name for name in sets if name.startswith(f"{family}-")), key=_family)

    def lead(dataset: str) -> float | None:
        ours, theirs = (
            results.mean("entropy_reduction", baseline=baseline, dataset=dataset) for baseline in ("cmt", "vw-recall-tree")
        )
        return None if ours is None or theirs is None else ours - theirs

    return Pair(most, lead(most), lead(f"{family}-1"))


def _faster(results: Results, sets: Sequence[str]) -> list[str]:
    """Return sentences on where exact or approximate search is faster at an error at most 0.01 above ours."""
    sentences = []
    for dataset in sets:
        for baseline in EXACT:
            ours, theirs = (results.mean("error", baseline=name, dataset=dataset) for name in ("ours", baseline))
            us, their_us = (batch_us(results, name, dataset).value for name in ("ours", baseline))
            if ours is None or theirs is None or us is None or their_us is None:
                continue
            if theirs <= ours + 0.01 and their_us < us:
                times = f"{format_figure(their_us)} µs against our {format_figure(us)}"
                errors = f"{format_figure(theirs)} against our {format_figure(ours)}"
                sentences.append(f"{title(baseline)} is faster on {dataset}, in {times}, at an error of {errors}.")
    return sentences
