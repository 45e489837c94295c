"""What a user may set, checked once and in one place."""

from __future__ import annotations

import math
import numbers
import secrets
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from memorytree.engine.arrays import NONE, Settings
from memorytree.engine.core import NOBODY
from memorytree.errors import InvalidKey, InvalidOption, InvalidReward
from memorytree.routing import Paper, Principal, Terms, paper, principal, terms
from memorytree.scoring import Linear, Metric, Scorer, Values, cosine, distance, linear, metric, tfidf, values

SCORERS: dict[str, Any] = {
    "distance": distance, "cosine": cosine, "tfidf": tfidf, "metric": metric, "linear": linear, "values": values,
}  # fmt: skip
FOR_MANY = ("distance", "cosine", "tfidf", "metric", "values")  # trees, or lists by term
ROUTINGS = ("auto", "paper", "principal", "neighbours", "terms")
NEIGHBOURS = 32  # that a memory may know, unless somebody says otherwise


MOST = 2**62
"""No whole number may be larger: all arithmetic on it then fits 64 bits."""

LARGEST_ID = 2**61
"""No id that is given may be larger: those that follow it are then no less numbers."""


def whole(name: str, value: Any, least: int, most: int = MOST) -> int:
    """A whole number that is at least `least`."""
    if type(value) is int and least <= value <= most:
        return value
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        limit = f"2**{most.bit_length() - 1}"
        raise InvalidOption(f"{name} must be a whole number of at least {least} and at most {limit}, not {value!r:.80}")
    return int(value)


def ids(name: str, values: Any, most: int = MOST) -> np.ndarray:
    """A list of ids as an array."""
    if isinstance(values, str) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
        raise InvalidOption(f"{name} must be a list of ids, not {values!r:.80}")
    if type(values) is np.ndarray and values.dtype == np.int64 and values.ndim == 1:
        sound: bool = np.all((values >= 0) & (values <= most)).item()
        if sound:
            return values.copy()
    return np.array([whole(name, value, 0, most) for value in values], np.int64)


def id_to_give(id: Any) -> int:
    """The id that a memory is to have, NONE for the next that is free."""
    return NONE if id is None else whole("id", id, 0, LARGEST_ID)


