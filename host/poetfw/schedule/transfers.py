"""The transfer planner (POET, section 5.5): move transfers to where they hide behind computing.

A plan fixes what is paged. Where storage and core work at once, when a page-in begins and how long
a tensor on its way out keeps its RAM is free to choose, within the budget: page-ins are begun just
early enough, and tensors being paged out are freed only once they are out, or once their RAM is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, Step, StepKind
from poetfw.schedule.simulator import Simulation, simulate

_TRANSFERS = (StepKind.PAGE_IN, StepKind.PAGE_OUT)


def plan_transfers(problem: ScheduleProblem, plan: ExecutionPlan) -> ExecutionPlan:
    """The same steps in an order in which the core waits less; the plan itself if there is none.

    Args:
        problem: says what transfers take and whether they overlap with computing.
        plan: a legal plan, but for the deadline.
    """
    if problem.storage is None or not problem.storage.overlap:
        return plan
    planner = _Planner(problem, list(plan))
    planner.delay_frees()
    planner.hasten_page_ins()
    return tuple(planner.steps)


class _Planner:
    """A plan that is rearranged step by step; every change is kept only if it shortens it."""

    def __init__(self, problem: ScheduleProblem, steps: list[Step]) -> None:
        self._problem = problem
        self._size = {node.name: node.output_bytes for node in problem.nodes}
        self.steps = steps
        self._now = self._simulate(steps)

    def delay_frees(self) -> None:
        """Free what is on its way out later, where the core would wait for it."""
        leaving = {step.node for step in self.steps if step.kind is StepKind.PAGE_OUT}
        for step in [s for s in self.steps if s.kind is StepKind.FREE and s.node in leaving]:
            index = self.steps.index(step)
            while self._waits_before(index) and self._move_is_legal(index, index + 1):
                self._swap(index)
                index += 1

    def hasten_page_ins(self) -> None:
        """Begin page-ins earlier, where an op would wait for them."""
        for number in range(len(self.steps)):
            if self.steps[number].kind is not StepKind.PAGE_IN:
                continue
            index, best = number, list(self.steps)
            shortest_s = self._now.time_s
            while self._reader_waits(index) and self._move_is_legal(index, index - 1):
                self._swap(index - 1)
                index -= 1
                if self._now.time_s < shortest_s:
                    shortest_s, best = self._now.time_s, list(self.steps)
            if best != self.steps:
                self.steps = best
                self._now = self._simulate(best)

    def _waits_before(self, index: int) -> bool:
        """Whether the core waits for the step: it starts later than the one before it ended."""
        before = [
            span.end_s
            for step, span in zip(self.steps[:index], self._now.spans[:index], strict=True)
            if step.kind not in _TRANSFERS
        ]
        return self._now.spans[index].start_s > (before[-1] if before else 0.0)

    def _reader_waits(self, index: int) -> bool:
        """Whether the op that first uses a page-in waits for it."""
        name = self.steps[index].node
        readers = {node.name for node in self._problem.nodes if name in node.inputs}
        for later in range(index + 1, len(self.steps)):
            step = self.steps[later]
            if step.kind is StepKind.COMPUTE and step.node in readers:
                return self._waits_before(later)
        return False

    def _move_is_legal(self, index: int, to: int) -> bool:
        """Whether a page-in may begin one step earlier, or a free happen one step later."""
        if not 0 <= to < len(self.steps):
            return False
        moving, other = self.steps[index], self.steps[to]
        if other.node == moving.node or (
            moving.kind is StepKind.PAGE_IN and other.kind is StepKind.PAGE_IN
        ):
            return False
        during = self._now.during_bytes[to] + self._size[moving.node]
        return during <= self._problem.ram_bytes

    def _swap(self, index: int) -> None:
        steps = list(self.steps)
        steps[index], steps[index + 1] = steps[index + 1], steps[index]
        self.steps, self._now = steps, self._simulate(steps)

    def _simulate(self, steps: Sequence[Step]) -> Simulation:
        return simulate(replace(self._problem, deadline_s=None), tuple(steps))
