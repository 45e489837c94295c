"""Kinds of trees to check, and what the checks share."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from memorytree.results import HitMatrix, OutlineNode
from memorytree.serialization import split_arrays
from memorytree.tree import MemoryTree

N = 90
WIDE = 1000
"""A beam that reads everything in the trees of these checks."""
FEATURES = 5


def matrix(n: int, seed: int = 0) -> np.ndarray:
    """n random rows of `FEATURES` numbers, some of them zero, but never the first."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES)) * (rng.random((n, FEATURES)) < 0.7)
    X[:, 0] = rng.normal(size=n)
    return X.astype(np.float32)


def state_of(tree: MemoryTree) -> tuple[str, dict[str, tuple[tuple[int, ...], bytes]]]:
    """The complete state of a tree as data that can be compared."""
    state = tree.state_dict()
    plain, arrays = split_arrays(state)
    contents = {name: (array.shape, array.tobytes()) for name, array in arrays.items()}
    return repr((plain, state["values"])), contents


@dataclass(frozen=True)
class Kind:
    """A kind of tree to check.

    Attributes:
        name: names it in test reports.
        make: returns an empty tree; takes `seed`, `capacity` and other options of `MemoryTree` as keyword arguments.
        keys: the form of its keys: "dense", "sparse" or "named".
        features: whether its scorer uses features of values.
        deviations: names of checks that it does not pass, and why.
    """

    name: str
    make: Callable[..., MemoryTree]
    keys: str = "dense"
    features: bool = False
    deviations: Mapping[str, str] = field(default_factory=dict)

    def batch(self, X: np.ndarray) -> Any:
        """The rows of a matrix as a batch of keys."""
        if self.keys == "sparse":
            return scipy.sparse.csr_matrix(X)
        if self.keys == "named":
            return [{f"f{j}": float(weight) for j, weight in enumerate(row) if weight} for row in X]
        return X

    def one(self, x: np.ndarray) -> Any:
        """A row of a matrix as a key."""
        return x if self.keys == "dense" else self.batch(x[None])[0]

    def filled(self, n: int = N, **options: Any) -> MemoryTree:
        """A tree with the rows of `matrix(n)`, whose values are the ids 0 to n - 1."""
        tree = self.make(**{"seed": 0, **options})
        X = matrix(n)
        tree.insert_many(self.batch(X), range(n), features=np.abs(X[:, :3]) if self.features else None)
        return tree


def require(holds: object, message: str) -> None:
    """Raise AssertionError with a message unless something holds."""
    if not holds:
        raise AssertionError(message)


def require_same(first: MemoryTree, second: MemoryTree, message: str) -> None:
    """Raise AssertionError, with the names of the arrays that differ, unless two trees have the same state."""
    (plain, arrays), (other, others) = state_of(first), state_of(second)
    differ = [name for name in arrays.keys() | others.keys() if arrays.get(name) != others.get(name)]
    require(plain == other and not differ, f"{message}; these differ: {differ or 'values or options'}")


def same_hits(first: HitMatrix, second: HitMatrix, rows: Any = slice(None)) -> bool:
    """Whether two answers to a batch are equal; the first one may be to some rows only."""
    return np.array_equal(first.ids, second.ids[rows]) and np.array_equal(first.scores, second.scores[rows])


def reload(tree: MemoryTree) -> MemoryTree:
    """The tree after `save` and `load`."""
    is_custom = tree.config.to_dict()["scorer"] == {"name": "custom"}
    with tempfile.TemporaryDirectory() as directory:
        tree.save(Path(directory) / "tree")
        return MemoryTree.load(Path(directory) / "tree", scorer=tree.config.scorer if is_custom else None)  # type: ignore[arg-type]  # a custom scorer is no name


def is_key(kind: Kind, key: Any, x: np.ndarray) -> bool:
    """Whether a key is that of a row of a matrix."""
    given = kind.one(x)
    return key == given if kind.keys == "named" else not abs(key - given).sum()


def explores(tree: MemoryTree) -> bool:
    """Whether the index has routers to explore."""
    outline = None if tree.index is None else tree.index.outline(0)
    return isinstance(outline, OutlineNode) and not outline.is_leaf


def best_ids(tree: MemoryTree, x: Any) -> list[int]:
    """All ids, best first by a search that reads everything."""
    return tree.query(x, WIDE, beam=WIDE).ids.tolist()


def write_some(kind: Kind, tree: MemoryTree, seed: int) -> None:
    """Some of every kind of write."""
    X = matrix(40, seed)
    features = np.abs(X[:, :3]) if kind.features else None
    ids = tree.insert_many(kind.batch(X), range(40), labels=["a", "b", None, 4] * 10, features=features).tolist()
    for i, x in enumerate(X[:10]):
        hits = tree.query(kind.one(x), 2, explore=0.8, exploration_seed=i)
        tree.reward(hits, [1.0, None][: len(hits)])
    found = tree.query_many(kind.batch(X), 2, explore=0.5, exploration_seed=3)
    tree.reward_many(found, np.tile([0.5, 0.0], (40, 1)))
    for id in ids[::4]:
        if id in tree:
            tree.remove(id)
    tree.insert(kind.one(X[5]), "again", id=ids[7], label="c")
    tree.refit()
    tree.reroute(10)
    tree.sweep()
    tree.insert(kind.one(X[9]), "last")


def maintain(tree: MemoryTree) -> None:
    """Refit, sweep and reroute, then check."""
    tree.refit()
    tree.sweep()
    tree.reroute(3)
    tree.check()


def require_raises(error: type[Exception], call: Callable[[], object], what: str) -> None:
    """Raise AssertionError unless a call raises this error; `what` names what is wrong with its arguments."""
    try:
        with np.errstate(over="ignore"):
            call()
    except error:
        return
    except Exception as other:
        raise AssertionError(f"{what} raises {other!r}, not {error.__name__}") from other
    raise AssertionError(f"{what} is accepted, but should raise {error.__name__}")
