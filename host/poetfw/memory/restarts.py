# SPDX-License-Identifier: Apache-2.0
"""Restarts of a search, each with its own rank, branching rule and state limit."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import count

from poetfw.common.limits import Deadline
from poetfw.memory.checks import LARGEST_BYTES
from poetfw.memory.problem import Buffer
from poetfw.memory.search import Look, Search, SearchEnd

_FIRST_STATES = 2_000
"""States of the shortest run of a search."""


class Probe:
    """Restarting search within one capacity; each `run` continues where the last one ended.

    Args:
        buffers: buffers of size > 0.
        capacity: bytes.
        rng: for the orders to try.
    """

    def __init__(self, buffers: Sequence[Buffer], capacity: int, rng: random.Random) -> None:
        self.capacity = capacity
        self._search = Search(buffers, capacity)
        self._restarts = restarts(self._search, rng)

    @property
    def states(self) -> int:
        """Number of states visited so far."""
        return self._search.states

    @property
    def offsets(self) -> dict[str, int]:
        """Offsets in bytes by buffer id, once found."""
        return self._search.offsets

    def run(self, state_limit: int, deadline: Deadline) -> SearchEnd:
        """Search within this many more states; otherwise like `Search.run`."""
        limit = self.states + state_limit
        outcome = SearchEnd.LIMIT
        while outcome is SearchEnd.LIMIT and self.states < limit and not deadline.has_passed():
            rank, look, share = next(self._restarts)
            outcome = self._search.run(rank, look, min(share, limit - self.states), deadline)
        return outcome


def restarts(
    search: Search, rng: random.Random, disturbed: bool = False
) -> Iterator[tuple[list[float], Look, int]]:
    """Case orders and branching rules, with the states for each run.

    Args:
        search: the search to restart.
        rng: randomises good orders.
        disturbed: True leaves out the orders that are not randomised.
    """
    extents = [
        (last - first, float(b.size))
        for (first, last), b in zip(search.spans, search.buffers, strict=True)
    ]
    ranks = [
        [-length * size for length, size in extents],
        [-length - size / (2 * LARGEST_BYTES) for length, size in extents],
        [-size for _, size in extents],
    ]
    orders = ranks
    for turn in count(1):
        for rank in orders if turn > disturbed else ():
            for look in Look:
                yield rank, look, _FIRST_STATES * _luby(turn)
        # A slightly randomised good order succeeds where the order itself and pure chance fail.
        orders = [[r * rng.uniform(0.3, 1.0) for r in rank] for rank in ranks]
        orders.append([rng.random() for _ in extents])


def _luby(turn: int) -> int:
    """Relative length of a run before a restart: 1, 1, 2, 1, 1, 2, 4, … (Luby et al., 1993).

    For unknown run time distributions, it is optimal up to a logarithmic factor.
    """
    while turn & (turn + 1):
        turn -= (1 << (turn.bit_length() - 1)) - 1
    return (turn + 1) // 2
