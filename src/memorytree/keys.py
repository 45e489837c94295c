"""Keys as users give them, turned into what the engine takes, and back.

A tree holds one kind of key for life; its first key decides which:

- `DenseKeys`: arrays of one length. A batch is a float32 matrix.
- `SparseKeys`: rows of scipy matrices with one number of columns. A batch is (bounds, features, weights).
- `NamedKeys`: mappings {feature: weight} with any str or int as a feature; a vocabulary numbers them as they come.
"""

from __future__ import annotations

import numbers
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse

from memorytree.errors import InvalidKey

LARGEST = 1e15
"""No number in a key may be larger: squares and sums of squares then stay finite in float32."""

_SURELY_SOUND = LARGEST**2  # no number whose square sums to less can be too large, and NaN is less than nothing

_FLOAT32 = np.dtype(np.float32)
SHORT = 256  # a key of so many numbers at most

SparseBatch = tuple[np.ndarray, np.ndarray, np.ndarray]


def kind_for(x: Any) -> DenseKeys | SparseKeys | NamedKeys:
    """The kind of keys that a tree will hold whose first key (or batch of keys) is x."""
    if isinstance(x, Mapping):
        return NamedKeys()
    if scipy.sparse.issparse(x):
        return SparseKeys(x.shape[-1])
    if _is_mapping_batch(x):
        return NamedKeys()
    array = _numbers(x)
    if array.ndim not in (1, 2) or array.shape[-1] == 0:
        raise InvalidKey(f"a key is an array with one axis and at least one feature, this one has shape {array.shape}")
    return DenseKeys(array.shape[-1])


def _is_mapping_batch(x: Any) -> bool:
    return isinstance(x, Sequence) and len(x) > 0 and isinstance(x[0], Mapping)


def _numbers(x: Any) -> np.ndarray:
    if scipy.sparse.issparse(x) or isinstance(x, Mapping) or _is_mapping_batch(x):
        raise InvalidKey(f"this tree holds dense keys (arrays), not {type(x).__name__}")
    try:
        array = np.asarray(x)
    except ValueError as error:
        raise InvalidKey(f"a key must be an array of numbers: {error}") from None
    if array.dtype.kind not in "fiub":
        raise InvalidKey(f"a key must hold real numbers, this one has dtype {array.dtype}")
    return array


def _check_weights(weights: np.ndarray, what: str = "key") -> None:
    """Raise unless every number is finite and at most LARGEST."""
    flat = weights.reshape(-1)
    if flat.dtype.kind != "f":
        flat = flat.astype(np.float64)
    # One pass without a temporary array settles the ordinary case; NaN fails every comparison.
    if not np.vdot(flat, flat) < _SURELY_SOUND and not np.all(np.abs(flat) <= LARGEST):
        worst = flat[~(np.abs(flat) <= LARGEST)][0]
        raise InvalidKey(f"{what} holds {worst}; numbers must be finite and at most {LARGEST:g}")


def _lanes(n: int) -> tuple[int, int, int]:
    """What shows that n numbers of 32 bits, side by side in one large number, are all of moderate size.

    Where the exponents are; what takes those of 2**49 and more, of infinity and of NaN beyond their lane; where that shows.
    """
    excess = (1 << 31) - ((127 + 49) << 23)
    exponents, excesses, carries = (int.from_bytes(lane.to_bytes(4) * n) for lane in (0xFF << 23, excess, 1 << 31))
    return exponents, excesses, carries


