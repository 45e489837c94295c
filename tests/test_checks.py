"""The contract fails for trees that break it."""

import numpy as np
import pytest

from memorytree import MemoryTree
from memorytree.checks import Kind, check_index, contract


class FirstHitLast(MemoryTree):
    def query(self, x, k=1, **options):
        hits = super().query(x, k, **options)
        hits.scores = hits.scores[::-1]
        return hits


class WritesWhenRead(MemoryTree):
    def query(self, x, k=1, **options):
        if len(self):
            self.reroute(1)
        return super().query(x, k, **options)


class KeepsRemoved(MemoryTree):
    def remove(self, id):
        value = self[id]
        super().remove(id)
        self.insert(np.zeros(5), value, id=id)


class LosesMemories(MemoryTree):
    def refit(self, passes=1):
        super().refit(passes)
        if len(self) > 50:
            self.remove(next(iter(self)))


class IgnoresTheSeed(MemoryTree):
    def __init__(self, seed=None, **options):
        super().__init__(**options)


class IgnoresExclusions(MemoryTree):
    def query(self, x, k=1, exclude=None, **options):
        return super().query(x, k, **options)


class AcceptsAnyReward(MemoryTree):
    def reward(self, hits, rewards):
        try:
            return super().reward(hits, rewards)
        except ValueError:
            return (0, 0)


class ForgetsCapacity(MemoryTree):
    def __init__(self, capacity=None, **options):
        super().__init__(**options)


BROKEN = [
    (FirstHitLast, "batch_query"),
    (WritesWhenRead, "reads_do_not_write"),
    (KeepsRemoved, "remove"),
    (LosesMemories, "rebuild"),
    (IgnoresTheSeed, "same_seed"),
    (IgnoresExclusions, "exclusion"),
    (AcceptsAnyReward, "bad_input"),
    (ForgetsCapacity, "capacity"),
]


@pytest.mark.parametrize(("make", "name"), BROKEN)
def test_a_broken_tree_fails_its_check(make, name):
    def make_paper(**options):
        return make(**{"routing": "paper", **options})

    check = dict(contract())[f"check_{name}"]
    with pytest.raises(AssertionError):
        check(Kind("broken", make_paper))


def test_check_index_names_the_check_that_failed():
    with pytest.raises(AssertionError, match="check_"):
        check_index(ForgetsCapacity)
