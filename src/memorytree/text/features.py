"""Texts as sparse keys, without a model and without a vocabulary: counts of words, pairs of words and parts of words.

A feature is known by a hash of its letters that is the same in every process. Its weight is 1 + ln(count): the tenth time a
word is said tells less than the first. How rare a feature is among the memories is no part of a key (`scoring/tfidf.py`).

Words are runs of letters, digits and marks, without regard to case, width or composition (NFKC, casefold). In scripts that
put no spaces between words every character, with its marks, is a word, so that pairs of words are the usual bigrams. A
symbol such as an emoji is a word.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np
import scipy.sparse

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

RECIPE = "words, pairs and parts of four, 1"
"""What keys are made of; a memory that was made by another recipe cannot be asked by this one."""

COLUMNS = 2**30
PART = 4  # characters of a part of a word, of which one may be its edge
_ASCII_WORDS = re.compile(r"[a-z0-9]+")
# Thai and Lao, Burmese, Khmer, Kana, Han.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_INVISIBLE = re.compile("[\ufe00-\ufe0f]")  # which of its looks a character is to have
NOTHING, GAP, MARK, LETTER, ALONE = range(5)


def words_of(text: str) -> list[str]:
    """The words of a text, in order.

    >>> words_of("Zoë's CAFÉ, 2 doors down")
    ['zoë', 's', 'café', '2', 'doors', 'down']
    >>> words_of("東京 tower 🗼")
    ['東', '京', 'tower', '🗼']
    """
    if text.isascii():
        return _ASCII_WORDS.findall(text.lower())
    # Casefolding may undo the composition, and composing once more does not undo the casefolding.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return _spaced(folded).split()


def _spaced(text: str) -> str:
    """A text with spaces between its words and nothing else."""
    pieces = []
    after_alone = False
    for character in text:
        role = _role(character)
        if role == ALONE or (role == LETTER and after_alone):
            pieces.append(" ")
        if role != NOTHING:
            pieces.append(" " if role == GAP else character)
        if role >= LETTER:
            after_alone = role == ALONE
    return "".join(pieces)


@lru_cache(maxsize=2**16)
def _role(character: str) -> int:
    """What a character does to words."""
    kind = unicodedata.category(character)
    if kind == "Cf" or _INVISIBLE.match(character):
        return NOTHING
    if kind[0] == "M":
        return MARK
    if kind == "So" or (_UNSPACED.match(character) and kind[0] in "LN"):
        return ALONE
    return LETTER if kind[0] in "LN" else GAP


def _features_of(word: str) -> list[str]:
    """The features of a word on its own: itself, and its parts if there is more to it than its edges."""
    edged = f" {word} "
    parts = len(edged) - PART + 1 if len(word) > 2 else 0
    return [word, *(f"~{edged[i : i + PART]}" for i in range(parts))]


def _number(feature: str) -> int:
    return crc32(feature.encode("utf8", "surrogatepass")) % COLUMNS


@lru_cache(maxsize=2**16)
def _numbers_of(word: str) -> tuple[int, ...]:
    return tuple(map(_number, _features_of(word)))


def _numbers(text: str) -> list[int]:
    """The features of a text by number, as often as they occur."""
    words = words_of(text)
    found = [_number(f"{word} {following}") for word, following in pairwise(words)]
    for word in words:
        found += _numbers_of(word)
    return found


def features_by_number(text: str) -> dict[int, str]:
    """What the numbers in the key of a text stand for.

    >>> sorted(features_by_number("my dog").values())
    ['dog', 'my', 'my dog', '~ dog', '~dog ']
    """
    words = words_of(text)
    pairs = [f"{word} {following}" for word, following in pairwise(words)]
    return {_number(feature): feature for feature in [*pairs, *(one for word in words for one in _features_of(word))]}


def text_rows(texts: Iterable[str]) -> scipy.sparse.csr_matrix:
    """Texts as sparse rows.

    >>> row = text_rows(["a dog and a dog"])
    >>> row.shape[1] == 2**30, row.nnz, round(float(row.max()), 3)
    (True, 10, 1.693)
    """
    found = [_numbers(text) for text in texts]
    columns = np.array([column for row in found for column in row], np.int64)
    places = np.repeat(np.arange(len(found)), [len(row) for row in found]) * COLUMNS + columns
    places, counts = np.unique(places, return_counts=True)
    bounds = np.searchsorted(places, np.arange(len(found) + 1) * COLUMNS)
    weights = (1 + np.log(counts)).astype(np.float32)
    index = np.int32 if len(places) < 2**31 else np.int64  # scipy takes a second look at what is longer than need be
    arrays = weights, (places % COLUMNS).astype(index), bounds.astype(index)
    return scipy.sparse.csr_matrix(arrays, shape=(len(found), COLUMNS))


def text_vectorizer(*, tfidf: bool = True, **options: object) -> Pipeline:
    """A scikit-learn pipeline from texts to sparse rows: counts of words, hashed to 2**20 columns.

    Args:
        tfidf: Weigh words by how few of the texts given to `fit` have them, damp repetitions, and scale rows to unit length.
            Without it rows are counts, and nothing needs to be fitted.
        options: Other options of scikit-learn's `HashingVectorizer`, such as `ngram_range=(1, 2)` or `stop_words="english"`.

    Returns:
        A pipeline with `fit` and `transform`.

    Example:
        >>> vectorizer = text_vectorizer().fit(["a dog in the snow", "two dogs at the sea", "a boat at sea"])
        >>> vectorizer.transform(["the sea"]).shape
        (1, 1048576)
    """
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    from sklearn.pipeline import make_pipeline

    counts = HashingVectorizer(**{"n_features": 2**20, "alternate_sign": False, "norm": None, **options})
    return make_pipeline(counts, TfidfTransformer(sublinear_tf=True)) if tfidf else make_pipeline(counts)