def within(name: str, value: Any, low: float, high: float) -> float:
    """A number between low and high."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not low <= float(value) <= high:
        raise InvalidOption(f"{name} must be a number from {low:g} to {high:g}, not {value!r}")
    return float(value)


def check(options: dict[str, Any]) -> dict[str, Any]:
    """The options of `MemoryTree`, checked; a missing seed is drawn."""
    routing, scorer = options["routing"], options["scorer"]
    if not isinstance(routing, Paper | Principal | Terms) and not (isinstance(routing, str) and routing in ROUTINGS):
        raise InvalidOption(f"routing must be one of {', '.join(ROUTINGS)}, not {routing!r}")
    own = isinstance(scorer, Linear | Metric | Scorer | Values) or callable(scorer)
    if not own and not (isinstance(scorer, str) and scorer in SCORERS):
        raise InvalidOption(f"scorer must be one of {', '.join(SCORERS)}, or a scorer of your own, not {scorer!r}")
    if (routing == "terms" or isinstance(routing, Terms)) and options["trees"]:
        raise InvalidOption('routing="terms" has no trees to make a forest of: use MemoryTree')
    if isinstance(routing, Terms) and not _are_sound(routing):
        raise InvalidOption(
            "the settings of term lists are positive numbers, breadth, scored and homes at least 1, expansion from 0 to 1: "
            f"{routing}"
        )
    if isinstance(routing, Principal) and routing.neighbours != 0:
        routing = routing._replace(neighbours=whole("neighbours", routing.neighbours, 4, 2**8))
    if isinstance(scorer, Metric) and not (scorer.rank >= 1 and min(scorer.rate, scorer.temperature) > 0):
        raise InvalidOption(f"a learned metric has a rank of at least 1, a rate and a temperature above 0: {scorer}")
    if isinstance(scorer, Linear) and not 0 < scorer.rate < math.inf:
        raise InvalidOption(f"the rate of a linear scorer is a number above 0: {scorer}")
    if options["trees"] and not _is_for_many(scorer):
        raise InvalidOption("a forest needs one of these scorers: distance, cosine, metric, values")
    if not isinstance(options["center"], bool):
        raise InvalidOption(f"center must be True or False, not {options['center']!r}")
    seed = options["seed"]
    capacity = options["capacity"]
    return {
        "routing": routing,
        "scorer": scorer,
        "balance": within("balance", options["balance"], 1e-6, 1.0),
        "leaf_factor": within("leaf_factor", options["leaf_factor"], 1e-6, 1e6),
        "reroutes": int(within("reroutes", whole("reroutes", options["reroutes"], 0), 0, 10**6)),
        "center": options["center"],
        "capacity": None if capacity is None else whole("capacity", capacity, 1),
        "trees": int(within("trees", whole("trees", options["trees"], 0), 0, 1000)),
        "seed": secrets.randbits(62) if seed is None else whole("seed", seed, 0),
    }


def _is_for_many(scorer: Any) -> bool:
    return isinstance(scorer, Metric | Values) or (isinstance(scorer, str) and scorer in FOR_MANY)


def _are_sound(routing: Terms) -> bool:
    positive = routing[: Terms._fields.index("expansion")]
    at_least_one = min(routing.breadth, routing.scored, routing.homes) >= 1
    return all(0 < value < MOST for value in positive) and at_least_one and 0 <= routing.expansion <= 1


def routing_of(options: dict[str, Any], sparse: bool) -> Paper | Principal | Terms:
    """The routing that these options mean for this kind of keys."""
    routing = options["routing"]
    if (routing == "terms" or isinstance(routing, Terms)) and not sparse:
        raise InvalidOption('routing="terms" needs sparse keys: scipy rows or mappings {feature: weight}')
    if (routing == "neighbours" or getattr(routing, "neighbours", 0)) and sparse:
        raise InvalidOption('routing="neighbours" needs dense keys: arrays of numbers')
    if isinstance(routing, Paper | Principal | Terms):
        return routing
    if routing == "auto":
        listed = _is_for_many(options["scorer"]) and not options["trees"]
        routing = "principal" if not sparse else "terms" if listed else "paper"
    if routing == "principal":
        return principal()
    if routing == "neighbours":
        return principal(neighbours=NEIGHBOURS)
    if options["center"] and sparse:
        raise InvalidOption("center=True needs dense keys: a centred sparse key has no zeros left")
    if routing == "terms":
        return terms()
    # A sparse key has few features to say where it belongs, so each must move further. Both rates were chosen by
    # self-consistency on training rows.
    return paper(balance=options["balance"], rate=0.2 if sparse else 0.03, center=options["center"])


def scorer_of(options: dict[str, Any]) -> Any:
    """The scorer that these options mean."""
    scorer = options["scorer"]
    return SCORERS[scorer]() if isinstance(scorer, str) else scorer


def settings_of(options: dict[str, Any], routing: Paper | Principal | Terms) -> Settings:
    """What the engine needs to know. Routers that stay as they are have nothing to reroute."""
    return Settings(
        leaf_factor=options["leaf_factor"],
        reroutes=options["reroutes"] if routing.learns else 0,
        capacity=options["capacity"] or 0,
        seed=options["seed"],
    )


def rewards_for(hits: int, rewards: Any) -> np.ndarray:
    """One reward in [0, 1] for each hit as an array, NaN for None."""
    if isinstance(rewards, numbers.Real):
        rewards = [rewards]
    if isinstance(rewards, str) or not isinstance(rewards, Iterable):
        raise InvalidReward(f"rewards are numbers from 0 to 1, one for each hit, not {rewards!r}")
    rewards = list(rewards)
    values = [math.nan if reward is None else reward for reward in rewards]
    if len(values) != hits:
        raise InvalidReward(f"{len(values)} rewards for {hits} hits: give one for each, None where none was observed")
    for value, given in zip(values, rewards, strict=True):
        if not isinstance(value, numbers.Real) or not (given is None or 0 <= float(value) <= 1):
            raise InvalidReward(f"a reward is a number from 0 to 1, or None, not {given!r}")
    return np.array(values, np.float64)


def reward_matrix(shape: tuple[int, int], rewards: Any) -> np.ndarray:
    """Rewards for a batch as an array of this shape, NaN where none was observed."""
    try:
        if isinstance(rewards, np.ndarray) and rewards.dtype.kind in "fiub":
            given = rewards.astype(np.float64)
        else:
            rows = [[math.nan if reward is None else reward for reward in row] for row in rewards]
            given = np.array(rows, np.float64).reshape(shape if not rows else (len(rows), -1))
    except (TypeError, ValueError):
        raise InvalidReward(
            f"rewards for a batch are {shape[0]} rows of {shape[1]} numbers, NaN where none was seen"
        ) from None
    if given.shape != shape:
        raise InvalidReward(f"rewards of shape {given.shape} for hits of shape {shape}")
    if np.any((given < 0) | (given > 1)):
        raise InvalidReward("a reward is a number from 0 to 1, or NaN")
    return given


def length(X: Any) -> int:
    """How many keys a batch holds."""
    if isinstance(X, str | bytes) or not (hasattr(X, "shape") or hasattr(X, "__len__")):
        raise InvalidKey(f"a batch of keys is a matrix or a list of keys, not {type(X).__name__}")
    if hasattr(X, "shape"):
        return X.shape[0] if X.shape else 0
    return len(X)


def listed(values: Any) -> list:
    """Values as a list."""
    if not isinstance(values, Iterable):
        raise InvalidOption(f"values must be a list with one value for each key, not {type(values).__name__}")
    return list(values)


def ids_for(X: Any, values: int, given: Any) -> np.ndarray:
    """An array of ids to take, NONE where the tree is to choose."""
    n = length(X)
    if values != n:
        raise InvalidOption(f"{n} keys need {n} values, not {values}")
    if given is None:
        return np.full(n, NONE, np.int64)
    taken = ids("ids", given, LARGEST_ID)
    if len(taken) != n:
        raise InvalidOption(f"{n} keys need {n} ids, not {len(taken)}")
    return taken


def exclusions(exclude: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The lists of excluded ids as (bounds, ids)."""
    if exclude is None:
        return np.zeros(n + 1, np.int64), NOBODY
    if isinstance(exclude, np.ndarray) and exclude.dtype.kind in "iu" and exclude.ndim == 2 and len(exclude) == n:
        if exclude.size and not NONE <= exclude.min() <= exclude.max() <= MOST:  # as rows of hits are padded
            raise InvalidOption("exclude must hold ids, which are not negative, or -1 for none")
        return np.arange(n + 1) * exclude.shape[1], exclude.astype(np.int64).reshape(-1)
    lists = [ids("exclude", row) for row in listed(exclude)]
    if len(lists) != n:
        raise InvalidOption(f"exclude needs a list of ids for each of the {n} rows, not {len(lists)}")
    bounds = np.zeros(n + 1, np.int64)
    np.cumsum([len(row) for row in lists], out=bounds[1:])
    return bounds, np.concatenate(lists) if lists else NOBODY


