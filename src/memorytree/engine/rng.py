"""Random numbers as pure functions of a 64-bit state (splitmix64). A stream is a uint64 array of shape (1,)."""

import numpy as np

from memorytree.engine.jit import blank, helper

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32, _11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32), np.uint64(11)


@helper
def mix(state):
    """Return a 64-bit hash of a 64-bit number."""
    z = np.uint64(state)
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


@helper
def next_bits(stream):
    """Advance `stream[0]` and return 64 random bits."""
    stream[0] += GAMMA
    return mix(stream[0])


@helper
def below(stream, n):
    """Return a random integer from 0 .. n - 1."""
    return np.int64(((next_bits(stream) >> _32) * np.uint64(n)) >> _32)


@helper
def uniform(stream):
    """Return a random number from [0, 1)."""
    return np.float64(next_bits(stream) >> _11) * (1.0 / 9007199254740992.0)


@helper
def seeded(seed, draw):
    """Return a new stream for exploration number `draw` of a tree with this seed."""
    stream = blank(1, np.uint64)
    stream[0] = mix(mix(np.uint64(seed)) + GAMMA * np.uint64(draw + 1))
    return stream
