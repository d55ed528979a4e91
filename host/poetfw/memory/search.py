# SPDX-License-Identifier: Apache-2.0
"""Exhaustive search for a placement within a capacity, for instances no heuristic places.

State. Time is a row of sections (see `sections`); `floors[s]` is the address below which section s
is settled. A valley is a run of sections with equal floors between higher walls. A buffer is
confined if its sections lie within the valley. Only confined buffers can lie at a valley's floor;
all others start at a wall or higher.

Branching. Choose a section of the valley. The next buffer on it either is a confined buffer at its
lowest possible address, with only padding between it and the floor on all of its sections, or
starts higher, which wastes bytes of the section. Every placement can be pushed down until each
buffer rests on the ground, on another buffer or on its alignment, so these cases are complete: if
something lies in a buffer's padding on another section, the waste case reaches it first. A section
can waste its slack: the capacity less the settled bytes and the bytes still to place. On tight
instances slack is scarce, and branching on the section with the fewest cases finds dead ends early.

Independence. Where no unplaced buffer crosses the border between two sections, the rest splits into
parts, solved one after another; choices in a solved part are never revisited.

A node of the search consists of a part, its unplaced buffers, and what is settled: floors, slack,
and the trail for backtracking. A choice is a node with untried cases. A node is pruned if it is
known to be hopeless or if its section has no case; `_possible` excludes impossible cases.

Memory. The remaining subproblem, slack included, depends only on the floors and the unplaced
buffers, so hopeless states are remembered, across restarts with other orders.

Canonical placements, section bounds and independent parts are ideas of MiniMalloc (M. D. Moffitt,
ASPLOS 2023); branching on sections, valley by valley, comes from exact strip packing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from math import gcd

from poetfw.common.limits import Deadline
from poetfw.memory.problem import Buffer
from poetfw.memory.sections import find_sections

_LARGEST_MEMORY = 400_000
"""Most states remembered as hopeless; each takes a few hundred bytes."""


class Look(Enum):
    """Rule for the section to branch on; the rules solve different instances."""

    FEWEST = "all valleys"
    NARROWEST = "the narrowest valley"
    LOWEST = "the lowest valley"


class SearchEnd(Enum):
    """Reason why a search ended."""

    FOUND = "found"
    EXHAUSTED = "exhausted"
    LIMIT = "limit"


@dataclass(slots=True)
class _Part:
    """Sections [lo, hi) that no unplaced buffer crosses.

    Attributes:
        lo: first section.
        hi: end.
        left: mask of the buffers to place there when the part begins.
        height: number of choices to keep then; later ones belong to a solved part.
        after: next part to solve.
    """

    lo: int
    hi: int
    left: int
    height: int
    after: _Part | None


@dataclass(slots=True)
class _Branching:
    """Candidates for the next buffer on one section of a node.

    Attributes:
        cases: buffers that may lie at its floor, or `_WASTE`; the best one last.
        section: index of the section.
        floor: in units.
        wasted_to: next floor of the section if no buffer lies at this floor, in units.
    """

    cases: list[int]
    section: int
    floor: int
    wasted_to: int


@dataclass(slots=True)
class _Choice:
    """Node with untried cases, and the data to backtrack to it."""

    branching: _Branching
    trail_height: int
    part: _Part
    left: int
    key: tuple[int, tuple[int, ...]]


_WASTE = -1
"""Case in which no confined buffer lies at the floor of the section."""

_NEVER = 1 << 62
"""Upper bound on all addresses."""


class _Settled:
    """Settled offsets of a search node, and the trail back to earlier nodes.

    Args:
        slack: of each section, in units.
        fixed: per section, extents [begin, end) of its fixed buffers, ascending.

    Attributes:
        floors: per section, the address below which it is settled, in units.
        slack: units that each section can still waste.
        trail: lifts: sections [begin, end), their previous floor, units wasted on each.
    """

    __slots__ = ("_fixed", "_has_fixed", "floors", "slack", "trail")

    def __init__(self, slack: list[int], fixed: list[list[tuple[int, int]]]) -> None:
        self._fixed = fixed
        self._has_fixed = any(fixed)
        self.slack = slack.copy()
        self.floors = [0] * len(slack)
        self.trail: list[tuple[int, int, int, int]] = []
        self._settle(0, len(slack))

    def lift(self, begin: int, end: int, top: int, waste: int) -> None:
        """Settle the sections [begin, end), all at one floor, up to `top`.

        Args:
            begin: first section.
            end: end.
            top: new floor.
            waste: empty units in each section.
        """
        floors = self.floors
        self.trail.append((begin, end, floors[begin], waste))
        if waste:
            for s in range(begin, end):
                self.slack[s] -= waste
        floors[begin:end] = [top] * (end - begin)
        if self._has_fixed:
            self._settle(begin, end)

    def undo(self, height: int) -> None:
        """Backtrack until the trail has `height` entries."""
        trail, floors = self.trail, self.floors
        while len(trail) > height:
            begin, end, floor, waste = trail.pop()
            floors[begin:end] = [floor] * (end - begin)
            if waste:
                for s in range(begin, end):
                    self.slack[s] += waste

    def _settle(self, begin: int, end: int) -> None:
        """Lift sections over fixed buffers that begin at their floors."""
        for s in range(begin, end):
            for start, stop in self._fixed[s]:
                if start == self.floors[s]:
                    self.floors[s] = stop


class Search:
    """Search for one placement of buffers within one capacity.

    Args:
        buffers: buffers of size > 0.
        capacity: bytes.

    Attributes:
        buffers: those without a fixed offset, by size; ranks refer to this order.
        spans: for each of them, the sections [first, last) that it is live in.
        offsets: bytes by buffer id of those without a fixed offset, once found.
        states: number of states visited so far.
    """

    def __init__(self, buffers: Sequence[Buffer], capacity: int) -> None:
        buffers = sorted(buffers, key=lambda b: (b.size, b.lower, b.upper, b.alignment, b.id))
        free = [i for i, b in enumerate(buffers) if b.offset is None]
        first, last, count = find_sections(buffers)
        # Addresses are in units of the gcd of all alignments, which divides every offset.
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

        # Bit i of a mask means self.buffers[i]; a lower bit is never a larger buffer.
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

        kinds = [(*self.spans[i], b.size, b.alignment) for i, b in enumerate(self.buffers)]
        twins = dict.fromkeys(kinds, 0)
        for i, kind in enumerate(kinds):
            twins[kind] |= 1 << i
        self._twins = [twins[kind] for kind in kinds]
        self._hopeless: set[tuple[int, tuple[int, ...]]] = set()

    def run(
        self, rank: Sequence[float], look: Look, state_limit: int, deadline: Deadline
    ) -> SearchEnd:
        """Search depth first.

        Args:
            rank: per buffer of `buffers`; lower ranks are tried first.
            look: rule for the section to branch on.
            state_limit: most states to visit.
            deadline: time limit.

        Returns:
            FOUND with the answer in `offsets`, EXHAUSTED if there is none, or LIMIT.
        """
        if self._too_high or min(self._slack) < 0:
            return SearchEnd.EXHAUSTED
        limit = self.states + state_limit
        settled = _Settled(self._slack, self._fixed)
        placed_at = [0] * len(self.buffers)
        choices: list[_Choice] = []
        whole = _Part(0, self._count, (1 << len(self.buffers)) - 1, 0, None)
        part = self._split(whole, whole.left, 0)
        left = part.left if part else 0
        while part:
            self.states += 1
            if self.states > limit or (not self.states & 255 and deadline.has_passed()):
                return SearchEnd.LIMIT

            key = (left, tuple(settled.floors[part.lo : part.hi]))
            branching = None
            if key not in self._hopeless:
                branching = self._branch(part, left, settled, rank, look)
            if not branching:
                choice = self._last_open(choices)
                if not choice:
                    return SearchEnd.EXHAUSTED
                settled.undo(choice.trail_height)
                branching, part, left = choice.branching, choice.part, choice.left
            elif len(branching.cases) > 1:
                choices.append(_Choice(branching, len(settled.trail), part, left, key))

            case, floor = branching.cases.pop(), branching.floor
            if case == _WASTE:
                section, top = branching.section, branching.wasted_to
                settled.lift(section, section + 1, top, top - floor)
                continue
            begin, end = self.spans[case]
            waste = -floor % self._align[case]
            placed_at[case] = floor + waste
            settled.lift(begin, end, floor + waste + self._size[case], waste)
            left ^= 1 << case
            if not left or self._falls_apart(part, left, begin, end):
                part = self._split(part, left, len(choices))
                if part:
                    left = part.left
                    del choices[part.height :]
        for i, b in enumerate(self.buffers):
            self.offsets[b.id] = placed_at[i] * self._unit
        return SearchEnd.FOUND

    def _last_open(self, choices: list[_Choice]) -> _Choice | None:
        """Last choice with untried cases; drops later choices and marks them hopeless."""
        while choices and not choices[-1].branching.cases:
            if len(self._hopeless) < _LARGEST_MEMORY:
                self._hopeless.add(choices[-1].key)
            choices.pop()
        return choices[-1] if choices else None

    def _branch(
        self, part: _Part, left: int, settled: _Settled, rank: Sequence[float], look: Look
    ) -> _Branching | None:
        """Cases of the section with the fewest; None at a dead end."""
        slack, covers = settled.slack, self._covers
        fewest = _NEVER
        section = floor = wasted_to = a = b = here = confined = 0
        for begin, end, level, wall in _valleys(part.lo, part.hi, settled.floors, look):
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
        cases = self._possible(here, a, b, floor, confined, slack)
        if len(cases) > 1:
            cases.sort(key=rank.__getitem__, reverse=True)
        if wasted_to:
            cases.insert(0, _WASTE)
        return _Branching(cases, section, floor, wasted_to) if cases else None

    def _possible(
        self, here: int, a: int, b: int, floor: int, confined: int, slack: list[int]
    ) -> list[int]:
        """Buffers of `here` that may lie at the floor of the valley [a, b).

        Excludes a buffer that equals one already included, cuts off a section without slack that no
        other buffer could fill, ends above the capacity, needs more padding than the slack, or
        collides with a fixed buffer.
        """
        cases: list[int] = []
        seen = 0
        while here:
            bit = here & -here
            here ^= bit
            i = bit.bit_length() - 1
            if seen & self._twins[i]:
                continue
            seen |= bit
            begin, end = self.spans[i]
            # Sections that it cuts off beside it must be filled too, if nothing may be wasted.
            if begin > a and not slack[begin - 1]:
                if not confined & self._ends_by[begin] & self._covers[begin - 1]:
                    continue
            if end < b and not slack[end]:
                if not confined & self._begins_from[end] & self._covers[end]:
                    continue
            waste = -floor % self._align[i]
            if floor + waste > self._highest[i]:
                continue
            if waste and any(slack[s] < waste for s in range(begin, end)):
                continue
            # A fixed buffer within the padding is no waste; the waste case leads to its end.
            if self._has_fixed and self._is_blocked(i, floor, floor + waste + self._size[i]):
                continue
            cases.append(i)
        return cases

    def _waste_to(self, section: int, floor: int, wall: int, confined: int, a: int, b: int) -> int:
        """Lowest next floor of a section if nothing is placed at its floor.

        Buffers that are not confined lie at a wall or higher. A confined buffer rests on a confined
        buffer beside the section, or on a fixed one.
        """
        address = wall
        if confined & self._covers[section]:
            beside = confined & ~self._covers[section]
            if beside:
                smallest = (beside & -beside).bit_length() - 1
                if floor + self._size[smallest] < address:
                    address = floor + self._size[smallest]
            if self._has_fixed:
                for s in range(a, b):
                    for _, end in self._fixed[s]:
                        if floor < end < address:
                            address = end
        if self._has_fixed:
            for start, _ in self._fixed[section]:
                if floor < start < address:
                    address = start
        return address

    def _falls_apart(self, part: _Part, left: int, begin: int, end: int) -> bool:
        """True if no unplaced buffer crosses some border in [begin, end] within the part."""
        crosses = self._crosses
        if begin == part.lo:
            begin += 1
        if end == part.hi:
            end -= 1
        for s in range(begin - 1, end):
            if not crosses[s] & left:
                return True
        return False

    def _split(self, part: _Part, left: int, height: int) -> _Part | None:
        """Split a part with unplaced buffers into independent parts.

        Returns:
            The first part to solve, with the fewest buffers; without buffers, the part that was to
            follow this one.
        """
        crosses = self._crosses
        cuts = [s for s in range(part.lo + 1, part.hi) if not crosses[s - 1] & left]
        after = part.after
        pieces = []
        for lo, hi in pairwise([part.lo, *cuts, part.hi]):
            inside = left & self._begins_from[lo] & self._ends_by[hi]
            if inside:
                pieces.append((inside.bit_count(), lo, hi, inside))
        for _, lo, hi, inside in sorted(pieces, reverse=True):
            after = _Part(lo, hi, inside, height, after)
        return after

    def _is_blocked(self, i: int, begin: int, end: int) -> bool:
        """True if fixed buffers occupy units of [begin, end) while buffer i is live."""
        return any(
            start < end and begin < stop
            for s in range(*self.spans[i])
            for start, stop in self._fixed[s]
        )


def _valleys(lo: int, hi: int, floors: list[int], look: Look) -> list[tuple[int, int, int, int]]:
    """Valleys in [lo, hi) to consider: first and end section, floor, and the lower wall."""
    if look is Look.LOWEST:
        floor = min(floors[lo:hi])
        a = floors.index(floor, lo)
        b = a + 1
        while b < hi and floors[b] == floor:
            b += 1
        wall = min(floors[a - 1] if a > lo else _NEVER, floors[b] if b < hi else _NEVER)
        return [(a, b, floor, wall)]
    found = []
    a = lo
    before, floor = _NEVER, floors[lo]
    for b in [s for s in range(lo + 1, hi) if floors[s] != floors[s - 1]]:
        after = floors[b]
        if before > floor < after:
            found.append((a, b, floor, before if before < after else after))
        a, before, floor = b, floor, after
    if before > floor:
        found.append((a, hi, floor, before))
    if look is Look.NARROWEST:
        return [min(found, key=lambda valley: valley[1] - valley[0])]
    return found
