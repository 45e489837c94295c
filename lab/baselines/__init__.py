"""All systems that the lab measures, memorytree among them: subclasses of `Baseline`, by name in `BASELINES`."""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any

from lab.baselines import approximate, bm25, exact, learned, linear, memorytrees, vowpal
from lab.baselines.base import Baseline, NeighbourBaseline
from lab.measuring import installed
from memorytree.errors import InvalidOption

__all__ = [
    "BASELINES",
    "Baseline",
    "NeighbourBaseline",
    "find_baseline",
    "import_path",
    "missing_modules",
    "resolve",
    "source_digest",
]

_KINDS: tuple[type[Baseline], ...] = (
    memorytrees.UnsupervisedPaper, memorytrees.SupervisedPaper,
    memorytrees.Unsupervised, memorytrees.Default, memorytrees.Best,
    vowpal.MemoryTreeOnce, vowpal.MemoryTreeThrice, vowpal.MemoryTreeOnceFast, vowpal.MemoryTreeThriceFast,
    vowpal.EigenMemoryTree, vowpal.RecallTree, vowpal.LomTree,
    vowpal.OneAgainstAll, vowpal.MultilabelOneAgainstAll, vowpal.OneAgainstSome,
    exact.Exact, exact.ExactCounts,
    approximate.KdTree, approximate.Hnsw, approximate.FaissLsh, approximate.FaissIvf,
    bm25.Bm25, linear.Linear, linear.Plt, learned.Nca, learned.Attention,
)  # fmt: skip
BASELINES: dict[str, type[Baseline]] = {kind.name: kind for kind in _KINDS}
"""Every baseline by its name; you may add one of your own."""


def find_baseline(name: str) -> type[Baseline]:
    """Return the class of a baseline, by its name in `BASELINES` or by `package.module:Class`.

    >>> find_baseline("exact-1nn").title
    'Exact 1-NN'
    """
    if name in BASELINES:
        return BASELINES[name]
    module, colon, own = name.partition(":")
    if not colon:
        raise InvalidOption(f"no baseline {name!r}; there are {', '.join(BASELINES)}, and `package.module:Class`")
    try:
        found: Any = reduce(getattr, own.split("."), importlib.import_module(module))
    except Exception as error:  # a user's file may raise any error
        raise InvalidOption(f"{name} cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Baseline)):
        raise InvalidOption(f"{name} is not a Baseline")
    return found


def import_path(name: str) -> str:
    """Return the name by which a child process, which has only the lab's own baselines, finds a baseline.

    >>> import_path("exact-1nn")
    'exact-1nn'
    """
    kind = find_baseline(name)
    if kind in _KINDS:
        return kind.name
    if name not in BASELINES:
        return name
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        raise InvalidOption(
            f"{kind.__qualname__} of {kind.__module__} cannot be imported by a child process: "
            "a baseline of your own must be a class of a module"
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def resolve(names: Iterable[str]) -> tuple[str, ...]:
    """Return the import paths of the baselines that a user named, each once, after checking that tables can show them.

    >>> resolve(["exact-1nn", "lab.baselines.exact:Exact"])
    ('exact-1nn',)
    """
    found = dict.fromkeys(map(import_path, names))
    titles = {kind.title: name for name, kind in BASELINES.items()}
    for name in found:
        for needed in ("name", "title"):
            if not getattr(find_baseline(name), needed, ""):
                raise InvalidOption(f"{name} has no {needed}; a baseline needs a name and a title for tables")
        title = find_baseline(name).title
        if titles.setdefault(title, name) != name:
            raise InvalidOption(f"{name} has the title of {titles[title]}, {title!r}; titles must differ")
        try:
            json.dumps(find_baseline(name).defaults)
        except (TypeError, ValueError) as error:
            raise InvalidOption(f"{name}: its defaults must be plain data ({error})") from error
    return tuple(found)


def source_digest(kind: type[Baseline]) -> str:
    """Return a digest of the file with a baseline's class, so that results of a changed file are not reused."""
    file = getattr(sys.modules[kind.__module__], "__file__", None)
    return hashlib.sha256(Path(file).read_bytes() if file else b"").hexdigest()[:10]


def missing_modules(kind: type[Baseline]) -> list[str]:
    """Return the modules that a baseline needs and that are not installed."""
    return [module for module in kind.needs if not installed(module)]
