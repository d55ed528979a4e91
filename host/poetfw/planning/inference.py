# SPDX-License-Identifier: Apache-2.0
"""Schedules of evaluation and prediction within the RAM of the training step.

Usually these need less RAM than training, and each op runs once in graph order. If they need more,
ops are reordered for a lower peak, and if that is not enough, tensors are recomputed. Nothing is
paged, as only the training step has slots in storage.
"""

from __future__ import annotations

from collections.abc import Callable
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
from poetfw.schedule import Schedule, ScheduleProblem, simulate, solve

_Problem = TypeVar("_Problem")
_Placed = TypeVar("_Placed")

PLACEMENT_ATTEMPTS = 5
"""Maximum number of searches, in less RAM each time, for a schedule that can be placed."""

ATTEMPT_SHARE = 0.75
"""Share of the remaining work for a search that another one may follow."""

_SHARE = 0.25
"""Share of the work for the search for a schedule without a backward pass."""


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
        The schedule of least energy that was found; if none fits, the schedule with the lowest peak
        that computes everything once.
    """
    if unlimited.peak_bytes <= ram_bytes:
        return unlimited
    problem = replace(schedule_problem(graph, board, costs(graph, board), None), storage=None)
    lowest = with_lower_peak(problem, unlimited, work.deadline)
    if ram_bytes < 0:  # persistent tensors take more than all
        return lowest
    deadline = work.deadline

    def attempt(limited: ScheduleProblem, part: Work) -> tuple[Schedule, ScheduleProblem | None]:
        found = lowest
        if limited.ram_bytes < max(ram_bytes, lowest.peak_bytes):
            found = with_lower_peak(limited, solve(limited, work=part), deadline)
        height = place_step(graph, found.plan, 0, None, deadline).height_bytes
        return found, tightened(limited, height - ram_bytes)

    with work.part(work.left * _SHARE).phase(graph.name) as part:
        try:
            found, fits = search_placeable(replace(problem, ram_bytes=ram_bytes), attempt, part)
        except InfeasibleError:
            return lowest
    return found if fits else lowest


def tightened(problem: ScheduleProblem, excess_bytes: int) -> ScheduleProblem | None:
    """Reduce the RAM by the bytes that placement exceeded; None if it did not exceed the RAM."""
    if excess_bytes <= 0:
        return None
    return replace(problem, ram_bytes=problem.ram_bytes - excess_bytes)


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
