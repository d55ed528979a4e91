"""The transfer planner (POET, section 5.5): move transfers to where they hide behind computing.

A plan fixes what is paged. Where storage and core work at once, when a page-in begins and how long
a tensor on its way out keeps its RAM is free to choose, within the budget: page-ins are begun just
early enough, and tensors being paged out are freed only once they are out, or once their RAM is
needed.
"""

from __future__ import annotations

import math
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
    """A plan that is rearranged step by step, each as far as its wait calls for and RAM permits."""

    def __init__(self, problem: ScheduleProblem, steps: list[Step]) -> None:
        self._problem = problem
        self._taken = {node.name: node.in_place for node in problem.nodes}
        self._size = {node.name: node.output_bytes for node in problem.nodes}
        self._readers: dict[str, set[str]] = {node.name: set() for node in problem.nodes}
        for node in problem.nodes:
            for name in node.inputs:
                self._readers[name].add(node.name)
        self.steps = steps
        self._now = self._simulate(steps)

    def delay_frees(self) -> None:
        """Free what is on its way out later, where the core would wait for it."""
        leaving = {step.node for step in self.steps if step.kind is StepKind.PAGE_OUT}
        index = 0
        while index < len(self.steps):
            step, to = self.steps[index], index
            delayable = step.kind is StepKind.FREE and step.node in leaving
            if delayable and not self._takes_over(index - 1):
                to = self._later(index, self._wait_s(index))
            if to == index:
                index += 1
            else:
                self._move(index, to)  # and another step is at this index now

    def hasten_page_ins(self) -> None:
        """Begin page-ins earlier, where an op would wait for them."""
        for number in range(len(self.steps)):
            if self.steps[number].kind is not StepKind.PAGE_IN:
                continue
            shortest_s, best = self._now.time_s, self.steps
            index = number
            while (to := self._earlier(index, self._reader_wait_s(index))) != index:
                self._move(index, to)
                index = to
                if self._now.time_s < shortest_s:
                    shortest_s, best = self._now.time_s, self.steps
            if best is not self.steps:
                self._rearrange(best)

    def _later(self, index: int, wait_s: float) -> int:
        """Where a free comes after ops that take as long as its wait, as far as RAM permits."""
        to = edge = index
        while wait_s > 0:
            further = edge + (2 if self._takes_over(edge + 1) else 1)
            passed = range(edge + 1, further + 1)
            if not self._may_pass(index, passed):
                break
            edge = further
            if (computed_s := self._computed_s(passed)) > 0:
                to, wait_s = edge, wait_s - computed_s
        return to

    def _earlier(self, index: int, wait_s: float) -> int:
        """Where a page-in comes before ops that take as long as a wait, as far as RAM permits."""
        to = edge = index
        while wait_s > 0:
            further = edge - (2 if self._takes_over(edge - 2) else 1)
            passed = range(further, edge)
            if not self._may_pass(index, passed):
                break
            edge = further
            if (computed_s := self._computed_s(passed)) > 0:
                to, wait_s = edge, wait_s - computed_s
        return to

    def _wait_s(self, index: int) -> float:
        """How long the core waits for the step, after the one before it ended."""
        before = (i for i in reversed(range(index)) if self.steps[i].kind not in _TRANSFERS)
        last = next(before, None)
        ended_s = 0.0 if last is None else self._now.spans[last].end_s
        return self._now.spans[index].start_s - ended_s

    def _reader_wait_s(self, index: int) -> float:
        """How long the op waits that first uses a page-in."""
        readers = self._readers[self.steps[index].node]
        for later in range(index + 1, len(self.steps)):
            step = self.steps[later]
            if step.kind is StepKind.COMPUTE and step.node in readers:
                return self._wait_s(later)
        return 0.0

    def _may_pass(self, index: int, passed: range) -> bool:
        """Whether a page-in may come before these steps, or a free after them."""
        moving = self.steps[index]
        if passed.start < 0 or passed.stop > len(self.steps):
            return False
        for other in passed:
            step = self.steps[other]
            if step.node == moving.node or step.kind is moving.kind is StepKind.PAGE_IN:
                return False
            during = self._now.during_bytes[other] + self._size[moving.node]
            if during > self._problem.ram_bytes:
                return False
        return True

    def _computed_s(self, passed: range) -> float:
        """How long the core computes in these steps."""
        return math.fsum(
            span.end_s - span.start_s
            for step, span in zip(
                self.steps[passed.start : passed.stop],
                self._now.spans[passed.start : passed.stop],
                strict=True,
            )
            if step.kind is StepKind.COMPUTE
        )

    def _takes_over(self, index: int) -> bool:
        """Whether the step is an op that takes over what the next step frees."""
        if not 0 <= index < len(self.steps) - 1:
            return False
        step, following = self.steps[index : index + 2]
        taken = self._taken.get(step.node)
        return step.kind is StepKind.COMPUTE and following == Step(StepKind.FREE, taken or "")

    def _move(self, index: int, to: int) -> None:
        steps = list(self.steps)
        steps.insert(to, steps.pop(index))
        self._rearrange(steps)

    def _rearrange(self, steps: list[Step]) -> None:
        self.steps, self._now = steps, self._simulate(steps)

    def _simulate(self, steps: Sequence[Step]) -> Simulation:
        return simulate(self._problem, tuple(steps))
