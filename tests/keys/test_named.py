"""Keys as users give them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.errors import InvalidKey
from memorytree.keys import DenseKeys

WORDS = st.dictionaries(st.sampled_from([f"new {i}" for i in range(6)]), st.sampled_from([1.0, 2.0]), min_size=1, max_size=4)


def ties():
    """A tree whose memories are all equally far from any key without the feature they share."""
    tree = MemoryTree(seed=0)
    for i in range(6):
        tree.insert({"shared": 1.0}, i)
    return tree


@given(batch=st.lists(WORDS, min_size=1, max_size=6), draw=st.data())
def test_unknown_features_give_the_same_answer_alone_in_a_batch_and_in_any_order(batch, draw):
    tree = ties()
    answers = tree.query_many(batch, k=6)
    for i, x in enumerate(batch):
        assert answers.ids[i].tolist() == tree.query(x, k=6).ids
        assert answers.scores[i].tolist() == tree.query(x, k=6).scores
        shuffled = dict(draw.draw(st.permutations(list(x.items()))))
        assert tree.query(shuffled, k=6).ids == tree.query(x, k=6).ids


@pytest.mark.parametrize("scorer", ["distance", "cosine"])
def test_a_feature_that_becomes_known_during_a_query_is_not_taken_for_another(scorer):
    tree = MemoryTree(seed=0, scorer=scorer)
    for i in range(5):
        tree.insert({"a": 1.0, f"b{i}": 1.0}, i)
    lock = tree._lock

    class BeforeReading:
        """Lets another thread's insertion come between the reading of the key and the search."""

        def reading(self):
            tree._lock = lock
            tree.insert({"other": 3.0}, "other")
            return lock.reading()

        def __getattr__(self, name):
            return getattr(lock, name)

    tree._lock = BeforeReading()
    during = tree.query({"unknown": 3.0}, k=4, beam=9)
    after = tree.query({"unknown": 3.0}, k=4, beam=9)
    assert {hit.id: hit.score for hit in during} == pytest.approx({hit.id: hit.score for hit in after})


def test_numpy_names_and_python_names_are_one_feature():
    tree = MemoryTree(seed=0)
    tree.insert({np.int64(3): 1.0, np.str_("a"): 2.0}, "x")
    assert tree.key(0) == {3: 1.0, "a": 2.0}
    assert tree.query({3: 1.0, "a": 2.0})[0].score == 0


@pytest.mark.parametrize("dimension", [1, 3, 128, 256, 257])
@pytest.mark.parametrize("odd", [0.0, -0.0, 1e-45, 2.0**49, -(2.0**49), 1e15, -1e15, 1.0000001e15, np.inf, -np.inf, np.nan])
def test_a_key_becomes_bytes_if_and_only_if_its_numbers_are_of_moderate_size(rng, dimension, odd):
    x = rng.normal(size=dimension).astype(np.float32)
    x[rng.integers(dimension)] = odd
    keys = DenseKeys(dimension)
    if abs(np.float32(odd)) <= 1e15:
        assert keys.as_bytes(x) == x.tobytes()
    else:
        with pytest.raises(InvalidKey):
            keys.as_bytes(x)
