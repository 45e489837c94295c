"""Which of these memories fits best? Each file is one answer, for dense and for sparse keys."""

from memorytree.engine.scorers.cosine import Cosine, cosine
from memorytree.engine.scorers.distance import Distance, distance
from memorytree.engine.scorers.tfidf import Tfidf, tfidf
from memorytree.scoring.linear import Linear, linear
from memorytree.scoring.metric import Metric, metric
from memorytree.scoring.own import Scorer
from memorytree.scoring.values import Values, values

__all__ = [
    "Cosine", "Distance", "Linear", "Metric", "Scorer", "Tfidf", "Values",
    "cosine", "distance", "linear", "metric", "tfidf", "values",
]  # fmt: skip
