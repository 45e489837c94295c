"""Labels and label sets: formats, numbers, and the table by memory."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree.errors import InvalidOption
from memorytree.estimators.label_sets import LabelCodec, take

written_lists = st.lists(st.lists(st.integers(2, 9), unique=True, max_size=5), min_size=1, max_size=8)


@given(written_lists, st.data())
def test_label_sets_are_decoded_as_they_were_written(written, data):
    codec = LabelCodec(written)
    sets = codec.encode(written)
    assert codec.decode_lists(sets) == written
    assert codec.decode(sets) == written
    picked = np.array(data.draw(st.lists(st.integers(0, len(written) - 1), max_size=5)), np.int64)
    assert codec.decode_lists(take(sets, picked)) == [written[i] for i in picked]
    dense = codec.to_matrix(sets, np.ones(len(sets.labels), np.int64)).toarray()
    again = LabelCodec(dense)
    np.testing.assert_array_equal(again.decode(again.encode(dense)), dense)
    assert codec.classes().tolist() == sorted({label for row in written for label in row})


def test_mixing_matrices_and_lists_raises():
    codec = LabelCodec([["a"]])
    with pytest.raises(InvalidOption, match="lists of labels before"):
        codec.encode(np.ones((1, 1)))
