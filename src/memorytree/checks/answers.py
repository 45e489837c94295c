"""Checks of queries and inspection."""

from __future__ import annotations

from typing import Any

import numpy as np

from memorytree.checks.kind import (
    WIDE,
    Kind,
    N,
    best_ids,
    explores,
    matrix,
    require,
    same_hits,
)
from memorytree.results import NO_ID


def check_exact_search(kind: Kind) -> None:
    """A search that reads everything finds all memories, in the order of their scores by brute force."""
    tree, X, Q = kind.filled(), matrix(N).astype(np.float64), matrix(10, seed=1)
    found = tree.query_many(kind.batch(Q), N, beam=WIDE)
    for i, q in enumerate(Q):
        ids, scores = found.ids[i], found.scores[i]
        require(sorted(ids.tolist()) == list(range(N)), "not all memories are found")
        require(np.all(np.diff(scores) <= 0), "hits are not sorted by score")
        require(found[i].values == ids.tolist(), "values are not those of the hits")
        alone = tree.score(kind.one(q), ids)
        require(np.allclose(alone, scores, rtol=1e-4, atol=1e-5), "`score` and `query` disagree")
        if tree.config.scorer == "distance":
            exact = -np.linalg.norm(X - q, axis=1)
        elif tree.config.scorer == "cosine":
            exact = X @ q / np.linalg.norm(X, axis=1) / np.linalg.norm(q)
        else:
            continue
        require(np.allclose(scores, exact[ids], rtol=1e-4, atol=1e-5), "scores are not exact")
    best = tree.query_many(kind.batch(Q), 5, beam=WIDE)
    require(kind.features or np.array_equal(best.ids, found.ids[:, :5]), "fewer hits are not the first of more hits")
    require(np.isneginf(tree.score(kind.one(Q[0]), [N, 0])).tolist() == [True, False], "an unknown id has a score")


def check_equal_keys(kind: Kind) -> None:
    """Memories with equal keys are all stored, and ties are broken the same way for every insertion order of the answer."""
    X = np.repeat(matrix(4), 12, axis=0)
    tree, same = kind.make(seed=5), kind.make(seed=5)
    for each in (tree, same):
        each.insert_many(kind.batch(X), range(48))
    tree.sweep()
    tree.check()
    first, second = (each.query_many(kind.batch(X), 48, beam=WIDE) for each in (tree, same))
    require(all(sorted(ids) == list(range(48)) for ids in first.ids.tolist()), "not all equal keys are stored")
    require(same_hits(first, second), "ties are broken in different ways")


def check_beam(kind: Kind) -> None:
    """A wider beam never finds a worse first hit."""
    tree, Q = kind.filled(200), kind.batch(matrix(20, seed=6))
    before = tree.query_many(Q, beam=1).scores
    for beam in (2, 3, 9, WIDE):
        wider = tree.query_many(Q, beam=beam).scores
        require(np.all(wider >= before), f"beam={beam} finds worse hits than a narrower beam")
        before = wider


def check_exclusion(kind: Kind) -> None:
    """Excluded memories are left out, and the next best take their places."""
    tree, q = kind.filled(), matrix(1, seed=2)
    x = kind.one(q[0])
    ranked = best_ids(tree, x)
    out = ranked[:3] + ranked[10:12]
    kept = [id for id in ranked if id not in out]
    require(tree.query(x, N, beam=WIDE, exclude=out).ids.tolist() == kept, "not exactly the excluded ids are left out")
    require(tree.query(x, 5, beam=WIDE, exclude=iter(out)).ids.tolist() == kept[:5], "the next best are missing")
    require(tree.query(x, 5, beam=WIDE, exclude=[10**9]).ids.tolist() == ranked[:5], "an unknown id changes the answer")
    require(not len(tree.query(x, 5, beam=WIDE, exclude=range(N))), "excluded memories are returned")
    require(tree.query_many(kind.batch(q), 5, beam=WIDE, exclude=[out]).ids.tolist() == [kept[:5]], "a batch differs")
    everything: Any = tree.query_many(kind.batch(q), 2 * N, beam=WIDE).ids  # padded
    require(np.all(tree.query_many(kind.batch(q), 5, exclude=everything).ids == NO_ID), "padding is not ignored")


def check_exploration(kind: Kind) -> None:
    """With a seed an exploring query repeats; without exploration it is the plain query."""
    tree, x = kind.filled(200), kind.one(matrix(1, seed=4)[0])
    first = [tree.query(x, 2, explore=0.7, exploration_seed=n) for n in range(100)]
    for n, hits in enumerate(first):
        again = tree.query(x, 2, explore=0.7, exploration_seed=n)
        require(list(again) == list(hits) and again.receipt == hits.receipt, "the same seed explores differently")
        if hits.receipt.branch == "exploit":
            require(list(hits) == list(tree.query(x, 2)), "a query that did not explore differs from a plain one")
    require(tree.query(x, exploration_seed=3).receipt.branch == "exploit", "a plain query explores")
    if explores(tree):
        require({hits.receipt.branch for hits in first} == {"exploit", "node", "leaf"}, "a branch is never explored")
        require({hits.receipt.decision.action for hits in first} == {-1, 0, 1}, "a side is never explored")


def check_explanation(kind: Kind) -> None:
    """An explanation lists the hits of the query, and counts on its path add up."""
    tree = kind.filled()
    for q in matrix(4, seed=1):
        x = kind.one(q)
        tree.reward(tree.query(x, 4), [1.0, 0.0, 0.5, None])
        for beam in (1, 4):
            hits, why = tree.query(x, 3, beam=beam), tree.explain(x, 3, beam=beam)
            require([candidate.hit for candidate in why.candidates] == list(hits), f"beam={beam}: other hits are explained")
        require(f"id {hits[0].id}" in str(why), "the text does not show the best hit")
        require(all((step.margin > 0) == (step.side == "right") for step in why.steps), "a margin contradicts its side")
        counts = [tree.stats().memories, *(getattr(step, step.side) for step in why.steps)]
        require(counts[:-1] == [step.left + step.right for step in why.steps], "counts on the path do not add up")
        require(not why.steps or why.n_scored == counts[-1], "other memories are compared than the leaf holds")


def check_stats(kind: Kind) -> None:
    """Statistics count what is there, and the picture shows it."""
    tree = kind.filled(150)
    tree.sweep()
    stats = tree.stats()
    require(stats.memories == len(tree) == 150, "the number of memories is wrong")
    require(min(stats.key_bytes, stats.other_bytes, stats.bytes - stats.key_bytes) > 0, "nothing is used")
    require(stats.spare_bytes >= 0 and "leaf limit" in str(stats), "bytes are negative")
    require(tree.plot(depth=0) and repr(tree), "there is no picture")
    if explores(tree):
        leaves = [line for line in tree.plot(depth=100).split("\n") if "leaf" in line]
        sizes = [int(line.rsplit(" ", 1)[1]) for line in leaves]
        require((len(sizes), max(sizes), sum(sizes)) == (stats.leaves, stats.largest_leaf, 150), "other leaves are shown")
        require(stats.depth == len(stats.levels) >= stats.average_depth > 0, "levels and depths differ")