class Codes(NamedTuple):
    """Labels as numbers, NONE where there is none, and those labels that were not known."""

    numbers: np.ndarray
    new: dict[Any, int]

    def of(self, rows: slice) -> Codes:
        """Those of some rows."""
        return Codes(self.numbers[rows], self.new)


def codes_for(labels: Any, n: int, known: dict[Any, int]) -> Codes:
    """n labels as numbers; those that are new get the numbers behind the known ones."""
    labels = listed(labels)
    if len(labels) != n:
        raise InvalidOption(f"{n} memories need as many labels, not {len(labels)}")
    for label in labels:
        if label is not None and (isinstance(label, bool) or not isinstance(label, str | int | np.integer)):
            raise InvalidOption(f"a label is a str, an int or None, not {label!r:.80}")
    new: dict[Any, int] = {}
    for label in labels:
        if label is not None and label not in known:
            new.setdefault(label, len(known) + len(new))
    numbers = [NONE if label is None else known[label] if label in known else new[label] for label in labels]
    return Codes(np.array(numbers, np.int64), new)


def features_for(features: Any, n: int, core: Any) -> np.ndarray:
    """n rows of numbers that a core does not refuse."""
    try:
        rows = np.array(features, np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidOption(f"features are rows of numbers: {error}") from None
    if rows.ndim != 2 or len(rows) != n or not rows.shape[1]:
        raise InvalidOption(f"{n} memories need as many rows of features, not an array of shape {rows.shape}")
    if not np.all(np.isfinite(rows)):
        raise InvalidOption("features must be finite numbers")
    core.admit(rows)
    return rows
