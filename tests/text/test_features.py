"""Features of texts: independent of case, composition and process."""

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

from memorytree.text.features import COLUMNS, feature_names, separate_words, text_rows, words_of

TEXTS = st.text(max_size=60)


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_ascii_shortcut_gives_the_same_words(text):
    assert words_of(text) == separate_words(text.casefold()).split()


@given(TEXTS)
def test_composition_and_case_do_not_matter(text):
    words = words_of(text)
    assert words_of(unicodedata.normalize("NFD", text)) == words
    assert words_of(unicodedata.normalize("NFKC", text)) == words
    assert words_of(" ".join(words)) == words


@given(st.lists(TEXTS, max_size=5))
def test_rows_agree_with_counting(texts):
    rows = text_rows(texts)
    assert rows.shape == (len(texts), COLUMNS)
    assert rows.has_canonical_format
    for i, text in enumerate(texts):
        words = words_of(text)
        counted = Counter(words)
        counted.update(f"{one} {other}" for one, other in pairwise(words))
        for word in words:
            if len(word) > 2:
                padded = f" {word} "
                counted.update(f"~{padded[j : j + 4]}" for j in range(len(padded) - 3))
        names = feature_names(text)
        assert set(names.values()) <= set(counted)
        row = dict(zip(rows[i].indices.tolist(), rows[i].data.tolist(), strict=True))
        assert set(row) == set(names)
        if len(names) == len(counted):  # no two features share a column
            assert row == pytest.approx({column: 1 + log(counted[name]) for column, name in names.items()})


@given(TEXTS, TEXTS)
def test_rows_are_independent(text, other):
    together, alone = text_rows([other, text]), text_rows([text])
    assert (together[1] != alone).nnz == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't STOP_now", ["don", "t", "stop", "now"]),
        ("Straße und STRASSE", ["strasse", "und", "strasse"]),
        ("\ufb01ne \uff34\uff25\uff38\uff34", ["fine", "text"]),  # a ligature, and full-width letters
        ("東京タワー is tall", [*"東京タワー", "is", "tall"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),  # vowel signs are marks, not separators
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
    ("question", "text"), [("東京", "私は東京に住む"), ("ผัด", "ข้าวผัดอร่อย"), ("gardens", "a gardener"), ("भाषा", "भाषाएँ")]
)
def test_related_words_share_features(question, text):
    assert text_rows([question]).multiply(text_rows([text])).nnz > 0


def test_columns_are_the_same_in_every_process():
    text = "A dog, an 犬 and a Hund"
    program = f"from memorytree.text.features import text_rows; row = text_rows([{text!r}]); print(row.indices.tolist())"
    source = str(Path(sys.modules["memorytree"].__file__).parents[1])
    environment = {"PYTHONPATH": source, "PYTHONHASHSEED": "1"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == f"{text_rows([text]).indices.tolist()}\n"


def test_columns_stay_the_same():
    assert feature_names("Dog") == {19675517: "dog", 513795810: "~ dog", 652056658: "~dog "}
