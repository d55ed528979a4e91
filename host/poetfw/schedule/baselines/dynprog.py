"""DynProg: which tensors to page so that compute waits least, by dynamic programming.

O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Optimal GPU-CPU Offloading Strategies for Deep Neural
Network Training", Euro-Par 2020, the second of their two heuristics, with memory in 500 slots.

Tensors are decided on in the order of the forward pass. What is known after each is how many slots
the kept ones take; for each such number the program keeps the choice with the least waiting, and
with the fewest bytes still to be transferred among those. Forward and backward pass mirror each
other, so one sweep from both ends of the step inwards serves both. Transferring frees RAM byte by
byte, at the mean rate of what is in transfer.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.baselines.passes import Gap
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem

SLOTS = 500
"""Units that the budget is divided into."""

_TIGHTENINGS = 8

Floats = NDArray[np.float64]

_COUNTS: Floats = np.arange(SLOTS + 1, dtype=np.float64)


def dynprog(problem: ScheduleProblem) -> ExecutionPlan:
    """The plan that pages what the dynamic program chooses.

    Raises:
        UnsuitableError: there is no storage, there are no two passes, or no choice fits.
    """
    offloading = Offloading.of(problem, "dynprog")
    return offloading.plan(choose_paged(offloading), "dynprog")


def choose_paged(offloading: Offloading) -> frozenset[int] | None:
    """What to page; None if nothing fits.

    On graphs whose tensors are not wanted back in exactly the reverse order, the program errs on
    the memory of the backward pass; then it is run again with as much less. Where slots are too
    coarse for it to find anything, the greedy choice stands in.
    """
    budget = offloading.graph.problem.ram_bytes
    if offloading.fits(frozenset()):
        return frozenset()
    reduced = budget
    for _ in range(_TIGHTENINGS):
        paged = _Program(offloading, reduced).solve()
        if paged is None:
            break
        excess = max(offloading.live_bytes(paged)) - budget
        if excess <= 0:
            return paged
        reduced -= excess
    return offloading.first_that_fit(offloading.gaps)


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
        self.ahead, self.back = _Side(), _Side()
        self.decided_bytes = 0

    def solve(self) -> frozenset[int] | None:
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
        return self.backtrack(keeps)

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

    def backtrack(self, keeps: list[NDArray[np.bool_]]) -> frozenset[int] | None:
        least = self.waited.min()
        if not np.isfinite(least):
            return None
        # Of equals, the one that keeps most transfers least.
        left = int(np.flatnonzero(self.waited == least)[-1])
        paged = set()
        for gap, keep in zip(reversed(self.offloading.gaps), reversed(keeps), strict=True):
            if keep[left]:
                left -= self.slots(gap)
            else:
                paged.add(gap.tensor)
        return frozenset(paged)
