"""Which of these memories fits best? Each file is one answer, for dense and for sparse keys."""

from memorytree.scoring.cosine import Cosine, cosine
from memorytree.scoring.distance import Distance, distance

__all__ = ["Cosine", "Distance", "cosine", "distance"]