class DenseKeys:
    """Arrays of one length."""

    sparse = False

    def __init__(self, dimension: int):
        self.dimension = dimension
        self._shape = (dimension,)
        self._lanes = _lanes(min(dimension, SHORT))

    def one(self, x: Any, growing: bool = False) -> np.ndarray:
        """A batch of one key. Unless it is to be stored or learned from, see `check`."""
        if type(x) is np.ndarray and x.dtype is _FLOAT32 and x.shape == self._shape:
            row = np.array(x[None])  # the usual case, which every query waits for
        else:
            x = _numbers(x)
            if x.ndim == 1 and x.shape != self._shape:
                raise InvalidKey(f"key has {x.shape[0]} features, this tree holds {self.dimension}")
            if x.ndim != 1:
                raise InvalidKey(f"a key is an array of shape {self._shape}, this one has {x.shape}")
            if x.dtype.itemsize > 4:
                _check_weights(x)
            row = np.array(x, _FLOAT32, ndmin=2)
        if growing:
            self.check(row)
        return row

    def as_bytes(self, x: Any) -> bytes:
        """A key to be stored, as the bytes of its numbers."""
        if type(x) is np.ndarray and x.dtype is _FLOAT32 and x.shape == self._shape:  # the usual case, at once
            key = x.tobytes()
            if self.dimension > SHORT:
                if x.dot(x) < _SURELY_SOUND:
                    return key
            else:
                # Right after a wait for the disk one large number takes less time than BLAS does.
                exponents, excess, carries = self._lanes
                if not (int.from_bytes(key, sys.byteorder) & exponents) + excess & carries:
                    return key
        return self.one(x, growing=True).tobytes()

    def check(self, row: np.ndarray) -> None:
        """Raise unless a batch of one holds finite numbers of moderate size. Readers may do so after the fact."""
        flat = row[0]
        if not flat.dot(flat) < _SURELY_SOUND:
            _check_weights(flat)

    def many(self, X: Any, growing: bool = False) -> tuple[np.ndarray, int]:
        """A batch, and how many keys are in it."""
        array = _numbers(X)
        if array.size == 0 and array.ndim < 2:
            array = array.reshape(0, self.dimension)
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise InvalidKey(f"a batch of keys has shape (n, {self.dimension}), this one has {array.shape}")
        with np.errstate(over="ignore"):
            batch = np.require(array, np.float32, ["C", "W"])
        _check_weights(batch, "a key")
        return batch, len(batch)

    def keep(self, x: Any, row: np.ndarray) -> np.ndarray:
        """What to remember of a key in order to use it again."""
        return row

    def again(self, kept: np.ndarray) -> np.ndarray:
        """The batch of one for a kept key."""
        return kept

    def keep_many(self, X: Any, batch: np.ndarray) -> np.ndarray:
        """What to remember of a batch in order to use it again: a copy, as the caller's array may change."""
        return batch.copy() if np.may_share_memory(batch, X) else batch

    def again_many(self, kept: np.ndarray) -> np.ndarray:
        """The batch for kept keys."""
        return kept

    def pick(self, kept: np.ndarray, i: int) -> np.ndarray:
        """Key i of a kept batch, as `keep` would have kept it."""
        return kept[i : i + 1].copy()

    def pack(self, kept: np.ndarray) -> list[float]:
        """A kept key as plain data."""
        return [float(weight) for weight in kept[0]]

    def unpack(self, data: Any) -> np.ndarray:
        """The kept key that `pack` wrote."""
        return self.one(data if isinstance(data, list) else None, growing=True)

    def stored(self, arrays: Mapping[str, np.ndarray], slot: int) -> np.ndarray:
        """The key in a slot as a user would write it."""
        return np.array(arrays["keys"][slot])

    def weights(self, row: np.ndarray) -> dict[int, float]:
        """The key of a batch of one, feature by feature."""
        return dict(enumerate(row[0].tolist()))

    def weights_in(self, arrays: Mapping[str, np.ndarray], slot: int) -> dict[int, float]:
        """The key in a slot, feature by feature."""
        return dict(enumerate(arrays["keys"][slot].tolist()))

    def vocabulary(self) -> None:
        """Dense keys have no names for features."""


