"""The contract of every kind of index, as checks that anyone can run, for example on a scorer of one's own.

A check takes a `Kind` and raises AssertionError with what is wrong. Checks use the public API of `MemoryTree` only, need no
test framework and take a few hundredths of a second each once the kernels are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from memorytree.checks import answers, batches, contents, state
from memorytree.checks.kind import Kind, state_of
from memorytree.config import TermLists
from memorytree.tree import MemoryTree

__all__ = ["Kind", "check_index", "contract", "kinds", "state_of"]


def contract() -> Iterator[tuple[str, Callable[[Kind], None]]]:
    """(name, check) of all checks.

    >>> dict(contract())["check_copy"](Kind("default", MemoryTree))
    """
    for module in (contents, answers, batches, state):
        for name, check in vars(module).items():
            if name.startswith("check_"):
                yield name, check


def check_index(make: Callable[..., MemoryTree], keys: str = "dense", *, features: bool = False) -> None:
    """Run the whole contract.

    Args:
        make, keys, features: as in `Kind`.

    Raises:
        AssertionError: a check failed; the message says which and why.

    >>> check_index(partial(MemoryTree, scorer="cosine"))
    """
    for name, check in contract():
        try:
            check(Kind("given", make, keys, features))
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def inner_products(x: Any, keys: Any, features: np.ndarray | None) -> np.ndarray:
    """A custom scorer: products with the key of the query."""
    products = keys @ (x.T if scipy.sparse.issparse(x) else np.reshape(x, (-1, 1)))
    return np.asarray(products.todense() if scipy.sparse.issparse(products) else products).reshape(-1)


_DENSE: dict[str, dict[str, Any]] = {
    "principal": {"routing": "principal"},
    "principal cosine": {"routing": "principal", "scorer": "cosine"},
    "graph": {"routing": "graph"},
    "graph cosine": {"routing": "graph", "scorer": "cosine"},
    "paper": {"routing": "paper"},
    "paper cosine": {"routing": "paper", "scorer": "cosine"},
    "linear": {"scorer": "linear"},
    "paper linear": {"routing": "paper", "scorer": "linear"},
    "metric": {"scorer": "metric"},
    "values": {"scorer": "values"},
    "custom": {"scorer": inner_products},
    "3 trees": {"trees": 3},
    "3 trees paper": {"trees": 3, "routing": "paper"},
    "3 trees metric": {"trees": 3, "scorer": "metric"},
    "3 trees values": {"trees": 3, "scorer": "values"},
}
_SPARSE: dict[str, dict[str, Any]] = {
    "principal": {"routing": "principal"},
    "principal cosine": {"routing": "principal", "scorer": "cosine"},
    "paper": {"routing": "paper"},
    "paper cosine": {"routing": "paper", "scorer": "cosine"},
    "linear": {"scorer": "linear"},
    "custom": {"scorer": inner_products},
    "terms": {"routing": "terms"},
    "terms cosine": {"routing": "terms", "scorer": "cosine"},
    "terms expansion": {"routing": TermLists(expansion=0.1)},
    "terms tfidf": {"routing": "terms", "scorer": "tfidf"},
    "metric": {"scorer": "metric"},
    "values": {"scorer": "values"},
    "3 trees": {"trees": 3, "routing": "principal"},
}
_NAMED: dict[str, dict[str, Any]] = {name: _SPARSE[name] for name in ("principal", "paper", "terms")}
_DEVIATIONS: dict[tuple[str, Any], dict[str, str]] = {
    ("sparse", "metric"): {"check_batch_insert": "latent directions are computed once for a batch, at its end"},
}


def kinds() -> list[Kind]:
    """The kinds that the library offers: every routing, scorer and form of keys, with one tree and several.

    Each kind names the checks that it does not pass.

    >>> [kind.name for kind in kinds()][:3]
    ['dense principal', 'dense principal cosine', 'dense graph']
    """
    tables = {"dense": _DENSE, "sparse": _SPARSE, "named": _NAMED}
    return [
        Kind(
            f"{keys} {name}",
            partial(MemoryTree, **options),
            keys,
            features=options.get("scorer") == "values",
            deviations=_DEVIATIONS.get((keys, options.get("scorer")), {}),
        )
        for keys, table in tables.items()
        for name, options in table.items()
    ]
