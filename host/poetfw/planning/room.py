# SPDX-License-Identifier: Apache-2.0
"""Workspace against speed: kernels that take more of one and less of the other.

A schedule is found with kernels that take no more workspace than they must. An op then runs by one
that takes more where that fits beside what is live, each time that the op runs. A second schedule
pays for all such kernels from the beginning: it may copy tensors away, or compute them again, for
the workspace. The one that takes less energy is followed; neither takes more than without.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace

from poetfw.boards import Board
from poetfw.costs import CostProvider
from poetfw.errors import InfeasibleError, PlanError
from poetfw.firmware import BLOCK_BYTES
from poetfw.ir import Op
from poetfw.limits import Work
from poetfw.memory import resident_bytes
from poetfw.planning.budget import place_within
from poetfw.planning.kernels import Chosen, ChosenBy, faster_with_workspace, with_ops
from poetfw.planning.plans import Plan, place_plan
from poetfw.planning.problem import schedule_problem
from poetfw.planning.settings import BuildSettings
from poetfw.schedule import (
    PlanFigures,
    Schedule,
    ScheduleProblem,
    Status,
    Tell,
    simulate,
    tell_nobody,
)
from poetfw.training import Program


def use_room(
    chosen: Chosen,
    plan: Plan,
    board: Board,
    costs: CostProvider,
    budget_bytes: int,
    settings: BuildSettings,
    work: Work,
    tell: Tell = tell_nobody,
) -> tuple[Chosen, Plan]:
    """The program and its plan with faster kernels in what RAM there is for their workspace.

    Args:
        chosen: the program with kernels that take none, or no more than they must.
        plan: its plan.
        board: where it runs.
        costs: says what every op costs.
        budget_bytes: what the arena may occupy.
        settings: the deadline and the scheduler.
        work: what the second search may do.
        tell: is told how it goes on.
    """
    training = chosen.program.training
    faster, by = faster_with_workspace(training, board, costs)
    known = {**dict.fromkeys(by, ChosenBy.SHAPE), **chosen.by[training.name]}

    def with_kernels(ops: Mapping[str, Op]) -> Chosen:
        program = replace(chosen.program, training=with_ops(training, ops))
        decided = {**known, **{name: by[name] for name in ops}}
        return Chosen(program, {**chosen.by, training.name: decided})

    def problem_of(program: Program) -> ScheduleProblem:
        table = costs(program.training, board)
        return schedule_problem(program.training, board, table, None, settings.deadline_s)

    if not faster:
        return with_kernels({}), plan
    every = with_kernels(faster)
    problem = problem_of(every.program)
    available = budget_bytes - resident_bytes(every.program.persistent, BLOCK_BYTES)
    most = {node.name: node for node in problem.nodes}
    saved = {
        node.name: node.energy_j - most[node.name].energy_j
        for node in problem_of(chosen.program).nodes
    }
    taken: dict[str, Op] = {}
    for name in sorted(faster, key=lambda name: -saved[name]):
        tried = with_kernels({**taken, name: faster[name]})
        limited = replace(problem_of(tried.program), ram_bytes=available)
        try:
            simulate(limited, plan.steps)
        except PlanError:
            continue
        taken[name] = faster[name]
    found = with_kernels({}), plan
    while taken:
        fitting = with_kernels(taken)
        memory = place_plan(fitting.program, plan.training, plan.evaluation, None, work.deadline)
        if memory.arena_bytes <= budget_bytes:
            limited = replace(problem_of(fitting.program), ram_bytes=available)
            found = fitting, Plan(_replayed(limited, plan.training), plan.evaluation, memory)
            break
        taken.popitem()
    try:
        again = place_within(
            every.program, problem, budget_bytes, settings.scheduler, plan.evaluation, work, tell
        )
    except InfeasibleError:
        return found
    return (every, again) if again.training.energy_j <= found[1].training.energy_j else found


def _replayed(problem: ScheduleProblem, schedule: Schedule) -> Schedule:
    """A schedule's plan with what it takes by another problem, of which nothing is proven."""
    simulation = simulate(problem, schedule.plan)
    once_j = math.fsum(node.energy_j for node in problem.nodes)
    return replace(
        schedule,
        **asdict(PlanFigures.of(simulation)),
        status=Status.FEASIBLE,
        overhead=simulation.energy_j / once_j - 1 if once_j else None,
        bound_j=None,
        bound_covers=None,
        gap=None,
        overhead_gap=None,
    )
