# SPDX-License-Identifier: Apache-2.0
"""The order in which the firmware visits training samples: that of `runtime/sample_order.c`."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 4
_GOLDEN = 0x9E3779B9
_WORD = 0xFFFFFFFF


def _mix32(x: int) -> int:
    """The "lowbias32" integer hash (C. Wellons, hash-prospector)."""
    x ^= x >> 16
    x = x * 0x7FEB352D & _WORD
    x ^= x >> 15
    x = x * 0x846CA68B & _WORD
    return x ^ x >> 16


def permute(position: int, samples: int, seed: int, epoch: int) -> int:
    """The sample at a position of an epoch: a permutation of [0, samples) per seed and epoch.

    A balanced Feistel network of four rounds over the smallest even number of bits that can count
    the samples, applied again until it lands on a sample (cycle walking: J. Black, P. Rogaway,
    "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).

    Raises:
        ValueError: The position is not in [0, samples).
    """
    if not 0 <= position < samples:
        raise ValueError(f"position {position} is not in [0, {samples})")
    half_bits = 0
    while 1 << 2 * half_bits < samples:
        half_bits += 1
    mask = (1 << half_bits) - 1
    keys = [_mix32(seed + _GOLDEN * (_ROUNDS * epoch + j + 1) & _WORD) for j in range(_ROUNDS)]
    value = position
    while True:
        left, right = value >> half_bits, value & mask
        for key in keys:
            left, right = right, left ^ (_mix32(right ^ key) & mask)
        value = left << half_bits | right
        if value < samples:
            return value


def sample_order(
    samples: int, batch: int, seed: int, step: int, damaged: Collection[int] = ()
) -> NDArray[np.int64]:
    """Indices of the samples that make up one training batch, in the batch's order.

    Args:
        samples: size of the training set.
        batch: samples per step; an epoch is floor(samples / batch) steps.
        seed: unsigned, 32 bits.
        step: the training step, 0-based.
        damaged: samples in whose place the next one in the epoch's order is taken.

    Returns:
        Sample indices, shape [batch].

    Raises:
        ValueError: There are fewer samples than one batch takes, or all are damaged.
    """
    if not 0 < batch <= samples:
        raise ValueError(f"a batch of {batch} cannot be taken from {samples} samples")
    epoch, step_in_epoch = divmod(step, samples // batch)
    first = step_in_epoch * batch
    if len(set(damaged)) >= samples:
        raise ValueError(f"all {samples} samples are damaged")

    def taken(position: int) -> int:
        while (sample := permute(position, samples, seed, epoch)) in damaged:
            position = (position + 1) % samples
        return sample

    return np.array([taken(first + i) for i in range(batch)], dtype=np.int64)
