# SPDX-License-Identifier: Apache-2.0
"""Transfer planner (POET, section 5.5): moves transfers so that computing hides them.

A plan fixes which tensors are paged. If storage and core work in parallel, the planner chooses when
page-ins begin and when tensors being paged out are freed, within the budget. It frees them when
their page-out ends, or earlier if their RAM is needed (the core then waits), in the order in which
their page-outs end. Page-ins begin as early as RAM permits, unless the core then waits elsewhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from poetfw.common.errors import PlanError
from poetfw.common.limits import Deadline
from poetfw.schedule.problem import ExecutionPlan, Node, ScheduleProblem, Step, StepKind
from poetfw.schedule.simulator import simulate
from poetfw.schedule.timeline import Clock


def plan_transfers(
    problem: ScheduleProblem, plan: ExecutionPlan, deadline: Deadline | None = None
) -> ExecutionPlan:
    """Reorder steps so that the core waits less; return the plan itself if that fails.

    Args:
        problem: the problem with its transfer costs; its deadline is ignored.
        plan: a plan; returned unchanged if the simulator refuses it.
        deadline: time at which to stop with the moves made so far; None for never.
    """
    if problem.storage is None or not problem.storage.overlap:
        return plan
    problem = replace(problem, deadline_s=None)
    try:
        before = simulate(problem, plan)
    except PlanError:
        return plan
    planner = _Planner(problem, plan, before.during_bytes)
    planned = planner.hasten_page_ins(deadline or Deadline())
    return planned if simulate(problem, planned).time_s < before.time_s else plan


def hasten_page_ins(problem: ScheduleProblem, plan: ExecutionPlan) -> ExecutionPlan:
    """Move every page-in to as early as RAM permits, even if the core then waits elsewhere.

    Takes a fraction of the time of `plan_transfers`, for searches over many plans.

    Args:
        problem: the problem with its transfer costs.
        plan: a plan that the simulator accepts.
    """
    overlap = problem.storage is not None and problem.storage.overlap
    during_bytes = simulate(problem, plan).during_bytes
    return _Planner(problem, plan, during_bytes).hasten_all() if overlap else plan


class _Planner:
    """Moves the page-ins of a plan one by one, and places the frees accordingly."""

    def __init__(
        self, problem: ScheduleProblem, plan: ExecutionPlan, during_bytes: Sequence[int]
    ) -> None:
        self._problem = problem
        self._nodes = {node.name: node for node in problem.nodes}
        self._steps = list(plan)
        self._during_bytes = list(during_bytes)  # if tensors are freed where the plan frees them

    def hasten_page_ins(self, deadline: Deadline) -> ExecutionPlan:
        """The plan with each page-in as early as possible without making the plan slower."""
        best = self._with_frees(self._steps)
        for index, step in enumerate(self._steps):
            if step.kind is not StepKind.PAGE_IN:
                continue
            to = self._earliest(index)
            while to < index and not deadline.has_passed():
                to = self._possible(to)
                moved = list(self._steps)
                moved.insert(to, moved.pop(index))
                candidate = self._with_frees(moved)
                if candidate[0] <= best[0]:
                    best, self._steps = candidate, moved
                    self._occupy(to, index)
                    break
                to += (index - to + 1) // 2
        return best[1]

    def hasten_all(self) -> ExecutionPlan:
        """The plan with every page-in as early as RAM permits."""
        for index, step in enumerate(list(self._steps)):
            if step.kind is StepKind.PAGE_IN:
                to = self._possible(self._earliest(index))
                if to < index:
                    self._steps.insert(to, self._steps.pop(index))
                    self._occupy(to, index)
        return self._with_frees(self._steps)[1]

    def _possible(self, to: int) -> int:
        """The index, or the next one if it would separate an in-place op from its free."""
        return to + (to > 0 and self._takes_over(self._steps, to - 1))

    def _earliest(self, index: int) -> int:
        """First index to which a page-in may move: after earlier page-ins, where RAM permits."""
        name = self._steps[index].node
        size = self._nodes[name].output_bytes
        while index > 0:
            before = self._steps[index - 1]
            if before.node == name or before.kind is StepKind.PAGE_IN:
                break
            if self._during_bytes[index - 1] + size > self._problem.ram_bytes:
                break
            index -= 1
        return index

    def _occupy(self, first: int, last: int) -> None:
        """Update the live bytes after a page-in moved from `last` to `first`."""
        size = self._nodes[self._steps[first].node].output_bytes
        for number in range(first, last):
            self._during_bytes[number] += size
        self._during_bytes.insert(first, self._during_bytes.pop(last))

    def _takes_over(self, steps: Sequence[Step], index: int) -> bool:
        """True if a step is an in-place op, whose input the next step frees."""
        if index + 1 >= len(steps):
            return False
        step, taken = steps[index], self._nodes[steps[index].node].in_place
        following = steps[index + 1] == Step(StepKind.FREE, taken or "")
        return step.kind is StepKind.COMPUTE and following

    def _with_frees(self, steps: Sequence[Step]) -> tuple[float, ExecutionPlan]:
        """Seconds, and the steps with paged-out tensors freed when out or when RAM is needed.

        A step always finds enough RAM: in the worst case all these tensors are freed before it.
        """
        replay = _Replay(self._problem.ram_bytes)
        taken_over = False
        for index, step in enumerate(steps):
            node = self._nodes[step.node]
            if step.kind is StepKind.FREE:
                replay.free(node, taken_over)
                taken_over = False
                continue
            taken_over = self._takes_over(steps, index)
            replay.make_room(step, node, taken_over)
            replay.run(step, node, taken_over, self._problem)
        return replay.finish()


class _Replay:
    """Replays steps and postpones the frees of tensors that are being paged out."""

    def __init__(self, ram_bytes: int) -> None:
        self._ram_bytes = ram_bytes
        self._live = 0
        self._clock = Clock(overlap=True)
        self._leaving: list[tuple[float, str, int]] = []  # heap: end of page-out, name, bytes
        self._steps: list[Step] = []

    def make_room(self, step: Step, node: Node, taken_over: bool) -> None:
        """Free tensors whose page-out has ended, and others until the step fits in RAM."""
        grows = step.kind is not StepKind.PAGE_OUT and not taken_over
        needed = self._live + (node.output_bytes if grows else 0)
        if step.kind is StepKind.COMPUTE:
            needed += node.workspace_bytes
        while self._leaving:
            out_s, name, size = self._leaving[0]
            again = step.kind is not StepKind.PAGE_OUT and any(
                other == step.node for _, other, _ in self._leaving
            )
            if out_s > self._clock.core_s and needed <= self._ram_bytes and not again:
                break
            heapq.heappop(self._leaving)
            self._release(name, size)
            needed -= size

    def run(self, step: Step, node: Node, taken_over: bool, problem: ScheduleProblem) -> None:
        """Run a step other than a free."""
        assert problem.storage is not None
        self._steps.append(step)
        if step.kind is StepKind.PAGE_OUT:
            self._clock.page_out(node.name, problem.storage.moving_out(node.output_bytes))
            return
        if step.kind is StepKind.PAGE_IN:
            self._clock.page_in(node.name, problem.storage.moving_in(node.output_bytes))
        else:
            if taken_over:
                assert node.in_place is not None
                self._clock.take_over(node.in_place)
                self._live -= node.output_bytes
            self._clock.compute(node.inputs, node.time_s)
        self._live += node.output_bytes

    def free(self, node: Node, taken_over: bool) -> None:
        """Free a tensor now, or later if its page-out has not ended."""
        if taken_over:
            self._release(node.name, 0)  # its bytes already belong to the op's output
        elif self._clock.written_s(node.name) > self._clock.core_s:
            entry = (self._clock.written_s(node.name), node.name, node.output_bytes)
            heapq.heappush(self._leaving, entry)
        else:
            self._release(node.name, node.output_bytes)

    def finish(self) -> tuple[float, ExecutionPlan]:
        """Free the remaining tensors; return the makespan in seconds and all steps."""
        while self._leaving:
            _, name, size = heapq.heappop(self._leaving)
            self._release(name, size)
        return self._clock.makespan_s, tuple(self._steps)

    def _release(self, name: str, size: int) -> None:
        self._steps.append(Step(StepKind.FREE, name))
        self._clock.free(name)
        self._live -= size
