# SPDX-License-Identifier: Apache-2.0
"""Placement of buffers in one arena as low as possible.

Greedy orders come first: they reach the lower bound on most plans. Buffers that must fill every
byte at every moment are tiled. If few moments are full, these are searched first and the other
buffers are placed around them; so are small buffers around large ones. Open instances are searched
at the bound, then at heights between the bound and the incumbent, until the two meet or the work
limit. Work is counted in search states, so the result is deterministic.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from poetfw.common.limits import Deadline, Work
from poetfw.memory.bounds import lower_bound
from poetfw.memory.checks import check_buffers
from poetfw.memory.core import CoreSearch, Placer
from poetfw.memory.heuristics import Greedy
from poetfw.memory.ilp import count_pairs, solve_ilp, stack_pyramid
from poetfw.memory.problem import Buffer, Placement, PlacementInterrupted, PlacementStatus
from poetfw.memory.restarts import Probe
from poetfw.memory.search import SearchEnd
from poetfw.memory.sections import split_components
from poetfw.memory.tiling import Tiling, filled_bytes
from poetfw.memory.validator import validate_by_sweep, validate_placement
from poetfw.schedule.milp import SolverOptions

_STATES_PER_UNIT = 25_000
"""Search states per unit of work."""

WORK_LIMIT = 10.0
"""Default work limit in units."""

_LARGEST_SEARCH = 4_000
"""Most buffers of a component that is searched; larger ones get greedy orders only."""

_LARGEST_PAIRWISE = 5_000
"""Most buffers of an answer that is validated pair by pair."""

_LARGEST_PROGRAM = 1_000
"""Most buffers, and most pairs with overlapping lifetimes, of an integer program."""

_PAIRS_PER_STATE = 8
"""Pairs of buffers in the integer program per state that one of its nodes costs."""

_IMPROVEMENTS = 200
"""Most greedy orders to try while improving the best one."""

_IMPROVED_BUFFERS = 60_000
"""Most buffers to place while improving the best greedy order."""

_QUICK_IMPROVEMENTS = 20
"""Most greedy orders to try if at most `_HARDLY_ANYTHING` buffers lie too high."""

_HARDLY_ANYTHING = 3
"""Most buffers above the goal for the quick improvement."""

_CLOSE = 0.05
"""Largest gap to the goal, as a share of it, at which cores are searched again."""

_SMALL = (7, 6, 8)
"""Powers of two by which the goal is divided: smaller buffers are placed around larger ones."""

_PARTS = 8
"""Least number of parts of the work, of which placing the large or the small ones takes one."""

_PLACED_PER_STATE = 3
"""Buffers placed greedily per state of work, for few buffers."""

_COMPARED_PER_STATE = 36_000
"""Pairs of buffers compared per state of work; dominates for many buffers."""

_UNKNOWN = 4
"""Probes without an answer after which later ones get more states."""

_FIRST_GRANT = 24_000
"""States granted to the first search of a kind; each later one gets four times as many."""


def place(
    buffers: Sequence[Buffer],
    capacity: int | None = None,
    work: Work | None = None,
    seed: int = 0,
) -> Placement:
    """Give every buffer an offset such that no two live at the same time overlap.

    Args:
        buffers: the buffers; alignments and fixed offsets are respected.
        capacity: bytes of the arena, or None for as low as possible.
        work: work limit; None for the default.
        seed: of the random orders that the search tries.

    Returns:
        A validated placement: optimal if its height is the lower bound, else feasible. With a
        capacity also infeasible (proven) or not found; then there are no offsets, and the height is
        the lowest found, or 0 without a search.

    Raises:
        ProblemError: The problem is malformed.
        PlacementInterrupted: The user interrupted the search after it found a placement.
    """
    check_buffers(buffers)
    bound = lower_bound(buffers)
    if capacity is not None and bound > capacity:
        return Placement(PlacementStatus.INFEASIBLE, {}, 0, bound)
    # The result does not depend on the order or the names of the buffers.
    free = sorted((b for b in buffers if b.size), key=_canonical)
    whole = work or Work(WORK_LIMIT)
    states = int(max(0.0, whole.left) * _STATES_PER_UNIT)
    search = _Work(whole.deadline, states, random.Random(seed))
    offsets = {b.id: b.offset or 0 for b in buffers if not b.size}
    components = sorted(split_components(free), key=lower_bound, reverse=True)
    best = height = bound
    interrupted = False
    for component in components:
        part = _Component(component, max(bound, height), capacity, search)
        try:
            part.solve()
        except KeyboardInterrupt:
            if not part.offsets:
                raise
            interrupted, search.states = True, 0  # the other components are placed without a search
        offsets |= part.offsets
        height = max(height, part.height)
        # A component's lower bound raises the bound for all of them.
        best = max(best, part.proven)
    whole.spend((states - search.states) / _STATES_PER_UNIT)
    if capacity is not None and height > capacity:
        if interrupted:
            raise KeyboardInterrupt
        proven = best > capacity
        status = PlacementStatus.INFEASIBLE if proven else PlacementStatus.NOT_FOUND
        return Placement(status, {}, height, best)
    by_id = {b.id: offsets[b.id] for b in buffers}
    height = max((by_id[b.id] + b.size for b in buffers), default=0)
    status = PlacementStatus.OPTIMAL if height == best else PlacementStatus.FEASIBLE
    placement = Placement(status, by_id, height, best)
    validate = validate_placement if len(buffers) <= _LARGEST_PAIRWISE else validate_by_sweep
    validate(buffers, placement, capacity)
    if interrupted:
        raise PlacementInterrupted(placement)
    return placement


@dataclass(slots=True)
class _Work:
    """Remaining work, shared by all components."""

    deadline: Deadline
    states: int
    rng: random.Random

    def is_left(self) -> bool:
        return self.states > 0 and not self.deadline.has_passed()


class _Component:
    """Buffers connected in time, with their best known offsets.

    Args:
        buffers: in canonical order, of size > 0.
        goal: height in bytes at which to stop.
        capacity: bytes of the arena, or None.
        work: remaining work.
    """

    def __init__(
        self, buffers: Sequence[Buffer], goal: int, capacity: int | None, work: _Work
    ) -> None:
        self._buffers = buffers
        self._goal = goal
        self._capacity = capacity
        self._work = work
        self._greedy = Greedy(buffers)
        self._order: list[int] = []
        self._tops: list[int] = []
        self._at_goal: Probe | None = None
        # Work of placing all buffers greedily in one order.
        self._order_states = (
            len(buffers) // _PLACED_PER_STATE + len(buffers) ** 2 // _COMPARED_PER_STATE
        )
        self.offsets: dict[str, int] = {}
        self.height = 0
        self.proven = 0

    def solve(self) -> None:
        """Find offsets as low as the goal, or as the work limit allows."""
        self._place_greedily()
        if self._capacity is not None:
            self._goal = max(self._goal, self._capacity)
        searchable = len(self._buffers) <= _LARGEST_SEARCH
        if searchable and self._is_open():
            self._tile(self._work.states * 3 // 4)
        if self._is_open():
            self._search_core(_FIRST_GRANT, self._complete, disturbed=False)
        if self._is_open():
            tries = min(_IMPROVEMENTS, _IMPROVED_BUFFERS // len(self._buffers))
            self._improve(self._order, self._tops, tries)
        if searchable and self._is_open():
            self._place_large_first()
        # If cores are not close to the goal, the instance is hard: search all of it.
        close = self.height - self._goal <= _CLOSE * self._goal
        grant, left = _FIRST_GRANT, -1
        while self._is_open() and self._work.states != left:
            left = self._work.states
            if close:
                self._search_cores(grant)
            if searchable and self._is_open():
                self._search(grant)
            if grant == _FIRST_GRANT and self._is_open():
                self._program(self._work.states // 2)
            grant *= 4

    def _is_open(self) -> bool:
        """True if a lower height may still exist and work is left."""
        if self._capacity is not None and self.proven > self._capacity:
            return False
        return self.height > self._goal and self._work.is_left()

    def _tile(self, grant: int) -> None:
        """Search for a placement without gaps, if the buffers fill the goal at every moment."""
        height = filled_bytes(self._buffers)
        if height is None:
            return
        tiling = Tiling(self._buffers)
        outcome = tiling.run(min(grant, self._work.states), self._work.deadline)
        self._work.states -= tiling.states
        self._learn(outcome, height, tiling.offsets)

    def _search_core(self, grant: int, place: Placer, disturbed: bool) -> int:
        """Search the fullest sections first, and place the other buffers around them.

        Returns:
            The number of visited states.
        """
        if any(b.offset is not None for b in self._buffers):
            return 0
        cores = CoreSearch(self._buffers, self._goal, self._work.rng, disturbed)
        outcome = cores.run(place, grant, self._work.deadline)
        self._work.states -= cores.states
        self._learn(outcome, self._goal, self.offsets)
        return cores.states

    def _search_cores(self, grant: int) -> None:
        """Search random cores repeatedly, and improve near misses."""
        least = self._work.states - grant
        while self._is_open() and self._work.states > least:
            left = self._work.states - least
            if not self._search_core(left, self._complete_well, disturbed=True):
                return

    def _place_large_first(self) -> None:
        """Place the large buffers as low as possible, then the small ones around them."""
        if any(b.offset is not None for b in self._buffers):
            return
        before = len(self._buffers)
        for power in _SMALL:
            large = [b for b in self._buffers if b.size >= self._goal >> power]
            if not large or len(large) == before or not self._is_open():
                continue
            before = len(large)
            core = self._part(large, lower_bound(large), None)
            whole = [replace(b, offset=core.offsets.get(b.id)) for b in self._buffers]
            around = self._part(whole, self._goal, self._capacity)
            if around.height < self.height:
                self._keep(around.offsets)

    def _part(self, buffers: Sequence[Buffer], goal: int, capacity: int | None) -> _Component:
        """Some buffers, or these with fixed offsets, placed with little work."""
        grant = min(_FIRST_GRANT, self._work.states // _PARTS)
        work = _Work(self._work.deadline, grant, self._work.rng)
        part = _Component(buffers, goal, capacity, work)
        part.solve()
        self._work.states -= grant - work.states
        return part

    def _complete(self, order: list[int]) -> list[int] | None:
        """Place in an order, if work is left."""
        if not self._work.is_left():
            return None
        self._work.states -= self._order_states
        return self._try_order(order)

    def _complete_well(self, order: list[int]) -> list[int] | None:
        """Place in an order, and improve it if few buffers end above the goal."""
        tops = self._complete(order)
        if tops is None or sum(top > self._goal for top in tops) > _HARDLY_ANYTHING:
            return tops
        return self._improve(order, tops, _QUICK_IMPROVEMENTS)

    def _program(self, grant: int) -> None:
        """Solve the integer program, if it is small enough, possibly with a preplaced pyramid."""
        if len(self._buffers) > _LARGEST_PROGRAM:
            return
        preplaced = {}
        pairs = count_pairs(self._buffers)
        if pairs > _LARGEST_PROGRAM and all(b.offset is None for b in self._buffers):
            preplaced = stack_pyramid(self._buffers)
            pairs = count_pairs([b for b in self._buffers if b.id not in preplaced])
        if not 0 < pairs <= _LARGEST_PROGRAM:
            return
        nodes = min(grant, self._work.states) * _PAIRS_PER_STATE // pairs
        options = SolverOptions(gap=0.0, max_nodes=nodes)
        work = Work(grant / _STATES_PER_UNIT, self._work.deadline)
        below = self.height if self._capacity is None else self._goal + 1
        answer = solve_ilp(self._buffers, self._goal, below, preplaced, options, work)
        self._work.states -= grant
        if answer.offsets is not None:
            self._keep(answer.offsets)
        if answer.proven > self._goal:
            self.proven = self._goal = answer.proven

    def _search(self, grant: int) -> None:
        if self._capacity is None:
            self._close_in(grant)
        else:
            self._probe(self._goal, grant)

    def _close_in(self, grant: int) -> None:
        """Probe the goal, then bisect between it and the incumbent, with less effort."""
        low = height = self._goal
        unknown = 0
        while low < self.height and unknown < _UNKNOWN and self._work.is_left():
            outcome = self._probe(height, grant if height == self._goal else grant // _UNKNOWN)
            unknown += outcome is SearchEnd.LIMIT
            if outcome is not SearchEnd.FOUND:
                low = max(self._goal, height + 1)
            height = (low + self.height - 1) // 2

    def _place_greedily(self) -> None:
        for order in self._greedy.orders():
            if self.offsets and not self._is_open():
                return
            self._try_order(order, self.height)

    def _improve(self, order: list[int], tops: list[int], tries: int) -> list[int]:
        """Move the highest buffers forward in a greedy order; keep changes that are not worse."""
        for _ in range(tries):
            highest = max(tops)
            highest_at = [at for at, i in enumerate(order) if tops[i] == highest]
            at = self._work.rng.choice(highest_at) if highest_at else 0
            if not at or not self._is_open():
                break  # the highest buffer is fixed, or comes first already
            changed = order.copy()
            changed.insert(self._work.rng.randrange(at), changed.pop(at))
            self._work.states -= self._order_states
            changed_tops = self._try_order(changed, highest + 1)
            if changed_tops is not None:
                order, tops = changed, changed_tops
        return tops

    def _try_order(self, order: list[int], limit: int | None = None) -> list[int] | None:
        """Place in an order, and remember the result if it is the best.

        Args:
            order: indices of the free buffers.
            limit: height in bytes to stay below, or None.

        Returns:
            The top of every buffer in bytes, or None if the limit or the deadline was reached.
        """
        begun, deadline = bool(self._order), self._work.deadline
        offsets = self._greedy.run(
            order,
            lambda height: (
                begun and ((limit is not None and height >= limit) or deadline.has_passed())
            ),
        )
        if offsets is None:
            return None
        tops = [offset + b.size for b, offset in zip(self._buffers, offsets, strict=True)]
        if not self._tops or max(tops) <= max(self._tops):
            self._order, self._tops = order, tops
        if not self.offsets or max(tops) < self.height:
            self._keep({b.id: offset for b, offset in zip(self._buffers, offsets, strict=True)})
        return tops

    def _probe(self, capacity: int, grant: int) -> SearchEnd:
        """Search for a placement within a capacity, with at most the granted states."""
        probe = self._at_goal
        if probe is None or probe.capacity != capacity:
            probe = Probe(self._buffers, capacity, self._work.rng)
        if capacity == self._goal:
            self._at_goal = probe  # to continue with later grants
        before = probe.states
        outcome = probe.run(min(grant, self._work.states), self._work.deadline)
        self._work.states -= probe.states - before
        self._learn(outcome, capacity, probe.offsets)
        return outcome

    def _learn(self, outcome: SearchEnd, capacity: int, offsets: dict[str, int]) -> None:
        """Record the result of a search within a capacity."""
        if outcome is SearchEnd.FOUND:
            self._keep(offsets)
        if outcome is SearchEnd.EXHAUSTED:
            self.proven = max(self.proven, capacity + 1)
            self._goal = max(self._goal, self.proven)

    def _keep(self, offsets: dict[str, int]) -> None:
        self.offsets = offsets
        self.height = max(offsets[b.id] + b.size for b in self._buffers)


def _canonical(buffer: Buffer) -> tuple[int, int, int, int, int, str]:
    offset = -1 if buffer.offset is None else buffer.offset
    return buffer.lower, buffer.upper, buffer.size, buffer.alignment, offset, buffer.id
