# SPDX-License-Identifier: Apache-2.0
"""AutoSwap: page tensors by a score of their size and time without reads.

J. Zhang et al., "Efficient Memory Management for GPU-based Deep Learning Systems", 2019, section on
AutoSwap. Of the tensors idle at the peak, those of highest priority are paged until the load fits:

    DOA    duration of absence: time without reads, less the transfer time
    AOA    area of absence: DOA · size, or DOA / size if DOA is negative
    WDOA   weighted: the load above the budget, integrated over the absence
    SWDOA  WDOA of the load that remains after the tensors chosen so far are paged

The paper weights the scores by Bayesian optimisation. This version tries each score alone and takes
the choice with the shortest step under overlapping transfers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.baselines.passes import Gap
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def autoswap(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """Plan that pages the tensors of highest priority.

    Raises:
        UnsuitableError: no storage, no two passes, or paging every tensor is not enough.
        OutOfTime: the deadline has passed.
    """
    offloading = Offloading.of(problem, "autoswap")
    scores = _Scores(offloading)
    choices = [
        paged
        for score in (scores.doa, scores.aoa, scores.wdoa, scores.swdoa)
        if (paged := _take(offloading, score, deadline)) is not None
    ]
    best = min(choices, key=offloading.step_time_s, default=None)
    return offloading.plan(best, "autoswap")


Score = Callable[[Gap, list[int]], float]
"""Priority of a tensor, given the live bytes per node after the choices so far."""


def _take(offloading: Offloading, score: Score, deadline: Deadline) -> frozenset[int] | None:
    """Choose tensors idle at the peak by priority until the rest fits; None if it never fits."""
    paged: set[int] = set()
    for _ in deadline.during(itertools.count()):
        if offloading.fits(paged):
            break
        live = offloading.live_bytes(paged)
        peak = live.index(max(live))
        waiting = [
            gap for gap in offloading.gaps if gap.tensor not in paged and gap.start < peak < gap.end
        ]
        if not waiting:
            return None
        paged.add(max(waiting, key=lambda gap: score(gap, live)).tensor)
    return frozenset(paged)


class _Scores:
    """AutoSwap's four priority scores."""

    def __init__(self, offloading: Offloading) -> None:
        self.offloading = offloading
        self.times_s = [node.time_s for node in offloading.graph.problem.nodes]
        self.clock_s = list(itertools.accumulate(self.times_s, initial=0.0))

    def doa(self, gap: Gap, live: list[int]) -> float:
        """Duration of absence, in seconds."""
        moving_s = self.offloading.out_s(gap.tensor) + self.offloading.in_s(gap.tensor)
        return self.clock_s[gap.end] - self.clock_s[gap.start + 1] - moving_s

    def aoa(self, gap: Gap, live: list[int]) -> float:
        """Area of absence: byte seconds; for a negative duration, seconds per byte."""
        doa, size = self.doa(gap, live), self.offloading.graph.size[gap.tensor]
        return doa * size if doa >= 0 else doa / size

    def wdoa(self, gap: Gap, live: list[int]) -> float:
        """Byte seconds above the budget, without any paging."""
        return self.swdoa(gap, list(self.offloading.kept))

    def swdoa(self, gap: Gap, live: list[int]) -> float:
        """Byte seconds above the budget after the choices so far."""
        budget = self.offloading.graph.problem.ram_bytes
        absent = range(gap.start + 1, gap.end)
        return sum(max(0, live[t] - budget) * self.times_s[t] for t in absent)
