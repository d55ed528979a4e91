# SPDX-License-Identifier: Apache-2.0
"""Placement as an integer program, for instances that the search leaves open.

The program of OLLA (Steiner et al., 2022, eq. 15): an address per buffer, and for each two buffers
with overlapping lifetimes a binary column for their vertical order. It complements the search for
few buffers of different alignments, whose padding no bound foresees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, gcd

from poetfw.common.limits import Work
from poetfw.memory.problem import Buffer
from poetfw.schedule.highs import SolveOutcome, Vector
from poetfw.schedule.milp import IntegerProgram, SolverOptions, Term, solve_program

_TOLERANCE = 1e-4
"""Relative error allowed for the solver's bound, as a share of the incumbent's height.

Rows hold to 1e-6, and a buffer may lie on many others. No solution is lost while the error is less
than the smallest difference between two heights.
"""

_SMALLEST_STEP = 1e-6
"""Share of the incumbent's height below which the solver may ignore an alignment."""


@dataclass(frozen=True, slots=True)
class IlpAnswer:
    """Result of the integer program.

    Attributes:
        offsets: bytes by buffer id; None unless a lower placement was found.
        proven: lower bound on the height in bytes; the goal if nothing higher is proven.
    """

    offsets: dict[str, int] | None
    proven: int


def count_pairs(buffers: Sequence[Buffer]) -> int:
    """Number of pairs of buffers with overlapping lifetimes: binary columns of the program."""
    events = [(b.lower, 1) for b in buffers] + [(b.upper, -1) for b in buffers]
    events.sort()  # at equal times, ends come before begins
    pairs = live = 0
    for _, change in events:
        pairs += live if change > 0 else 0
        live += change
    return pairs


def stack_pyramid(buffers: Sequence[Buffer]) -> dict[str, int]:
    """Offsets of a stack of buffers, in which each lifetime lies within that of the buffer below.

    OLLA's preplacement: from the bottom up, the longest-lived buffer within the previous one's
    lifetime; ties go to the largest. The optimum may be lost.
    """
    offsets: dict[str, int] = {}
    top = 0
    within = [b for b in buffers if b.offset is None]
    while within:
        base = max(within, key=lambda b: (b.upper - b.lower, b.size))
        offsets[base.id] = -(-top // base.alignment) * base.alignment
        top = offsets[base.id] + base.size
        within = [b for b in within if b is not base and _lives_within(b, base)]
    return offsets


def _lives_within(buffer: Buffer, other: Buffer) -> bool:
    return other.lower <= buffer.lower and buffer.upper <= other.upper


def solve_ilp(
    buffers: Sequence[Buffer],
    goal: int,
    below: int,
    preplaced: dict[str, int],
    options: SolverOptions,
    work: Work,
) -> IlpAnswer:
    """Place buffers as low as the goal, or at least lower than the incumbent.

    Args:
        buffers: buffers of size > 0.
        goal: lower bound on the height, in bytes.
        below: height of the incumbent in bytes, more than the goal.
        preplaced: offsets of a pyramid in bytes; may be empty.
        options: solver and its limits.
        work: work limit.

    Raises:
        ToolError: The solver is missing or failed.
    """
    unit = gcd(*(b.alignment for b in buffers))
    if any(unit < b.alignment < below * _SMALLEST_STEP for b in buffers):
        return IlpAnswer(None, goal)
    model = _Model(buffers, goal, below, preplaced)
    solution = solve_program(model.program, replace(options, presolve=False), work)
    proven = goal
    if not preplaced:
        bound = 1.0 if solution.outcome is SolveOutcome.INFEASIBLE else solution.bound
        grain = gcd(unit, *(b.size for b in buffers))
        proven = max(goal, ceil((bound - _TOLERANCE) * below / grain) * grain)
    offsets = None if solution.values is None else model.settle(solution.values)
    if offsets is None:
        return IlpAnswer(None, proven)
    height = max(offsets[b.id] + b.size for b in buffers)
    return IlpAnswer(offsets if height < below else None, proven)


class _Model:
    """Integer program, with addresses in units of the incumbent's height."""

    def __init__(
        self, buffers: Sequence[Buffer], goal: int, below: int, preplaced: dict[str, int]
    ) -> None:
        self._buffers = buffers
        self._known = {b.id: b.offset for b in buffers if b.offset is not None} | preplaced
        self._below = below
        # Offsets are multiples of the unit without extra rows if the sizes are.
        self._unit = gcd(*(b.alignment for b in buffers))
        self.program = IntegerProgram(offset=goal / below, tolerance=0.5 / below)
        height = self.program.continuous(1.0, (below - 1 - goal) / below)
        self._address = [self._add_address(b) for b in buffers]
        for b, (terms, offset) in zip(buffers, self._address, strict=True):
            self.program.at_most([*terms, (height, -1.0)], (goal - b.size - offset) / below)
        for i, j in combinations(range(len(buffers)), 2):
            if buffers[i].overlaps_in_time(buffers[j]):
                self._separate(i, j, preplaced)

    def _add_address(self, buffer: Buffer) -> tuple[list[Term], int]:
        """Address of a buffer: terms, and bytes to add to them."""
        if buffer.id in self._known:
            return [], self._known[buffer.id]
        highest = self._below - 1 - buffer.size
        if buffer.alignment == self._unit:
            return [(self.program.continuous(upper=highest / self._below), 1.0)], 0
        column = self.program.whole(upper=highest // buffer.alignment)
        return [(column, buffer.alignment / self._below)], 0

    def _separate(self, i: int, j: int, preplaced: dict[str, int]) -> None:
        """Require that one of two buffers lies above the other."""
        a, b = self._buffers[i], self._buffers[j]
        if a.id in self._known and b.id in self._known:
            return
        # Below a preplaced buffer lie only preplaced buffers, of those live at the same time.
        if a.id in preplaced:
            self._put_above(i, j)
        elif b.id in preplaced:
            self._put_above(j, i)
        else:
            above = self.program.binary()
            self._put_above(i, j, above, 1)
            self._put_above(j, i, above, 0)

    def _put_above(self, i: int, j: int, column: int | None = None, value: int = 1) -> None:
        """Require that j begins at or above the end of i if the column has the value."""
        a, b = self._buffers[i], self._buffers[j]
        (below, begin), (above, offset) = self._address[i], self._address[j]
        # Their distance is a multiple of the gcd of both alignments.
        step = gcd(a.alignment, b.alignment)
        size = -(-a.size // step) * step
        row = [*below, *((other, -factor) for other, factor in above)]
        slack = offset - begin - size
        if column is not None:
            most = (begin if not below else self._below - 1 - a.size) + size
            row.append((column, (most if value else -most) / self._below))
            slack += most if value else 0
        self.program.at_most(row, slack / self._below)

    def settle(self, values: Vector) -> dict[str, int] | None:
        """Exact offsets of a solution: the solver's order, with each buffer as low as possible.

        Returns:
            None if a fixed buffer is in the way because of the solver's tolerance.
        """
        address = [
            offset / self._below + sum(factor * float(values[column]) for column, factor in terms)
            for terms, offset in self._address
        ]
        offsets: dict[str, int] = {}
        settled: list[Buffer] = []
        for i in sorted(range(len(address)), key=address.__getitem__):
            b = self._buffers[i]
            top = max((offsets[a.id] + a.size for a in settled if a.overlaps_in_time(b)), default=0)
            offsets[b.id] = -(-top // b.alignment) * b.alignment
            if b.offset is not None:
                if b.offset < top:
                    return None
                offsets[b.id] = b.offset
            settled.append(b)
        return offsets
