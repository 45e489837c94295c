"""Texts as keys: the same words give the same key, in every process and however they are written."""

import subprocess
import sys
import unicodedata
from collections import Counter
from itertools import pairwise
from math import log
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorytree.text.features import COLUMNS, _spaced, features_by_number, text_rows, words_of

TEXTS = st.text(max_size=60)


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_plain_english_takes_a_shorter_way_to_the_same_words(text):
    assert words_of(text) == _spaced(text.casefold()).split()


@given(TEXTS)
def test_how_a_text_is_composed_and_cased_does_not_matter(text):
    words = words_of(text)
    assert words_of(unicodedata.normalize("NFD", text)) == words
    assert words_of(unicodedata.normalize("NFKC", text)) == words
    assert words_of(" ".join(words)) == words


@given(st.lists(TEXTS, max_size=5))
def test_rows_hold_what_counting_by_hand_gives(texts):
    rows = text_rows(texts)
    assert rows.shape == (len(texts), COLUMNS)
    assert rows.has_canonical_format
    for i, text in enumerate(texts):
        words = words_of(text)
        counted = Counter(words)
        counted.update(f"{one} {other}" for one, other in pairwise(words))
        for word in words:
            if len(word) > 2:
                edged = f" {word} "
                counted.update(f"~{edged[j : j + 4]}" for j in range(len(edged) - 3))
        names = features_by_number(text)
        assert set(names.values()) <= set(counted)
        row = dict(zip(rows[i].indices.tolist(), rows[i].data.tolist(), strict=True))
        assert set(row) == set(names)
        if len(names) == len(counted):  # no two features share a number
            assert row == pytest.approx({number: 1 + log(counted[name]) for number, name in names.items()})


@given(TEXTS, TEXTS)
def test_a_row_depends_on_its_own_text_only(text, other):
    together, alone = text_rows([other, text]), text_rows([text])
    assert (together[1] != alone).nnz == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't STOP_now", ["don", "t", "stop", "now"]),
        ("Straße und STRASSE", ["strasse", "und", "strasse"]),
        ("\ufb01ne \uff34\uff25\uff38\uff34", ["fine", "text"]),  # a ligature, and letters of full width
        ("東京タワー is tall", [*"東京タワー", "is", "tall"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # vowel signs are marks, not gaps
        ("ข้าวผัด pad", ["ข้", "า", "ว", "ผั", "ด", "pad"]),
        ("한국어 공부", ["한국어", "공부"]),
        ("great🎉party 👍🏽 ❤️", ["great", "🎉", "party", "👍", "❤"]),
        ("co\u00adoperate \u0646\u200c\u0628", ["cooperate", "\u0646\u0628"]),
        ("... --- !!!", []),
    ],
)
def test_words_of_many_scripts(text, words):
    assert words_of(text) == [unicodedata.normalize("NFKC", word) for word in words]


@pytest.mark.parametrize(
    ("asked", "told"), [("東京", "私は東京に住む"), ("ผัด", "ข้าวผัดอร่อย"), ("gardens", "a gardener"), ("भाषा", "भाषाएँ")]
)
def test_parts_are_found_where_words_are_not(asked, told):
    assert text_rows([asked]).multiply(text_rows([told])).nnz > 0


def test_every_process_makes_the_same_keys():
    text = "A dog, an 犬 and a Hund"
    program = f"from memorytree.text.features import text_rows; row = text_rows([{text!r}]); print(row.indices.tolist())"
    source = str(Path(sys.modules["memorytree"].__file__).parents[1])
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": source, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "12"
    }
    assert printed == {f"{text_rows([text]).indices.tolist()}\n"}


def test_keys_stay_what_they_were():
    assert features_by_number("Dog") == {19675517: "dog", 513795810: "~ dog", 652056658: "~dog "}
