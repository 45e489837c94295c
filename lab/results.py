"""The results of the parts of an experiment, selected by what determines the parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lab.parts import Part
from lab.tables import NOT_RUN, Cell


class Results:
    """Results by part. Each method selects parts by keywords: `baseline=`, `dataset=`, `job=`, `seed=`, or an option.

    >>> parts = {Part("ours", "omniglot-1", seed): {"status": "ok", "error": 0.5 + seed} for seed in (0, 1)}
    >>> str(Results(parts).cell("error", baseline="ours", dataset="omniglot-1"))
    '1.00 ± 0.71'
    """

    def __init__(self, found: Mapping[Part, Mapping[str, Any]]):
        self.found = found

    def select(self, **wanted: Any) -> list[Mapping[str, Any]]:
        """Return the results of all matching parts, in order of their seeds."""
        matching = [(part.seed, result) for part, result in self.found.items() if _matches(part, wanted)]
        return [result for _, result in sorted(matching, key=lambda pair: pair[0])]

    def figures(self, figure: str, **wanted: Any) -> list[float]:
        """Return a figure of every successful run that has it."""
        return [one[figure] for one in self.select(**wanted) if one.get("status") == "ok" and one.get(figure) is not None]

    def by_seed(self, figure: str, **wanted: Any) -> dict[int, float]:
        """Return a figure of every successful run that has it, by seed."""
        parts = ((part, one) for part, one in self.found.items() if _matches(part, wanted))
        successful = {part.seed: one for part, one in parts if one.get("status") == "ok"}
        return {seed: one[figure] for seed, one in successful.items() if one.get(figure) is not None}

    def mean(self, figure: str, **wanted: Any) -> float | None:
        """Return the mean of a figure, or None if it was not measured."""
        return self.cell(figure, **wanted).value

    def cell(self, figure: str, **wanted: Any) -> Cell:
        """Return the mean of a figure over seeds, or the reason why there is none."""
        figures = self.figures(figure, **wanted)
        return Cell.of(figures) if figures else Cell(status=status(self.select(**wanted)))

    def least(self, figure: str, **wanted: Any) -> Cell:
        """Return the least value of a figure over seeds, which is how times are given, or the reason why there is none."""
        figures = self.figures(figure, **wanted)
        return Cell.least(figures) if figures else Cell(status=status(self.select(**wanted)))

    def runs(self, **wanted: Any) -> str:
        """Return how many runs succeeded, or the status if none did."""
        good = [one for one in self.select(**wanted) if one.get("status") == "ok"]
        return str(len(good)) if good else status(self.select(**wanted))


def _matches(part: Part, wanted: Mapping[str, Any]) -> bool:
    settings = dict(part.options)
    named = {"baseline": part.baseline, "dataset": part.dataset, "job": part.job, "seed": part.seed}
    return all((named[name] if name in named else settings.get(name)) == value for name, value in wanted.items())


def status(results: Iterable[Mapping[str, Any]]) -> str:
    """Return in a word or two why none of these results has the figure."""
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
    return text.strip().splitlines()[-1] if text.strip() else "without a message"


def problems(results: Results) -> list[str]:
    """Return a sentence for each part that did not succeed, so that none is omitted without notice."""
    sentences: dict[str, None] = {}
    for part, one in results.found.items():
        match one.get("status"):
            case "missing":
                modules = ", ".join(one.get("needs", [])) or "its package"
                sentences[f"{part.baseline}: missing ({modules} is not installed)."] = None
            case "stopped":
                sentences[f"{part.label}: stopped after {one.get('cpu_s', 0):,.0f} CPU s."] = None
            case "failed":
                sentences[f"{part.label}: failed: {_last_line(one.get('why', ''))}"] = None
    return list(sentences)
