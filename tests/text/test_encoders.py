"""Keys made by the user's encoder."""

import numpy as np
import pytest

from memorytree import TextMemory
from memorytree.errors import InvalidOption


def test_an_encoder_makes_the_keys(facts, letters):
    with TextMemory(encoder=letters, seed=0) as memory:
        memory.remember_many(facts)
        assert memory.recall(facts[2].upper()[::-1], 1)[0].id == 2
        assert memory.explain(facts[2], 2).candidates[0].hit.id == 2


def test_vectors_are_scaled_to_length_one(tmp_path, facts, letters):
    with TextMemory(tmp_path / "memory", encoder=letters, seed=0) as memory:
        memory.remember_many(facts)
    with TextMemory(tmp_path / "memory", encoder=lambda texts: letters(texts) * 3) as memory:
        assert memory.recall(facts[5], 1)[0].id == 5


def test_another_encoder_is_refused(tmp_path, letters):
    TextMemory(tmp_path / "memory", encoder=letters, seed=0).close()
    for other in (None, lambda texts: letters(texts)[:, ::-1], lambda texts: letters(texts)[:, :5]):
        with pytest.raises(InvalidOption, match="another encoder"):
            TextMemory(tmp_path / "memory", encoder=other)


def test_an_encoder_of_single_texts(tmp_path, facts, letters):
    with TextMemory(tmp_path / "memory", encoder=lambda text: letters([text.lower()])[0], seed=0) as memory:
        memory.remember_many(facts)
        assert memory.recall(facts[2].upper()[::-1], 1)[0].id == 2
    with TextMemory(tmp_path / "memory", encoder=letters) as memory:
        assert memory.recall(facts[5], 1)[0].id == 5


def test_explain_agrees_with_recall(rng, letters):
    texts = ["".join(rng.choice(list("abcdefgh"), 12)) for _ in range(400)]
    with TextMemory(encoder=letters, seed=0) as memory:
        memory.remember_many(texts)
        for text in texts[:20]:
            explanation = memory.explain(text[::-1], 5)
            assert [candidate.hit.id for candidate in explanation.candidates] == memory.recall(text[::-1], 5).ids.tolist()


@pytest.mark.parametrize(
    "encoder",
    ["letters", lambda texts: 1.0, lambda texts: np.ones((len(texts) + 1, 3)), lambda texts: [["a"]] * len(texts)],
)
def test_an_invalid_encoder_is_refused(encoder):
    with pytest.raises(InvalidOption, match="encoder"):
        TextMemory(encoder=encoder)
