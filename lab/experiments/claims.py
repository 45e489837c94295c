"""Judging claims and describing comparisons; shared by all experiments."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from lab.experiments.base import Claim
from lab.experiments.data import title
from lab.results import Results
from lab.tables import decimals


class Pair(NamedTuple):
    """A comparison on one data set: the figure that should be better and the other one; None if not measured.

    `absent` lists systems that were not measured there.
    """

    where: str
    one: float | None
    other: float | None
    absent: Sequence[str] = ()


def format_figure(value: float) -> str:
    """Return a figure with three significant digits.

    >>> format_figure(0.40512), format_figure(1234.5)
    ('0.405', '1,234')
    """
    return f"{value:,.{decimals(value)}f}"


def judge(source: str, text: str, pairs: Sequence[Pair], *, more: bool = False, reason: str = "") -> Claim:
    """Return a claim that one figure is better than another on every data set where both were measured.

    Args:
        source: "paper" or "ours".
        text: the claim.
        pairs: the comparisons.
        more: whether a larger figure is better.
        reason: the probable reason if the claim does not hold.

    >>> claim = judge("paper", "supervision helps", [("a", 0.4, 0.5), ("b", 0.6, 0.5)], reason="Few rows.")
    >>> claim.verdict, claim.why
    ('does not hold', 'Not on b: 0.600 against 0.500. It does on a: 0.400 against 0.500. Few rows.')
    """
    pairs = [Pair(*pair) for pair in pairs]
    known = [(pair.where, pair.one, pair.other) for pair in pairs if pair.one is not None and pair.other is not None]
    if not known:
        return Claim(source, text, None, "Neither side was measured.")

    def text_of(compared: Sequence[tuple[str, float, float]]) -> str:
        return "; ".join(f"{where}: {format_figure(one)} against {format_figure(other)}" for where, one, other in compared)

    unmeasured = [pair.where for pair in pairs if pair.one is None or pair.other is None]
    left = f" Not measured: {', '.join(unmeasured)}." if unmeasured else ""
    partial = bool(unmeasured) or any(pair.absent for pair in pairs)
    good = [pair for pair in known if (pair[1] > pair[2] if more else pair[1] < pair[2])]
    bad = [pair for pair in known if pair not in good]
    if not bad:
        return Claim(source, text, True, f"On {text_of(good)}.{left}", partial)
    rest = f" It does on {text_of(good)}." if good else ""
    return Claim(source, text, False, f"Not on {text_of(bad)}.{rest}{left} {reason}".strip())


def against(results: Results, figure: str, one: str, other: str, sets: Sequence[str]) -> list[Pair]:
    """Return for every data set a figure of one baseline and of another, as means over the seeds that both have."""
    pairs: list[Pair] = []
    for name in sets:
        mine, theirs = (results.by_seed(figure, baseline=baseline, dataset=name) for baseline in (one, other))
        both = mine.keys() & theirs.keys()
        means = [fmean(found[seed] for seed in both) if both else None for found in (mine, theirs)]
        pairs.append(Pair(name, means[0], means[1]))
    return pairs


def against_best(
    results: Results, figure: str, one: str, others: Sequence[str], sets: Sequence[str], *, more: bool = False
) -> list[Pair]:
    """Return for every data set a figure of one baseline and the best of others, with the name of the best."""
    pairs: list[Pair] = []
    for name in sets:
        rivals = {
            baseline: value
            for baseline in others
            if (value := results.mean(figure, baseline=baseline, dataset=name)) is not None
        }
        best = (max if more else min)(rivals, key=lambda baseline: rivals[baseline], default=None)
        absent = [baseline for baseline in others if baseline not in rivals]
        without = f"; without {', '.join(absent)}" if absent else ""
        where = name if best is None else f"{name} ({best}{without})"
        mine = results.mean(figure, baseline=one, dataset=name)
        pairs.append(Pair(where, mine, None if best is None else rivals[best], absent))
    return pairs


def better_elsewhere(
    results: Results, sets: Sequence[str], others: Sequence[str], *, figure: str, what: str, more: bool = False
) -> list[str]:
    """Return a sentence for each baseline that is better than our default on some data set, with the times of both."""
    sentences = []
    for baseline in others:
        places = [
            f"{name} ({format_figure(theirs)} against our {format_figure(ours)}{_cost(results, name, baseline)})"
            for name, theirs, ours, _ in against(results, figure, baseline, "ours", sets)
            if ours is not None and theirs is not None and _clearly_better(theirs, ours, more)
        ]
        if places:
            sentences.append(f"{title(baseline)} has a better {what} on {'; '.join(places)}.")
    return sentences


def _clearly_better(one: float, other: float, more: bool) -> bool:
    """Return whether a figure is better than another, also after both are rounded for display."""
    return (one > other if more else one < other) and format_figure(one) != format_figure(other)


def _cost(results: Results, dataset: str, baseline: str) -> str:
    theirs, ours = (results.least("query_us", baseline=name, dataset=dataset).value for name in (baseline, "ours"))
    return (
        "" if theirs is None or ours is None else f", {format_figure(theirs)} µs a query against our {format_figure(ours)}"
    )
