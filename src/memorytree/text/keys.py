"""What the key of a text is: the words in it, or what an encoder makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from memorytree.errors import InvalidOption
from memorytree.routing import terms
from memorytree.text.features import RECIPE, features_by_number, text_rows

Encoder = Callable[[Any], Any]
"""Makes vectors of a list of texts, or a vector of one text."""


# Chosen on questions to three conversations; docs/results/locomo.md tells of seven others.
WORDS = {"scorer": "tfidf", "routing": terms(reads=96, scored=64, rate=0.3, temperature=10, expansion=0.3)}
VECTORS = {"scorer": "metric"}


class WordKeys:
    """Sparse keys of words, pairs and parts of words, which count by how few texts have them."""

    options: Mapping[str, Any] = WORDS
    beam = 1

    def rows(self, texts: list[str]) -> Any:
        """A key for each text."""
        return text_rows(texts)

    def row(self, text: str) -> Any:
        """The key of one text."""
        return text_rows([text])

    def mark(self) -> dict[str, Any]:
        """What a memory notes of how its keys are made."""
        return {"recipe": RECIPE}

    def fit(self, mark: dict[str, Any]) -> bool:
        """Whether keys that were made by this mark are such as these."""
        return mark == self.mark()

    def names(self, question: str) -> dict[int, str]:
        """What the numbers in the key of a question stand for."""
        return features_by_number(question)


class VectorKeys:
    """What an encoder makes of texts, at length one, in a space that learns from rewards."""

    options: Mapping[str, Any] = VECTORS
    # Texts are few beside what a tree can hold, and a miss is dear, so a question looks into many leaves.
    beam = 32

    def __init__(self, encoder: Encoder):
        if not callable(encoder):
            raise InvalidOption(f"encoder is a function from texts to vectors, not {type(encoder).__name__}")
        self._encoder = encoder
        self._one_by_one = _wants_one_text(encoder)

    def rows(self, texts: list[str]) -> np.ndarray:
        """A key for each text."""
        rows = np.asarray([self._encoder(text) for text in texts] if self._one_by_one else self._encoder(list(texts)))
        if rows.ndim != 2 or len(rows) != len(texts) or not rows.shape[1] or rows.dtype.kind not in "fiu":
            raise InvalidOption(
                f"of {len(texts)} texts the encoder must make as many vectors, not an array of {rows.dtype} {rows.shape}"
            )
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)

    def row(self, text: str) -> np.ndarray:
        """The key of one text."""
        return np.asarray(self.rows([text])[0])

    def mark(self) -> dict[str, Any]:
        """What a memory notes of how its keys are made: the key of one text, by which the encoder is known again."""
        return {"probe": [round(number, 3) for number in self.row("memory").tolist()]}

    def fit(self, mark: dict[str, Any]) -> bool:
        """Whether keys that were made by this mark are such as these; other machines round differently."""
        told, own = mark.get("probe", []), self.mark()["probe"]
        return len(told) == len(own) and np.allclose(told, own, atol=0.02)

    def names(self, question: str) -> dict[int, str]:
        """Directions of a learned space have no names."""
        return {}


def _wants_one_text(encoder: Encoder) -> bool:
    """Whether an encoder takes a text and not a list of them; what fails either way fails again when it is used."""
    try:
        if np.ndim(encoder(["memory", "tree"])) == 2:
            return False
    except Exception:
        pass  # perhaps only a list is too much for it
    try:
        return np.ndim(encoder("memory")) == 1
    except Exception:
        return False
