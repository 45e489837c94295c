"""Values as bytes: what is packed by itself, one after another."""

import msgpack
import pytest

from memorytree import packing
from memorytree.packing import packed_plain, packed_value, unpacked


@pytest.mark.parametrize("wrong", [2**70, "\ud800", [1, "a", object()], {"a": [b"b" * 100, 2**64]}])
def test_what_cannot_be_packed_leaves_nothing_behind(wrong):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        packed_plain(wrong)
    assert packed_plain(["next", 1]) == msgpack.packb(["next", 1])


def test_what_is_large_does_not_keep_as_much_memory():
    packer = packing._plain
    assert unpacked(packed_plain(b"a" * (packing.LARGE - 10))) == b"a" * (packing.LARGE - 10)
    assert packing._plain is packer
    assert unpacked(packed_plain("a" * packing.LARGE)) == "a" * packing.LARGE
    assert packing._plain is not packer


@pytest.mark.parametrize("value", ["text", b"bytes", 7, -(2**63), 2**64 - 1, 0.1, True, None, "", ["a", {"b": 1}]])
def test_a_value_without_insides_is_packed_as_any_other(value):
    assert packed_value(value) == msgpack.packb(value, strict_types=True)
    assert type(unpacked(packed_value(value))) is type(value)