class SparseKeys:
    """Rows of scipy sparse matrices with one number of columns."""

    sparse = True

    def __init__(self, columns: int):
        if not 0 < columns < 2**31:
            raise InvalidKey(f"a sparse key has between 1 and 2**31 - 1 columns, this one has {columns}")
        self.dimension = columns

    def one(self, x: Any, growing: bool = False) -> SparseBatch:
        """A batch of one key."""
        batch, n = self.many(x)
        if n != 1:
            raise InvalidKey(f"a key is one row of a sparse matrix, this one has {n} rows")
        return batch

    def many(self, X: Any, growing: bool = False) -> tuple[SparseBatch, int]:
        """A batch, and how many keys are in it."""
        if not scipy.sparse.issparse(X):
            raise InvalidKey(f"this tree holds sparse keys (rows of a scipy matrix), not {type(X).__name__}")
        if X.shape[-1] != self.dimension:
            raise InvalidKey(f"key has {X.shape[-1]} columns, this tree holds {self.dimension}")
        if X.dtype.kind not in "fiub":
            raise InvalidKey(f"a key must hold real numbers, this one has dtype {X.dtype}")
        # What scipy's own tools make is in order already, and looking is far quicker than putting in order.
        if X.format == "csr" and X.ndim == 2 and X.has_canonical_format and X.data.all():
            self._check_columns(X.indices)
            _check_weights(X.data, "a key")
            return _batch(X.indptr, X.indices, X.data), X.shape[0]
        if X.ndim == 1:
            X = X.reshape(1, -1)
        rows = scipy.sparse.csr_matrix(X, dtype=np.float32, copy=True)
        self._check_columns(rows.indices)
        rows.sum_duplicates()
        _check_weights(rows.data, "a key")
        rows.eliminate_zeros()
        return _batch(rows.indptr, rows.indices, rows.data), rows.shape[0]

    def _check_columns(self, columns: np.ndarray) -> None:
        """Raise if one lies outside, which scipy lets pass. Without its sign what is negative is too large as well."""
        if columns.view(f"u{columns.itemsize}").max(initial=0) >= self.dimension:
            raise InvalidKey(f"a column of a key lies outside the {self.dimension} of this tree")

    def check(self, row: SparseBatch) -> None:
        """Sparse keys are checked when they are read."""

    def keep(self, x: Any, row: SparseBatch) -> SparseBatch:
        """What to remember of a key in order to use it again."""
        return row

    def again(self, kept: SparseBatch) -> SparseBatch:
        """The batch of one for a kept key."""
        return kept

    def keep_many(self, X: Any, batch: SparseBatch) -> SparseBatch:
        """What to remember of a batch in order to use it again."""
        return batch

    def again_many(self, kept: SparseBatch) -> SparseBatch:
        """The batch for kept keys."""
        return kept

    def pick(self, kept: SparseBatch, i: int) -> SparseBatch:
        """Key i of a kept batch, as `keep` would have kept it."""
        bounds, features, weights = kept
        span = slice(bounds[i], bounds[i + 1])
        return np.array([0, bounds[i + 1] - bounds[i]]), features[span].copy(), weights[span].copy()

    def pack(self, kept: SparseBatch) -> list[list]:
        """A kept key as plain data: pairs of column and weight."""
        return [[int(column), float(weight)] for column, weight in zip(kept[1], kept[2], strict=True)]

    def unpack(self, data: Any) -> SparseBatch:
        """The kept key that `pack` wrote."""
        pairs = _pairs(data)
        columns, weights = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        if any(type(column) is not int or not 0 <= column < self.dimension for column in columns):
            raise InvalidKey(f"a column lies outside the {self.dimension} of this tree")
        if any(type(weight) not in (int, float) for weight in weights):
            raise InvalidKey("the weights of a key must be numbers")
        return self.one(scipy.sparse.csr_matrix((weights, columns, [0, len(columns)]), shape=(1, self.dimension)))

    def stored(self, arrays: Mapping[str, np.ndarray], slot: int) -> scipy.sparse.csr_matrix:
        """The key in a slot as a user would write it."""
        features, weights = _stored(arrays, slot)
        return scipy.sparse.csr_matrix((weights, features, [0, len(weights)]), shape=(1, self.dimension))

    def weights(self, row: SparseBatch) -> dict[int, float]:
        """The key of a batch of one, feature by feature."""
        return dict(zip(row[1].tolist(), row[2].tolist(), strict=True))

    def weights_in(self, arrays: Mapping[str, np.ndarray], slot: int) -> dict[int, float]:
        """The key in a slot, feature by feature."""
        features, weights = _stored(arrays, slot)
        return dict(zip(features.tolist(), weights.tolist(), strict=True))

    def vocabulary(self) -> None:
        """Columns are their own names."""


