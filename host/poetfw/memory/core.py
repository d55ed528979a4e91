# SPDX-License-Identifier: Apache-2.0
"""Search for placements that are tight at few moments only: these moments are placed first.

Core. The arena of a training step is full at the end of the forward pass and has gaps elsewhere.
The core consists of the buffers live in the fullest sections, with time reduced to these sections.
It is a small placement problem: most of its buffers are live in all of its sections, and may lie at
the bottom of the arena, below those whose offsets are searched. If the core does not fit, neither
does the whole problem.

Completion. The vertical order of the buffers in the core gives an order for the greedy placement of
all buffers: first those that span the core, by length, since nested lifetimes leave no gaps as they
end; then the rest of the core; then the other buffers, by size. Sections in which the completion
exceeds the capacity join the core, until a completion fits or the core is as hard as the whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import lcm

import numpy as np

from poetfw.common.limits import Deadline
from poetfw.memory.problem import Buffer
from poetfw.memory.restarts import restarts
from poetfw.memory.search import Search, SearchEnd
from poetfw.memory.sections import find_sections, live_bytes

_FIRST_SECTIONS = 4
"""Number of sections of the first core; each further core has twice as many."""

_DISTURBED_SECTIONS = 2, 16
"""Least and most sections of the first core, if it is chosen at random."""

_CORE_STATES = 12_000
"""Most states of the search of one core."""

_CORE_ORDERS = 4
"""Most placements of one core to complete."""


Placer = Callable[[list[int]], list[int] | None]
"""Places all buffers greedily, by an order of indices; top of each in bytes, or None."""


class CoreSearch:
    """Search for one placement of buffers within one capacity, by way of cores.

    Args:
        buffers: buffers of size > 0, none fixed.
        capacity: bytes.
        rng: for the orders of the search.
        disturbed: True randomises the first core, to differ from other searches.

    Attributes:
        states: states visited so far in the search of cores.
    """

    def __init__(
        self,
        buffers: Sequence[Buffer],
        capacity: int,
        rng: random.Random,
        disturbed: bool = False,
    ) -> None:
        first, last, count = find_sections(buffers)
        self.states = 0
        self._buffers = buffers
        self._capacity = capacity
        self._rng = rng
        self._first, self._last = np.array(first), np.array(last)
        self._size = np.array([b.size for b in buffers])
        # Buffers that span a core are stacked below the rest, padded to keep every alignment.
        whole = lcm(*(b.alignment for b in buffers))
        self._padded = [-(-b.size // whole) * whole for b in buffers]
        self._live = live_bytes(self._first, self._last, self._size, count)
        self._disturbed = disturbed
        self._is_impossible = False

    def run(self, place: Placer, state_limit: int, deadline: Deadline) -> SearchEnd:
        """Search cores of increasing size, and complete their placements.

        Args:
            place: places all buffers greedily; the search ends if it gives up.
            state_limit: most states to visit.
            deadline: time limit.

        Returns:
            FOUND if a completion lies within the capacity, EXHAUSTED if none can, or LIMIT.
        """
        core = np.zeros(len(self._live), dtype=bool)
        above = core.copy()
        count = self._rng.randint(*_DISTURBED_SECTIONS) if self._disturbed else _FIRST_SECTIONS
        while not core.all():
            core[np.lexsort((-self._live, ~above, ~core))[:count]] = True
            lowest: list[int] = []
            for order in self._orders(np.flatnonzero(core), state_limit, deadline):
                tops = place(order)
                if tops is None:
                    return SearchEnd.LIMIT
                if max(tops) <= self._capacity:
                    return SearchEnd.FOUND
                lowest = min(lowest or tops, tops, key=max)
            if self._is_impossible:
                return SearchEnd.EXHAUSTED
            if not lowest:
                break
            above[:] = False
            for i in np.flatnonzero(np.array(lowest) > self._capacity):
                above[self._first[i] : self._last[i]] = True
            count *= 2
        return SearchEnd.LIMIT

    def _orders(
        self, sections: np.ndarray, state_limit: int, deadline: Deadline
    ) -> Iterator[list[int]]:
        """Orders in which to place all buffers, from placements of the core of some sections."""
        begin = np.searchsorted(sections, self._first)
        end = np.searchsorted(sections, self._last)
        length = self._last - self._first
        spans = end - begin == len(sections)
        by_length = np.lexsort((-self._size, -length))
        by_size = np.lexsort((-length, -self._size))
        spanning = by_length[spans[by_length]].tolist()
        others = by_size[(begin == end)[by_size]].tolist()
        partial = by_length[((begin < end) & ~spans)[by_length]].tolist()
        if not partial:
            return
        search = Search(
            [
                replace(self._buffers[i], id=str(i), lower=int(begin[i]), upper=int(end[i]))
                for i in partial
            ],
            self._capacity - sum(self._padded[i] for i in spanning),
        )
        limit = min(_CORE_STATES, state_limit - self.states)
        found: list[list[int]] = []
        for rank, look, share in restarts(search, self._rng, self._disturbed):
            before = search.states
            if before >= limit or len(found) == _CORE_ORDERS or deadline.has_passed():
                return
            outcome = search.run(rank, look, min(share, limit - before), deadline)
            self.states += search.states - before
            if outcome is SearchEnd.EXHAUSTED:
                # The failure may be due to the padding of the buffers that span the core.
                self._is_impossible = all(self._padded[i] == self._size[i] for i in spanning)
                return
            if outcome is SearchEnd.FOUND:
                found.append(sorted(partial, key=lambda i: search.offsets[str(i)]))
                if found[-1] not in found[:-1]:
                    yield [*spanning, *found[-1], *others]
