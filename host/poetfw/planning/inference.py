# SPDX-License-Identifier: Apache-2.0
"""Schedules of evaluation and prediction within the RAM that training has.

Mostly they take less than training, and every op runs once in the order of the graph. Where that
takes more, ops are ordered for a lower peak, and where that is not enough, tensors are recomputed.
Nothing is paged: only the training step has slots in storage.
"""

from __future__ import annotations

from dataclasses import replace

from poetfw.boards import Board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Deadline, Work
from poetfw.costs import CostProvider
from poetfw.ir import Graph
from poetfw.memory import place_step
from poetfw.memory.ordering import reorder_plan
from poetfw.planning.choices import ORDERING_WORK
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import (
    Schedule,
    ScheduleProblem,
    largest_working_set,
    minimum_budget,
    simulate,
    solve,
)
from poetfw.training import Program

PLACEMENT_ATTEMPTS = 5
"""Searches at most, each in less RAM, for a schedule whose buffers can be placed."""

ATTEMPT_SHARE = 0.75
"""Of the work that is left, what one search may do where another one may follow."""

_SHARE = 0.25
"""Of the work, what the search for a schedule without a backward pass may do."""

_LEAST_WORK = 3.0
"""Work units of the search for the schedule of least RAM, beside those of other searches."""


def plan_evaluation(program: Program, board: Board, costs: CostProvider) -> Schedule:
    """The plan of the evaluation step that computes each op once, in the order of the graph."""
    return solve(_problem(program.evaluation, board, costs), "checkpoint-all")


def least_evaluation(
    program: Program, board: Board, costs: CostProvider, work: Work | None = None
) -> Schedule:
    """The evaluation step's schedule of least RAM known: what a smallest budget has room for.

    That of `plan_evaluation` where it takes no more than some op of the training step alone: less
    would not make the smallest budget smaller.
    """
    work = (work or Work()).beside(_LEAST_WORK)
    once = plan_evaluation(program, board, costs)
    training = schedule_problem(program.training, board, costs(program.training, board), None)
    if once.peak_bytes <= largest_working_set(training):
        return once
    return _least(_problem(program.evaluation, board, costs), once, work)


def schedule_within(
    graph: Graph,
    board: Board,
    costs: CostProvider,
    ram_bytes: int,
    unlimited: Schedule,
    work: Work,
) -> Schedule:
    """The schedule of least energy found for a step without a backward pass.

    Args:
        graph: the step.
        board: where it runs.
        costs: says what every op costs there.
        ram_bytes: what its tensors may occupy together, beside persistent ones.
        unlimited: the schedule that computes everything once, which is kept if it fits.
        work: what the search may do.

    Returns:
        The schedule of least RAM known, where none fits.
    """
    if unlimited.peak_bytes <= ram_bytes:
        return unlimited
    problem = _problem(graph, board, costs)
    lowest = with_lower_peak(problem, unlimited, work.deadline)
    if ram_bytes >= 0:  # beside persistent tensors
        with work.part(work.left * _SHARE).phase(graph.name) as part:
            found = _placeable(graph, replace(problem, ram_bytes=ram_bytes), lowest, part)
        if found is not None:
            return found
    return _least(problem, lowest, work.beside(_LEAST_WORK))


def _problem(graph: Graph, board: Board, costs: CostProvider) -> ScheduleProblem:
    """The schedule problem of a step without a backward pass, which pages nothing."""
    return replace(schedule_problem(graph, board, costs(graph, board), None), storage=None)


def _least(problem: ScheduleProblem, known: Schedule, work: Work) -> Schedule:
    """The schedule of least RAM that is found, ops computed again included; `known` if none is."""
    known = with_lower_peak(problem, known, work.deadline)
    with work.phase(f"least RAM of {problem.name}") as part:
        least_bytes = minimum_budget(problem, work=part.part(part.left * ATTEMPT_SHARE)).bytes
        if least_bytes >= known.peak_bytes:
            return known
        try:
            return solve(replace(problem, ram_bytes=least_bytes), work=part)
        except InfeasibleError:
            return known


def _placeable(
    graph: Graph, problem: ScheduleProblem, found: Schedule, work: Work
) -> Schedule | None:
    """A schedule whose buffers can be placed within a problem's RAM, `found` if that is one."""
    limited = problem
    for _ in range(PLACEMENT_ATTEMPTS):
        if found.peak_bytes <= limited.ram_bytes:
            height = place_step(graph, found.plan, 0, None, work.deadline).height_bytes
            if height <= problem.ram_bytes:
                return found
            limited = replace(limited, ram_bytes=limited.ram_bytes - height + problem.ram_bytes)
        try:
            found = solve(limited, work=work.part(work.left * ATTEMPT_SHARE))
        except InfeasibleError:
            return None
        found = with_lower_peak(limited, found, work.deadline)
    return None


def with_lower_peak(
    problem: ScheduleProblem, schedule: Schedule, deadline: Deadline | None = None
) -> Schedule:
    """The schedule with its steps in an order of lower peak, where there is one."""
    with Work(ORDERING_WORK, deadline).phase("order of steps") as work:
        plan = reorder_plan(problem, schedule.plan, work)
    simulation = simulate(problem, plan)
    return replace(schedule, plan=plan, peak_bytes=simulation.peak_bytes, time_s=simulation.time_s)
