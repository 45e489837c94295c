"""The short form of `python -m tests.faults.crash`."""

import os

import pytest

from tests.faults import crash


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_nothing_acknowledged_is_lost_when_the_process_is_killed():
    assert crash.run(kills=15, seed=2) >= 15
