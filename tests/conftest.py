"""Settings shared by all tests."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("MPLBACKEND", "Agg")

# The first example of a test may compile kernels, so neither a deadline nor the speed of the first draws says anything; and
# state machines begin with an empty tree, where most rules have nothing to do.
_compiling = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much]}
settings.register_profile("ci", derandomize=True, print_blob=True, **_compiling)
settings.register_profile("dev", **_compiling)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))


@pytest.fixture
def rng():
    """Random numbers that are the same every time."""
    return np.random.default_rng(0)
