"""The experiments by name, in the order in which they run and are shown."""

from __future__ import annotations

from lab.experiments.ablations import Ablations
from lab.experiments.base import Claim, Experiment, Findings, Picture, Plan
from lab.experiments.desiderata import Desiderata
from lab.experiments.few_shot import FewShot
from lab.experiments.growth import Growth
from lab.experiments.multi_label import MultiLabel
from lab.experiments.online import Online
from lab.experiments.retrieval import Retrieval

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Findings", "Picture", "Plan"]

_ALL = (FewShot(), MultiLabel(), Retrieval(), Online(), Ablations(), Desiderata(), Growth())
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
