"""The systems that ours is put beside, and ours: each a class behind the face of `Peer`, by its name in `PEERS`."""

from __future__ import annotations

import importlib
from functools import reduce
from typing import Any

from memorytree.errors import InvalidOption
from memorytree.lab.measuring import installed
from memorytree.lab.peers import approximate, exact, learned, linear, ours, text, vowpal
from memorytree.lab.peers.base import Peer, Rememberer

__all__ = ["PEERS", "Peer", "Rememberer", "address", "missing", "peer"]

_KINDS: tuple[type[Peer], ...] = (
    ours.UnsupervisedPaper, ours.SupervisedPaper, ours.Unsupervised, ours.Default, ours.Best,
    vowpal.MemoryTreeOnce, vowpal.MemoryTreeThrice, vowpal.MemoryTreeOnceFast, vowpal.MemoryTreeThriceFast,
    vowpal.EigenMemoryTree, vowpal.RecallTree, vowpal.LomTree,
    vowpal.OneAgainstAll, vowpal.MultilabelOneAgainstAll, vowpal.OneAgainstSome,
    exact.Exact, exact.ExactCounts,
    approximate.KdTree, approximate.Hnsw, approximate.FaissLsh, approximate.FaissIvf,
    text.Bm25, linear.Linear, linear.Plt, learned.Nca, learned.Attention,
)  # fmt: skip
PEERS: dict[str, type[Peer]] = {kind.name: kind for kind in _KINDS}
"""Every peer by its name; a peer of your own may be added."""


def peer(name: str) -> type[Peer]:
    """The class of a peer: by its name in `PEERS`, or `package.module:Class`.

    >>> peer("exact-1nn").title
    'Exact 1-NN'
    """
    if name in PEERS:
        return PEERS[name]
    module, colon, own = name.partition(":")
    if not colon:
        raise InvalidOption(f"no peer {name!r}; there are {', '.join(PEERS)}, and `package.module:Class`")
    found: Any = reduce(getattr, own.split("."), importlib.import_module(module))
    if not (isinstance(found, type) and issubclass(found, Peer)):
        raise InvalidOption(f"{name} is not a Peer")
    return found


def address(name: str) -> str:
    """The name by which another process, that knows the lab's own peers only, finds a peer.

    >>> address("exact-1nn")
    'exact-1nn'
    """
    kind = peer(name)
    if kind in _KINDS:
        return kind.name
    if name not in PEERS:
        return name
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        raise InvalidOption(
            f"{kind.__qualname__} of {kind.__module__} cannot be imported by the process that is to run it: "
            "a peer of your own is a class of a module"
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def missing(kind: type[Peer]) -> list[str]:
    """The modules that a peer needs and that are not installed."""
    return [module for module in kind.needs if not installed(module)]
