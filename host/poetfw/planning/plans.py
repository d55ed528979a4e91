# SPDX-License-Identifier: Apache-2.0
"""A plan: when each op of the training and the evaluation step runs, and where buffers lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from poetfw.boards import Board
from poetfw.costs import CostProvider, analytic_costs
from poetfw.firmware import BLOCK_BYTES, Lowering, Prediction, Ring, Slot, lower
from poetfw.limits import Deadline
from poetfw.memory import MemoryPlan, place_beside, plan_memory
from poetfw.models import Model
from poetfw.planning.choices import order_program
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import Schedule, solve
from poetfw.training import Program, make_prediction, make_program


@dataclass(frozen=True)
class Plan:
    """One way to run a program: when each op runs, and where every buffer lies."""

    training: Schedule
    evaluation: Schedule
    memory: MemoryPlan


def plan_unscheduled(
    program: Program, board: Board, costs: CostProvider, deadline: Deadline | None = None
) -> Plan:
    """The plan that computes everything once, pages nothing, and takes the RAM it needs."""
    table = costs(program.training, board)
    training = solve(schedule_problem(program.training, board, table, None), "checkpoint-all")
    evaluation = plan_evaluation(program, board, costs)
    memory = place_plan(program, training, evaluation, None, deadline)
    return Plan(training, evaluation, memory)


def plan_evaluation(program: Program, board: Board, costs: CostProvider) -> Schedule:
    """The plan of the evaluation step: inference frees as it goes and needs no schedule."""
    table = costs(program.evaluation, board)
    return solve(schedule_problem(program.evaluation, board, table, None), "checkpoint-all")


def place_plan(
    program: Program,
    training: Schedule,
    evaluation: Schedule,
    budget_bytes: int | None,
    deadline: Deadline | None = None,
) -> MemoryPlan:
    """Addresses for both steps, within a budget if there is one."""
    return plan_memory(
        program.persistent,
        BLOCK_BYTES,
        (program.training, training.plan),
        (program.evaluation, evaluation.plan),
        budget_bytes,
        deadline,
    )


def lower_plan(
    program: Program,
    board: Board,
    plan: Plan,
    slots: Sequence[Slot],
    ring: Ring | None = None,
    slices: bool = False,
    watchdog_ms: int | None = None,
) -> Lowering:
    """The views of the project that follows a plan."""
    steps = plan.training.plan, plan.evaluation.plan
    prediction = plan_prediction(program, board, plan.memory)
    return lower(program, board, *steps, plan.memory, slots, prediction, ring, slices, watchdog_ms)


def plan_prediction(program: Program, board: Board, memory: MemoryPlan) -> Prediction:
    """How one sample is predicted, in the arena of a plan: as the evaluation step does it."""
    graph = make_prediction(program)
    problem = schedule_problem(graph, board, analytic_costs(graph, board), None)
    plan = solve(problem, "checkpoint-all").plan
    return Prediction(graph, plan, place_beside(memory, BLOCK_BYTES, graph, plan))


def unscheduled_peak_bytes(model: Model, board: Board, costs: CostProvider = analytic_costs) -> int:
    """Bytes of RAM that training takes if everything is computed once and kept."""
    program = order_program(make_program(model.graph, model.loss, model.optimizer))
    return plan_unscheduled(program, board, costs).memory.peak_bytes
