"""Long work is done on a twin that takes the tree's place: with the same scorer, and all that it has learned."""

import numpy as np
import pytest
import scipy.sparse

from memorytree import MemoryTree
from memorytree.checks import check_tree


def products(x, keys, features):
    """A scorer of our own."""
    return np.asarray(keys) @ np.asarray(x).reshape(-1)


DENSE = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
SPARSE = scipy.sparse.csr_matrix(np.maximum(DENSE, 0))


@pytest.mark.parametrize("work", ["learn", "sweep", "reroute"])
@pytest.mark.parametrize(
    ("X", "scorer"),
    [(DENSE, scorer) for scorer in ("distance", "cosine", "linear", "metric", "values")]
    + [(SPARSE, scorer) for scorer in ("distance", "cosine", "tfidf", "linear", "metric", "values")],
)
def test_whatever_is_done_aside_the_scorer_stays(X, scorer, work, tmp_path):
    tree = MemoryTree(scorer=scorer, seed=0)
    tree.insert_many(X, range(200), features=DENSE[:, :3] if scorer == "values" else None)
    hits = tree.query_many(X, 4)
    tree.update_many(hits, (hits.ids % 2).astype(float))
    kind, before = type(tree._core), tree.query_many(X, 1).scores
    tree.reroute(5) if work == "reroute" else getattr(tree, work)()
    assert type(tree._core) is kind
    check_tree(tree)
    np.testing.assert_allclose(tree.query_many(X, 1, beam=64).scores.max(), before.max(), rtol=0.5)
    tree.save(tmp_path / "tree")
    again = MemoryTree.load(tmp_path / "tree")
    assert type(again._core) is kind
    assert again.query_many(X, 3).ids.tolist() == tree.query_many(X, 3).ids.tolist()


@pytest.mark.parametrize("work", ["learn", "sweep", "reroute"])
def test_a_scorer_of_ones_own_stays_too(work):
    tree = MemoryTree(scorer=products, seed=0)
    tree.insert_many(DENSE, range(200))
    kind = type(tree._core)
    tree.reroute(5) if work == "reroute" else getattr(tree, work)()
    assert type(tree._core) is kind
    hits = tree.query(DENSE[3], 1, beam=64)
    assert hits.scores[0] == pytest.approx(float((DENSE @ DENSE[3]).max()), rel=1e-5)
