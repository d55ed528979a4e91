# SPDX-License-Identifier: Apache-2.0
"""Schedules of evaluation and prediction within the RAM of the training step.

Usually these need less RAM than training, and each op runs once in graph order. If they need more,
ops are reordered for a lower peak, and if that is not enough, tensors are recomputed. Nothing is
paged, as only the training step has slots in storage.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

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
    working_sets,
)
from poetfw.training import Program

_Problem = TypeVar("_Problem")
_Placed = TypeVar("_Placed")

PLACEMENT_ATTEMPTS = 5
"""Maximum number of searches, in less RAM each time, for a schedule that can be placed."""

ATTEMPT_SHARE = 0.75
"""Share of the remaining work for a search that another one may follow."""

_SHARE = 0.25
"""Share of the work for the search for a schedule without a backward pass."""

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
    """Find a schedule of a step without a backward pass.

    Args:
        graph: the step.
        board: target board.
        costs: provider of op costs.
        ram_bytes: RAM for tensors that are not persistent.
        unlimited: schedule that computes everything once; returned if it fits.
        work: limit of the search.

    Returns:
        The schedule of least energy that was found; if none fits, the schedule of least RAM known.
    """
    if unlimited.peak_bytes <= ram_bytes:
        return unlimited
    problem = _problem(graph, board, costs)
    lowest = with_lower_peak(problem, unlimited, work.deadline)
    if ram_bytes >= 0:  # beside persistent tensors
        deadline = work.deadline

        def attempt(
            limited: ScheduleProblem, part: Work
        ) -> tuple[Schedule, ScheduleProblem | None]:
            found = lowest
            if limited.ram_bytes < max(ram_bytes, lowest.peak_bytes):
                found = with_lower_peak(limited, solve(limited, work=part), deadline)
            height = place_step(graph, found.plan, 0, None, deadline).height_bytes
            return found, tightened(limited, height - ram_bytes)

        with (
            work.part(work.left * _SHARE).phase(graph.name) as part,
            suppress(InfeasibleError),
        ):
            found, fits = search_placeable(replace(problem, ram_bytes=ram_bytes), attempt, part)
            if fits:
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


def tightened(problem: ScheduleProblem, excess_bytes: int) -> ScheduleProblem | None:
    """Reduce the RAM by the bytes that placement exceeded; None if it did not exceed the RAM.

    Nodes that need more than that have no more beside them, by a larger workspace.
    """
    if excess_bytes <= 0:
        return None
    sets = working_sets(problem)
    left_bytes = problem.ram_bytes - excess_bytes
    ram_bytes = max(left_bytes, *sets.values(), 0)
    nodes = tuple(
        replace(
            node,
            workspace_bytes=node.workspace_bytes
            + max(0, min(ram_bytes - left_bytes, ram_bytes - sets[node.name])),
        )
        for node in problem.nodes
    )
    return replace(problem, ram_bytes=ram_bytes, nodes=nodes)


def search_placeable(
    problem: _Problem,
    attempt: Callable[[_Problem, Work], tuple[_Placed, _Problem | None]],
    work: Work,
    attempts: int = PLACEMENT_ATTEMPTS,
) -> tuple[_Placed, bool]:
    """Find and place schedules, in less RAM each time, until one fits.

    Args:
        problem: the problem of the first attempt.
        attempt: finds and places a schedule; returns it, and the problem of the next attempt, or
            None if it fits.
        work: limit of all attempts together.
        attempts: maximum number of attempts.

    Returns:
        The last schedule, and True if it fits.
    """
    for _ in range(attempts):
        placed, tighter = attempt(problem, work.part(work.left * ATTEMPT_SHARE))
        if tighter is None:
            return placed, True
        problem = tighter
    return placed, False


def with_lower_peak(
    problem: ScheduleProblem, schedule: Schedule, deadline: Deadline | None = None
) -> Schedule:
    """The schedule with its steps in the order of lowest peak that was found."""
    with Work(ORDERING_WORK, deadline).phase("order of steps") as work:
        plan = reorder_plan(problem, schedule.plan, work)
    simulation = simulate(problem, plan)
    return replace(schedule, plan=plan, peak_bytes=simulation.peak_bytes, time_s=simulation.time_s)
