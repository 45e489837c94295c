"""Texts as keys, without a model or a vocabulary."""

from __future__ import annotations

from typing import Any

from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.pipeline import Pipeline, make_pipeline


def text_keys(*, tfidf: bool = True, **options: Any) -> Pipeline:
    """A scikit-learn pipeline that turns texts into sparse rows: counts of their words, hashed to 2**20 columns.

    Args:
        tfidf: weigh words by how few texts of those given to `fit` have them, damp repetitions, and take rows at length one;
            without it rows are plain counts, and nothing needs to be fitted.
        options: more options of scikit-learn's `HashingVectorizer`, such as `ngram_range=(1, 2)` or `stop_words="english"`.

    Example:
        >>> keys = text_keys().fit(["a dog in the snow", "two dogs at the sea", "a boat at sea"])
        >>> keys.transform(["the sea"]).shape
        (1, 1048576)
    """
    counts = HashingVectorizer(**{"n_features": 2**20, "alternate_sign": False, "norm": None, **options})
    return make_pipeline(counts, TfidfTransformer(sublinear_tf=True)) if tfidf else make_pipeline(counts)
