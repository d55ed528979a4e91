# SPDX-License-Identifier: Apache-2.0
"""DynProg: choose the tensors to page for the least compute stall, by dynamic programming.

O. Beaumont, L. Eyraud-Dubois, A. Shilova, "Optimal GPU-CPU Offloading Strategies for Deep Neural
Network Training", Euro-Par 2020, the second of their two heuristics, with memory in 500 slots.

The program decides on tensors in the order of the forward pass. Its state is the number of slots of
the kept tensors; per state it keeps the choice with the least stall, then with the fewest bytes
still to transfer. The forward and the backward pass are mirrored, so one sweep from both ends of
the step inwards serves both. A transfer frees RAM byte by byte, at the mean rate of the transfers
in progress. Each final state has a choice and a time: the larger of compute time with stalls and
channel time.

Here a tensor moves as a whole. So the program runs several times, with less than the budget, or
with part of the outstanding transfers counted as stalls, which it otherwise notices too late. The
choices are run on the timeline, and the fastest wins.

The paper finds DynProg within 1.2 of `lower_bound_s`. With whole tensors, on chains of 14 random
links where moving all of them takes 1.5 times the compute time, the best choice takes up to 1.12 of
the bound with half of the peak as budget, 1.29 with 40% and 1.51 with 30%. DynProg is within 6% of
that best choice, and within 1.2 of the bound for half of the peak or more.
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
"""Number of slots that the budget is divided into."""

_SHARES = (1.0, 0.9, 0.8)
"""Shares of the budget to run the program with."""

_WEIGHTS = (0.0, 0.5, 1.0)
"""Stall seconds per second of outstanding transfers."""

_CHOICES = 24
"""Most choices of each run that are examined."""

_NODES_RUN = 4_000
"""Most nodes, in all, of the plans that are run on the timeline."""

_NODES_PLANNED = 1_000
"""Most nodes, in all, of the plans whose transfers are optimised."""

_MOST_PLANNED = 6

Floats = NDArray[np.float64]

_COUNTS: Floats = np.arange(SLOTS + 1, dtype=np.float64)


def dynprog(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """Plan that pages the tensors chosen by the dynamic program.

    Raises:
        UnsuitableError: no storage, no two passes, or no choice fits.
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
    """Choices of tensors to page that fit, by estimated step time.

    The program lets transfers free RAM byte by byte, and misjudges the RAM of the backward pass if
    tensors are not read back in exactly the reverse order. So it also runs with less than the
    budget; without overlap, where only the moved bytes count, only if nothing fits otherwise. The
    choice of the paper's other heuristic, Greedy, is included.

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
    """Transfers in progress in one pass, from its outer end, per number of kept slots."""

    def __init__(self) -> None:
        self.bytes = np.zeros(SLOTS + 1)
        self.time_s = np.zeros(SLOTS + 1)

    def merged(self, keep: NDArray[np.bool_], kept: _Side) -> _Side:
        side = _Side()
        side.bytes = np.where(keep, kept.bytes, self.bytes)
        side.time_s = np.where(keep, kept.time_s, self.time_s)
        return side

    def shifted(self, slots: int) -> _Side:
        """Side after one more tensor of this many slots is kept."""
        side = _Side()
        side.bytes[slots:] = self.bytes[: SLOTS + 1 - slots]
        side.time_s[slots:] = self.time_s[: SLOTS + 1 - slots]
        return side

    def add(self, size: int, time_s: float) -> None:
        """Begin a transfer."""
        self.bytes = self.bytes + size
        self.time_s = self.time_s + time_s

    def run(self, room: Floats, time_s: float) -> Floats:
        """Run a node with this much room for transfers; return seconds of stall, or infinity."""
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
    """Dynamic program for a budget and a weight of outstanding transfers."""

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
        """Yield the choices by estimated step time."""
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
        """Keep or page a tensor; True per number of kept slots afterwards if it is kept."""
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
        """Run nodes of the forward pass, and of the backward pass in reverse."""
        for side, nodes in ((self.ahead, ahead), (self.back, back)):
            for t in nodes:
                others = self.offloading.kept[t] - self.decided_bytes
                room = self.budget - others - self.slot_bytes * _COUNTS
                self.waited = self.waited + side.run(
                    room, self.offloading.graph.problem.nodes[t].time_s
                )

    def choices(self, keeps: list[NDArray[np.bool_]]) -> Iterator[frozenset[int]]:
        """Yield the choice of each number of kept slots, by estimated step time.

        The step takes the larger of compute time with stalls and channel time; of equal ones, the
        choice that keeps the tensors with the longest transfers comes last.
        """
        nodes = self.offloading.graph.problem.nodes
        step_s = np.maximum(math.fsum(n.time_s for n in nodes) + self.waited, self.moved_s)
        kept = sorted(np.flatnonzero(np.isfinite(step_s)), key=lambda k: (step_s[k], -k))
        yield from dict.fromkeys(self.backtrack(keeps, int(k)) for k in kept)

    def backtrack(self, keeps: list[NDArray[np.bool_]], kept: int) -> frozenset[int]:
        """Paged tensors of the choice that ends with `kept` slots."""
        paged = set()
        for gap, keep in zip(reversed(self.offloading.gaps), reversed(keeps), strict=True):
            if keep[kept]:
                kept -= self.slots(gap)
            else:
                paged.add(gap.tensor)
        return frozenset(paged)
