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

Here tensors move as a whole, so the choices of several runs of the program are run on the timeline,
and the fastest is taken: runs in less than the budget, and runs that count part of the transfers
still to come as waiting, which else is seen too late.

The paper finds DynProg within 1.2 of `lower_bound_s`. Tensors that move as a whole are not always
that close: on chains of 14 random links, where moving all of them takes 1.5 times as long as
compute, the best of all choices takes up to 1.12 of it in half of the peak, 1.29 in 40% and 1.51 in
30%. DynProg is within 6% of that best, and within 1.2 of the bound from half of the peak on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.baselines.passes import Gap, bridge, require
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem
from poetfw.schedule.simulator import accepts, simulate
from poetfw.schedule.transfers import hasten_page_ins, plan_transfers

SLOTS = 500
"""Units that the budget is divided into."""

_SHARES = (1.0, 0.9, 0.8)
"""Shares of the budget that the program is given."""

_WEIGHTS = (0.0, 0.5, 1.0)
"""Seconds of waiting that a second of outstanding transfers is counted as."""

_CHOICES = 24
"""Number of the program's choices in each that are looked at."""

_NODES_RUN = 4_000
"""Number of nodes, in all, of the plans that are run on the timeline."""

_NODES_PLANNED = 1_000
"""The same of the plans whose transfers are planned with care."""

_MOST_PLANNED = 6

Floats = NDArray[np.float64]

_COUNTS: Floats = np.arange(SLOTS + 1, dtype=np.float64)


def dynprog(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """The plan that pages what the dynamic program chooses.

    Raises:
        UnsuitableError: there is no storage, there are no two passes, or no choice fits.
        OutOfTime: the deadline has passed.
    """
    offloading = Offloading.of(problem, "dynprog")
    timed = replace(problem, deadline_s=None)
    count = len(problem.nodes)
    plans = [
        plan
        for paged in deadline.during(
            choose_paged(offloading, deadline)[: max(1, _NODES_RUN // count)]
        )
        if accepts(timed, plan := bridge(offloading.graph, offloading.forward, page=paged))
    ]
    if not plans:
        return offloading.plan(offloading.first_that_fit(offloading.gaps), "dynprog")

    def time_s(plan: ExecutionPlan) -> float:
        return simulate(timed, plan).time_s

    plans.sort(key=lambda plan: time_s(hasten_page_ins(timed, plan)))
    few = max(1, min(_MOST_PLANNED, _NODES_PLANNED // count))
    planned = [plan_transfers(timed, plan, deadline) for plan in plans[:few]]
    return require(offloading.graph, min(planned, key=time_s), "dynprog")


def choose_paged(offloading: Offloading, deadline: Deadline) -> list[frozenset[int]]:
    """Choose what to page among choices that fit, that of the shortest step first, as far as known.

    The program takes transfers to free RAM byte by byte, and errs on the memory of the backward
    pass where tensors are not wanted back in exactly the reverse order. So it is run in less than
    the budget as well; without overlap, where all that counts is how much moves, only if it must
    be. The choice of their other heuristic, Greedy, is among them.

    Raises:
        OutOfTime: the deadline has passed.
    """
    budget = offloading.graph.problem.ram_bytes
    if offloading.fits(frozenset()):
        return [frozenset()]
    overlap = offloading.storage.overlap
    chosen: set[frozenset[int]] = set()
    for share in deadline.during(_SHARES):
        for weight in _WEIGHTS if overlap else _WEIGHTS[:1]:
            found = islice(_Program(offloading, int(budget * share), weight).solve(), _CHOICES)
            chosen.update(paged for paged in found if offloading.fits(paged))
        if chosen and not overlap:
            break
    greedy = offloading.first_that_fit(offloading.gaps)
    chosen |= set() if greedy is None else {greedy}

    def promise(paged: frozenset[int]) -> tuple[float, float, list[int]]:
        step_s = offloading.step_time_s(paged) if overlap else 0.0
        return step_s, offloading.moved_s(paged), sorted(paged)

    return sorted(chosen, key=promise)


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
    """The dynamic program within a budget, with a weight for transfers still to come."""

    def __init__(self, offloading: Offloading, budget: int, weight: float) -> None:
        self.weight = weight
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
        paged_cost = self.waited + self.weight * (self.ahead.time_s + self.back.time_s)
        kept_cost = kept_waited + self.weight * (kept_ahead.time_s + kept_back.time_s)
        tied = kept_cost == paged_cost
        fewer = kept_ahead.bytes + kept_back.bytes <= self.ahead.bytes + self.back.bytes
        keep = (kept_cost < paged_cost) | (tied & fewer)
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
        """The paged tensors of the choice that keeps `kept` slots in the end."""
        paged = set()
        for gap, keep in zip(reversed(self.offloading.gaps), reversed(keeps), strict=True):
            if keep[kept]:
                kept -= self.slots(gap)
            else:
                paged.add(gap.tensor)
        return frozenset(paged)
