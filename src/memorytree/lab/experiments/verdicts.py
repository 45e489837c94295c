"""How claims are judged and comparisons put into words; the same for all experiments."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from memorytree.lab.experiments.base import Claim
from memorytree.lab.experiments.sets import title
from memorytree.lab.results import Results
from memorytree.lab.tables import decimals


class Pair(NamedTuple):
    """Where, the figure that should be better, and the one it is held against; None: not measured. `absent` are rivals that
    were not measured there."""

    where: str
    one: float | None
    other: float | None
    absent: Sequence[str] = ()


def shown(value: float) -> str:
    """A figure with three digits that count.

    >>> shown(0.40512), shown(1234.5)
    ('0.405', '1,234')
    """
    return f"{value:,.{decimals(value)}f}"


def judged(who: str, text: str, pairs: Sequence[Pair], *, more: bool = False, reason: str = "") -> Claim:
    """Judge a claim that one figure is better than another wherever both were measured.

    Args:
        who: who makes the claim.
        text: the claim.
        pairs: where, the figure that should be better, and the other.
        more: whether more is better.
        reason: why we think it does not hold, where it does not.

    >>> claim = judged("paper", "supervision helps", [("a", 0.4, 0.5), ("b", 0.6, 0.5)], reason="Few rows.")
    >>> claim.verdict, claim.why
    ('does not hold', 'Not on b: 0.600 against 0.500. It does on a: 0.400 against 0.500. Few rows.')
    """
    pairs = [Pair(*pair) for pair in pairs]
    known = [(pair.where, pair.one, pair.other) for pair in pairs if pair.one is not None and pair.other is not None]
    if not known:
        return Claim(who, text, None, "Neither side was measured.")

    def told(kept: Sequence[tuple[str, float, float]]) -> str:
        return "; ".join(f"{where}: {shown(one)} against {shown(other)}" for where, one, other in kept)

    blank = [pair.where for pair in pairs if pair.one is None or pair.other is None]
    left = f" Not measured: {', '.join(blank)}." if blank else ""
    partial = bool(blank) or any(pair.absent for pair in pairs)
    good = [pair for pair in known if (pair[1] > pair[2] if more else pair[1] < pair[2])]
    bad = [pair for pair in known if pair not in good]
    if not bad:
        return Claim(who, text, True, f"On {told(good)}.{left}", partial)
    rest = f" It does on {told(good)}." if good else ""
    return Claim(who, text, False, f"Not on {told(bad)}.{rest}{left} {reason}".strip())


def against(results: Results, figure: str, one: str, other: str, sets: Sequence[str]) -> list[Pair]:
    """For every data set a figure of one peer and of another, over the seeds that both have."""
    pairs: list[Pair] = []
    for name in sets:
        mine, theirs = (results.by_seed(figure, peer=peer, dataset=name) for peer in (one, other))
        both = mine.keys() & theirs.keys()
        means = [fmean(found[seed] for seed in both) if both else None for found in (mine, theirs)]
        pairs.append(Pair(name, means[0], means[1]))
    return pairs


def against_best(
    results: Results, figure: str, one: str, others: Sequence[str], sets: Sequence[str], *, more: bool = False
) -> list[Pair]:
    """For every data set a figure of one peer and the best one among others, with the name of who has it."""
    pairs: list[Pair] = []
    for name in sets:
        rivals = {peer: value for peer in others if (value := results.mean(figure, peer=peer, dataset=name)) is not None}
        best = (max if more else min)(rivals, key=lambda peer: rivals[peer], default=None)
        absent = [peer for peer in others if peer not in rivals]
        without = f"; without {', '.join(absent)}" if absent else ""
        where = name if best is None else f"{name} ({best}{without})"
        mine = results.mean(figure, peer=one, dataset=name)
        pairs.append(Pair(where, mine, None if best is None else rivals[best], absent))
    return pairs


def better_elsewhere(
    results: Results, sets: Sequence[str], others: Sequence[str], *, figure: str, what: str, more: bool = False
) -> list[str]:
    """A sentence for each peer that beats our default somewhere, with what it costs there."""
    told = []
    for peer in others:
        places = [
            f"{name} ({shown(theirs)} against our {shown(ours)}{_cost(results, name, peer)})"
            for name, theirs, ours, _ in against(results, figure, peer, "ours", sets)
            if ours is not None and theirs is not None and _clearly_better(theirs, ours, more)
        ]
        if places:
            told.append(f"{title(peer)} has a better {what} on {'; '.join(places)}.")
    return told


def _clearly_better(one: float, other: float, more: bool) -> bool:
    """Whether a figure is better than another, and still is with the digits that are shown."""
    return (one > other if more else one < other) and shown(one) != shown(other)


def _cost(results: Results, dataset: str, peer: str) -> str:
    theirs, ours = (results.least("query_us", peer=who, dataset=dataset).value for who in (peer, "ours"))
    return "" if theirs is None or ours is None else f", {shown(theirs)} µs a query against our {shown(ours)}"
