"""The formulas of synthetic values, twin of tensor/data/formula.go.

Golden curves are made from values that no file holds: both sides compute them.
A change on either side makes every committed curve worthless; formula.json
holds examples that the Go test compares with.
"""
import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def hash64(key, i):
    """Element i of the SplitMix64 stream that starts at key."""
    z = (key + (i + 1) * GOLDEN) & MASK
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def key(name):
    """FNV-1a over the UTF-8 bytes of name, 64 bits."""
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = ((h ^ b) * 0x100000001B3) & MASK
    return h


def unit(k, i):
    """The upper 24 bits as an exact float32 in [-1, 1)."""
    return np.float32(((hash64(k, i) >> 40) - (1 << 23)) / (1 << 23))


def index(k, i, n):
    """An integer in [0, n): the upper half of a 128-bit product."""
    return hash64(k, i) * n >> 64


def uniform(name, shape, offset=0.0, scale=1.0):
    """float32 array of offset + scale*unit, row-major flat index."""
    k, n = key(name), int(np.prod(shape, dtype=np.int64))
    u = np.array([unit(k, i) for i in range(n)], dtype=np.float32)
    return (np.float32(offset) + np.float32(scale) * u).astype(np.float32).reshape(shape)


def indices(name, shape, n):
    """int64 array of numbers in [0, n), row-major flat index."""
    k, m = key(name), int(np.prod(shape, dtype=np.int64))
    return np.array([index(k, i, n) for i in range(m)], dtype=np.int64).reshape(shape)
