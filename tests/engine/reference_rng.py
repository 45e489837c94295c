"""The engine's random numbers in plain Python, for the reference."""

import struct

import numpy as np

MASK = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


class Splitmix:
    """The random numbers of a tree with this seed; with a draw, those of one exploring query."""

    def __init__(self, seed, draw=None):
        self.state = seed if draw is None else mix((mix(seed) + GAMMA * (draw + 1)) & MASK)

    def bits(self):
        self.state = (self.state + GAMMA) & MASK
        return mix(self.state)

    def below(self, n):
        return ((self.bits() >> 32) * n) >> 32

    def random(self):
        return (self.bits() >> 11) / 2**53


def float_bits(weight):
    return struct.unpack("<I", struct.pack("<f", weight + 0.0))[0]


def key_bits(x, number_of):
    """The fingerprint of a key; `number_of` numbers the features of a mapping as the engine does."""
    if isinstance(x, dict):
        pairs = sorted((number_of[name], weight) for name, weight in x.items() if weight)
        bits = len(pairs)
        for feature, weight in pairs:
            bits = mix((bits + GAMMA * feature) & MASK)
            bits = mix((bits + GAMMA * float_bits(weight)) & MASK)
        return bits
    bits = len(x)
    for weight in np.asarray(x, np.float32):
        bits = mix((bits + GAMMA * float_bits(float(weight))) & MASK)
    return bits


def tie(seed, number_of):
    def larger_first(x, memory):
        return mix(key_bits(x, number_of) ^ mix((seed + GAMMA * memory.id) & MASK))

    return larger_first
