"""Groups of memories that were rewarded together."""

from hypothesis import given
from hypothesis import strategies as st

from memorytree.learning.reward_groups import RewardGroups

IDS = st.integers(0, 12)
OPERATIONS = st.lists(st.one_of(st.lists(IDS, max_size=4), IDS), max_size=30)


def apply(groups, operations):
    for operation in operations:
        if isinstance(operation, list):
            groups.join(operation)
        else:
            groups.discard(operation)


@given(before=OPERATIONS, after=OPERATIONS)
def test_groups_that_were_loaded_continue_as_before(before, after):
    groups = RewardGroups()
    apply(groups, before)
    loaded = RewardGroups(groups.pairs().tolist())
    for each in (groups, loaded):
        apply(each, after)
    assert groups.pairs().tolist() == loaded.pairs().tolist()


@given(operations=OPERATIONS)
def test_groups_are_those_of_merged_sets(operations):
    groups, sets = RewardGroups(), []
    apply(groups, operations)
    for operation in operations:
        if isinstance(operation, list) and len(operation) > 1:
            merged = set(operation).union(*(s for s in sets if s & set(operation)))
            sets = [s for s in sets if not s & merged] + [merged]
        elif not isinstance(operation, list):
            sets = [s - {operation} for s in sets if s - {operation}]
    found = {}
    for id, group in groups.pairs().tolist():
        found.setdefault(group, set()).add(id)
    assert sorted(map(sorted, found.values())) == sorted(map(sorted, sets))
