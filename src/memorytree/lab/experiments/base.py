"""What an experiment is: parts to run, and what their results say, as tables, plots and verdicts on claims."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from memorytree.lab.parts import Part
from memorytree.lab.peers import Peer, peer
from memorytree.lab.results import Results
from memorytree.lab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plan:
    """What the user asked for: where the data are, whether to be quick, how many seeds, which peers beside the others."""

    data: Path | None = None
    quick: bool = False
    seeds: int = 5
    peers: tuple[str, ...] = ()

    def over(self, linear: bool) -> range:
        """The seeds of a peer: one where its time is linear, or in a quick run."""
        return range(1 if linear or self.quick else self.seeds)

    def systems(
        self, standing: Sequence[str], kind: str, able: Callable[[type[Peer]], bool] = lambda kind: True
    ) -> tuple[str, ...]:
        """The systems that an experiment has, and behind them those peers of the user's that can take part, each once.

        Args:
            standing: the experiment's own.
            kind: of its data sets.
            able: whether a peer that takes this kind can do what is asked.
        """
        suited = [name for name in self.peers if kind in peer(name).kinds and able(peer(name))]
        return tuple(dict.fromkeys((*standing, *suited)))


@dataclass(frozen=True)
class Claim:
    """Something that is said, by the paper or by us, and whether the figures bear it out.

    Attributes:
        who: who says it: "paper", "ours".
        text: what is said.
        holds: True, False, or None where it was not measured.
        why: the figures, in a sentence; where it does not hold, what we think the reason is.
        partial: whether some of what it speaks of was not measured.
    """

    who: str
    text: str
    holds: bool | None
    why: str
    partial: bool = False

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.holds and self.partial:
            return "holds where measured"
        return {True: "holds", False: "does not hold", None: "not measured"}[self.holds]


@dataclass
class Picture:
    """A plot: what it is called (added to the experiment's name), and one sentence on what to see."""

    name: str
    caption: str
    figure: Figure


@dataclass
class Findings:
    """What an experiment found out."""

    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # where something else is the better choice, a sentence each


class Experiment(ABC):
    """One table or figure of the paper, or of ours. Its docstring is printed above its tables."""

    name: str
    title: str

    @abstractmethod
    def parts(self, plan: Plan) -> Sequence[Part]:
        """All that must be run."""

    @abstractmethod
    def findings(self, plan: Plan, results: Results) -> Findings:
        """What the results say; parts that were not run are shown as such."""
