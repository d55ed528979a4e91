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
from poetfw.schedule import Schedule, ScheduleProblem, simulate, solve

PLACEMENT_ATTEMPTS = 5
"""Searches at most, each in less RAM, for a schedule whose buffers can be placed."""

ATTEMPT_SHARE = 0.75
"""Of the work that is left, what one search may do where another one may follow."""

_SHARE = 0.25
"""Of the work, what the search for a schedule without a backward pass may do."""


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
        The schedule that computes everything once with the lowest peak, where none fits.
    """
    if unlimited.peak_bytes <= ram_bytes:
        return unlimited
    problem = replace(schedule_problem(graph, board, costs(graph, board), None), storage=None)
    lowest = with_lower_peak(problem, unlimited, work.deadline)
    if ram_bytes < 0:  # persistent tensors take more than all
        return lowest
    with work.part(work.left * _SHARE).phase(graph.name) as part:
        return _placeable(graph, replace(problem, ram_bytes=ram_bytes), lowest, part) or lowest


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
