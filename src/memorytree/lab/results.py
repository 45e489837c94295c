"""What came of the parts of an experiment, and how an experiment asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memorytree.lab.parts import Part
from memorytree.lab.tables import NOT_RUN, Cell


class Results:
    """Results by part. Every question names what it wants of a part: `peer=`, `dataset=`, `job=`, or an option.

    >>> parts = {Part("ours", "omniglot-1", seed): {"status": "ok", "error": 0.5 + seed} for seed in (0, 1)}
    >>> str(Results(parts).cell("error", peer="ours", dataset="omniglot-1"))
    '1.00 ± 0.71'
    """

    def __init__(self, found: Mapping[Part, Mapping[str, Any]]):
        self.found = found

    def of(self, **wanted: Any) -> list[Mapping[str, Any]]:
        """The results of all parts that fit, in order of their seeds."""
        fitting = [(part.seed, result) for part, result in self.found.items() if _fits(part, wanted)]
        return [result for _, result in sorted(fitting, key=lambda pair: pair[0])]

    def figures(self, figure: str, **wanted: Any) -> list[float]:
        """One figure of all runs that went well and have it."""
        return [one[figure] for one in self.of(**wanted) if one.get("status") == "ok" and one.get(figure) is not None]

    def by_seed(self, figure: str, **wanted: Any) -> dict[int, float]:
        """One figure of all runs that went well and have it, by seed."""
        fitting = {part.seed: one for part, one in self.found.items() if _fits(part, wanted) and one.get("status") == "ok"}
        return {seed: one[figure] for seed, one in fitting.items() if one.get(figure) is not None}

    def mean(self, figure: str, **wanted: Any) -> float | None:
        """The mean of a figure, or None where nothing was measured."""
        return self.cell(figure, **wanted).value

    def cell(self, figure: str, **wanted: Any) -> Cell:
        """The mean of a figure over seeds, or why there is none."""
        figures = self.figures(figure, **wanted)
        return Cell.of(figures) if figures else Cell(status=status(self.of(**wanted)))

    def least(self, figure: str, **wanted: Any) -> Cell:
        """The least of a figure over seeds, which is how times are given, or why there is none."""
        figures = self.figures(figure, **wanted)
        return Cell.least(figures) if figures else Cell(status=status(self.of(**wanted)))

    def runs(self, **wanted: Any) -> str:
        """How many runs went well, or what became of them."""
        good = [one for one in self.of(**wanted) if one.get("status") == "ok"]
        return str(len(good)) if good else status(self.of(**wanted))


def _fits(part: Part, wanted: Mapping[str, Any]) -> bool:
    settings = dict(part.options)
    named = {"peer": part.peer, "dataset": part.dataset, "job": part.job, "seed": part.seed}
    return all((named[name] if name in named else settings.get(name)) == value for name, value in wanted.items())


def status(results: Iterable[Mapping[str, Any]]) -> str:
    """What became of parts of which none has the figure that was asked for, in a word or two."""
    for one in results:
        match one.get("status"):
            case "stopped":
                return f"stopped after {one['cpu_s']:,.0f} CPU s" if one.get("cpu_s") else "stopped"
            case "failed" if "DataMissing" in one.get("why", ""):
                return "no data"
            case "failed" if "Unsuited" in one.get("why", ""):
                return "not suited"
            case "missing" | "failed" as word:
                return str(word)
            case "ok":
                return "–"
    return NOT_RUN


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1] if text.strip() else "without a word"


def troubles(results: Results) -> list[str]:
    """A sentence for each part that did not go well, so that nothing is dropped in silence."""
    told: dict[str, None] = {}
    for part, one in results.found.items():
        match one.get("status"):
            case "missing":
                told[f"{part.peer}: missing ({', '.join(one.get('needs', [])) or 'its package'} is not installed)."] = None
            case "stopped":
                told[f"{part.label}: stopped after {one.get('cpu_s', 0):,.0f} CPU s."] = None
            case "failed":
                told[f"{part.label}: failed: {_last_line(one.get('why', ''))}"] = None
    return list(told)
