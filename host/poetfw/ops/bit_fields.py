# SPDX-License-Identifier: Apache-2.0
"""Small unsigned integers in words of 32 bits, the first in the lowest bits."""

from __future__ import annotations

import numpy as np

from poetfw.ops.base import Array

_WORD_BITS = 32


def words_of_fields(count: int, bits: int) -> int:
    """Number of words for `count` fields of `bits` bits each, a divisor of 32."""
    return -(-count * bits // _WORD_BITS)


def pack_fields(values: Array, bits: int) -> Array:
    """Pack integers below 2**bits into words [ceil(n · bits / 32)] of i32."""
    per_word = _WORD_BITS // bits
    flat = np.zeros(words_of_fields(values.size, bits) * per_word, np.uint32)
    flat[: values.size] = values.reshape(-1)
    shifted = flat.reshape(-1, per_word) << np.arange(0, _WORD_BITS, bits, dtype=np.uint32)
    words: Array = np.bitwise_or.reduce(shifted, axis=1).astype("<u4").view("<i4")
    return words


def unpack_fields(words: Array, bits: int, count: int) -> Array:
    """The first `count` fields of words [n], as integers [count]."""
    whole = np.ascontiguousarray(words, "<i4").view("<u4")[:, np.newaxis]
    shifts = np.arange(0, _WORD_BITS, bits, dtype=np.uint32)
    fields: Array = (whole >> shifts & np.uint32((1 << bits) - 1)).reshape(-1)[:count]
    return fields
