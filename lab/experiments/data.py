"""The data sets of an experiment: standard ones, the paper's own if present, or synthetic ones in a quick run."""

from __future__ import annotations

from collections.abc import Sequence

from lab import baselines
from lab.experiments.base import Plan

ORIGINALS = {
    "classes": ("aloi", "imagenet"),
    "labels": ("rcv1-2k", "amazoncat-13k", "wiki10-31k"),
    "retrieval": ("pascal", "coco"),
}


def title(baseline: str) -> str:
    """Return the title of a baseline in tables.

    >>> title("exact-1nn"), title("lab.baselines.exact:Exact")
    ('Exact 1-NN', 'Exact 1-NN')
    """
    return baselines.find_baseline(baseline).title


def linear(baseline: str) -> bool:
    """Return whether a baseline's time is linear.

    >>> linear("vw-oaa"), linear("ours")
    (True, False)
    """
    return baselines.find_baseline(baseline).linear


def datasets_for(kind: str, plan: Plan, standard: Sequence[str]) -> Sequence[str]:
    """Return the data sets of a kind: the standard ones and the paper's own whose folders exist, or a synthetic one."""
    if plan.quick:
        return (f"made-{kind}",)
    return (*standard, *(name for name in ORIGINALS[kind] if plan.data is not None and (plan.data / name).is_dir()))
