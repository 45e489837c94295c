"""What people write on a command line, and what is read from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree.cli.options import filter_of, metadata_of, pair, plain, seconds, written
from memorytree.errors import InvalidOption

NAMES = st.text(min_size=1, max_size=8).filter(lambda name: "=" not in name)
VALUES = st.one_of(
    st.text(max_size=20),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.none(),
    st.sampled_from(["7", "true", "null", '"', '"7"', "[1]", "{}", "NaN", "1e5", "007", "=", ""]),
)


@given(NAMES, VALUES)
def test_what_is_shown_can_be_given_again(name, value):
    again = pair("--meta", f"{name}={written(value)}")
    assert again == (name, value)
    assert type(again[1]) is type(value)


@given(st.text())
def test_any_text_is_some_value(text):
    assert plain(text) is None or isinstance(plain(text), str | int | float)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6))
def test_a_filter_keeps_every_value_and_metadata_the_last(pairs):
    given = [f"{name}={written(value)}" for name, value in pairs]
    assert metadata_of(given) == dict(pairs)
    wanted = filter_of(given) or {}
    assert [(name, value) for name in wanted for value in wanted[name]] == sorted(
        pairs, key=lambda one: list(wanted).index(one[0])
    )


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from("smhdw")), min_size=1, max_size=4))
def test_spans_add_up(spans):
    factors = {"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60, "w": 7 * 24 * 60 * 60}
    text = "".join(f"{number}{unit}" for number, unit in spans)
    assert seconds(text) == sum(number * factors[unit] for number, unit in spans)


@pytest.mark.parametrize("text", ["", "d", "-1d", "1y", "1d 2h", "1 d", "1dd", "ten", "1.2.3s", "inf"])
def test_what_is_no_span(text):
    with pytest.raises(InvalidOption, match="1h30m"):
        seconds(text)
