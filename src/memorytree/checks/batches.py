"""Checks of batches and rewards."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from memorytree.checks.kind import (
    WIDE,
    Kind,
    N,
    matrix,
    require,
    require_raises,
    require_same,
    same_hits,
)
from memorytree.errors import StaleReceipt


def check_batch_insert(kind: Kind) -> None:
    """A batch of insertions leaves the same tree as a loop, also with repeated ids and with a capacity."""
    X, ids = matrix(120), np.random.default_rng(1).integers(0, 80, 120)
    for capacity in (None, 40):
        whole, loop = (kind.make(seed=3, capacity=capacity) for _ in range(2))
        new = whole.insert_many(kind.batch(X[:50]), range(50)).tolist()
        require(new == [loop.insert(kind.one(x), i) for i, x in enumerate(X[:50])], "other ids are given")
        require(whole.insert_many(kind.batch(X), range(120), ids=ids).tolist() == ids.tolist(), "ids are not those given")
        for i, x in enumerate(X):
            loop.insert(kind.one(x), i, id=int(ids[i]))
        require_same(whole, loop, "a batch of insertions is not a loop")
        whole.check()


def check_batch_query(kind: Kind) -> None:
    """A batch of queries has the answers of single queries, in any number of threads, any order and any part."""
    tree, Q = kind.filled(150), matrix(30, seed=1)
    exclude = [list(range(i, i + 5)) for i in range(30)]
    order = np.random.default_rng(0).permutation(30)
    ways: list[dict[str, Any]] = [{}, {"beam": 4}, {"explore": 0.8}]
    for options in ways:
        seeds: list[dict[str, Any]] = [{"exploration_seed": 11 + i} if "explore" in options else {} for i in range(30)]
        ask: Any = partial(tree.query_many, k=4, **options, **seeds[0])
        found = ask(kind.batch(Q), exclude=exclude)
        for i, q in enumerate(Q):
            hits = tree.query(kind.one(q), 4, exclude=exclude[i], **options, **seeds[i])
            require(list(found[i]) == list(hits) and found[i].receipt == hits.receipt, f"{options}: row {i} differs")
        for threads in (2, 0, 60):
            require(same_hits(ask(kind.batch(Q), exclude=exclude, threads=threads), found), f"{threads} threads differ")
        for rows in (order, order[:7], order[:1], np.zeros(3, int)) if "explore" not in options else ():
            require(same_hits(ask(kind.batch(Q[rows])), ask(kind.batch(Q)), rows), "answers depend on the other queries")


def check_batch_reward(kind: Kind) -> None:
    """A batch of rewards leaves the same tree as a loop, also for what is evicted later."""
    Q, later = matrix(40, seed=2), matrix(30, seed=3)
    rewards = np.random.default_rng(7).random((40, 3)).round(2)
    rewards[rewards < 0.3], rewards[rewards > 0.8] = 0.0, np.nan
    whole, loop = (kind.filled(150, capacity=160) for _ in range(2))
    found = whole.query_many(kind.batch(Q), 3, explore=0.9, exploration_seed=5)
    single = [loop.query(kind.one(q), 3, explore=0.9, exploration_seed=5 + i) for i, q in enumerate(Q)]
    result = whole.reward_many(found, rewards)
    rows = [[None if np.isnan(reward) else reward for reward in row] for row in rewards]
    results = [loop.reward(hits, row[: len(hits)]) for hits, row in zip(single, rows, strict=True)]
    require(tuple(result) == tuple(np.sum(results, axis=0)), "a batch of rewards reports other counts than a loop")
    for tree in (whole, loop):
        tree.insert_many(kind.batch(later), range(30))
    require_same(whole, loop, "a batch of rewards is not a loop")
    whole.check()


def check_build(kind: Kind) -> None:
    """A tree that is built holds the same memories as one that was filled by insertions."""
    X, Q = np.concatenate([matrix(80), matrix(10)]), matrix(20, seed=4)
    inserted, features = kind.make(seed=0), np.abs(X[:, :3]) if kind.features else None
    built = inserted.build(kind.batch(X), range(N), features=features, **inserted.config.__dict__)
    inserted.insert_many(kind.batch(X), range(N), features=features)
    for tree in (built, inserted):
        tree.check()
        tree.insert_many(kind.batch(Q), range(20))
    require(list(built) == list(inserted), "other memories are stored")
    answers = [tree.query_many(kind.batch(Q), 7, beam=WIDE) for tree in (built, inserted)]
    exact = built.config.scorer in ("distance", "cosine", "tfidf") or kind.features
    require(not exact or same_hits(*answers), "a tree that was built answers differently")


def check_reward(kind: Kind) -> None:
    """Hits, receipts and tokens teach the same, as do lists, mappings and iterables of rewards."""
    trees = [kind.filled() for _ in range(4)]
    for seed, q in enumerate(matrix(12, seed=1)):
        asked = [tree.query(kind.one(q), 3, explore=0.5, exploration_seed=seed) for tree in trees]
        by_id = dict(zip(asked[0].ids.tolist(), [1.0, 0.0], strict=False))
        given = [1.0, 0.0, None][: len(asked[0])]
        given_to: list[tuple[Any, Any]] = [
            (asked[0], given), (asked[1].receipt, by_id), (str(asked[2].receipt), iter(given)), (asked[3], np.array(given))
        ]  # fmt: skip
        results = [tree.reward(*pair) for tree, pair in zip(trees, given_to, strict=True)]
        require(len(set(results)) == 1, "forms of one reward report different results")
    for tree in trees[1:]:
        require_same(tree, trees[0], "forms of one reward teach differently")
    trees[0].remove(asked[0].ids.item(0))
    late = partial(trees[0].reward, asked[0], given)
    require_raises(StaleReceipt, late, "a reward for a memory that is gone")
    trees[0].check()
