"""The systems that ours is put beside, and ours: each a class behind the face of `Peer`, by its name in `PEERS`."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any

from memorytree.errors import InvalidOption
from memorytree.lab.measuring import installed
from memorytree.lab.peers import approximate, exact, learned, linear, ours, text, vowpal
from memorytree.lab.peers.base import Peer, Rememberer

__all__ = ["PEERS", "Peer", "Rememberer", "address", "chosen", "missing", "peer", "source"]

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
    try:
        found: Any = reduce(getattr, own.split("."), importlib.import_module(module))
    except Exception as error:  # a file of somebody's own may raise anything
        raise InvalidOption(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
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


def chosen(names: Iterable[str]) -> tuple[str, ...]:
    """Peers that a user has named, each once, by their addresses; tables will show them by their titles.

    >>> chosen(["exact-1nn", "memorytree.lab.peers.exact:Exact"])
    ('exact-1nn',)
    """
    found = dict.fromkeys(map(address, names))
    titles = {kind.title: name for name, kind in PEERS.items()}
    for name in found:
        for needed in ("name", "title"):
            if not getattr(peer(name), needed, ""):
                raise InvalidOption(f"{name} has no {needed}; a peer has a name and, for tables, a title")
        title = peer(name).title
        if titles.setdefault(title, name) != name:
            raise InvalidOption(f"{name} has the title of {titles[title]}, {title!r}: tables could not tell them apart")
        try:
            json.dumps(peer(name).defaults)
        except (TypeError, ValueError) as error:
            raise InvalidOption(f"{name}: its defaults should be plain data ({error})") from error
    return tuple(found)


def source(kind: type[Peer]) -> str:
    """A digest of the file with a peer's class: after a change it is another peer."""
    file = getattr(sys.modules[kind.__module__], "__file__", None)
    return hashlib.sha256(Path(file).read_bytes() if file else b"").hexdigest()[:10]


def missing(kind: type[Peer]) -> list[str]:
    """The modules that a peer needs and that are not installed."""
    return [module for module in kind.needs if not installed(module)]
