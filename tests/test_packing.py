"""Values as bytes and back."""

import math

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree.errors import UnsupportedValue
from memorytree.packing import MAX_TUPLE_DEPTH, pack, pack_all, unpack

PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), st.text(), st.binary()
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(0, 9), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


def nested_tuple(depth):
    value = ()
    for _ in range(depth - 1):
        value = (value,)
    return value


@given(VALUES)
def test_packed_value_comes_back(value):
    assert unpack(pack(value)) == value
    assert type(unpack(pack(value))) is type(value)


@given(PLAIN)
def test_plain_value_is_plain_msgpack(value):
    assert pack(value) == msgpack.packb(value)


@pytest.mark.parametrize("value", [np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros(0), np.float32(2.5), np.bool_(True)])
def test_array_keeps_shape_and_dtype(value):
    back = unpack(pack({"array": value}))["array"]
    assert type(back) is type(value)
    assert back.dtype == value.dtype
    assert np.array_equal(back, value)


def test_nan_comes_back():
    assert math.isnan(unpack(pack(math.nan)))


@pytest.mark.parametrize(
    "wrong",
    [
        object(),
        2**70,
        "\ud800",
        bytearray(b"a"),
        {1, 2},
        [1, {"a": [object()]}],
        np.array([object()]),
        np.arange(3).view(np.recarray),
        nested_tuple(MAX_TUPLE_DEPTH + 1),
    ],
)
def test_unsupported_value_is_refused(wrong):
    with pytest.raises(UnsupportedValue, match="cannot save the value"):
        pack(wrong)
    with pytest.raises(UnsupportedValue, match="encode="):
        pack_all(["fine", wrong])


def test_deepest_tuple_comes_back():
    value = nested_tuple(MAX_TUPLE_DEPTH)
    assert unpack(pack(value)) == value


def test_values_are_encoded_one_by_one():
    assert unpack(pack_all([{1}, {2, 3}], encode=sorted)) == [[1], [2, 3]]
    with pytest.raises(UnsupportedValue, match="cannot save the value 7"):
        pack_all([7], encode=sorted)
