"""Estimators with the interfaces of scikit-learn and river."""

from memorytree.estimators.classifier import MemoryTreeClassifier
from memorytree.estimators.evaluation import ProgressiveResult, progressive_val_score
from memorytree.estimators.multilabel import MemoryTreeMultilabelClassifier
from memorytree.estimators.retriever import MemoryTreeRetriever

__all__ = [
    "MemoryTreeClassifier",
    "MemoryTreeMultilabelClassifier",
    "MemoryTreeRetriever",
    "ProgressiveResult",
    "StreamClassifier",
    "progressive_val_score",
]


def __getattr__(name: str) -> type:
    """Import river, which takes a while, only when it is used."""
    if name == "StreamClassifier":
        from memorytree.estimators.river import StreamClassifier

        return StreamClassifier
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
