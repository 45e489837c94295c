"""Sparse keys and random operations for the tests of term lists."""

import numpy as np
import scipy.sparse
from hypothesis import strategies as st

from tests.trees import PlainTree as MemoryTree

WEIGHTS = st.sampled_from([-2.0, -1.0, 0.5, 1.0, 1.5, 3.0])
KEYS = st.dictionaries(st.sampled_from("abcdefgh"), WEIGHTS, max_size=5)
REWARDS = st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=3, max_size=3)
OPERATIONS = st.one_of(
    st.tuples(st.just("insert"), KEYS),
    st.tuples(st.just("replace"), KEYS, st.integers(0, 12)),
    st.tuples(st.just("remove"), st.integers(0, 30)),
    st.tuples(st.just("reward"), KEYS, REWARDS),
    st.tuples(st.just("reroute"), st.integers(0, 5)),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("refit")),
)


def documents(n: int, columns: int = 40, density: float = 0.15, seed: int = 0) -> scipy.sparse.csr_matrix:
    """n sparse rows; every tenth is empty, every seventh repeats its predecessor."""
    rows = scipy.sparse.random(n, columns, density, format="lil", random_state=seed, dtype=np.float32)
    rows[::10] = 0
    for i in range(7, n, 7):
        rows[i] = rows[i - 1]
    return scipy.sparse.csr_matrix(rows)


def one_term_per_class(rng: np.random.Generator, n: int, kinds: int = 4, words: int = 50):
    """(rows, classes): rows of four terms, one of each kind; the first determines the class, the others are random.

    All kinds have equally many, equally frequent and equally heavy terms. Otherwise even random rewards would teach: they
    lower all that makes scores high, and so the heavier and more frequent terms.
    """
    columns = rng.integers(0, words, (n, kinds)) + words * np.arange(kinds)
    bounds = np.arange(0, kinds * n + 1, kinds)
    weights = rng.uniform(1.0, 1.3, kinds * n)
    return scipy.sparse.csr_matrix((weights, columns.ravel(), bounds), (n, kinds * words)), columns[:, 0]


def list_arrays(tree: MemoryTree) -> dict[str, np.ndarray]:
    """Copies of the arrays of a tree's term lists."""
    state = tree.index.state_dict()
    return {name.removeprefix("lists."): array for name, array in state.items() if name.startswith("lists.")}


def importance(tree: MemoryTree) -> np.ndarray:
    """The learned importances by term."""
    return list_arrays(tree)["importance"]


def error(tree: MemoryTree, X, classes: np.ndarray, expected: np.ndarray) -> float:
    """The share of queries whose best hit is of a wrong class."""
    return float(np.mean(classes[tree.query_many(X).ids[:, 0]] != expected))


def reward_own_class(tree: MemoryTree, X, classes: np.ndarray, classes_wanted: np.ndarray, k: int = 10):
    """Query with the stored keys, without the memories themselves, and reward hits of the wanted class."""
    hits = tree.query_many(X, k, exclude=np.arange(len(classes))[:, None])
    return tree.reward_many(hits, (classes[hits.ids] == classes_wanted[:, None]).astype(float))
