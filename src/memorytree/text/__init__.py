"""TextMemory: store texts and find them by questions."""

from memorytree.text.features import text_rows, words_of
from memorytree.text.hits import TextHit, TextHits
from memorytree.text.memory import TextMemory

__all__ = ["TextHit", "TextHits", "TextMemory", "text_rows", "words_of"]
