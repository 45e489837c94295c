"""Tokens of receipts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree import InvalidReceipt, Receipt
from memorytree.receipts import Decision

IDS = st.lists(st.integers(0, 2**61), max_size=5).map(tuple)
DECISIONS = st.builds(Decision, st.integers(0, 2), st.integers(-1, 2**40), st.integers(-1, 2**40), st.integers(-1, 1))
RECEIPTS = st.builds(Receipt, st.binary(max_size=40), IDS, DECISIONS, st.binary(max_size=8), st.integers(0, 9), st.binary())


@given(receipt=RECEIPTS)
def test_a_token_is_parsed_to_the_same_receipt(receipt):
    assert Receipt.parse(str(receipt)) == receipt
    assert Receipt.parse(str(receipt)).digest == receipt.digest


@given(receipt=RECEIPTS, data=st.data())
def test_a_changed_token_is_refused(receipt, data):
    token = str(receipt)
    place = data.draw(st.integers(0, len(token) - 2))  # the last character may hold unused bits
    letter = data.draw(st.sampled_from("ABcd01_-").filter(lambda letter: letter != token[place]))
    with pytest.raises(InvalidReceipt):
        Receipt.parse(token[:place] + letter + token[place + 1 :])


@pytest.mark.parametrize("token", ["", "no token", "A", "ä", None, 5, b"bytes"])
def test_what_is_no_token_is_refused(token):
    with pytest.raises(InvalidReceipt):
        Receipt.parse(token)
