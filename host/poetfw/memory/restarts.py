"""Restarts of a search: with what to try first, where to look, and for how long."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from poetfw.memory.checks import LARGEST_BYTES
from poetfw.memory.search import Look, Search

_FIRST_STATES = 2_000
"""States granted to the shortest run of a search."""


def restarts(search: Search, rng: random.Random) -> Iterator[tuple[list[float], Look, int]]:
    """Orders to try cases in and where to look for them, with the states to spend on each."""
    length = [last - first for first, last in search.spans]
    size = [float(b.size) for b in search.buffers]
    ranks = [
        [-n * s for n, s in zip(length, size, strict=True)],
        [-n - s / (2 * LARGEST_BYTES) for n, s in zip(length, size, strict=True)],
        [-s for s in size],
    ]
    orders = ranks
    for turn in count(1):
        for rank in orders:
            for look in Look:
                yield rank, look, _FIRST_STATES * _luby(turn)
        # A good order somewhat disturbed finds what the order itself and pure chance do not.
        orders = [[r * rng.uniform(0.3, 1.0) for r in rank] for rank in ranks]
        orders.append([rng.random() for _ in size])


def _luby(turn: int) -> int:
    """How long to run before restarting, by turn: 1, 1, 2, 1, 1, 2, 4, 1, ... (Luby et al., 1993).

    Without knowing how run times are spread, no other sequence is better by more than a logarithm.
    """
    while turn & (turn + 1):
        turn -= (1 << (turn.bit_length() - 1)) - 1
    return (turn + 1) // 2
