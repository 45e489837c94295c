"""The short form of `python -m tests.faults.damage`."""

from tests.faults import damage


def test_wherever_the_log_ends_the_store_is_as_it_once_was():
    counts = damage.truncate_log(every=61)
    assert counts["states"] == 5


def test_a_flipped_byte_hides_no_memory_that_came_by_itself_from_verify():
    assert damage.flip_bytes(every=103, alone=3)["found by verify"] > 0


def test_a_flipped_byte_is_never_a_wrong_answer_and_verify_finds_it():
    counts = damage.flip_bytes(every=211)
    assert counts["found by verify"] > counts["flips"] // 3
    assert counts["refused"] < counts["flips"] // 2
