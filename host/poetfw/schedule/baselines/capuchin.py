# SPDX-License-Identifier: Apache-2.0
"""Capuchin: page tensors whose transfers are hidden, recompute others by bytes saved per second.

X. Peng et al., "Capuchin: Tensor-based GPU Memory Management for Deep Learning", ASPLOS 2020,
section on memory management policy, Algorithms 1 and 2. Two figures come from a run without
evictions:

    FT    free time: from the end of the page-out to the latest start of the page-in
    MSPS  memory saving per second: bytes over the time to recompute them

Tensors live at the peak are evicted until the rest fits: first those with the most free time whose
transfers delay nothing; then the cheaper of the best one to page (by FT) and the best one to
recompute (by MSPS). Each choice changes the recompute time of the others.

Differences: the paper measures accesses at run time and adapts during the first iterations; here
times come from the problem and the peak after each choice from the simulator. The paper evicts
between any two accesses; here only between the forward and the backward pass.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

from poetfw.common.errors import UnsuitableError
from poetfw.common.limits import Deadline
from poetfw.schedule.baselines.passes import Gap, bridge, forward_nodes, gaps, require, shortfall
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, StepKind
from poetfw.schedule.simulator import unlimited


def capuchin(problem: ScheduleProblem, deadline: Deadline) -> ExecutionPlan:
    """Plan that evicts as many tensors as the budget requires.

    Raises:
        UnsuitableError: the problem has no two passes, or evicting every tensor is not enough.
        OutOfTime: the deadline has passed.
    """
    graph = Indexed.of(problem)
    forward = forward_nodes(graph, "capuchin")
    policy = _Policy(graph, gaps(graph, forward))
    for _ in deadline.during(itertools.count()):
        plan = bridge(graph, forward, recompute=policy.recomputed, page=policy.paged)
        simulation = unlimited(problem, plan)
        if simulation.peak_bytes <= problem.ram_bytes:
            return require(graph, plan, "capuchin")
        at = simulation.during_bytes.index(simulation.peak_bytes)
        if not policy.give_up(_first_computations(graph, plan[: at + 1])):
            break
    raise UnsuitableError("capuchin", shortfall(graph, simulation))


def _first_computations(graph: Indexed, plan: ExecutionPlan) -> int:
    """Number of distinct nodes that a prefix of a plan computes."""
    return len({step.node for step in plan if step.kind is StepKind.COMPUTE})


@dataclass
class _Policy:
    """Evictions chosen so far."""

    graph: Indexed
    gaps: tuple[Gap, ...]
    paged: set[int] = field(default_factory=set)
    recomputed: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        times = (node.time_s for node in self.graph.problem.nodes)
        self.clock_s = list(itertools.accumulate(times, initial=0.0))

    def give_up(self, done: int) -> bool:
        """Evict one more tensor idle at the peak, after `done` nodes; False if none is left."""
        given = self.paged | self.recomputed
        left = [
            gap for gap in self.gaps if gap.tensor not in given and gap.start < done <= gap.end + 1
        ]
        movable = [gap for gap in left if self.graph.pageable[gap.tensor]]
        free = max(movable, key=self.free_time_s, default=None)
        delay_s = self.delay_s(free) if free else math.inf
        repeatable = {gap: self.recompute_time_s(gap) for gap in left}
        best = max(left, key=lambda gap: self.saving(gap, repeatable[gap]), default=None)
        if free and (delay_s == 0 or best is None or delay_s <= repeatable[best]):
            self.paged.add(free.tensor)
        elif best and math.isfinite(repeatable[best]):
            self.recomputed.add(best.tensor)
        else:
            return False
        return True

    def saving(self, gap: Gap, time_s: float) -> float:
        """MSPS, bytes per second."""
        return self.graph.size[gap.tensor] / time_s if time_s else math.inf

    def free_time_s(self, gap: Gap) -> float:
        """FT in seconds; negative if the transfers take longer than the gap."""
        waits_s = self.clock_s[gap.end] - self.clock_s[gap.start + 1]
        return waits_s - sum(self.transfer_s(gap))

    def transfer_s(self, gap: Gap) -> tuple[float, float]:
        storage = self.graph.problem.storage
        assert storage is not None
        size = self.graph.size[gap.tensor]
        return storage.page_out_time_s(size), storage.page_in_time_s(size)

    def delay_s(self, gap: Gap) -> float:
        """Seconds of compute delay on one channel if this tensor is paged too."""
        moved = [g for g in self.gaps if g.tensor in self.paged or g == gap]
        out_s, written_s = 0.0, {}
        for g in sorted(moved, key=lambda g: g.start):
            out_s = max(out_s, self.clock_s[g.start + 1]) + self.transfer_s(g)[0]
            written_s[g] = out_s
        in_s, delay_s = math.inf, 0.0
        for g in sorted(moved, key=lambda g: -g.end):
            in_s = min(in_s, self.clock_s[g.end]) - self.transfer_s(g)[1]
            delay_s = max(delay_s, written_s[g] - in_s)
        return delay_s

    def recompute_time_s(self, gap: Gap) -> float:
        """Seconds to recompute the tensor from resident or paged tensors."""
        nodes = self.graph.problem.nodes
        if not nodes[gap.tensor].recompute:
            return math.inf
        kept = {g.tensor for g in self.gaps} - self.recomputed - {gap.tensor}
        again: set[int] = set()
        stack = [gap.tensor]
        while stack:
            i = stack.pop()
            if i not in again and i not in kept and nodes[i].recompute:
                again.add(i)
                stack.extend(self.graph.inputs[i])
        return math.fsum(nodes[i].time_s for i in again)
