# SPDX-License-Identifier: Apache-2.0
"""Plans with many small buffers among large ones: small ones are placed around the others."""

from __future__ import annotations

import random

from poetfw.common.limits import Work
from poetfw.memory import Buffer, place

HEIGHT = 100_000


def cut(rng: random.Random, begin: int, end: int, low: int, high: int, depth: int) -> list[Buffer]:
    """Buffers that fill a rectangle, some of which are thin strips, as if cut out of it."""
    if depth and rng.random() < 0.5 and end - begin >= 4:
        at = rng.randrange(begin + 1, end)
        return [
            *cut(rng, begin, at, low, high, depth - 1),
            *cut(rng, at, end, low, high, depth - 1),
        ]
    if depth and high - low >= 16:
        at = rng.randrange(low + 1, high)
        if rng.random() < 0.6:
            at = low + (high - low) // rng.choice([8, 16, 32, 64]) or low + 1
        at = max(low + 1, min(high - 1, at))
        return [
            *cut(rng, begin, end, low, at, depth - 1),
            *cut(rng, begin, end, at, high, depth - 1),
        ]
    return [Buffer(f"{begin} {low}", begin, end, high - low)]


def test_small_buffers_do_not_keep_large_ones_apart() -> None:
    rng = random.Random(0)
    buffers = [b for b in cut(rng, 0, 120, 0, HEIGHT, 10) if b.size <= 3000 or rng.random() > 0.1]
    found = place(buffers, work=Work(2.0))
    assert found.height_bytes <= 1.02 * HEIGHT  # 1.21 where all of them are placed at once
