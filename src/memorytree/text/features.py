"""Texts as sparse vectors: counts of words, of pairs of adjacent words and of character 4-grams within words.

A feature is a string; its column is a hash of that string (CRC-32), which is the same in every process, so no vocabulary is
stored. The weight of a feature is 1 + ln(count) (sublinear term frequency). Inverse document frequency is not part of a
vector: the scorer "tfidf" applies it at query time, from the texts that are stored at that moment.

Words are runs of letters, digits and combining marks after NFKC normalisation and case folding. In scripts without spaces
between words (Chinese, Japanese, Thai, ...) every character, with its combining marks, is a word, so pairs of words are
character bigrams. A symbol such as an emoji is a word.
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

from memorytree.keys import KeyRows

if TYPE_CHECKING:
    import scipy.sparse
    from sklearn.pipeline import Pipeline

FEATURES_VERSION = "words, pairs of words, 4-grams; 1"
"""Names the rules in this file. A memory stores it and can only be opened by code with the same rules."""

COLUMNS = 2**30
NGRAM_LENGTH = 4
_ASCII_WORDS = re.compile(r"[a-z0-9]+")
# Thai and Lao, Burmese, Khmer, Kana, Han.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f]")
# Classes of characters. Those from LETTER on begin or continue a word; a SINGLE character is a word.
IGNORED, SEPARATOR, MARK, LETTER, SINGLE = range(5)


def words_of(text: str) -> list[str]:
    """Split a text into normalised words.

    Args:
        text: any text.

    Returns:
        The words in order, case-folded and in NFKC form.

    Example:
        >>> words_of("Zoë's CAFÉ, 2 doors down")
        ['zoë', 's', 'café', '2', 'doors', 'down']
        >>> words_of("東京 tower 🗼")
        ['東', '京', 'tower', '🗼']
    """
    if text.isascii():
        return _ASCII_WORDS.findall(text.lower())
    # Case folding can produce decomposed characters, so the text is composed again after it.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return separate_words(folded).split()


def separate_words(text: str) -> str:
    """A normalised text with a space between words and without any other characters between them."""
    pieces = []
    after_single = False
    for character in text:
        kind = _character_class(character)
        if kind == SINGLE or (kind == LETTER and after_single):
            pieces.append(" ")
        if kind != IGNORED:
            pieces.append(" " if kind == SEPARATOR else character)
        if kind >= LETTER:
            after_single = kind == SINGLE
    return "".join(pieces)


@lru_cache(maxsize=2**16)
def _character_class(character: str) -> int:
    category = unicodedata.category(character)
    if category == "Cf" or _VARIATION_SELECTORS.match(character):
        return IGNORED
    if category[0] == "M":
        return MARK
    if category == "So" or (_UNSPACED.match(character) and category[0] in "LN"):
        return SINGLE
    return LETTER if category[0] in "LN" else SEPARATOR


def _features_of_word(word: str) -> list[str]:
    """The word itself and, from three characters on, its 4-grams, with a space for each end of the word."""
    padded = f" {word} "
    ngrams = len(padded) - NGRAM_LENGTH + 1 if len(word) > 2 else 0
    return [word, *(f"~{padded[i : i + NGRAM_LENGTH]}" for i in range(ngrams))]


def _pairs(words: list[str]) -> list[str]:
    """A feature for each pair of adjacent words."""
    return [f"{word} {following}" for word, following in pairwise(words)]


def _column(feature: str) -> int:
    return crc32(feature.encode("utf8", "surrogatepass")) % COLUMNS


@lru_cache(maxsize=2**16)
def _columns_of_word(word: str) -> tuple[int, ...]:
    return tuple(map(_column, _features_of_word(word)))


def _columns_of_text(text: str) -> list[int]:
    """The column of every occurrence of a feature in a text."""
    words = words_of(text)
    columns = [_column(pair) for pair in _pairs(words)]
    for word in words:
        columns += _columns_of_word(word)
    return columns


def feature_names(text: str) -> dict[int, str]:
    """Map the columns of a text to its features.

    Args:
        text: any text.

    Returns:
        {column: feature}. 4-grams begin with "~".

    Example:
        >>> sorted(feature_names("my dog").values())
        ['dog', 'my', 'my dog', '~ dog', '~dog ']
    """
    words = words_of(text)
    features = [*_pairs(words), *(feature for word in words for feature in _features_of_word(word))]
    return {_column(feature): feature for feature in features}


def text_rows(texts: Iterable[str]) -> scipy.sparse.csr_matrix:
    """Vectorise texts. Nothing is fitted, so texts can be vectorised one at a time.

    Args:
        texts: n texts.

    Returns:
        A matrix of shape (n, 2**30), float32, in canonical CSR format. `MemoryTree`, the estimators and, through
        `sklearn.preprocessing.FunctionTransformer(text_rows)`, a scikit-learn pipeline take it as it is.

    Example:
        >>> row = text_rows(["a dog and a dog"])
        >>> row.shape[1] == 2**30, row.nnz, round(float(row.max()), 3)
        (True, 10, 1.693)
    """
    return text_features(texts).to_scipy()


def text_features(texts: Iterable[str]) -> KeyRows:
    """The rows that `text_rows` gives, as arrays, so that SciPy is not imported."""
    columns_of_texts = [_columns_of_text(text) for text in texts]
    columns = np.array([column for columns in columns_of_texts for column in columns], np.int64)
    cells = np.repeat(np.arange(len(columns_of_texts)), [len(columns) for columns in columns_of_texts]) * COLUMNS + columns
    cells, counts = np.unique(cells, return_counts=True)
    bounds = np.searchsorted(cells, np.arange(len(columns_of_texts) + 1) * COLUMNS)
    return KeyRows(bounds, (cells % COLUMNS).astype(np.int32), (1 + np.log(counts)).astype(np.float32), COLUMNS)


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
