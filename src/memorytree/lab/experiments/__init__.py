"""The experiments, by name, in the order in which they are run and shown."""

from __future__ import annotations

from memorytree.lab.experiments.ablations import Ablations
from memorytree.lab.experiments.base import Claim, Experiment, Findings, Picture, Plan
from memorytree.lab.experiments.desiderata import Desiderata
from memorytree.lab.experiments.few_shot import FewShot
from memorytree.lab.experiments.growth import Growth
from memorytree.lab.experiments.multi_label import MultiLabel
from memorytree.lab.experiments.online import Online
from memorytree.lab.experiments.retrieval import Retrieval

__all__ = ["EXPERIMENTS", "Claim", "Experiment", "Findings", "Picture", "Plan"]

_ALL = (FewShot(), MultiLabel(), Retrieval(), Online(), Ablations(), Desiderata(), Growth())
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}
