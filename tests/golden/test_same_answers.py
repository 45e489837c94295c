"""Fixed workloads give the answers that were recorded."""

import itertools

import pytest

from tests.golden.recording import cases, differences, plain, recorded


@pytest.mark.parametrize("name", sorted(cases()))
def test_same_answers(name):
    then, exact = recorded(name)
    now = plain(cases()[name]())
    found = list(itertools.islice(differences(now, then, exact), 10))
    assert not found, "\n".join(found)
