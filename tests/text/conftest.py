"""Texts and an encoder that several tests use."""

import numpy as np
import pytest

from memorytree import TextMemory

FACTS = [
    "Ada's favourite colour is green",
    "Bob takes the train to work",
    "The cat sleeps on the red sofa",
    "Carla was born in Lisbon in 1985",
    "The meeting about the budget is on Monday",
    "Bob is allergic to peanuts",
    "Ada's sister lives in Lisbon as well",
]


@pytest.fixture
def facts():
    """Seven texts."""
    return list(FACTS)


@pytest.fixture
def memory(facts):
    """A memory of the seven texts, ids 0 to 6, with their number and first word as metadata."""
    with TextMemory(seed=0) as memory:
        memory.remember_many(facts, [{"number": i, "name": text.split()[0]} for i, text in enumerate(facts)])
        yield memory


@pytest.fixture
def letters():
    """An encoder that counts letters."""

    def encode(texts):
        return np.array([[text.lower().count(letter) + 0.01 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])

    return encode
