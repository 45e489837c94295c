"""Values as bytes."""

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree.errors import UnsupportedValue
from memorytree.packing import pack, pack_all, unpack

PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary()
NAMES = st.text() | st.integers(-99, 99)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(NAMES, inner))


@given(values=st.lists(VALUES, max_size=4))
def test_values_are_read_as_they_were(values):
    for value in values:
        assert unpack(pack(value)) == value
        assert type(unpack(pack(value))) is type(value)
    assert unpack(pack_all(values)) == values


@pytest.mark.parametrize(
    "wrong", [2**70, "\ud800", [1, "a", object()], {"a": [b"b" * 100, 2**64]}, bytearray(b"x"), {1j: 2}]
)
def test_values_that_could_not_be_read_are_refused(wrong):
    with pytest.raises(UnsupportedValue):
        pack(wrong)
    with pytest.raises(UnsupportedValue):
        pack_all(["before", wrong])
    assert pack(["next", 1]) == msgpack.packb(["next", 1])


@pytest.mark.parametrize("value", ["text", b"bytes", 7, -(2**63), 2**64 - 1, 0.1, True, None, "", ["a", {"b": 1}]])
def test_plain_values_are_plain_msgpack(value):
    assert pack(value) == msgpack.packb(value, strict_types=True)


@pytest.mark.parametrize("value", [np.arange(3), np.array(5), np.float32(0.5), np.datetime64("2020-01-01")], ids=repr)
def test_arrays_and_scalars_keep_type_and_dtype(value):
    read = unpack(pack([value]))[0]
    assert type(read) is type(value)
    assert read.dtype == value.dtype
    np.testing.assert_array_equal(read, value)


def test_encode_is_applied_to_each_value():
    assert unpack(pack_all([{1}, {2}], sorted)) == [[1], [2]]
    with pytest.raises(UnsupportedValue, match="encode"):
        pack_all([{1}])
