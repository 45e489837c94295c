"""How TextMemory makes keys from texts: from their words, or with an encoder given by the user."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memorytree.config import TermLists
from memorytree.errors import InvalidOption
from memorytree.keys import KeyRows
from memorytree.text.features import FEATURES_VERSION, feature_names, text_features

Encoder = Callable[[list[str]], ArrayLike] | Callable[[str], ArrayLike]
"""A function from a list of texts to as many vectors, or from one text to its vector."""

Fingerprint = dict[str, str | list[float]]
"""Identifies how keys are made; JSON data that a memory stores to detect a different encoder."""

PROBE = "memory"  # the text whose vector identifies an encoder


def check_text(text: object) -> str:
    """A text that contains more than spaces, or `InvalidOption`."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidOption(f"a text must be a str with at least one visible character, not {text!r:.80}")
    return text


class KeyMaker(ABC):
    """Makes keys from texts.

    Attributes:
        store_options: the options of `MemoryStore` that suit these keys.
        beam: how many leaves a query searches; None for the default effort.
    """

    store_options: ClassVar[Mapping[str, object]]
    beam: ClassVar[int | None]

    @abstractmethod
    def keys(self, texts: list[str]) -> NDArray[np.float32] | KeyRows:
        """One row for each text."""

    @abstractmethod
    def key(self, text: str) -> NDArray[np.float32] | KeyRows:
        """The key of one text."""

    @abstractmethod
    def fingerprint(self) -> Fingerprint:
        """Identifies how keys are made."""

    @abstractmethod
    def matches(self, fingerprint: Fingerprint) -> bool:
        """Whether keys with this fingerprint can be compared with keys from here."""

    @abstractmethod
    def feature_names(self, question: str) -> dict[int, str]:
        """What the columns of a question's key stand for; empty if columns have no names."""


class WordKeys(KeyMaker):
    """Sparse keys of words, pairs of words and 4-grams, weighted by inverse document frequency at query time."""

    # Chosen on questions about three conversations; docs/results/locomo.md has the figures of seven others.
    store_options: ClassVar[Mapping[str, object]] = {
        "scorer": "tfidf",
        "routing": TermLists(rate=0.3, temperature=10, expansion=0.3),
    }
    beam = None

    def keys(self, texts: list[str]) -> KeyRows:
        """One sparse row for each text."""
        return text_features(texts)

    def key(self, text: str) -> KeyRows:
        """The key of one text."""
        return text_features([text])

    def fingerprint(self) -> Fingerprint:
        """The version of the feature rules."""
        return {"features": FEATURES_VERSION}

    def matches(self, fingerprint: Fingerprint) -> bool:
        """Whether the rules are the same."""
        return fingerprint == self.fingerprint()

    def feature_names(self, question: str) -> dict[int, str]:
        """The features of a question by column."""
        return feature_names(question)


class VectorKeys(KeyMaker):
    """Vectors from the user's encoder, scaled to length 1, in a space that is learned from rewards."""

    store_options: ClassVar[Mapping[str, object]] = {"scorer": "metric"}
    beam = 32  # a text memory is small and a missed text costs more than time, so queries search many leaves

    def __init__(self, encoder: Encoder):
        if not callable(encoder):
            raise InvalidOption(f"encoder must be a function from texts to vectors, not {type(encoder).__name__}")
        self._encode = cast(Callable[[object], ArrayLike], encoder)
        self._one_by_one = self._takes_one_text()

    def _takes_one_text(self) -> bool:
        """Whether the encoder takes one text, not a list. If neither call works, the first use reports the error."""
        try:
            if np.ndim(self._encode([PROBE, "tree"])) == 2:
                return False
        except Exception:
            pass  # the encoder may accept a single text only
        try:
            return np.ndim(self._encode(PROBE)) == 1
        except Exception:
            return False

    def keys(self, texts: list[str]) -> NDArray[np.float32]:
        """One row of length 1 for each text."""
        rows = np.asarray([self._encode(text) for text in texts] if self._one_by_one else self._encode(list(texts)))
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1] or rows.dtype.kind not in "fiu":
            raise InvalidOption(
                f"the encoder must return one vector of numbers for each of the {len(texts)} texts, "
                f"not an array of type {rows.dtype} and shape {rows.shape}"
            )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)

    def key(self, text: str) -> NDArray[np.float32]:
        """The key of one text."""
        return np.asarray(self.keys([text])[0])

    def fingerprint(self) -> Fingerprint:
        """The key of one fixed text, rounded."""
        return {"probe": [round(number, 3) for number in self.key(PROBE).tolist()]}

    def matches(self, fingerprint: Fingerprint) -> bool:
        """Whether the encoder gives nearly the same vector; other machines round differently."""
        theirs, ours = fingerprint.get("probe", []), self.fingerprint()["probe"]
        return len(theirs) == len(ours) and np.allclose(np.asarray(theirs, float), np.asarray(ours, float), atol=0.02)

    def feature_names(self, question: str) -> dict[int, str]:
        """No names: the columns are directions of the learned space."""
        return {}
