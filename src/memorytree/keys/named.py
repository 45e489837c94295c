"""Named keys: mappings {feature: weight} with any str or int as a feature."""

from __future__ import annotations

import numbers
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

import msgpack
import numpy as np

from memorytree.errors import InvalidKey
from memorytree.keys.base import LARGEST, Keys, SparseBatch

Name = str | int
NamedKey = dict[Name, float]


class NamedKeys(Keys[SparseBatch, NamedKey, list[NamedKey]]):
    """Mappings {feature: weight}; a batch is (bounds, features, weights) with features numbered by a vocabulary.

    An encoded key keeps the names of its features, because unknown ones get their numbers later.
    """

    kind: ClassVar[str] = "named"
    sparse: ClassVar[bool] = True
    dimension = 0

    def __init__(self, names: Iterable[Name] = ()):
        self._names: list[Name] = list(names)
        self._number = {name: number for number, name in enumerate(self._names)}

    def one(self, x: object, adding: bool = False) -> SparseBatch:
        if not isinstance(x, Mapping):
            raise InvalidKey(f"this tree holds keys of the form {{feature: weight}}, not {type(x).__name__}")
        return self.batch([x], adding)[0]

    def batch(self, X: object, adding: bool = False) -> tuple[SparseBatch, int]:
        if not isinstance(X, Iterable) or isinstance(X, Mapping | str):
            raise InvalidKey(f"a batch is a list of mappings {{feature: weight}}, not {type(X).__name__}")
        named = [_named_weights(x) for x in X]
        # All keys are checked by now: an invalid key does not change the vocabulary.
        if adding:
            for weights in named:
                for name in weights:
                    if name not in self._number:
                        self._number[name] = len(self._names)
                        self._names.append(name)
        numbered = [sorted(zip(self._numbers(weights), weights.values(), strict=True)) for weights in named]
        bounds = np.zeros(len(named) + 1, np.int64)
        np.cumsum([len(pairs) for pairs in numbered], out=bounds[1:])
        features = np.array([number for pairs in numbered for number, _ in pairs], np.int32)
        return (bounds, features, np.array([weight for pairs in numbered for _, weight in pairs], np.float32)), len(named)

    def _numbers(self, weights: NamedKey) -> list[int]:
        """The numbers of a key's features. A feature that was never stored gets a negative number, which no stored key has
        or will have, and which depends only on its name."""
        numbers = []
        taken = set()
        for name in weights:
            number = self._number.get(name)
            if number is None:
                number = -2 - zlib.crc32(f"{type(name).__name__} {name}".encode()) % 2**30
                while number in taken:
                    number -= 1
                taken.add(number)
            numbers.append(number)
        return numbers

    def encode(self, x: Mapping[Name, float], row: SparseBatch) -> NamedKey:  # type: ignore[override]  # `one` has checked x
        return dict(x)

    def encode_many(self, X: Iterable[Mapping[Name, float]], batch: SparseBatch) -> list[NamedKey]:  # type: ignore[override]  # as above
        return [dict(x) for x in X]

    def decode(self, encoded: NamedKey) -> SparseBatch:
        return self.one(encoded, adding=True)

    def decode_many(self, encoded: list[NamedKey]) -> SparseBatch:
        return self.batch(encoded, adding=True)[0]

    def take(self, encoded: list[NamedKey], i: int) -> NamedKey:
        return encoded[i]

    def to_bytes(self, encoded: NamedKey) -> bytes:
        pairs = [[name if isinstance(name, str) else int(name), float(weight)] for name, weight in encoded.items()]
        try:
            return bytes(msgpack.packb(pairs))
        except (ValueError, OverflowError) as error:
            raise InvalidKey(f"a feature's name cannot be stored: {error}") from None

    def from_bytes(self, data: list[bytes]) -> list[NamedKey]:
        try:
            return [dict(map(tuple, msgpack.unpackb(key))) for key in data]
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise InvalidKey(f"not a key of named features: {error}") from None

    def to_user(self, row: SparseBatch) -> NamedKey:
        _, features, weights = row
        return {self._names[feature]: float(weight) for feature, weight in zip(features, weights, strict=True)}

    def feature_name(self, feature: int) -> Name:
        return self._names[feature] if feature >= 0 else f"(never stored {-feature})"

    def vocabulary(self) -> list[Name]:
        return self._names


def is_mapping_batch(x: object) -> bool:
    """Whether x is a list of mappings."""
    return isinstance(x, Sequence) and len(x) > 0 and isinstance(x[0], Mapping)


def _named_weights(x: object) -> NamedKey:
    """A mapping as {name: nonzero weight}, in order of names; `InvalidKey` if it is no key."""
    if not isinstance(x, Mapping):
        raise InvalidKey(f"this tree holds keys of the form {{feature: weight}}, not {type(x).__name__}")
    weights: NamedKey = {}
    for name, weight in x.items():
        if not isinstance(name, str | int | np.integer):
            raise InvalidKey(f"a feature is a str or an int, not {type(name).__name__} ({name!r})")
        if not isinstance(weight, numbers.Real) or not (weight <= LARGEST and -weight <= LARGEST):
            raise InvalidKey(f"the weight of {name!r} is {weight!r:.80}; weights are numbers of at most {LARGEST:g}")
        if float(weight):
            weights[name if isinstance(name, str) else int(name)] = float(np.float32(float(weight)))
    return dict(sorted(weights.items(), key=lambda pair: (str(type(pair[0])), pair[0])))
