"""Make the index for the options of a tree.

Only this file and `index/compiled.py` distinguish kinds of routing and scorer.
"""

from __future__ import annotations

from functools import partial

from memorytree.config import FixedScorer, FlatRouting, GraphRouting, Routing, TermLists, TreeConfig
from memorytree.errors import InvalidOption
from memorytree.index.base import Index
from memorytree.index.flat import FlatIndex
from memorytree.index.flat_learning import TermLearning
from memorytree.index.flat_terms import FlatTerms
from memorytree.index.flat_vectors import FlatVectors
from memorytree.index.growing import GrowingIndex


def make_index(config: TreeConfig, sparse: bool, dimension: int) -> Index:
    """An empty index.

    Args:
        config: the options of the tree.
        sparse: whether keys are sparse.
        dimension: features of a dense key.

    Raises:
        InvalidOption: the options do not fit together, or not this kind of keys.
    """
    routing, scorer = config.routing_for(sparse), config.scorer_options
    if isinstance(scorer, FixedScorer) and config.trees == 1:
        if isinstance(routing, FlatRouting):
            return _make_flat(config, sparse, dimension, scorer, routing)
        if isinstance(routing, GraphRouting | TermLists) and routing.flat:
            flat = _make_flat(config, sparse, dimension, scorer, routing)
            make_larger = partial(_make_larger, config, sparse, dimension, routing)
            return GrowingIndex(flat, make_larger, routing.flat, groups_rewards=not sparse)
    return _make_compiled(config, sparse, dimension, routing)


def _make_flat(
    config: TreeConfig, sparse: bool, dimension: int, scorer: FixedScorer, routing: FlatRouting | GraphRouting | TermLists
) -> FlatIndex:
    """An exact index in NumPy."""
    assert config.seed is not None
    if sparse:
        assert not isinstance(routing, GraphRouting)
        learning = TermLearning(routing.temperature, routing.rate, routing.expansion)
        return FlatIndex(FlatTerms(scorer.name, learning), config.capacity or 0, config.seed)
    if scorer.name == "tfidf":
        raise InvalidOption('scorer="tfidf" counts memories by term: it needs sparse keys')
    return FlatIndex(FlatVectors(dimension, scorer.name == "cosine"), config.capacity or 0, config.seed)


def _make_compiled(config: TreeConfig, sparse: bool, dimension: int, routing: Routing) -> Index:
    """An index of compiled kernels; Numba is loaded here, where it is needed."""
    from memorytree.index.compiled import make_compiled

    return make_compiled(config, sparse, dimension, routing)


def _make_larger(config: TreeConfig, sparse: bool, dimension: int, routing: Routing, flat: FlatIndex | None) -> Index:
    """The index that follows a flat one, with its memories."""
    larger = _make_compiled(config, sparse, dimension, routing)
    if flat is not None:
        from memorytree.index.moving import move_memories

        move_memories(flat, larger)
    return larger
