"""Which data sets an experiment runs on: the standing ones, the originals that are there, or made-up ones in a quick run."""

from __future__ import annotations

from collections.abc import Sequence

from memorytree.lab.experiments.base import Plan
from memorytree.lab.peers import PEERS

ORIGINALS = {
    "classes": ("aloi", "imagenet"),
    "labels": ("rcv1-2k", "amazoncat-13k", "wiki10-31k"),
    "retrieval": ("pascal", "coco"),
}


def title(peer: str) -> str:
    """What a peer is called in tables."""
    return PEERS[peer].title


def classes(plan: Plan, standing: Sequence[str]) -> Sequence[str]:
    """Sets with a class a row."""
    return _chosen(plan, standing, "classes")


def labels(plan: Plan, standing: Sequence[str]) -> Sequence[str]:
    """Sets with several labels a row."""
    return _chosen(plan, standing, "labels")


def retrieval(plan: Plan, standing: Sequence[str]) -> Sequence[str]:
    """Sets with a value a row."""
    return _chosen(plan, standing, "retrieval")


def _chosen(plan: Plan, standing: Sequence[str], kind: str) -> Sequence[str]:
    if plan.quick:
        return (f"made-{kind}",)
    originals = [name for name in ORIGINALS[kind] if plan.data is not None and (plan.data / name).is_dir()]
    return (*standing, *originals)
