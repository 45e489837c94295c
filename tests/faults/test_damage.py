"""The short form of `python -m tests.faults.damage`."""

from tests.faults import damage


def test_truncated_log_gives_an_earlier_state():
    counts = damage.truncate_log(every=61)
    assert counts["states"] == 5


def test_flipped_byte_is_never_a_wrong_answer():
    counts = damage.flip_bytes(every=211)
    assert counts["found by verify"] > counts["flips"] // 3
    assert counts["refused"] < counts["flips"] // 2