class NamedKeys:
    """Mappings {feature: weight}; a feature is a str or an int."""

    sparse = True
    dimension = 0

    def __init__(self, names: Iterable[str | int] = ()):
        self._names: list[str | int] = list(names)
        self._number = {name: number for number, name in enumerate(self._names)}

    def one(self, x: Any, growing: bool = False) -> SparseBatch:
        """A batch of one key. Features never seen are added to the vocabulary only when growing."""
        if not isinstance(x, Mapping):
            raise InvalidKey(f"this tree holds keys of the form {{feature: weight}}, not {type(x).__name__}")
        return self.many([x], growing)[0]

    def many(self, X: Any, growing: bool = False) -> tuple[SparseBatch, int]:
        """A batch, and how many keys are in it."""
        if not isinstance(X, Iterable) or isinstance(X, Mapping | str):
            raise InvalidKey(f"a batch is a list of mappings {{feature: weight}}, not {type(X).__name__}")
        named = [_named_weights(x) for x in X]
        # Nothing above has changed the vocabulary: a refused key leaves no trace.
        if growing:
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

    def _numbers(self, weights: dict[str | int, float]) -> list[int]:
        """The numbers of a key's features. One that was never stored has none: it gets a negative number of its own, which
        no stored key has or will have, and which depends on nothing but its name."""
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

    def check(self, row: SparseBatch) -> None:
        """Sparse keys are checked when they are read."""

    def keep(self, x: Mapping, row: SparseBatch) -> dict:
        """What to remember of a key: its names, as the numbers of unknown ones will be given to others."""
        return dict(x)

    def again(self, kept: dict) -> SparseBatch:
        """The batch of one for a kept key. Learning from it gives all its features numbers."""
        return self.one(kept, growing=True)

    def keep_many(self, X: Any, batch: SparseBatch) -> list[dict]:
        """What to remember of a batch in order to use it again."""
        return [dict(x) for x in X]

    def again_many(self, kept: list[dict]) -> SparseBatch:
        """The batch for kept keys."""
        return self.many(kept, growing=True)[0]

    def pick(self, kept: list[dict], i: int) -> dict:
        """Key i of a kept batch, as `keep` would have kept it."""
        return kept[i]

    def pack(self, kept: dict) -> list[list]:
        """A kept key as plain data: pairs of feature and weight."""
        return [[name if isinstance(name, str) else int(name), float(weight)] for name, weight in kept.items()]

    def unpack(self, data: Any) -> dict:
        """The kept key that `pack` wrote."""
        return dict(_pairs(data))

    def stored(self, arrays: Mapping[str, np.ndarray], slot: int) -> dict[str | int, float]:
        """The key in a slot as a user would write it."""
        features, weights = _stored(arrays, slot)
        return {self._names[feature]: float(weight) for feature, weight in zip(features, weights, strict=True)}

    def weights(self, row: SparseBatch) -> dict[str | int, float]:
        """The key of a batch of one, feature by feature; a feature never stored has no name here."""
        pairs = zip(row[1].tolist(), row[2].tolist(), strict=True)
        return {self._names[f] if f >= 0 else f"(never stored {-f})": w for f, w in pairs}

    def weights_in(self, arrays: Mapping[str, np.ndarray], slot: int) -> dict[str | int, float]:
        """The key in a slot, feature by feature."""
        return self.stored(arrays, slot)

    def vocabulary(self) -> list[str | int]:
        """The features by number."""
        return self._names


def _named_weights(x: Any) -> dict[str | int, float]:
    """A mapping as {name: nonzero weight}, in order of names, or an error that says what is wrong with it."""
    if not isinstance(x, Mapping):
        raise InvalidKey(f"this tree holds keys of the form {{feature: weight}}, not {type(x).__name__}")
    weights: dict[str | int, float] = {}
    for name, weight in x.items():
        if not isinstance(name, str | int | np.integer):
            raise InvalidKey(f"a feature is a str or an int, not {type(name).__name__} ({name!r})")
        if not isinstance(weight, numbers.Real) or not abs(weight) <= LARGEST:  # type: ignore[operator]
            raise InvalidKey(f"the weight of {name!r} is {weight!r:.80}; weights are numbers of at most {LARGEST:g}")
        if float(weight):
            weights[name if isinstance(name, str) else int(name)] = float(np.float32(float(weight)))
    return dict(sorted(weights.items(), key=lambda pair: (str(type(pair[0])), pair[0])))


def _pairs(data: Any) -> list[tuple[Any, Any]]:
    """Pairs from plain data."""
    if not isinstance(data, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in data):
        raise InvalidKey("the key of this receipt is not a list of pairs")
    return [(pair[0], pair[1]) for pair in data]


def _batch(bounds: np.ndarray, features: np.ndarray, weights: np.ndarray) -> SparseBatch:
    return bounds.astype(np.int64), features.astype(np.int32), weights.astype(np.float32)


def _stored(arrays: Mapping[str, np.ndarray], slot: int) -> tuple[np.ndarray, np.ndarray]:
    first, terms = arrays["spans"][slot]
    span = slice(first, first + terms)
    return arrays["key_features"][span].copy(), arrays["key_weights"][span].copy()


class _NoKeys:
    """Stands for the keys of a tree that has none yet."""

    def pack(self, kept: Any) -> None:
        return None

    def pick(self, kept: Any, i: int) -> None:
        return None


NO_KEYS = _NoKeys()
