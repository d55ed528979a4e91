# SPDX-License-Identifier: Apache-2.0
"""Plans: schedules of the training and the evaluation step, and addresses of their buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from poetfw.boards import Board
from poetfw.common.limits import Deadline, Work
from poetfw.costs import CostProvider, analytic_costs
from poetfw.firmware import BLOCK_BYTES, KeptFeatures, Lowering, Prediction, Ring, Slot, lower
from poetfw.memory import (
    ONLY,
    MemoryPlan,
    StepPlan,
    padded,
    place_beside,
    place_parts,
)
from poetfw.planning.inference import plan_evaluation, schedule_within
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import Schedule, solve
from poetfw.training import Program, make_prediction


@dataclass(frozen=True)
class Plan:
    """One way to run a program: when each op runs, and where every buffer lies.

    Attributes:
        training: the schedule of the training step.
        evaluation: the schedule of the evaluation step; without steps where that is done elsewhere.
        step: the training step with its parts, as the program of one memory sees it.
        memories: where every buffer lies, by the name of each memory.
    """

    training: Schedule
    evaluation: Schedule
    step: StepPlan
    memories: Mapping[str, MemoryPlan]

    @property
    def memory(self) -> MemoryPlan:
        """Addresses of the selected program's buffers."""
        return self.memories[self.step.here]

    @property
    def limit_bytes(self) -> int:
        """Limit of the selected arena in bytes: its devices' limits plus resident bytes."""
        arenas = [part.arena for part in self.step.own]
        return min(a.offset for a in arenas) + sum(a.limit_bytes for a in arenas)

    def of(self, memory: str) -> Plan:
        """The plan with the program of another memory selected."""
        step = self.step.of(memory)
        evaluation = self.evaluation if step.evaluates_here else replace(self.evaluation, plan=())
        return replace(self, evaluation=evaluation, step=step)


def plan_unscheduled(
    program: Program, board: Board, costs: CostProvider, deadline: Deadline | None = None
) -> Plan:
    """Plan that computes everything once and pages nothing, without a limit on RAM."""
    table = costs(program.training, board)
    training = solve(schedule_problem(program.training, board, table, None), "checkpoint-all")
    evaluation = plan_evaluation(program, board, costs)
    return place_plan(program, training, evaluation, deadline)


def place_plan(
    program: Program,
    training: Schedule,
    evaluation: Schedule,
    deadline: Deadline | None = None,
) -> Plan:
    """Assign addresses for both steps on a single device, without a limit on RAM."""
    placed = place_parts(
        program,
        training.plan,
        evaluation.plan,
        {ONLY: ONLY},
        {ONLY: None},
        BLOCK_BYTES,
        deadline=deadline,
    )
    return Plan(training, evaluation, *placed)


def lower_plan(
    program: Program,
    board: Board,
    plan: Plan,
    slots: Sequence[Slot],
    ring: Ring | None = None,
    slices: bool = False,
    watchdog_ms: int | None = None,
    kept: KeptFeatures | None = None,
) -> Lowering:
    """Lower a plan to the views of its project."""
    evaluates = plan.step.evaluates_here
    prediction = plan_prediction(program, board, plan.memory) if evaluates else None
    steps = plan.step, plan.evaluation.plan
    return lower(
        *(program, board, *steps, plan.memory, slots, prediction),
        *(ring, slices, watchdog_ms, kept),
    )


def plan_prediction(program: Program, board: Board, memory: MemoryPlan) -> Prediction:
    """Prediction of one sample by the evaluation step's ops, within the arena of a plan."""
    graph = make_prediction(program)
    problem = schedule_problem(graph, board, analytic_costs(graph, board), None)
    unlimited = solve(problem, "checkpoint-all")
    available = memory.arena_bytes - memory.page_buffer_offset - padded(BLOCK_BYTES)
    plan = schedule_within(graph, board, analytic_costs, available, unlimited, Work()).plan
    return Prediction(graph, plan, place_beside(memory, BLOCK_BYTES, graph, plan))
