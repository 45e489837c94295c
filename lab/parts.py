"""A part: the smallest unit of an experiment that is run and cached. One baseline, one data set, one seed."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import memorytree
from lab import baselines

# Statuses that a second run would not change; parts that failed or whose packages are missing are run again.
FINAL = ("ok", "stopped")


@dataclass(frozen=True)
class Part:
    """What determines one measurement.

    Attributes:
        baseline: the system that is measured: its name in `lab.baselines`, or "package.module:Class".
        dataset: its name in `lab.datasets`, or any name that the job itself interprets.
        seed: sets the order of the rows and every random number.
        job: "batch", "online", or "module:function" for a job that belongs to one experiment.
        options: of the baseline or the job; plain data.
        slow: whether it runs after all other parts. It has no influence on the result.

    >>> Part("ours", "omniglot-1").label
    'ours on omniglot-1, seed 0'
    >>> Part("ours", "omniglot-1", options=options(beam=4)).label
    'ours on omniglot-1, beam 4, seed 0'
    """

    baseline: str
    dataset: str
    seed: int = 0
    job: str = "batch"
    options: tuple[tuple[str, Any], ...] = ()
    slow: bool = field(default=False, compare=False)

    @property
    def label(self) -> str:
        """The part in words."""
        settings = "".join(f", {name} {value}" for name, value in self.options)
        return f"{self.baseline} on {self.dataset}{settings}, seed {self.seed}"

    @property
    def kind(self) -> tuple[Any, ...]:
        """Everything but the seed: parts of one kind take about the same time."""
        return (self.job, self.baseline, self.dataset, self.options)

    def identity(self, quick: bool) -> dict[str, Any]:
        """Everything that the result depends on, as plain data.

        It includes the default options of the baseline and, for a user's own baseline, a digest of its source. The keys are
        those of every stored result, so they are not renamed: "peer" is the baseline.
        """
        custom = ":" in self.baseline
        known = custom or self.baseline in baselines.BASELINES
        defaults = baselines.find_baseline(self.baseline).defaults if known else {}
        settings = json.loads(json.dumps({**defaults, **dict(self.options)}))  # tuples become lists, as after reading
        return {
            "peer": self.baseline, "dataset": self.dataset, "seed": self.seed, "job": self.job,
            "options": settings, "quick": quick, "memorytree": memorytree.__version__,
            **({"source": baselines.source_digest(baselines.find_baseline(self.baseline))} if custom else {}),
        }  # fmt: skip


def options(**given: Any) -> tuple[tuple[str, Any], ...]:
    """Return options in the form in which a part holds them: pairs, sorted by name.

    >>> options(trees=2, beam=4)
    (('beam', 4), ('trees', 2))
    """
    return tuple(sorted(given.items()))
