# SPDX-License-Identifier: Apache-2.0
"""DynProg: which tensors to page so that compute waits least, by dynamic programming.

O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Optimal GPU-CPU Offloading Strategies for Deep Neural
Network Training", Euro-Par 2020, the second of their two heuristics, with memory in 500 slots.

Tensors are decided on in the order of the forward pass. What is known after each is how many slots
the kept ones take; for each such number the program keeps the choice with the least waiting, and
with the fewest bytes still to be transferred among those. Forward and backward pass mirror each
other, so one sweep from both ends of the step inwards serves both. Transferring frees RAM byte by
byte, at the mean rate of what is in transfer. In the end each number of kept slots has a choice and
a time: that of compute with its waits or that of the channel, whichever is longer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from poetfw.limits import Deadline
from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.baselines.passes import Gap
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.simulator import simulate

SLOTS = 500
"""Units that the budget is divided into."""

_TIGHTENINGS = 8
_CHOICES = 24
"""How many of the program's choices are run on the timeline."""

Floats = NDArray[np.float64]

_COUNTS: Floats = np.arange(SLOTS + 1, dtype=np.float64)


def dynprog(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """The plan that pages what the dynamic program chooses.

    The program's best choices are run on the timeline of the simulator, which moves tensors as a
    whole, and the one that takes least time is the plan.

    Raises:
        UnsuitableError: there is no storage, there are no two passes, or no choice fits.
        OutOfTime: the deadline has passed.
    """
    offloading = Offloading.of(problem, "dynprog")
    choices = choose_paged(offloading, deadline)
    if not choices:
        return offloading.plan(offloading.first_that_fit(offloading.gaps), "dynprog")
    plans = [offloading.plan(paged, "dynprog") for paged in deadline.during(choices)]
    timed = replace(problem, deadline_s=None)
    return min(plans, key=lambda plan: simulate(timed, plan).time_s)


def choose_paged(offloading: Offloading, deadline: Deadline) -> list[frozenset[int]]:
    """What to page: the choices of least estimated time, the best first; none if nothing fits.

    On graphs whose tensors are not wanted back in exactly the reverse order, the program errs on
    the memory of the backward pass; then it is run again with as much less.

    Raises:
        OutOfTime: the deadline has passed.
    """
    budget = offloading.graph.problem.ram_bytes
    if offloading.fits(frozenset()):
        return [frozenset()]
    reduced = budget
    for _ in deadline.during(range(_TIGHTENINGS)):
        choices = list(islice(_Program(offloading, reduced).solve(), _CHOICES))
        if not choices:
            return []
        fitting = [paged for paged in choices if offloading.fits(paged)]
        if fitting:
            return fitting
        reduced -= min(max(offloading.live_bytes(paged)) for paged in choices) - budget
    return []


class _Side:
    """One pass, seen from its outer end: what is in transfer, per number of slots kept."""

    def __init__(self) -> None:
        self.bytes = np.zeros(SLOTS + 1)
        self.time_s = np.zeros(SLOTS + 1)

    def merged(self, keep: NDArray[np.bool_], kept: _Side) -> _Side:
        side = _Side()
        side.bytes = np.where(keep, kept.bytes, self.bytes)
        side.time_s = np.where(keep, kept.time_s, self.time_s)
        return side

    def shifted(self, slots: int) -> _Side:
        """Of the choice that keeps a tensor of this many slots besides."""
        side = _Side()
        side.bytes[slots:] = self.bytes[: SLOTS + 1 - slots]
        side.time_s[slots:] = self.time_s[: SLOTS + 1 - slots]
        return side

    def add(self, size: int, time_s: float) -> None:
        """Begin a transfer."""
        self.bytes = self.bytes + size
        self.time_s = self.time_s + time_s

    def run(self, room: Floats, time_s: float) -> Floats:
        """Run a node that leaves this much room for transfers: seconds waited, or infinity."""
        excess = np.maximum(0.0, self.bytes - room)
        with np.errstate(divide="ignore", invalid="ignore"):
            waited = np.where(self.bytes > 0, excess / self.bytes * self.time_s, 0.0)
            waited = np.where(room < 0, np.inf, waited)
            passed = np.minimum(self.time_s, np.where(np.isfinite(waited), waited, 0.0) + time_s)
            left = np.where(self.time_s > 0, 1 - passed / self.time_s, 0.0)
        self.bytes = self.bytes * left
        self.time_s = self.time_s - passed
        return waited


class _Program:
    """The dynamic program within a budget."""

    def __init__(self, offloading: Offloading, budget: int) -> None:
        self.offloading = offloading
        self.budget = budget
        self.slot_bytes = max(1.0, budget / SLOTS)
        self.waited = np.full(SLOTS + 1, np.inf)
        self.waited[0] = 0.0
        self.moved_s = np.zeros(SLOTS + 1)
        self.ahead, self.back = _Side(), _Side()
        self.decided_bytes = 0

    def solve(self) -> Iterator[frozenset[int]]:
        """The choices, that of least estimated time first."""
        gaps = self.offloading.gaps
        graph = self.offloading.graph
        middle = self.offloading.forward
        ends = np.minimum.accumulate([graph.n, *(gap.end for gap in gaps)])
        self.run(range(gaps[0].start + 1 if gaps else middle), range(0))
        keeps: list[NDArray[np.bool_]] = []
        for number, gap in enumerate(gaps):
            later = gaps[number + 1].start if number + 1 < len(gaps) else middle - 1
            self.run(range(0), range(int(ends[number]) - 1, int(ends[number + 1]) - 1, -1))
            keeps.append(self.decide(gap))
            self.run(range(gap.start + 1, later + 1), range(0))
        inner = int(ends[-1])
        self.run(range(0), range(inner - 1, middle - 1, -1))
        return self.choices(keeps)

    def slots(self, gap: Gap) -> int:
        return int(-(-self.offloading.graph.size[gap.tensor] // self.slot_bytes))

    def decide(self, gap: Gap) -> NDArray[np.bool_]:
        """Keep or page a tensor: per number of slots kept afterwards, whether it is kept."""
        size = self.offloading.graph.size[gap.tensor]
        slots = min(self.slots(gap), SLOTS + 1)
        kept_waited = np.full(SLOTS + 1, np.inf)
        kept_waited[slots:] = self.waited[: SLOTS + 1 - slots]
        kept_ahead, kept_back = self.ahead.shifted(slots), self.back.shifted(slots)
        self.ahead.add(size, self.offloading.out_s(gap.tensor))
        self.back.add(size, self.offloading.in_s(gap.tensor))
        tied = kept_waited == self.waited
        fewer = kept_ahead.bytes + kept_back.bytes <= self.ahead.bytes + self.back.bytes
        keep = (kept_waited < self.waited) | (tied & fewer)
        self.waited = np.where(keep, kept_waited, self.waited)
        moves_s = self.offloading.out_s(gap.tensor) + self.offloading.in_s(gap.tensor)
        kept_moved_s = np.zeros(SLOTS + 1)
        kept_moved_s[slots:] = self.moved_s[: SLOTS + 1 - slots]
        self.moved_s = np.where(keep, kept_moved_s, self.moved_s + moves_s)
        self.ahead = self.ahead.merged(keep, kept_ahead)
        self.back = self.back.merged(keep, kept_back)
        self.decided_bytes += size
        return np.asarray(keep, dtype=np.bool_)

    def run(self, ahead: range, back: range) -> None:
        """Run these nodes of the forward pass, and of the backward pass in reverse."""
        for side, nodes in ((self.ahead, ahead), (self.back, back)):
            for t in nodes:
                others = self.offloading.kept[t] - self.decided_bytes
                room = self.budget - others - self.slot_bytes * _COUNTS
                self.waited = self.waited + side.run(
                    room, self.offloading.graph.problem.nodes[t].time_s
                )

    def choices(self, keeps: list[NDArray[np.bool_]]) -> Iterator[frozenset[int]]:
        """The choice in each number of slots kept, by the time of the step they lead to.

        The step takes as long as compute with its waits, or as the channel moves what is paged,
        whichever is longer; of equals, the one that keeps most transfers least.
        """
        nodes = self.offloading.graph.problem.nodes
        step_s = np.maximum(math.fsum(n.time_s for n in nodes) + self.waited, self.moved_s)
        found = set()
        for kept in sorted(np.flatnonzero(np.isfinite(step_s)), key=lambda k: (step_s[k], -k)):
            paged = self.backtrack(keeps, int(kept))
            if paged not in found:
                found.add(paged)
                yield paged

    def backtrack(self, keeps: list[NDArray[np.bool_]], kept: int) -> frozenset[int]:
        """What is paged if so many slots are kept in the end."""
        paged = set()
        for gap, keep in zip(reversed(self.offloading.gaps), reversed(keeps), strict=True):
            if keep[kept]:
                kept -= self.slots(gap)
            else:
                paged.add(gap.tensor)
        return frozenset(paged)
