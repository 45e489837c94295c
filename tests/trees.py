"""Trees and keys that several tests build."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import memorytree
from memorytree import MemoryTree
from memorytree.checks import state_of

ROUTINGS = ("principal", "paper")
KEYS: dict[str, Callable[[np.ndarray], Any]] = {
    "dense": lambda X: X,
    "sparse": scipy.sparse.csr_matrix,
    "named": lambda X: [{f"f{j}": float(w) for j, w in enumerate(row) if w} for row in X],
}
# Indexes that are trees, and all.
TREES = [*((keys, routing) for keys in KEYS for routing in ROUTINGS), ("dense", "graph")]
KINDS = [*TREES, ("sparse", "terms"), ("named", "terms")]


class PlainTree(MemoryTree):
    """A tree that remembers no rewards, for tests of what the index below learns."""

    def __init__(self, **options: Any):
        super().__init__(**{"experiences": 0, **options})


def matrix(n: int, d: int = 4, seed: int = 0) -> np.ndarray:
    """n rows of d numbers, no two rows alike."""
    return np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)


def keys_of(kind: str, X: np.ndarray) -> Any:
    """The rows of a matrix as a batch of keys of this kind."""
    return KEYS[kind](np.atleast_2d(X))


def key_of(kind: str, x: np.ndarray) -> Any:
    """One key of this kind."""
    return x if kind == "dense" else keys_of(kind, x)[0]


def grown(kind: str = "dense", routing: str = "paper", n: int = 100, d: int = 4, **options: Any) -> MemoryTree:
    """A tree with n memories whose values are their ids."""
    tree = MemoryTree(**{"routing": routing, "seed": 0, **options})
    tree.insert_many(keys_of(kind, matrix(n, d)), range(n))
    return tree


state = state_of


def survives(program: str) -> None:
    """Run a program in its own process, since it may crash the interpreter; it must end without an error."""
    environment = {**os.environ, "PYTHONPATH": str(Path(memorytree.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert run.returncode == 0, f"exit code {run.returncode}\n{run.stderr[-2000:]}"
