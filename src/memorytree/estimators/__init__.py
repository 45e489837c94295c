"""memorytree for people with scikit-learn or river habits."""

from typing import Any

from memorytree.estimators.classifier import MemoryTreeClassifier
from memorytree.estimators.multilabel import MemoryTreeMultilabelClassifier
from memorytree.estimators.progressive import Progress, progressive
from memorytree.estimators.retriever import MemoryTreeRetriever
from memorytree.estimators.text import text_keys

__all__ = [
    "MemoryTreeClassifier",
    "MemoryTreeMultilabelClassifier",
    "MemoryTreeRetriever",
    "Progress",
    "StreamClassifier",
    "progressive",
    "text_keys",
]


def __getattr__(name: str) -> Any:
    """Load river, which takes a while, only for those who ask for it."""
    if name == "StreamClassifier":
        from memorytree.estimators.stream import StreamClassifier

        return StreamClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
