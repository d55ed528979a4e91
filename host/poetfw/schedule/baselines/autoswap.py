# SPDX-License-Identifier: Apache-2.0
"""AutoSwap: page by a score of how long and how large a tensor waits.

J. Zhang et al., "Efficient Memory Management for GPU-based Deep Learning Systems", 2019, section on
AutoSwap. Tensors that wait at the peak are taken by the highest priority score until the load fits:

    DOA    duration of absence: how long the tensor is not read, less the time to move it
    AOA    area of absence: DOA · size, or DOA / size where DOA is negative
    WDOA   weighted: the load above the budget, integrated over the absence
    SWDOA  WDOA of the load that is left once what has been chosen is away

The paper mixes the scores with weights found by Bayesian optimisation; here each is tried alone,
and the choice with the shortest step under overlapping transfers is taken.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.baselines.passes import Gap
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def autoswap(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """The plan that pages the tensors of highest priority.

    Raises:
        UnsuitableError: there is no storage, there are no two passes, or paging all is not enough.
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
"""Priority of a tensor, given what is live with all that was chosen before."""


def _take(offloading: Offloading, score: Score, deadline: Deadline) -> frozenset[int] | None:
    """Take tensors that wait at the peak, by priority, until the rest fits."""
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
    """The four priority scores."""

    def __init__(self, offloading: Offloading) -> None:
        self.offloading = offloading
        self.times_s = [node.time_s for node in offloading.graph.problem.nodes]
        self.clock_s = list(itertools.accumulate(self.times_s, initial=0.0))

    def doa(self, gap: Gap, live: list[int]) -> float:
        """Seconds."""
        moving_s = self.offloading.out_s(gap.tensor) + self.offloading.in_s(gap.tensor)
        return self.clock_s[gap.end] - self.clock_s[gap.start + 1] - moving_s

    def aoa(self, gap: Gap, live: list[int]) -> float:
        """Area of absence: byte seconds; for a negative duration, seconds per byte."""
        doa, size = self.doa(gap, live), self.offloading.graph.size[gap.tensor]
        return doa * size if doa >= 0 else doa / size

    def wdoa(self, gap: Gap, live: list[int]) -> float:
        """Byte seconds above the budget, whatever has been chosen."""
        return self.swdoa(gap, list(self.offloading.kept))

    def swdoa(self, gap: Gap, live: list[int]) -> float:
        """Byte seconds above the budget that are left."""
        budget = self.offloading.graph.problem.ram_bytes
        absent = range(gap.start + 1, gap.end)
        return sum(max(0, live[t] - budget) * self.times_s[t] for t in absent)
