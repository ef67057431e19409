# SPDX-License-Identifier: Apache-2.0
"""core/philox.h and core/fill.cpp in NumPy: the contents of a tape of a given seed before its first step."""
import numpy as np

MASK = np.uint64(0xFFFFFFFF)


def bits(counter, key):
    """Philox4x32-10 of each counter: (counters, 4) words of 32 bits."""
    counter = counter.astype(np.uint64)
    shift = np.uint64(32)
    c = [counter & MASK, counter >> shift, np.zeros_like(counter), np.zeros_like(counter)]
    k0, k1 = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [p1 >> shift ^ c[1] ^ np.uint64(k0), p1 & MASK, p0 >> shift ^ c[3] ^ np.uint64(k1), p0 & MASK]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return np.stack(c, 1)


def fill(shape, rule, key):
    """fill_values: rule is a fill of tools/pytorch/models.py. Rounded to f32, as doubles."""
    n = int(np.prod(shape))
    kind, a, b = rule
    counter = np.arange((n + 3) // 4)

    def unit(k):
        return ((bits(counter, k).ravel()[:n] + 0.5) * 2.0**-32)
    if kind == "constant":
        values = np.full(n, float(a))
    elif kind == "below":
        values = np.floor(unit(key) * a)
    elif kind == "uniform":
        values = a + (b - a) * unit(key)
    else:  # Box-Muller
        values = a + b * np.sqrt(-2 * np.log(unit(key))) * np.cos(2 * np.pi * unit(~key & (1 << 64) - 1))
    return values.astype(np.float32).astype(np.float64).reshape(shape)


def tape_key(seed, number):
    """The fill key of the tensor that a tape declared as number `number`, from 0: fill_key() of core/fill.h."""
    return seed << 20 | number


def dropout_mask(n, p, tape_seed, counter, step, seed=0):
    """The mask of a dropout of n elements in a step of a tape, from 0, whose counters are numbered in order of
    declaration and grow by n: Tape::begin_step and ops/elementwise/dropout.h."""
    offset = (tape_seed * 4 + 4) * 0x9E3779B1 + counter * 0x3C6EF370 + step * n & 0x7FFFFFFF
    index = np.arange(offset, offset + n, dtype=np.uint64)
    block = bits(index >> np.uint64(2), seed & (1 << 64) - 1)
    drawn = np.take_along_axis(block, (index & np.uint64(3)).astype(np.int64)[:, None], 1)[:, 0]
    return drawn >= np.uint64(np.ceil(p * 4294967296.0))
