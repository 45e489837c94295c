"""Parsing of NAME=VALUE and of durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree.cli.options import format_value, parse_duration, parse_filter, parse_metadata, parse_pair, parse_value
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
def test_formatted_values_are_parsed_again(name, value):
    again = parse_pair("--meta", f"{name}={format_value(value)}")
    assert again == (name, value)
    assert type(again[1]) is type(value)


@given(st.text())
def test_any_text_is_a_value(text):
    assert parse_value(text) is None or isinstance(parse_value(text), str | int | float)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6))
def test_repeated_names(pairs):
    given = [f"{name}={format_value(value)}" for name, value in pairs]
    assert parse_metadata(given) == dict(pairs)
    filters = parse_filter(given) or {}
    in_order = sorted(pairs, key=lambda pair: list(filters).index(pair[0]))
    assert [(name, value) for name in filters for value in filters[name]] == in_order


@given(st.lists(st.tuples(st.integers(0, 99), st.sampled_from("smhdw")), min_size=1, max_size=4))
def test_durations_add_up(parts):
    factors = {"s": 1, "m": 60, "h": 60 * 60, "d": 24 * 60 * 60, "w": 7 * 24 * 60 * 60}
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert parse_duration(text) == sum(number * factors[unit] for number, unit in parts)


@pytest.mark.parametrize("text", ["", "d", "-1d", "1y", "1d 2h", "1 d", "1dd", "ten", "1.2.3s", "inf"])
def test_invalid_durations_are_refused(text):
    with pytest.raises(InvalidOption, match="1h30m"):
        parse_duration(text)
