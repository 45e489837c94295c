"""What callers give a store beside keys and values, checked and in the form in which it is kept."""

from __future__ import annotations

import math
import numbers
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgpack
import numpy as np

from memorytree import options
from memorytree.errors import ConflictingReward, InvalidOption, InvalidReward
from memorytree.packing import packed_plain
from memorytree.store.tokens import Question


def one_each(what: str, n: int, given: Any, one_for_all: bool) -> Sequence[Any]:
    """One for each of n memories."""
    if given is None or one_for_all:
        return [given] * n
    given = options.listed(given)
    if len(given) != n:
        raise InvalidOption(f"{n} memories need {n} {what}, not {len(given)}")
    return given


def checked_labels(labels: Sequence[Any], n: int) -> list[str | int | None]:
    """Labels that the tree takes and the database can hold."""
    options.codes_for(labels, n, {})
    for label in labels:
        if isinstance(label, str) and not _is_text(label):
            raise InvalidOption(f"a label cannot be kept that is no proper text: {label!r:.80}")
    if any(isinstance(label, int) and not -(2**63) <= label < 2**63 for label in labels):
        raise InvalidOption("a label that is a number has at most 64 bits")
    return [int(label) if isinstance(label, np.integer) else label for label in labels]


def _is_text(text: str) -> bool:
    """Whether all of it can be written as UTF-8."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def checked_features(features: Any, n: int, core: Any) -> list[bytes | None]:
    """Features as bytes for each memory; None where there are none."""
    if features is None:
        return [None] * n
    if isinstance(features, list) and len(features) == n and any(row is None for row in features):
        return [None if row is None else options.features_for([row], 1, core)[0].tobytes() for row in features]
    return [row.tobytes() for row in options.features_for(features, n, core)]


def lifetimes(n: int, ttl: Any, times: Any) -> list[tuple[float, float | None]]:
    """When each of n memories was made and when it expires: by how long it is to live, or as `times` says."""
    now = time.time()
    if times is not None:
        pairs = one_each("times", n, times, False)
        if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            raise InvalidOption("times are pairs: when a memory was made, and when it expires")
        return [(_moment(made, now), _moment(end, None)) for made, end in pairs]
    if ttl is None or isinstance(ttl, numbers.Real | timedelta):
        return [(now, end_of_life(now, ttl))] * n
    return [(now, end_of_life(now, life)) for life in one_each("ttl", n, ttl, False)]


def end_of_life(now: float, ttl: Any) -> float | None:
    """When something is to go that may live so long from now."""
    if ttl is None:
        return None
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    return now + options.within("ttl", seconds, 0, 1e12)


def _moment(given: Any, default: Any) -> Any:
    """A moment in seconds since 1970, or a default."""
    return default if given is None else options.within("a time", given, -1e15, 1e15) + 0.0  # the database knows no -0.0


def new_rewards(question: Question, told: dict[int, float], known: dict[int, float]) -> dict[int, float]:
    """The rewards that were not known before; `ConflictingReward` for one that was, with another number."""
    new = {}
    for id, reward in told.items():
        if id not in question.ids:
            raise InvalidReward(f"memory {id!r} is not among the hits of this receipt: {question.ids}")
        if id not in known:
            new[int(id)] = reward
        elif known[id] != reward:
            raise ConflictingReward(
                f"memory {id} of this receipt has had the reward {known[id]}; the first counts, so not {reward}"
            )
    return new


def _native(value: Any) -> Any:
    """NumPy's scalars as Python's."""
    return value.item() if isinstance(value, np.generic) else value


_PLAIN = {str, bool, int, type(None)}  # and finite floats


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def checked_metadata(given: Iterable[Any]) -> list[bytes | None]:
    """Metadata as bytes, for each memory: mappings from names to text, numbers, booleans or None."""
    known: dict[Any, bytes | None] = {}  # most of a batch is alike
    packed: list[bytes | None] = []
    for metadata in given:
        if metadata is None:
            packed.append(None)
            continue
        try:
            alike = (*metadata.items(), *map(type, metadata.values()))
            if alike not in known:
                known[alike] = packed_metadata(metadata)
            packed.append(known[alike])
        except (TypeError, AttributeError):  # no mapping, or with values that have insides
            packed.append(packed_metadata(metadata))
    return packed


def packed_metadata(metadata: Any) -> bytes | None:
    """The metadata of one memory as bytes."""
    if metadata is None:
        return None
    if type(metadata) is not dict:
        if not isinstance(metadata, Mapping):
            raise InvalidOption(f"metadata is a mapping {{name: value}}, not {type(metadata).__name__}")
        metadata = dict(metadata)
    pack = packed_plain
    for field, value in metadata.items():
        if type(field) is str and type(value) in _PLAIN:
            continue
        pack, native = msgpack.packb, _native(value)  # of a class of the caller's own, which may do as it likes
        if not isinstance(field, str) or not _is_plain(native):
            raise InvalidOption(f"metadata maps names to text, numbers, booleans or None, not {field!r} to {value!r:.80}")
        metadata = {**metadata, field: native}
    try:
        return pack(metadata) if metadata else None
    except (OverflowError, ValueError) as error:
        raise InvalidOption(f"metadata cannot be kept: {error}") from None


def checked_where(where: Any) -> dict[str, list[Any]]:
    """A filter as lists of the values that fit, by field."""
    if where is None:
        return {}
    if not isinstance(where, Mapping):
        raise InvalidOption(f'where is a mapping such as {{"user": "u17"}}, not {type(where).__name__}')
    lists = {}
    for field, wanted in where.items():
        values = [_native(value) for value in (wanted if isinstance(wanted, list | tuple | set | frozenset) else [wanted])]
        if not isinstance(field, str) or not all(map(_is_plain, values)):
            raise InvalidOption(
                f"where maps names to text, numbers, booleans, None, or a list of these, not {field!r}: {wanted!r:.80}"
            )
        lists[field] = values
    return lists
