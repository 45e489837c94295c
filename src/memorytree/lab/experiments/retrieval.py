"""The table of image retrieval."""

from __future__ import annotations

from collections.abc import Sequence

from memorytree.lab import published
from memorytree.lab.experiments.base import Claim, Experiment, Findings, Picture, Plan
from memorytree.lab.experiments.pictures import against_time, batch_us
from memorytree.lab.experiments.sets import sets_of
from memorytree.lab.experiments.system_tables import SystemTable
from memorytree.lab.experiments.verdicts import Pair, against, better_elsewhere, judged
from memorytree.lab.parts import Part
from memorytree.lab.results import Results
from memorytree.lab.tables import Cell, Table

SETS = ("flickr8k",)
OURS = ("cmt-u", "cmt", "ours-u", "ours")
SCAN = "exact-1nn-counts"  # the paper's exact search
OTHERS = (SCAN, "exact-1nn", "kd-tree", "hnswlib", "bm25", "linear")
EVERYONE = (*OURS, *OTHERS)


class Retrieval(Experiment):
    """Images by captions: the value returned for a caption should be like the image that it describes.

    A memory's key is the five captions of an image together, its value the image, seen as a network's features of it (the
    paper computed HoG features, so its rewards are larger and not to be compared digit by digit). Reward is the cosine of
    the image returned and the true one; centred is the same after the mean image was taken from both, so that an image that
    is a little like all others earns nothing by that. Each seed is another random 90/10 split. Speed-ups are over the linear
    scan by counts of words, which is the paper's, and over the KD-tree, all queries in a batch; asked alone, a query also
    pays for a call of Python and for the checks of an estimator. "Linear" is a ridge map from captions to features of images
    here. Our best setting is our default. CMT learns from the one memory that answers a caption without its own (the paper
    rewards all of a leaf).
    """

    name = "retrieval"
    title = "Images by captions"

    def parts(self, plan: Plan) -> Sequence[Part]:
        """Every system on every split."""
        return [
            Part(peer, dataset, seed)
            for dataset in sets_of("retrieval", plan, SETS)
            for peer in plan.systems(EVERYONE, "retrieval")
            for seed in plan.over(linear=False)
        ]

    def findings(self, plan: Plan, results: Results) -> Findings:
        """A table for each set, and reward against time."""
        sets = sets_of("retrieval", plan, SETS)
        everyone, others = (plan.systems(some, "retrieval") for some in (EVERYONE, OTHERS))
        found = Findings([_table(results, dataset, everyone) for dataset in sets])
        found.pictures = [_cloud(results, sets, everyone)]
        found.claims = _claims(results, sets)
        found.elsewhere = better_elsewhere(results, sets, others, figure="reward", what="reward", more=True)
        return found


def speedup(results: Results, peer: str, over: str, dataset: str) -> Cell:
    """How many times faster one peer answers than another."""
    one, other = batch_us(results, peer, dataset), batch_us(results, over, dataset)
    if one.value is None or other.value is None:
        return Cell(status=other.status if one.value is not None else one.status)
    return Cell(other.value / one.value, None, min(one.runs, other.runs))


def _table(results: Results, dataset: str, everyone: Sequence[str]) -> Table:
    made = SystemTable(results, dataset, everyone, runs="splits")
    made.mean("reward", "reward", "more")
    made.mean("centred", "centred", "more")
    made.least("ms a query", "query_us", 1e-3)
    made.least("ms asked alone", "call_us", 1e-3)
    made.add("times the scan's speed", lambda peer: speedup(results, peer, SCAN, dataset), "more")
    made.add("times the KD-tree's", lambda peer: speedup(results, peer, "kd-tree", dataset), "more")
    made.least("training CPU s", "fit_s")
    if not made.stand_in:
        return made.table()
    made.paper("paper: reward", published.RETRIEVAL, lambda score: str(Cell(score.reward, score.sd)))
    made.paper("paper: ms", published.RETRIEVAL, lambda score: f"{score.ms:g}")
    made.paper("paper: times the scan's speed", published.SPEEDUP, lambda speed: f"{speed[0]:g}")
    return made.table(
        f"Paper: {published.RETRIEVAL_SOURCE}, and {published.SPEEDUP_SOURCE}; against a KD-tree on all features, which it "
        f"calls slower than a scan, it gives speed-ups of {_over_kd(made.stand_in)}."
    )


def _over_kd(stand_in: str) -> str:
    over = {system: published.SPEEDUP[stand_in, system][1] for system in ("CMT(u)", "CMT")}
    return " and ".join(f"{times:,.0f} ({system})" if times else f"none ({system})" for system, times in over.items())


def _cloud(results: Results, sets: Sequence[str], everyone: Sequence[str]) -> Picture:
    caption = "Reward against the time of a query: up and left is better."
    return Picture("", caption, against_time(results, sets, everyone, "reward", "mean reward"))


def _claims(results: Results, sets: Sequence[str]) -> list[Claim]:
    def times(peer: str) -> list[Pair]:
        return [Pair(name, batch_us(results, peer, name).value, batch_us(results, SCAN, name).value) for name in sets]

    return [
        judged(
            "paper", "Supervision helps: CMT is ahead of CMT(u) (reward).",
            against(results, "reward", "cmt", "cmt-u", sets), more=True,
        ),
        judged("paper", "CMT without supervision answers faster than a linear scan (µs).", times("cmt-u")),
        judged(
            "paper", "CMT with supervision answers faster than a linear scan (µs).", times("cmt"),
            reason="Its linear scorer is plain Python here, and memories are few.",
        ),
        _negligible(results, sets),
        judged(
            "ours", "Learning from rewards beats exact search by keys (reward of our default against the scan's).",
            against(results, "reward", "ours", "exact-1nn", sets), more=True,
        ),
        judged("ours", "Our default answers faster than a linear scan (µs).", times("ours")),
    ]  # fmt: skip


def _negligible(results: Results, sets: Sequence[str]) -> Claim:
    text = "CMT's reward differs from exact search only on the order of 0.001 (at most 0.01)."
    gaps = {
        name: one - other
        for name in sets
        if (one := results.mean("reward", peer="cmt", dataset=name)) is not None
        and (other := results.mean("reward", peer=SCAN, dataset=name)) is not None
    }
    if not gaps:
        return Claim("paper", text, None, "Neither side was measured.")
    told = "; ".join(f"{name}: {gap:+.3f}" for name, gap in gaps.items())
    holds = all(abs(gap) <= 0.01 for gap in gaps.values())
    reason = (
        ""
        if holds
        else " Its features were coarser: any image earns most of the reward there, and a missed neighbour costs little."
    )
    return Claim("paper", text, holds, f"{told}.{reason}")
