"""Exhaustive search for a placement within a capacity, for instances no heuristic places.

State. Time is a row of sections (see `sections`); `floors[s]` is the address below which section s
is settled. A valley is a run of sections at one floor between higher walls. A buffer is confined if
its sections lie within the valley. Only confined buffers can come to lie at a valley's floor; all
others start at a wall or higher.

Branching. Take a section of the valley: what lies next on it either is a confined buffer at the
lowest address it may have, with nothing but its padding down to the floor on any of its sections,
or starts higher, which wastes bytes of the section. Every placement can be pushed down until each
buffer rests on the ground, on another one or on its alignment, so these cases are complete: if
something lies in the padding of a buffer, on another section, wasting leads up to that first. A
section can afford to waste its slack: the capacity less what is settled and what is still to come.
On tight instances slack is scarce, and branching on the section with the fewest cases finds dead
ends early.

Independence. Where no unplaced buffer crosses from one section to the next, the rest falls into
parts, solved one after the other; the choices made in a solved part are never revisited.

Memory. What remains to be decided, slack included, depends on the floors and the unplaced buffers
only, so states proven hopeless are remembered, across restarts with other orders.

The ideas of canonical placements, section bounds and independent parts are those of MiniMalloc
(M. D. Moffitt, ASPLOS 2023); branching on sections, valley by valley, is how exact strip packing
is searched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from math import gcd

from poetfw.limits import Deadline
from poetfw.memory.problem import Buffer
from poetfw.memory.sections import find_sections

_LARGEST_MEMORY = 400_000
"""States remembered as hopeless at most; each takes a few hundred bytes."""


class Look(Enum):
    """Where a search looks for the section to branch on: each finds what the others miss."""

    FEWEST = "all valleys"
    NARROWEST = "the narrowest valley"
    LOWEST = "the lowest valley"


class Outcome(Enum):
    """How a search ended."""

    FOUND = "found"
    EXHAUSTED = "exhausted"
    LIMIT = "limit"


@dataclass(slots=True)
class _Choice:
    """A node with cases left: where it stands and what it takes to come back to it."""

    trail_height: int
    cases: list[int]
    section: int
    floor: int
    wasted_to: int
    lo: int
    hi: int
    left: int
    waiting: _Part | None
    key: tuple[int, tuple[int, ...]]


_Part = tuple[int, int, int, int, "_Part | None"]
"""Sections [lo, hi), the unplaced buffers in them, the choices to keep once begun, the next."""

_WASTE = -1
"""The case that none of the confined buffers lies at the floor of the section."""

_NEVER = 1 << 62
"""Higher than any address."""


class Search:
    """A search for one placement of buffers within one capacity.

    Args:
        buffers: what to place, none of size 0.
        capacity: bytes.

    Attributes:
        buffers: those without a fixed offset, in the order of size: ranks refer to it.
        spans: for each of them the sections [first, last) it is live in.
        offsets: in bytes by buffer id; of those without a fixed one, once found.
        states: how many were visited so far.
    """

    def __init__(self, buffers: Sequence[Buffer], capacity: int) -> None:
        buffers = sorted(buffers, key=lambda b: (b.size, b.lower, b.upper, b.alignment, b.id))
        free = [i for i, b in enumerate(buffers) if b.offset is None]
        first, last, count = find_sections(buffers)
        # All addresses are counted in units: every offset is a multiple of it.
        unit = gcd(*(b.alignment for b in buffers))
        self.buffers = [buffers[i] for i in free]
        self.spans = [(first[i], last[i]) for i in free]
        self.offsets = {b.id: b.offset for b in buffers if b.offset is not None}
        self.states = 0
        self._unit = unit
        self._count = count
        self._size = [-(-b.size // unit) for b in self.buffers]
        self._align = [b.alignment // unit for b in self.buffers]
        self._highest = [(capacity - b.size) // unit for b in self.buffers]
        self._slack = [-(-capacity // unit)] * count
        self._too_high = any(highest < 0 for highest in self._highest)

        # Bit i of a mask stands for self.buffers[i]; a lower bit is never a larger buffer.
        self._covers = [0] * (count + 1)
        self._begins_from = [0] * (count + 1)
        self._ends_by = [0] * (count + 1)
        for i, (begin, end) in enumerate(self.spans):
            for s in range(begin, end):
                self._covers[s] |= 1 << i
                self._slack[s] -= self._size[i]
            self._begins_from[begin] |= 1 << i
            self._ends_by[end] |= 1 << i
        for s in range(count - 1, -1, -1):
            self._begins_from[s] |= self._begins_from[s + 1]
        for s in range(1, count + 1):
            self._ends_by[s] |= self._ends_by[s - 1]
        self._crosses = [self._covers[s] & self._covers[s + 1] for s in range(count)]

        self._fixed: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for i, b in enumerate(buffers):
            if b.offset is None:
                continue
            extent = (b.offset // unit, -(-(b.offset + b.size) // unit))
            self._too_high |= b.offset + b.size > capacity
            for s in range(first[i], last[i]):
                self._fixed[s].append(extent)
                self._slack[s] -= extent[1] - extent[0]
        for extents in self._fixed:
            extents.sort()
        self._has_fixed = any(self._fixed)

        twins: dict[tuple[int, int, int, int], int] = {}
        self._twin = [
            twins.setdefault((*self.spans[i], b.size, b.alignment), i)
            for i, b in enumerate(self.buffers)
        ]
        self._hopeless: set[tuple[int, tuple[int, ...]]] = set()

    def run(
        self, rank: Sequence[float], look: Look, state_limit: int, deadline: Deadline
    ) -> Outcome:
        """Search depth first.

        Args:
            rank: of each of `buffers`; what ranks lower is tried first.
            look: where to look for the section to branch on.
            state_limit: states to visit at most.
            deadline: when to give up.

        Returns:
            FOUND with the answer in `offsets`, EXHAUSTED if there is none, or LIMIT.
        """
        if self._too_high or min(self._slack) < 0:
            return Outcome.EXHAUSTED
        spans, size, align, crosses = self.spans, self._size, self._align, self._crosses
        slack = self._slack.copy()
        floors = [0] * self._count
        if self._has_fixed:
            for s in range(self._count):
                floors[s] = self._settle(s, 0)
        placed_at = [0] * len(spans)
        trail: list[tuple[int, int, int, int]] = []
        choices: list[_Choice] = []
        waiting = self._split(0, self._count, (1 << len(spans)) - 1, 1, self._count - 1, 0, None)
        lo = hi = left = states = 0
        while True:
            if not left:
                if waiting is None:
                    for i, b in enumerate(self.buffers):
                        self.offsets[b.id] = placed_at[i] * self._unit
                    self.states += states
                    return Outcome.FOUND
                lo, hi, left, height, waiting = waiting
                del choices[height:]
            states += 1
            if states > state_limit or (not states & 255 and deadline.has_passed()):
                self.states += states
                return Outcome.LIMIT

            key = (left, tuple(floors[lo:hi]))
            if key in self._hopeless:
                cases: list[int] = []
            else:
                cases, section, floor, wasted_to = self._branch(
                    lo, hi, left, floors, slack, rank, look
                )
            if len(cases) > 1:
                choices.append(
                    _Choice(
                        len(trail), cases, section, floor, wasted_to, lo, hi, left, waiting, key
                    )
                )
            elif not cases:
                while choices and not choices[-1].cases:
                    if len(self._hopeless) < _LARGEST_MEMORY:
                        self._hopeless.add(choices[-1].key)
                    choices.pop()
                if not choices:
                    self.states += states
                    return Outcome.EXHAUSTED
                choice = choices[-1]
                while len(trail) > choice.trail_height:
                    begin, end, floor, waste = trail.pop()
                    floors[begin:end] = [floor] * (end - begin)
                    if waste:
                        for s in range(begin, end):
                            slack[s] += waste
                cases, section, floor, wasted_to = (
                    choice.cases, choice.section, choice.floor, choice.wasted_to,
                )  # fmt: skip
                lo, hi, left, waiting = choice.lo, choice.hi, choice.left, choice.waiting

            case = cases.pop()
            if case == _WASTE:
                begin, end, top, waste = section, section + 1, wasted_to, wasted_to - floor
            else:
                begin, end = spans[case]
                waste = -floor % align[case]
                placed_at[case] = floor + waste
                top = floor + waste + size[case]
            trail.append((begin, end, floor, waste))
            if waste:
                for s in range(begin, end):
                    slack[s] -= waste
            floors[begin:end] = [top] * (end - begin)
            if self._has_fixed:
                for s in range(begin, end):
                    floors[s] = self._settle(s, top)
            if case != _WASTE:
                left ^= 1 << case
                for s in range(begin - 1 if begin > lo else begin, end if end < hi else end - 1):
                    if not crosses[s] & left:
                        waiting = self._split(
                            lo, hi, left, begin if begin > lo else begin + 1,
                            end if end < hi else end - 1, len(choices), waiting,
                        )  # fmt: skip
                        left = 0
                        break

    def _branch(
        self,
        lo: int,
        hi: int,
        left: int,
        floors: list[int],
        slack: list[int],
        rank: Sequence[float],
        look: Look,
    ) -> tuple[list[int], int, int, int]:
        """The cases at the section that has the fewest, the best one last.

        Returns:
            The cases (none: a dead end), the section, its floor, and where the waste would end.
        """
        covers = self._covers
        fewest = _NEVER
        section = floor = wasted_to = a = b = here = confined = 0
        for begin, end, level, wall in _valleys(lo, hi, floors, look):
            within = left & self._begins_from[begin] & self._ends_by[end]
            for s in range(begin, end):
                mask = within & covers[s]
                count = mask.bit_count()
                if count >= fewest:
                    continue
                up_to = 0
                if slack[s]:
                    up_to = self._waste_to(s, level, wall, within, begin, end)
                    if up_to - level <= slack[s]:
                        count += 1
                    else:
                        up_to = 0
                if count < fewest:
                    fewest, section, here, wasted_to = count, s, mask, up_to
                    floor, a, b, confined = level, begin, end, within
                    if count <= 1:
                        break
            if fewest <= 1:
                break
        cases: list[int] = []
        seen = set()
        while here:
            bit = here & -here
            here ^= bit
            i = bit.bit_length() - 1
            if self._twin[i] in seen:
                continue
            seen.add(self._twin[i])
            begin, end = self.spans[i]
            # What is cut off beside it must be filled too, where nothing may be wasted.
            if begin > a and not slack[begin - 1]:
                if not confined & self._ends_by[begin] & covers[begin - 1]:
                    continue
            if end < b and not slack[end] and not confined & self._begins_from[end] & covers[end]:
                continue
            waste = -floor % self._align[i]
            if floor + waste > self._highest[i]:
                continue
            if waste and any(slack[s] < waste for s in range(begin, end)):
                continue
            # A fixed buffer within the padding is no waste; the other case leads up to its end.
            if self._has_fixed and self._is_blocked(i, floor, floor + waste + self._size[i]):
                continue
            cases.append(i)
        cases.sort(key=rank.__getitem__, reverse=True)
        if wasted_to:
            cases.insert(0, _WASTE)
        return cases, section, floor, wasted_to

    def _waste_to(self, section: int, floor: int, wall: int, confined: int, a: int, b: int) -> int:
        """The lowest address at which a section goes on, if nothing is placed at its floor.

        What is not confined lies at a wall or higher. What is confined rests on something: on a
        confined buffer beside the section, or on a fixed one.
        """
        address = wall
        if confined & self._covers[section]:
            beside = confined & ~self._covers[section]
            if beside:
                smallest = (beside & -beside).bit_length() - 1
                address = min(address, floor + self._size[smallest])
            if self._has_fixed:
                for s in range(a, b):
                    for _, end in self._fixed[s]:
                        if end > floor:
                            address = min(address, end)
        if self._has_fixed:
            for start, _ in self._fixed[section]:
                if start > floor:
                    address = min(address, start)
        return address

    def _split(
        self,
        lo: int,
        hi: int,
        left: int,
        begin: int,
        end: int,
        height: int,
        waiting: _Part | None,
    ) -> _Part | None:
        """Put the independent parts of [lo, hi), cut within [begin, end], before what waits."""
        cuts = [lo, *(s for s in range(begin, end + 1) if not self._crosses[s - 1] & left), hi]
        parts = []
        for start, stop in pairwise(cuts):
            part = left & self._begins_from[start] & self._ends_by[stop]
            if part:
                parts.append((part.bit_count(), start, stop, part))
        for _, start, stop, part in sorted(parts, reverse=True):
            waiting = (start, stop, part, height, waiting)
        return waiting

    def _settle(self, section: int, floor: int) -> int:
        """The floor above the fixed buffers that begin right there."""
        for start, end in self._fixed[section]:
            if start == floor:
                floor = end
        return floor

    def _is_blocked(self, i: int, begin: int, end: int) -> bool:
        """Whether fixed buffers have units of [begin, end) while buffer i is live."""
        return any(
            start < end and begin < stop
            for s in range(*self.spans[i])
            for start, stop in self._fixed[s]
        )


def _valleys(lo: int, hi: int, floors: list[int], look: Look) -> list[tuple[int, int, int, int]]:
    """The valleys in [lo, hi) to look at: first and end section, floor, and the lower wall."""
    if look is Look.LOWEST:
        floor = min(floors[lo:hi])
        a = floors.index(floor, lo)
        b = a + 1
        while b < hi and floors[b] == floor:
            b += 1
        wall = min(floors[a - 1] if a > lo else _NEVER, floors[b] if b < hi else _NEVER)
        return [(a, b, floor, wall)]
    found = []
    before = _NEVER
    a = lo
    while a < hi:
        floor = floors[a]
        b = a + 1
        while b < hi and floors[b] == floor:
            b += 1
        after = floors[b] if b < hi else _NEVER
        if floor < before and floor < after:
            found.append((a, b, floor, min(before, after)))
        before = floor
        a = b
    if look is Look.NARROWEST:
        return [min(found, key=lambda valley: valley[1] - valley[0])]
    return found
