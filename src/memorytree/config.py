"""The options of a tree, as dataclasses that check themselves."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from memorytree.arguments import LARGEST_INT, check_fraction, check_int
from memorytree.errors import InvalidOption
from memorytree.packing import PlainData, Value


def _require(holds: bool, message: str, options: object) -> None:
    if not holds:
        raise InvalidOption(f"{message}: {options}")


@dataclass(frozen=True)
class PaperRouting:
    """The paper's routing, `routing="paper"`: linear routers that learn from every insertion and from `explore`.

    Args:
        balance: the paper's alpha: how strongly routers prefer even sides.
        rate: the step of Adagrad; by default 0.03 for dense keys and 0.2 for sparse ones.
        exact: perceptrons with dyadic steps instead, for comparisons to the bit with `memorytree.reference`.
        center: subtract the running mean from keys.

    Example:
        >>> from memorytree import MemoryTree
        >>> MemoryTree(routing=PaperRouting(rate=0.1))
        <MemoryTree: 0 memories, empty keys, routing 'paper'>
    """

    name: ClassVar[str] = "paper"
    balance: float = 0.9
    rate: float | None = None
    exact: bool = False
    center: bool = False

    def __post_init__(self) -> None:
        check_fraction("balance", self.balance, 1e-6, 1.0)
        _require(self.rate is None or 0 < self.rate < math.inf, "the rate of routers is a number above 0", self)


@dataclass(frozen=True)
class PrincipalRouting:
    """Routing along principal directions, `routing="principal"`: a full leaf is split at the median of its main direction.

    Example:
        >>> from memorytree import MemoryTree
        >>> MemoryTree(routing=PrincipalRouting())
        <MemoryTree: 0 memories, empty keys, routing 'principal'>
    """

    name: ClassVar[str] = "principal"


@dataclass(frozen=True)
class GraphRouting:
    """A graph of near neighbours over a principal tree, `routing="graph"`: a search starts in a leaf and follows links.

    Args:
        neighbours: the most links of a memory.

    Example:
        >>> from memorytree import MemoryTree
        >>> MemoryTree(routing=GraphRouting(neighbours=16))
        <MemoryTree: 0 memories, empty keys, routing 'graph'>
    """

    name: ClassVar[str] = "graph"
    neighbours: int = 32

    def __post_init__(self) -> None:
        check_int("neighbours", self.neighbours, 8, 2**8)


@dataclass(frozen=True)
class TermLists:
    """Lists of memories by term, `routing="terms"`, for sparse keys.

    Args:
        breadth: a list holds the `breadth` * log2 n memories in which its term has the largest weight.
        reads: a query reads `reads` * log2 n entries.
        scored: candidates that are scored exactly, per unit of beam.
        homes: a memory stays in the list of at least one of its `homes` heaviest terms.
        temperature: the factor inside the softmax when importances learn.
        rate: the step of Adagrad.
        expansion: by which part of the difference the terms that a memory has learned move towards a query that was
            rewarded with 1; 0: memories keep the terms of their keys.

    Example:
        >>> from memorytree import MemoryTree
        >>> MemoryTree(routing=TermLists(expansion=0.1))
        <MemoryTree: 0 memories, empty keys, routing 'terms'>
    """

    name: ClassVar[str] = "terms"
    breadth: float = 16.0
    reads: float = 48.0
    scored: int = 32
    homes: int = 8
    temperature: float = 20.0
    rate: float = 0.1
    expansion: float = 0.0

    def __post_init__(self) -> None:
        positive = (self.breadth, self.reads, self.scored, self.homes, self.temperature, self.rate)
        _require(
            all(0 < value < LARGEST_INT for value in positive)
            and min(self.breadth, self.scored, self.homes) >= 1
            and 0 <= self.expansion <= 1,
            "options of term lists are positive numbers, breadth, scored and homes at least 1, expansion from 0 to 1",
            self,
        )


@dataclass(frozen=True)
class Projection:
    """The learned projection, `scorer="metric"`.

    Args:
        rank: rows of the projection matrix.
        rate: the step of Adagrad.
        temperature: the factor inside the softmax.
        lift: the constant that is added to every projection before it is scaled to length one.

    Example:
        >>> from memorytree import MemoryTree
        >>> tree = MemoryTree(scorer=Projection(rank=32))
    """

    name: ClassVar[str] = "metric"
    rank: int = 63
    rate: float = 0.2
    temperature: float = 7.0
    lift: float = 0.7

    def __post_init__(self) -> None:
        _require(
            self.rank >= 1 and min(self.rate, self.temperature) > 0,
            "a projection has a rank of at least 1, a rate and a temperature above 0",
            self,
        )


@dataclass(frozen=True)
class ValueModel:
    """The value model, `scorer="values"`: candidates are ranked by features of their values as well.

    Args:
        width: features are projected on so many directions.
        breadth: `breadth` * log2 n candidates are ranked.
        damping: shortens the steps of the weights.
        ridge: the regularisation of an aim's change.
        steps: of conjugate gradients.

    Example:
        >>> from memorytree import MemoryTree
        >>> tree = MemoryTree(scorer=ValueModel(width=64))
    """

    name: ClassVar[str] = "values"
    width: int = 128
    breadth: float = 8.0
    damping: float = 3.0
    ridge: float = 0.3
    steps: int = 4

    def __post_init__(self) -> None:
        _require(
            self.width >= 1 and self.breadth > 0 and self.damping >= 0 and self.ridge > 0 and self.steps >= 1,
            "width and steps are at least 1, breadth and ridge above 0, damping not below 0",
            self,
        )


@dataclass(frozen=True)
class LinearScorer:
    """The paper's scorer, `scorer="linear"`: linear in the products of features.

    Args:
        rate: the step of Adagrad.

    Example:
        >>> from memorytree import MemoryTree
        >>> tree = MemoryTree(routing="paper", scorer=LinearScorer(rate=0.5))
    """

    name: ClassVar[str] = "linear"
    rate: float = 0.1

    def __post_init__(self) -> None:
        _require(0 < self.rate < math.inf, "the rate of a linear scorer is a number above 0", self)


@dataclass(frozen=True)
class FixedScorer:
    """A scorer without parameters: "distance", "cosine" or "tfidf"."""

    name: str


@runtime_checkable
class CustomScorer(Protocol):
    """A scorer of the user's own, in plain Python.

    It may also have `learn(x, keys, features, rewards)`, called with the memories that were rewarded, and
    `state_dict()` and `load_state_dict(state)` with NumPy arrays, by which what it has learned is saved and loaded.
    """

    def score(self, x: Any, keys: Any, features: np.ndarray | None) -> np.ndarray:
        """One number for each candidate, the larger the better.

        Args:
            x: the key of the query.
            keys: the keys of the candidates, a matrix (a scipy matrix where keys are sparse).
            features: the features given with their values, zeros where there are fewer; None if there are none.
        """


Routing = PaperRouting | PrincipalRouting | GraphRouting | TermLists
ScoreFunction = Callable[[Any, Any, "np.ndarray | None"], np.ndarray]
Scorer = FixedScorer | Projection | ValueModel | LinearScorer | CustomScorer | ScoreFunction

ROUTINGS: dict[str, type[Routing]] = {kind.name: kind for kind in (PrincipalRouting, GraphRouting, TermLists, PaperRouting)}
LEARNED_SCORERS: dict[str, type[Projection | ValueModel | LinearScorer]] = {
    kind.name: kind for kind in (Projection, ValueModel, LinearScorer)
}
FIXED_SCORERS = ("distance", "cosine", "tfidf")
MERGEABLE = ("distance", "cosine", "tfidf", "metric", "values")
"""Scorers whose scores can be compared between several trees, or between lists by term."""
MOST_TREES = 1000
MOST_EXPERIENCES = 100_000
"""How many rewards are remembered by default."""


@dataclass(frozen=True)
class TreeConfig:
    """All options of a `MemoryTree`, checked; `MemoryTree` documents them."""

    routing: str | Routing = "auto"
    scorer: str | Scorer = "distance"
    trees: int = 1
    balance: float = 0.9
    leaf_factor: float = 4
    reroutes: int = 5
    center: bool = False
    capacity: int | None = None
    experiences: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        routings, scorers = ("auto", *ROUTINGS), (*FIXED_SCORERS, *LEARNED_SCORERS)
        if not isinstance(self.routing, Routing) and not (isinstance(self.routing, str) and self.routing in routings):
            raise InvalidOption(f"routing must be one of {', '.join(routings)}, not {self.routing!r}")
        if isinstance(self.scorer, str):
            if self.scorer not in scorers:
                raise InvalidOption(
                    f"scorer must be one of {', '.join(scorers)}, or a scorer of your own, not {self.scorer!r}"
                )
        elif not (isinstance(self.scorer, CustomScorer | Projection | ValueModel | LinearScorer) or callable(self.scorer)):
            raise InvalidOption(f"scorer must be one of {', '.join(scorers)}, or a scorer of your own, not {self.scorer!r}")
        check_int("trees", self.trees, 1, MOST_TREES)
        if self.trees > 1 and self.routing_name == "terms":
            raise InvalidOption('routing="terms" has no trees: it needs trees=1')
        if self.trees > 1 and self.scorer_name not in MERGEABLE:
            raise InvalidOption(f"several trees need one of these scorers: {', '.join(MERGEABLE)}")
        check_fraction("balance", self.balance, 1e-6, 1.0)
        check_fraction("leaf_factor", self.leaf_factor, 1e-6, 1e6)
        check_int("reroutes", self.reroutes, 0, 10**6)
        if not isinstance(self.center, bool):
            raise InvalidOption(f"center must be True or False, not {self.center!r}")
        if self.capacity is not None:
            check_int("capacity", self.capacity, 1)
        if self.experiences is not None:
            check_int("experiences", self.experiences, 0)
        seed = secrets.randbits(62) if self.seed is None else check_int("seed", self.seed, 0)
        object.__setattr__(self, "seed", seed)

    @property
    def routing_name(self) -> str:
        """The name of the routing, "auto" if it depends on the kind of keys."""
        return self.routing if isinstance(self.routing, str) else self.routing.name

    @property
    def n_experiences(self) -> int:
        """The most experiences; the paper's routing has none by default."""
        if self.experiences is not None:
            return self.experiences
        return 0 if self.routing_name == "paper" else MOST_EXPERIENCES

    @property
    def scorer_name(self) -> str:
        """The name of the scorer, "custom" for one of the user's own."""
        return self.scorer if isinstance(self.scorer, str) else str(getattr(self.scorer, "name", "custom"))

    def routing_for(self, sparse: bool) -> Routing:
        """The routing for this kind of keys.

        Raises:
            InvalidOption: the routing is for the other kind.
        """
        name = self.routing_name
        if name == "auto":
            listed = self.scorer_name in MERGEABLE and self.trees == 1
            name = "principal" if not sparse else "terms" if listed else "paper"
        if name == "terms" and not sparse:
            raise InvalidOption('routing="terms" needs sparse keys: scipy rows or mappings {feature: weight}')
        if name == "graph" and sparse:
            raise InvalidOption('routing="graph" needs dense keys: arrays of numbers')
        if self.center and sparse and name in ("terms", "paper"):
            raise InvalidOption("center=True needs dense keys: a centred sparse key has no zeros left")
        if not isinstance(self.routing, str):
            return self.routing
        if name == "paper":
            return PaperRouting(balance=self.balance, center=self.center)
        return ROUTINGS[name]()

    @property
    def scorer_options(self) -> Scorer:
        """The scorer as an object with its options."""
        if not isinstance(self.scorer, str):
            return self.scorer
        return FixedScorer(self.scorer) if self.scorer in FIXED_SCORERS else LEARNED_SCORERS[self.scorer]()

    def to_dict(self) -> PlainData:
        """The options as plain data; a scorer of the user's own is recorded as {"name": "custom"}."""
        data = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, known in (("routing", ROUTINGS), ("scorer", LEARNED_SCORERS)):
            option = data[name]
            if not isinstance(option, str):
                kind = getattr(option, "name", None)
                data[name] = {"name": kind, **asdict(option)} if kind in known else {"name": "custom"}
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Value], scorer: Scorer | None = None) -> TreeConfig:
        """The options that `to_dict` wrote, with the scorer of the user's own if there was one.

        Raises:
            InvalidOption: the scorer is missing, or there was none.
        """
        options = dict(data)
        is_custom = isinstance(options["scorer"], Mapping) and options["scorer"]["name"] == "custom"
        if is_custom and scorer is None:
            raise InvalidOption("these memories have a scorer of their own: give it with scorer=")
        if scorer is not None and not is_custom:
            raise InvalidOption(f"these memories have the scorer {options['scorer']!r}; scorer= is for one of your own")
        for name, known in (("routing", ROUTINGS), ("scorer", LEARNED_SCORERS)):
            option = options[name]
            if isinstance(option, Mapping) and option["name"] in known:
                settings = {key: value for key, value in option.items() if key != "name"}
                options[name] = known[option["name"]](**settings)
        if is_custom:
            options["scorer"] = scorer
        return cls(**options)
