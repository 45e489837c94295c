"""Checks of what is stored: insertion, replacement, removal, capacity, refused arguments."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from memorytree.checks.kind import (
    FEATURES,
    WIDE,
    Kind,
    N,
    best_ids,
    is_key,
    maintain,
    matrix,
    reload,
    require,
    require_raises,
    require_same,
    state_of,
)
from memorytree.errors import InvalidKey, InvalidOption, InvalidReceipt, InvalidReward, StaleReceipt, UnknownId
from memorytree.results import NO_ID


def check_empty_tree(kind: Kind) -> None:
    """An empty tree answers with nothing; an emptied one can learn and be filled again."""
    tree, X = kind.make(seed=0), matrix(2)
    for _ in range(2):
        hits, found = tree.query(kind.one(X[0]), 3), tree.query_many(kind.batch(X), 2)
        require(len(tree) == len(hits) == 0 and list(tree) == [], "an empty tree has memories or hits")
        require(np.all(found.ids == NO_ID) and np.all(np.isneginf(found.scores)), "rows are not padded")
        require(found.values == [[], []], "an empty tree has values")
        require(tree.stats().memories == 0 and str(tree.stats()), "an empty tree has statistics")
        require(tree.explain(kind.one(X[0])).candidates == () and tree.plot(), "an empty tree is not inspected")
        require(tree.reward(hits, []).learned == tree.reward_many(found, np.full((2, 2), np.nan)).learned == 0, "it learned")
        maintain(tree)
        id = tree.insert(kind.one(X[1]), "only")
        require(tree.query(kind.one(X[0])).ids.tolist() == [id], "the only memory is not found")
        maintain(tree)
        require(tree.query_many(kind.batch(X), 3).ids.tolist() == [[id, NO_ID, NO_ID]] * 2, "one memory, other answers")
        require_same(reload(tree), tree, "a tree of one memory is not saved")
        tree.remove(id)
    require(tree.insert(kind.one(X[0]), "next") > id, "the id of a removed memory was given again")


def check_contents(kind: Kind) -> None:
    """Ids, values, keys, labels and features are those given, in order of insertion."""
    tree, X = kind.make(seed=0), matrix(20)
    rows = np.abs(X[:, :3])
    ids = tree.insert_many(kind.batch(X), range(20), labels=["a", 7] * 10, features=rows if kind.features else None)
    require(ids.tolist() == list(tree) == list(range(20)), "ids are not 0 to 19 in order of insertion")
    require(tree.get_many([3, 99, 0], "none") == [3, "none", 0] and tree[5] == 5, "values are not those given")
    for id in tree:
        require(is_key(kind, tree.key(id), X[id]), f"the key of {id} is not the one given")
        require(tree.label(id) == ["a", 7][id % 2], "a label is not the one given")
        features = tree.features(id)
        require(not kind.features or np.array_equal(features, rows[id]), "features are not those given")  # type: ignore[arg-type]  # features are not None here
    for other in (reload(tree), pickle.loads(pickle.dumps(tree))):
        require([other.label(id) for id in other] == [tree.label(id) for id in tree], "labels are not saved")


def check_replace(kind: Kind) -> None:
    """An insertion with the id of a memory replaces its key and value."""
    tree, X, old = kind.filled(), matrix(N, seed=2), matrix(N)
    for id in range(0, N, 3):
        require(tree.insert(kind.one(X[id]), f"new {id}", id=id) == id, "the id is not the one given")
    tree.check()
    require(len(tree) == N, "a replaced memory counts twice")
    for id in range(0, N, 7):
        is_new = id % 3 == 0
        x = kind.one(X[id] if is_new else old[id])
        require(tree[id] == (f"new {id}" if is_new else id), "a value was not replaced")
        require(is_key(kind, tree.key(id), (X if is_new else old)[id]), "a key was not replaced")
        require(sorted(best_ids(tree, x)) == list(range(N)), "a replaced memory is found twice or never")


def check_remove(kind: Kind) -> None:
    """A removed memory is never returned, under no key and by no kind of query."""
    tree, X, removed = kind.filled(), matrix(N), set()
    for id in np.random.default_rng(0).permutation(N)[: N - 5].tolist():
        tree.remove(id)
        removed.add(id)
        x = kind.one(X[id])
        found = [*tree.query(x, 5, beam=3).ids.tolist(), *tree.query(x, 5, explore=1.0, exploration_seed=id).ids.tolist()]
        require(removed.isdisjoint(found) and id not in tree and tree.get(id) is None, f"{id} is still there")
    tree.check()
    require(sorted(best_ids(tree, kind.one(X[0]))) == sorted(tree), "not all of the others are found")
    require(tree.insert(kind.one(X[0]), "next") == N, "the id of a removed memory was given again")


def check_capacity(kind: Kind) -> None:
    """With a capacity, the memory whose insertion or last reward is longest ago is removed."""
    removed: list[tuple[int, Any]] = []
    tree, X = kind.filled(50, capacity=20), matrix(50)
    tree.on_remove = lambda id, value: removed.append((id, value))
    require(list(tree) == list(range(30, 50)), "the first memories were not removed")
    tree.query_many(kind.batch(X), 5)  # does not count as use
    hits = tree.query(kind.one(X[40]), 20, beam=WIDE)
    tree.reward(hits, {30: 1.0, 31: 0.0, 32: 0.1})
    tree.insert_many(kind.batch(matrix(18, seed=1)), range(18))
    tree.check()
    require(sorted(tree) == [30, 32, *range(50, 68)], "not the memories without a recent use were removed")
    require(removed == [(id, id) for id in range(31, 50) if id != 32], "on_remove was not called in order of use")
    require(sorted(best_ids(tree, kind.one(X[0]))) == sorted(tree), "a removed memory is found")
    require_raises(StaleReceipt, lambda: tree.reward(hits, [1.0] * 20), "rewards for memories that are gone")
    tree.reward(hits, {id: 1.0 for id in hits.ids.tolist() if id in tree})
    tree.insert_many(kind.batch(matrix(18, seed=2)), range(18))
    require(sorted(tree) == [30, 32, *range(68, 86)], "a late reward was not recorded")
    tree.check()


def check_eviction_plan(kind: Kind) -> None:
    """The plan of evictions is what the insertion then removes."""
    for capacity, n in ((25, 20), (25, 60), (None, 20), (3, 20)):
        tree = kind.filled(25, capacity=capacity)
        tree.reward(tree.query(kind.one(matrix(1)[0]), 2), [1.0] * 2)
        ids = np.random.default_rng(n).integers(0, 50, n)
        before, plan = {id: tree[id] for id in tree}, tree.plan_evictions(ids)
        tree.insert_many(kind.batch(matrix(n, seed=1)), [f"new {i}" for i in range(n)], ids=ids)
        after = {tree[id] for id in tree}
        require(sorted(plan.stored) == sorted(id for id in before if before[id] not in after), "other memories were removed")
        unstored = [i for i in range(n) if f"new {i}" not in after]
        require(sorted(plan.unstored) == unstored, "other new memories were removed")


def check_bad_input(kind: Kind) -> None:
    """A wrong argument raises the documented error and changes nothing."""
    tree: Any = kind.filled(30)  # without its type, which forbids these arguments
    X = matrix(2)
    x, batch, hits = kind.one(X[0]), kind.batch(X), tree.query(kind.one(X[0]), 2)
    found = tree.query_many(batch, 2)
    wrong_keys: list[Any] = [
        "text",
        None,
        5,
        {"f0": "x"},
        {"f0": np.nan},
        [[1.0]],
        scipy.sparse.csr_matrix((1, FEATURES + 1)),
    ]
    if kind.keys != "named":
        wide = np.ones((1, FEATURES + 1), np.float32)
        odd = [np.where(np.arange(FEATURES) == 1, number, X[0])[None] for number in (np.nan, np.inf, 1e20)]
        wrong_keys += [kind.one(row[0].astype(np.float32)) for row in (wide, *odd)]
    calls: list[tuple[type[Exception], Callable[[], object]]] = []
    for key in wrong_keys:
        calls += [(InvalidKey, partial(tree.insert, key, 0)), (InvalidKey, partial(tree.query, key))]
        calls += [(InvalidKey, partial(tree.query, key, explore=1.0)), (InvalidKey, partial(tree.query_many, [key]))]
        calls += [(InvalidKey, partial(tree.explain, key)), (InvalidKey, partial(tree.score, key, [1]))]
    for id in (-1, 30, 10**30, True, "0", None, 1.0, [1]):
        calls += [(UnknownId, partial(method, id)) for method in (tree.remove, tree.key, tree.label, tree.__getitem__)]
    for option, number in (("k", 0), ("k", 1.5), ("beam", -1), ("beam", True), ("explore", 2), ("explore", None)):
        calls.append((InvalidOption, partial(tree.query, x, **{option: number})))
        calls.append((InvalidOption, partial(tree.query_many, batch, **{option: number})))
    calls += [
        (InvalidReward, partial(tree.reward, hits, rewards)) for rewards in (None, [1.0], [2.0, 0.0], ["a", 0], {-5: 1.0})
    ]
    calls += [
        (InvalidOption, partial(tree.query, x, exclude=["a"])),
        (InvalidOption, partial(tree.query, x, explore=0.5, exploration_seed=-1)),
        (InvalidOption, partial(tree.insert, x, 0, id=2**63)),
        (InvalidOption, partial(tree.insert, x, 0, id=-1)),
        (InvalidOption, partial(tree.insert, x, 0, label="new", features="bad")),
        (InvalidOption, partial(tree.insert, x, 0, label=1.5)),
        (InvalidOption, partial(tree.insert_many, batch, ["too few"])),
        (InvalidOption, partial(tree.insert_many, batch, "ab", ids=[1])),
        (InvalidOption, partial(tree.insert_many, batch, "ab", labels=["x"])),
        (InvalidReward, partial(tree.reward_many, found, [[1.0, 1.0]])),
        (InvalidReceipt, partial(tree.reward_many, hits, [[1.0, 1.0]])),
        (InvalidReceipt, partial(tree.reward, "no token", [1.0])),
        (InvalidReceipt, partial(kind.filled(30).reward, hits, [1.0, 1.0])),
    ]
    before = state_of(tree)
    for error, call in calls:
        require_raises(error, call, str(call))
        require(state_of(tree) == before, f"a refused {call} changed the tree")
