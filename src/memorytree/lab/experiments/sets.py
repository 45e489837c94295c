"""Which data sets an experiment runs on: the standing ones, the originals that are there, or made-up ones in a quick run."""

from __future__ import annotations

from collections.abc import Sequence

from memorytree.lab import peers
from memorytree.lab.experiments.base import Plan

ORIGINALS = {
    "classes": ("aloi", "imagenet"),
    "labels": ("rcv1-2k", "amazoncat-13k", "wiki10-31k"),
    "retrieval": ("pascal", "coco"),
}


def title(peer: str) -> str:
    """What a peer is called in tables.

    >>> title("exact-1nn"), title("memorytree.lab.peers.exact:Exact")
    ('Exact 1-NN', 'Exact 1-NN')
    """
    return peers.peer(peer).title


def linear(peer: str) -> bool:
    """Whether a peer's time is linear.

    >>> linear("vw-oaa"), linear("ours")
    (True, False)
    """
    return peers.peer(peer).linear


def sets_of(kind: str, plan: Plan, standing: Sequence[str]) -> Sequence[str]:
    """The sets of a kind: the standing ones and the paper's own, if their folders are there, or a small one made here."""
    if plan.quick:
        return (f"made-{kind}",)
    return (*standing, *(name for name in ORIGINALS[kind] if plan.data is not None and (plan.data / name).is_dir()))
