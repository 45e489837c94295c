"""The short form of `python -m tests.faults.crash`."""

import os

import pytest

from tests.faults import crash


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("kind", crash.KINDS)
def test_kill_loses_nothing_acknowledged(kind):
    assert crash.run(kills=8, kind=kind, seed=2) >= 8
