"""Named keys: mappings {feature: weight}."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree import MemoryTree
from memorytree.index.base import QueryRequest
from memorytree.keys import NamedKeys

WORDS = st.dictionaries(st.sampled_from([f"new {i}" for i in range(6)]), st.sampled_from([1.0, 2.0]), min_size=1, max_size=4)


def ties():
    """A tree whose memories are equally far from any key without the feature that they share."""
    tree = MemoryTree(seed=0)
    for i in range(6):
        tree.insert({"shared": 1.0}, i)
    return tree


@given(batch=st.lists(WORDS, min_size=1, max_size=6), draw=st.data())
def test_unknown_features_give_one_answer_in_any_order(batch, draw):
    tree = ties()
    answers = tree.query_many(batch, k=6)
    for i, x in enumerate(batch):
        assert answers.ids[i].tolist() == tree.query(x, k=6).ids.tolist()
        assert answers.scores[i].tolist() == tree.query(x, k=6).scores.tolist()
        shuffled = dict(draw.draw(st.permutations(list(x.items()))))
        assert tree.query(shuffled, k=6).ids.tolist() == tree.query(x, k=6).ids.tolist()


@pytest.mark.parametrize("scorer", ["distance", "cosine"])
def test_a_feature_stored_during_a_query_is_not_confused(scorer):
    tree = MemoryTree(seed=0, scorer=scorer)
    for i in range(5):
        tree.insert({"a": 1.0, f"b{i}": 1.0}, i)
    row = tree.keys.one({"unknown": 3.0})
    tree.insert({"other": 3.0}, "other")  # as another thread may, after the key of the query was read
    during = tree.index.query(QueryRequest(row, 4, beam=9))
    after = tree.query({"unknown": 3.0}, k=4, beam=9)
    scores = dict(zip(during.ids[0].tolist(), during.scores[0].tolist(), strict=True))
    assert {id: score for id, score in scores.items() if id >= 0} == pytest.approx({hit.id: hit.score for hit in after})


def test_numpy_names_and_python_names_are_one_feature():
    tree = MemoryTree(seed=0)
    tree.insert({np.int64(3): 1.0, np.str_("a"): 2.0}, "x")
    assert tree.key(0) == {3: 1.0, "a": 2.0}
    assert tree.query({3: 1.0, "a": 2.0})[0].score == 0


@given(key=st.dictionaries(st.text(max_size=5) | st.integers(-(2**40), 2**40), st.floats(-9, 9, width=32), max_size=5))
def test_a_key_as_bytes_is_read_as_the_same_key(key):
    keys = NamedKeys()
    [read] = keys.from_bytes([keys.key_to_bytes(key)])
    assert read == key
