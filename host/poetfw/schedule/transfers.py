"""The transfer planner (POET, section 5.5): move transfers to where they hide behind computing.

A plan fixes what is paged. Where storage and core work at once, when a page-in begins and how long
a tensor on its way out keeps its RAM is free to choose, within the budget: page-ins are begun just
early enough, and tensors being paged out are freed only once they are out, or once their RAM is
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from poetfw.errors import PlanError
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem, Step, StepKind
from poetfw.schedule.simulator import Simulation, simulate

_TRANSFERS = (StepKind.PAGE_IN, StepKind.PAGE_OUT)


def plan_transfers(problem: ScheduleProblem, plan: ExecutionPlan) -> ExecutionPlan:
    """The same steps in an order in which the core waits less; the plan itself if there is none.

    Args:
        problem: says what transfers take and whether they overlap with computing. Its deadline is
            not looked at.
        plan: a plan; one that the simulator does not accept is left as it is.
    """
    if problem.storage is None or not problem.storage.overlap:
        return plan
    try:
        planner = _Planner(replace(problem, deadline_s=None), list(plan))
    except PlanError:
        return plan
    planner.delay_frees()
    planner.hasten_page_ins()
    return tuple(planner.steps)


class _Planner:
    """A plan that is rearranged step by step; every change is kept only if it shortens it."""

    def __init__(self, problem: ScheduleProblem, steps: list[Step]) -> None:
        self._problem = problem
        self._taken = {node.name: node.in_place for node in problem.nodes}
        self._size = {node.name: node.output_bytes for node in problem.nodes}
        self.steps = steps
        self._now = self._simulate(steps)

    def delay_frees(self) -> None:
        """Free what is on its way out later, where the core would wait for it."""
        leaving = {step.node for step in self.steps if step.kind is StepKind.PAGE_OUT}
        for step in [s for s in self.steps if s.kind is StepKind.FREE and s.node in leaving]:
            index = self.steps.index(step)
            while not self._takes_over(index - 1) and self._waits_before(index):
                to = index + 2 if self._takes_over(index + 1) else index + 1
                if not self._move(index, to):
                    break
                index = to

    def hasten_page_ins(self) -> None:
        """Begin page-ins earlier, where an op would wait for them."""
        for number in range(len(self.steps)):
            if self.steps[number].kind is not StepKind.PAGE_IN:
                continue
            index, best = number, list(self.steps)
            shortest_s = self._now.time_s
            while self._reader_waits(index):
                to = index - 2 if self._takes_over(index - 2) else index - 1
                if not self._move(index, to):
                    break
                index = to
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

    def _move(self, index: int, to: int) -> bool:
        """Have a page-in begin earlier, or a free happen later; returns whether that is legal."""
        if not 0 <= to < len(self.steps):
            return False
        moving = self.steps[index]
        passed = range(min(index + 1, to), max(index, to + 1))
        for other in passed:
            step = self.steps[other]
            if step.node == moving.node or step.kind is moving.kind is StepKind.PAGE_IN:
                return False
            during = self._now.during_bytes[other] + self._size[moving.node]
            if during > self._problem.ram_bytes:
                return False
        steps = list(self.steps)
        steps.insert(to, steps.pop(index))
        self.steps, self._now = steps, self._simulate(steps)
        return True

    def _takes_over(self, index: int) -> bool:
        """Whether the step is an op that takes over what the next step frees."""
        if not 0 <= index < len(self.steps) - 1:
            return False
        step, following = self.steps[index : index + 2]
        taken = self._taken.get(step.node)
        return step.kind is StepKind.COMPUTE and following == Step(StepKind.FREE, taken or "")

    def _simulate(self, steps: Sequence[Step]) -> Simulation:
        return simulate(self._problem, tuple(steps))
