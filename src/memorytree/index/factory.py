"""Make the index for the options of a tree: the only place that distinguishes the kinds of routing and scorer."""

from __future__ import annotations

from memorytree.config import (
    FixedScorer,
    GraphRouting,
    LinearScorer,
    PaperRouting,
    Projection,
    Routing,
    Scorer,
    TermLists,
    TreeConfig,
    ValueModel,
)  # fmt: skip
from memorytree.engine.arrays import Settings
from memorytree.engine.routers.paper import Paper
from memorytree.engine.routers.principal import Principal
from memorytree.engine.scorers.cosine import Cosine
from memorytree.engine.scorers.distance import Distance
from memorytree.engine.scorers.tfidf import Tfidf
from memorytree.errors import InvalidOption
from memorytree.index.base import Index
from memorytree.index.experienced import ExperiencedIndex
from memorytree.index.forest import ForestIndex
from memorytree.index.graph import make_tree
from memorytree.index.projected import ProjectedIndex
from memorytree.index.reranked import RerankedIndex
from memorytree.index.rerankers.custom import CustomReranker
from memorytree.index.rerankers.latent import LatentReranker
from memorytree.index.rerankers.values import ValueReranker
from memorytree.index.single import EngineRouting, FixedEngineScorer, TreeIndex
from memorytree.index.terms import TermIndex
from memorytree.learning.linear import LinearWeights
from memorytree.learning.projection import LearnedProjection

FIXED: dict[str, FixedEngineScorer] = {"distance": Distance(False), "cosine": Cosine(False), "tfidf": Tfidf(False)}
PAPER_RATE, PAPER_RATE_SPARSE = 0.03, 0.2
"""A sparse key has few features, so each must move a router further. Both rates were chosen by self-consistency on training
rows."""
LATENT_WIDTH, LATENT_DAMPING = 192, 0.5
"""The width and damping of the value model that ranks sparse keys in a latent space, unless a rank is given."""


def make_index(config: TreeConfig, sparse: bool, dimension: int) -> Index:
    """An empty index, which remembers rewards unless the options say otherwise.

    Args:
        config: the options of the tree.
        sparse: whether keys are sparse.
        dimension: features of a dense key.

    Raises:
        InvalidOption: the options do not fit together, or not this kind of keys.
    """
    inner = _make_inner(config, sparse, dimension)
    if not config.n_experiences:
        return inner
    scorer = config.scorer if config.scorer in FIXED else "cosine" if sparse else "distance"
    questions = TreeConfig("terms" if sparse else "graph", scorer, seed=config.seed)
    return ExperiencedIndex(inner, _make_inner(questions, sparse, dimension), config.n_experiences)


def _make_inner(config: TreeConfig, sparse: bool, dimension: int, routing: Routing | None = None) -> Index:
    """An empty index that does not remember rewards.

    Args:
        config: the options of the tree.
        sparse: whether keys are sparse.
        dimension: features of a dense key.
        routing: the routing, if it was decided earlier; by default `config` decides.

    Raises:
        InvalidOption: the options do not fit together, or not this kind of keys.
    """
    routing = routing or config.routing_for(sparse)
    scorer = config.scorer_options
    if isinstance(routing, TermLists):
        return _make_terms(config, routing, scorer)
    if isinstance(scorer, FixedScorer):
        if scorer.name == "tfidf":
            raise InvalidOption('scorer="tfidf" counts memories by term: it needs sparse keys, routing="terms" and trees=1')
        return _make_trees(config, sparse, dimension, routing, FIXED[scorer.name])
    if isinstance(scorer, Projection):
        if sparse:
            raise InvalidOption('scorer="metric" compares sparse keys in front of term lists: it needs routing="terms"')
        return _make_projected(config, dimension, routing, scorer)
    if isinstance(scorer, ValueModel):
        if sparse:
            raise InvalidOption('scorer="values" finds sparse keys by their terms: it needs routing="terms" and trees=1')
        return RerankedIndex(_make_trees(config, sparse, dimension, routing, FIXED["distance"]), ValueReranker(scorer))
    if config.trees > 1:
        raise InvalidOption("several trees need one of these scorers: distance, cosine, metric, values")
    if isinstance(scorer, LinearScorer):
        if isinstance(routing, GraphRouting):
            raise InvalidOption("links join memories that are near, not those with a high linear score: use another routing")
        weights = LinearWeights(scorer, sparse, dimension)
        return TreeIndex(sparse, dimension, _settings(config, routing), _engine_routing(routing, sparse), weights)
    return RerankedIndex(_make_trees(config, sparse, dimension, routing, FIXED["distance"]), CustomReranker(scorer))


def _settings(config: TreeConfig, routing: Routing) -> Settings:
    """The numbers that the engine needs. Only routers that learn are rerouted."""
    reroutes = config.reroutes if isinstance(routing, PaperRouting) else 0
    return Settings(config.leaf_factor, reroutes, config.capacity or 0, config.seed)


def _engine_routing(routing: Routing, sparse: bool) -> EngineRouting:
    """The options of a routing as the engine takes them."""
    if isinstance(routing, PaperRouting):
        rate = routing.rate or (PAPER_RATE_SPARSE if sparse else PAPER_RATE)
        return Paper(float(routing.balance), float(rate), routing.exact, routing.center, True, False)
    neighbours = routing.neighbours if isinstance(routing, GraphRouting) else 0
    return Principal(False, False, True, neighbours)


def _make_trees(config: TreeConfig, sparse: bool, dimension: int, routing: Routing, scorer: FixedEngineScorer) -> Index:
    """One tree or several."""
    settings, engine_routing = _settings(config, routing), _engine_routing(routing, sparse)
    if config.trees == 1:
        return make_tree(sparse, dimension, settings, engine_routing, scorer)
    return ForestIndex(sparse, dimension, settings, engine_routing, scorer, config.trees)


def _make_projected(config: TreeConfig, dimension: int, routing: Routing, scorer: Projection) -> ProjectedIndex:
    """Trees over a learned projection. The table of keys decides which memories are evicted."""
    settings, engine_routing = _settings(config, routing), _engine_routing(routing, sparse=False)

    def make_inner(width: int) -> ForestIndex:
        inner = Settings(settings.leaf_factor, settings.reroutes, 0, settings.seed)
        return ForestIndex(False, width, inner, engine_routing, FIXED["distance"], config.trees)

    return ProjectedIndex(LearnedProjection(scorer, dimension), settings, make_inner, config.reroutes)


def _make_terms(config: TreeConfig, routing: TermLists, scorer: Scorer) -> Index:
    """Term lists, and what ranks their candidates."""
    settings = _settings(config, routing)
    if isinstance(scorer, FixedScorer):
        return TermIndex(settings, routing, FIXED[scorer.name])
    if routing.expansion:
        raise InvalidOption("memories learn terms of queries only with one of these scorers: distance, cosine, tfidf")
    if isinstance(scorer, Projection):
        width = LATENT_WIDTH if scorer.rank == Projection().rank else scorer.rank
        model = ValueModel(width=width, damping=LATENT_DAMPING)
        return RerankedIndex(TermIndex(settings, routing, FIXED["cosine"]), LatentReranker(model))
    if isinstance(scorer, ValueModel):
        return RerankedIndex(TermIndex(settings, routing, FIXED["cosine"]), ValueReranker(scorer))
    raise InvalidOption("term lists need one of these scorers: distance, cosine, tfidf, metric, values")
