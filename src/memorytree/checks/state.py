"""Checks of copies, files, rebuilds and reads."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from memorytree.checks.kind import (
    WIDE,
    Kind,
    N,
    matrix,
    reload,
    require,
    require_raises,
    require_same,
    same_hits,
    state_of,
    write_some,
)
from memorytree.tree import MemoryTree


def check_same_seed(kind: Kind) -> None:
    """The same seed and the same writes give the same tree."""
    for capacity in (None, 60):
        first, second = (kind.filled(50, seed=6, capacity=capacity) for _ in range(2))
        for tree in (first, second):
            write_some(kind, tree, 1)
            tree.check()
        require_same(first, second, "the same seed and writes give different trees")


def check_continuation(kind: Kind) -> None:
    """Saved, pickled and copied trees continue exactly as the original, and independently of it."""
    tree = kind.filled(60, capacity=90)
    write_some(kind, tree, 1)
    saved = state_of(tree)
    scorer = tree.config.scorer if tree.config.to_dict()["scorer"] == {"name": "custom"} else None
    loaded = kind.make(**{**tree.config.__dict__})
    loaded.load_state_dict(tree.state_dict())
    twins = [reload(tree), pickle.loads(pickle.dumps(tree)), loaded]
    twins += [MemoryTree.from_state_dict(tree.state_dict(), scorer=scorer, trusted=trusted) for trusted in (False, True)]  # type: ignore[arg-type]  # a custom scorer is no name
    write_some(kind, tree, 2)
    for twin in twins:
        twin.check()
        require(state_of(twin) == saved, "a copy is not what was copied, or depends on the original")
        write_some(kind, twin, 2)
        require_same(twin, tree, "a copy continues differently")
    Q = kind.batch(matrix(10, seed=3))
    asked = [each.query_many(Q, 3, explore=0.5, exploration_seed=1) for each in (tree, *twins)]
    require(all(same_hits(each, asked[0]) for each in asked), "a copy answers differently")


def check_copy(kind: Kind) -> None:
    """A copy of an index does not change with it, nor the index with its copy."""
    tree = kind.filled(60)
    assert tree.index is not None
    copy = tree.index.copy()
    before = {name: array.tobytes() for name, array in tree.index.state_dict().items()}
    for id in range(20):
        copy.remove(id)
    copy.refit(1)
    copy.check()
    after = {name: array.tobytes() for name, array in tree.index.state_dict().items()}
    require(before == after, "an index changes with its copy")
    copy = tree.index.copy()
    write_some(kind, tree, 1)
    require(before == {name: array.tobytes() for name, array in copy.state_dict().items()}, "a copy changes with its index")


def check_damaged_state(kind: Kind) -> None:
    """A state without an array, with one of another length or type, or with values of other memories, raises ValueError."""
    tree = kind.filled(50, capacity=60)
    write_some(kind, tree, 1)
    before = state_of(tree)
    for name, array in tree.state_dict()["index"].items():
        if "reranker.scorer." in name:
            continue  # a custom scorer decides what it accepts
        damaged = [None, array[:-1], np.concatenate([array, array[-1:]]), array.astype(np.complex64)]
        for each in damaged if array.size else [None, array.astype(np.complex64)]:
            state = tree.state_dict()
            state["index"][name] = each
            if each is None:
                del state["index"][name]
            require_raises(ValueError, partial(tree.load_state_dict, state), f"a damaged array {name}")
    state = tree.state_dict()
    state["values"][10**6] = "new"
    require_raises(ValueError, partial(tree.load_state_dict, state), "a value without a key")
    require(state_of(tree) == before, "a refused state was loaded in part")


def check_rebuild(kind: Kind) -> None:
    """`refit`, `sweep` and `reroute` keep every memory and the kind of index, and their result can be saved."""
    works: list[Callable[[MemoryTree], object]] = [
        lambda tree: tree.refit(),
        lambda tree: tree.sweep(),
        lambda tree: tree.reroute(5),
    ]
    for work in works:
        tree, X = kind.filled(), kind.batch(matrix(N))
        found = tree.query_many(X, 4)
        tree.reward_many(found, (found.ids % 2).astype(float))
        index, best = type(tree.index), tree.query_many(X, 1, beam=WIDE)
        features = [None if row is None else row.tolist() for row in map(tree.features, tree)]
        work(tree)
        tree.check()
        require(type(tree.index) is index and list(tree) == list(range(N)), "another index, or other memories")
        require([None if row is None else row.tolist() for row in map(tree.features, tree)] == features, "other features")
        again = tree.query_many(X, 1, beam=WIDE)
        if tree.config.scorer_name == "metric":  # projections are computed again
            require(np.allclose(again.scores.max(), best.scores.max(), rtol=0.5), "scores are on another scale")
        else:
            require(same_hits(again, best), "an exact search answers differently")
        require(same_hits(reload(tree).query_many(X, 3), tree.query_many(X, 3)), "it cannot be saved")


def check_reads_do_not_write(kind: Kind) -> None:
    """No read changes the state, nor what later writes make of it."""
    tree, alone, X = kind.filled(capacity=N), kind.filled(capacity=N), matrix(8, seed=1)
    before = state_of(tree)
    reads: list[Callable[[Any], object]] = [
        lambda x: tree.query(x, 3, beam=2, exclude=[1]).receipt,
        lambda x: tree.query(x, 2, explore=1.0).receipt,
        lambda x: tree.query_many(kind.batch(X), 3, threads=2).values,
        lambda x: tree.query_many(kind.batch(X), 2, explore=0.5)[0].receipt,
        lambda x: str(tree.stats()) + str(tree.explain(x)) + tree.plot(),
        lambda x: [(tree.key(id), tree.label(id), tree.features(id)) for id in tree],
        lambda x: (len(tree), repr(tree), tree[3], tree.get(-1), 3 in tree, tree.score(x, [1, 500])),
        lambda x: (reload(tree), tree.plan_evictions(np.arange(5))),
    ]
    for x in X[:2]:
        for number, read in enumerate(reads):
            read(kind.one(x))
            require(state_of(tree) == before, f"read {number} changes the tree")
    for i, x in enumerate(matrix(20, seed=2)):
        tree.query(kind.one(x), 3, explore=0.5)
        for each in (tree, alone):
            each.insert(kind.one(x), i)
    require_same(tree, alone, "reads change what writes make")
