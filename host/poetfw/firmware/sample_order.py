"""Which samples make up the batch of a training step. The same as runtime/data.c, in Python.

Every epoch visits the samples in another order: a permutation of their numbers that needs no
table. It is a Feistel network with four rounds (Luby and Rackoff, 1988) over the smallest even
number of bits that holds them; numbers beyond the last sample are permuted again until they are
not (cycle walking; Black and Rogaway, 2002).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MASK = 0xFFFFFFFF
_GOLDEN = 0x9E3779B9
_ROUNDS = 4


def sample_order(samples: int, batch: int, seed: int, step: int) -> NDArray[np.intp]:
    """Indices of the samples that a training step uses.

    Args:
        samples: how many there are, at least a batch.
        batch: how many a step uses; what is left over at the end of an epoch is not used in it.
        seed: of the run.
        step: number of the step, from 0.
    """
    steps_per_epoch = samples // batch
    epoch, within = divmod(step, steps_per_epoch)
    half = 0
    while 1 << (2 * half) < samples:
        half += 1
    keys = [_mix((seed + _GOLDEN * (_ROUNDS * epoch + j + 1)) & _MASK) for j in range(_ROUNDS)]
    first = within * batch
    return np.array([_permute(p, samples, half, keys) for p in range(first, first + batch)])


def _permute(value: int, samples: int, half: int, keys: list[int]) -> int:
    mask = (1 << half) - 1
    while True:
        left, right = value >> half, value & mask
        for key in keys:
            left, right = right, left ^ (_mix(right ^ key) & mask)
        value = left << half | right
        if value < samples:
            return value


def _mix(x: int) -> int:
    """The integer hash `lowbias32` (Wellons, 2018)."""
    x ^= x >> 16
    x = x * 0x7FEB352D & _MASK
    x ^= x >> 15
    x = x * 0x846CA68B & _MASK
    return x ^ x >> 16
