"""Texts that are remembered, and asked for in words."""

from memorytree.text.features import text_rows, words_of
from memorytree.text.memory import Recall, TextHit, TextMemory

__all__ = ["Recall", "TextHit", "TextMemory", "text_rows", "words_of"]
