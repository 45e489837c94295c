"""Dense keys: arrays of one length."""

import numpy as np
import pytest

from memorytree.errors import InvalidKey
from memorytree.keys import DenseKeys


@pytest.mark.parametrize("dimension", [1, 3, 128, 256, 257])
@pytest.mark.parametrize("odd", [0.0, -0.0, 1e-45, 2.0**49, -(2.0**49), 1e15, -1e15, 1.0000001e15, np.inf, -np.inf, np.nan])
def test_only_numbers_of_moderate_size_become_bytes(rng, dimension, odd):
    x = rng.normal(size=dimension).astype(np.float32)
    x[rng.integers(dimension)] = odd
    keys = DenseKeys(dimension)
    if abs(np.float32(odd)) <= 1e15:
        assert keys.key_to_bytes(x) == x.tobytes()
        np.testing.assert_array_equal(keys.from_bytes([x.tobytes()]), x[None])
    else:
        with pytest.raises(InvalidKey):
            keys.key_to_bytes(x)


def test_bytes_of_another_length_are_no_key():
    with pytest.raises(InvalidKey):
        DenseKeys(3).from_bytes([b"1234"])
