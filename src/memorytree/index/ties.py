"""The order of memories at equal distances, as `engine/search.py` defines it, in NumPy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from memorytree.index.base import Ids

BITS = 2**64 - 1
GAMMA, MIX_1, MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB  # of splitmix64

Words = NDArray[np.uint64]


def mix(z: Words) -> Words:
    """A 64-bit hash of each 64-bit number."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return z ^ (z >> np.uint64(31))


def mix_one(z: int) -> int:
    """`mix` of a single number."""
    z = (z ^ (z >> 30)) * MIX_1 & BITS
    z = (z ^ (z >> 27)) * MIX_2 & BITS
    return z ^ (z >> 31)


def hash_numbers(bits: int, numbers: Iterable[int]) -> int:
    """The hash of some integers, one after another, that begins with `bits`."""
    for number in numbers:
        bits = mix_one(bits + GAMMA * number & BITS)
    return bits


def tie_ranks(seed: int, key_bits: int, ids: Ids) -> Words:
    """The rank of each memory among equal distances, the larger first: pseudo-random, and the same for every query.

    Args:
        seed: of the tree.
        key_bits: the hash of the key of the query.
        ids: (n,) the memories.
    """
    return mix(np.uint64(key_bits) ^ mix(np.uint64(seed) + np.uint64(GAMMA) * ids.astype(np.uint64)))
