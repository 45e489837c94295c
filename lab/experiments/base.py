"""The interface of an experiment: parts to run, and findings from their results: tables, plots and claims."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.baselines import Baseline, find_baseline
from lab.parts import Part
from lab.results import Results
from lab.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plan:
    """The options of a run: data folder, whether it is quick, number of seeds, and the user's own baselines."""

    data: Path | None = None
    quick: bool = False
    seeds: int = 5
    baselines: tuple[str, ...] = ()

    def over(self, linear: bool) -> range:
        """Return the seeds of a baseline: one if its time is linear or the run is quick."""
        return range(1 if linear or self.quick else self.seeds)

    def systems(
        self, own: Sequence[str], kind: str, able: Callable[[type[Baseline]], bool] = lambda kind: True
    ) -> tuple[str, ...]:
        """Return the systems of an experiment, followed by the user's baselines that are suited, each once.

        Args:
            own: the experiment's own systems.
            kind: of its data sets.
            able: whether a baseline for this kind meets the other requirements of the experiment.
        """
        suited = [name for name in self.baselines if kind in find_baseline(name).kinds and able(find_baseline(name))]
        return tuple(dict.fromkeys((*own, *suited)))


@dataclass(frozen=True)
class Claim:
    """A claim of the paper or of ours, and whether the figures support it.

    Attributes:
        source: "paper" or "ours".
        text: the claim.
        holds: True, False, or None if it was not measured.
        why: the figures in a sentence; if the claim does not hold, also the probable reason.
        partial: whether some of the figures that it refers to were not measured.
    """

    source: str
    text: str
    holds: bool | None
    why: str
    partial: bool = False

    @property
    def verdict(self) -> str:
        """The verdict as text."""
        if self.holds and self.partial:
            return "holds where measured"
        return {True: "holds", False: "does not hold", None: "not measured"}[self.holds]

    def to_json(self) -> dict[str, Any]:
        """Return the claim as plain data; the key of its source in stored documents is "who"."""
        return {
            "who": self.source, "text": self.text, "holds": self.holds, "why": self.why, "partial": self.partial,
            "verdict": self.verdict,
        }  # fmt: skip

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Claim:
        """Return the claim from the plain data of `to_json`."""
        return cls(plain["who"], plain["text"], plain["holds"], plain["why"], plain["partial"])


@dataclass
class Picture:
    """A plot: its name (appended to the experiment's name), a caption of one sentence, and the figure."""

    name: str
    caption: str
    figure: Figure


@dataclass
class Findings:
    """The findings of an experiment."""

    tables: list[Table] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    alternatives: list[str] = field(default_factory=list)  # sentences on where another system is the better choice


class Experiment(ABC):
    """A table or figure of the paper, or one of ours. Its docstring is printed above its tables."""

    name: str
    title: str

    @abstractmethod
    def parts(self, plan: Plan) -> Sequence[Part]:
        """Return the parts that must be run."""

    @abstractmethod
    def findings(self, plan: Plan, results: Results) -> Findings:
        """Return the findings; parts that were not run are shown as such."""
