"""Removal, beyond the contract of every index."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree import MemoryTree
from tests.trees import ROUTINGS


@pytest.mark.parametrize("routing", ROUTINGS)
@given(operations=st.lists(st.tuples(st.booleans(), st.integers(0, 15), st.integers(-2, 2)), max_size=80))
@settings(max_examples=20)
def test_replacements_and_removals_leave_what_a_dict_holds(routing, operations):
    tree, stored = MemoryTree(routing=routing, seed=0), {}
    for time, (insert, id, place) in enumerate(operations):
        if insert:
            tree.insert([float(place), float(time % 3)], time, id=id)
            stored[id] = ([float(place), float(time % 3)], time)
        elif id in stored:
            tree.remove(id)
            del stored[id]
    tree.check()
    assert {id: (tree.key(id).tolist(), tree[id]) for id in tree} == stored
    if stored:
        found = tree.query([0.0, 0.0], 99, beam=99)
        assert {hit.id: hit.value for hit in found} == {id: value for id, (_, value) in stored.items()}
