"""Checks of arguments that several public methods take: numbers, ids, rewards, exclusions, labels, features."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sized
from typing import NamedTuple, TypeVar

import numpy as np

from memorytree.errors import InvalidKey, InvalidOption, InvalidReward
from memorytree.results import NO_ID

LARGEST_INT = 2**62
"""No integer may be larger: sums of two then fit 64 bits."""
LARGEST_ID = 2**61
"""No id may be larger when it is given: the ids that follow it are then valid as well."""

T = TypeVar("T")


def check_int(name: str, value: object, least: int, most: int = LARGEST_INT) -> int:
    """An integer between `least` and `most`; otherwise `InvalidOption`."""
    if type(value) is int and least <= value <= most:
        return value
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        limit = f"2**{most.bit_length() - 1}" if most >= 2**31 else str(most)
        raise InvalidOption(f"{name} must be an integer of at least {least} and at most {limit}, not {value!r:.80}")
    return int(value)


def check_fraction(name: str, value: object, low: float, high: float) -> float:
    """A number between `low` and `high`; otherwise `InvalidOption`."""
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not low <= float(value) <= high:
        raise InvalidOption(f"{name} must be a number from {low:g} to {high:g}, not {value!r}")
    return float(value)


def check_ids(name: str, values: object, most: int = LARGEST_INT) -> np.ndarray:
    """A list of ids as an int64 array."""
    if isinstance(values, str) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
        raise InvalidOption(f"{name} must be a list of ids, not {values!r:.80}")
    if isinstance(values, np.ndarray) and values.dtype == np.int64 and values.ndim == 1 and _all_within(values, most):
        return values.copy()
    return np.array([check_int(name, value, 0, most) for value in values], np.int64)


def _all_within(ids: np.ndarray, most: int) -> bool:
    return bool(np.all((ids >= 0) & (ids <= most)))


def check_new_id(id: object) -> int:
    """The id to give to a memory, `NO_ID` for the next free one."""
    return NO_ID if id is None else check_int("id", id, 0, LARGEST_ID)


def check_list(values: Iterable[T]) -> list[T]:
    """An iterable as a list."""
    if not isinstance(values, Iterable):
        raise InvalidOption(f"values must be a list with one value for each key, not {type(values).__name__}")
    return list(values)


def count_keys(X: object) -> int:
    """The number of keys in a batch."""
    shape = getattr(X, "shape", None)
    if isinstance(shape, tuple):
        return int(shape[0]) if shape else 0
    if isinstance(X, str | bytes) or not isinstance(X, Sized):
        raise InvalidKey(f"a batch of keys is a matrix or a list of keys, not {type(X).__name__}")
    return len(X)


def check_new_ids(X: object, n_values: int, given: object) -> np.ndarray:
    """The ids (n,) to give to a batch of memories, `NO_ID` where the tree chooses."""
    n = count_keys(X)
    if n_values != n:
        raise InvalidOption(f"{n} keys need {n} values, not {n_values}")
    if given is None:
        return np.full(n, NO_ID, np.int64)
    ids = check_ids("ids", given, LARGEST_ID)
    if len(ids) != n:
        raise InvalidOption(f"{n} keys need {n} ids, not {len(ids)}")
    return ids


def check_exclusions(exclude: object, n: int) -> tuple[np.ndarray, np.ndarray]:
    """The lists of excluded ids of n rows as (bounds, ids)."""
    if exclude is None:
        return np.zeros(n + 1, np.int64), np.empty(0, np.int64)
    if isinstance(exclude, np.ndarray) and exclude.dtype.kind in "iu" and exclude.ndim == 2 and len(exclude) == n:
        if exclude.size and not NO_ID <= exclude.min() <= exclude.max() <= LARGEST_INT:  # -1 pads rows of hits
            raise InvalidOption("exclude must hold ids, which are not negative, or -1 for none")
        return np.arange(n + 1) * exclude.shape[1], exclude.astype(np.int64).reshape(-1)
    if not isinstance(exclude, Iterable):
        raise InvalidOption(f"exclude must hold a list of ids for each row, not {exclude!r:.80}")
    lists = [check_ids("exclude", row) for row in exclude]
    if len(lists) != n:
        raise InvalidOption(f"exclude needs a list of ids for each of the {n} rows, not {len(lists)}")
    bounds = np.zeros(n + 1, np.int64)
    np.cumsum([len(row) for row in lists], out=bounds[1:])
    return bounds, np.concatenate([np.empty(0, np.int64), *lists])


class IdSet:
    """The only ids that queries may return, prepared once for many queries.

    Args:
        ids: the ids, in any order.

    Example:
        >>> IdSet([7, 3, 7]).ids
        array([3, 7])
    """

    __slots__ = ("ids",)

    def __init__(self, ids: Iterable[int]):
        self.ids = np.unique(check_ids("allowed", ids))


def check_allowed(allowed: object) -> np.ndarray | None:
    """The ids that may be returned, sorted and unique; None for all."""
    if allowed is None or isinstance(allowed, IdSet):
        return None if allowed is None else allowed.ids
    if not isinstance(allowed, Iterable):
        raise InvalidOption(f"allowed must hold ids, not {allowed!r:.80}")
    return IdSet(allowed).ids


def check_recall(recall: object) -> float | None:
    """A target recall, or None."""
    return None if recall is None else check_fraction("recall", recall, 0, 1)


def check_rewards(ids: np.ndarray, rewards: object) -> np.ndarray:
    """The rewards (k,) of the hits with these ids, NaN where none was observed.

    Args:
        ids: the ids of the hits.
        rewards: a number in [0, 1] or None for each hit, or a mapping {id: number}.

    Raises:
        InvalidReward: a reward is out of range, or does not belong to a hit.
    """
    if isinstance(rewards, Mapping):
        known = ids.tolist()
        unknown = [id for id in rewards if id not in known]
        if unknown:
            raise InvalidReward(f"these ids are not among the hits: {', '.join(map(repr, unknown[:5]))}")
        given: list[object] = [rewards.get(id) for id in known]
    elif isinstance(rewards, numbers.Real):
        given = [rewards]
    elif isinstance(rewards, str) or not isinstance(rewards, Iterable):
        raise InvalidReward(f"rewards are numbers from 0 to 1, one for each hit, not {rewards!r}")
    else:
        given = list(rewards)
    if len(given) != len(ids):
        raise InvalidReward(f"{len(given)} rewards for {len(ids)} hits: give one for each, None where none was observed")
    numbers_ = []
    for reward in given:
        if reward is None:
            numbers_.append(math.nan)
        elif isinstance(reward, numbers.Real) and 0 <= float(reward) <= 1:
            numbers_.append(float(reward))
        else:
            raise InvalidReward(f"a reward is a number from 0 to 1, or None, not {reward!r}")
    return np.array(numbers_, np.float64)


def check_reward_matrix(shape: tuple[int, int], rewards: object) -> np.ndarray:
    """The rewards of a batch as an array of this shape, NaN where none was observed."""
    try:
        if isinstance(rewards, np.ndarray) and rewards.dtype.kind in "fiub":
            given = rewards.astype(np.float64)
        elif not isinstance(rewards, Iterable):
            raise TypeError
        else:
            rows = [[math.nan if reward is None else reward for reward in row] for row in rewards]
            given = np.array(rows, np.float64).reshape(shape if not rows else (len(rows), -1))
    except (TypeError, ValueError):
        raise InvalidReward(
            f"rewards for a batch are {shape[0]} rows of {shape[1]} numbers, NaN where none was observed"
        ) from None
    if given.shape != shape:
        raise InvalidReward(f"rewards of shape {given.shape} for hits of shape {shape}")
    if np.any((given < 0) | (given > 1)):
        raise InvalidReward("a reward is a number from 0 to 1, or NaN")
    return given


Label = str | int


class LabelCodes(NamedTuple):
    """Labels of a batch as numbers.

    Attributes:
        numbers: (n,) the numbers, `NO_ID` where there is no label.
        new: the labels that had no number yet.
    """

    numbers: np.ndarray
    new: dict[Label, int]

    def rows(self, start: int, stop: int) -> LabelCodes:
        """Those of some rows."""
        return LabelCodes(self.numbers[start:stop], self.new)


def check_labels(labels: Iterable[Label | None], n: int, known: Mapping[Label, int]) -> LabelCodes:
    """The numbers of n labels; new labels get the numbers behind the known ones."""
    given = check_list(labels)
    if len(given) != n:
        raise InvalidOption(f"{n} memories need as many labels, not {len(given)}")
    for label in given:
        if label is not None and (isinstance(label, bool) or not isinstance(label, str | int | np.integer)):
            raise InvalidOption(f"a label is a str, an int or None, not {label!r:.80}")
    new: dict[Label, int] = {}
    for label in given:
        if label is not None and label not in known:
            new.setdefault(label, len(known) + len(new))
    codes = [NO_ID if label is None else known[label] if label in known else new[label] for label in given]
    return LabelCodes(np.array(codes, np.int64), new)


def check_feature_rows(features: object, n: int) -> np.ndarray:
    """Features of n values as a float32 matrix."""
    try:
        rows = np.array(features, np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidOption(f"features are rows of numbers: {error}") from None
    if rows.ndim != 2 or len(rows) != n or not rows.shape[1]:
        raise InvalidOption(f"{n} memories need as many rows of features, not an array of shape {rows.shape}")
    if not np.all(np.isfinite(rows)):
        raise InvalidOption("features must be finite numbers")
    return rows
