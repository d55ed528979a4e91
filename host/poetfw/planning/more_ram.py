# SPDX-License-Identifier: Apache-2.0
"""Energy that a larger budget would save."""

from __future__ import annotations

from dataclasses import replace

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Deadline, Work
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import resident_bytes
from poetfw.planning.build import Build
from poetfw.planning.curve import adapted
from poetfw.planning.plans import place_plan
from poetfw.planning.problem import schedule_problem
from poetfw.report import MoreRam
from poetfw.schedule import SCHEDULERS, Schedule, ScheduleProblem, solve
from poetfw.settings import BuildSettings

WORTH_SAYING = 0.01
"""Overhead, relative to keeping everything, above which savings of a larger budget are reported."""
_PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
"""Budgets to try: fractions of the bytes between the budget and keeping everything."""
_WORK = 0.1
"""Limit of work units per budget: enough for a better plan, though not for the best one."""


def saved_by_more_ram(build: Build, settings: BuildSettings, deadline: Deadline) -> MoreRam | None:
    """Find the first larger budget that saves half of a plan's overhead; None if none is found.

    If the overhead exceeds `WORTH_SAYING`, larger budgets are tried in ascending order with little
    work each; the plan of each budget is adapted to the next.

    Args:
        build: a build for one device.
        settings: settings with the deadline of a step, and the scheduler.
        deadline: end of the search.
    """
    plan, everything, program = build.plan, build.checkpoint_all, build.program
    image, known = build.image, build.plan.training
    excess_j = known.energy_j - everything.training.energy_j
    if excess_j <= WORTH_SAYING * everything.training.energy_j:
        return None
    problem = replace(
        schedule_problem(program.training, image.board, build.costs, None, settings.deadline_s),
        resident_bytes=resident_bytes(program.persistent, BLOCK_BYTES),
    )
    missing = everything.memory.arena_bytes - image.budget_bytes
    for part in _PARTS:
        available = image.budget_bytes + int(part * missing) - problem.resident_bytes
        with Work(_WORK, deadline).phase("more RAM") as work:
            limited = replace(problem, ram_bytes=available)
            found = _in_more_ram(limited, known, settings.scheduler, work) or known
        if plan.training.energy_j - found.energy_j >= excess_j / 2:
            memory = place_plan(program, found, plan.evaluation, deadline).memory
            return MoreRam(
                memory.arena_bytes - image.budget_bytes,
                found.energy_j,
                1 - found.energy_j / plan.training.energy_j,
            )
        known = found
    return None


def _in_more_ram(
    problem: ScheduleProblem, known: Schedule, scheduler: str, work: Work
) -> Schedule | None:
    """Schedule of a larger budget, found from that of a smaller one; None if none was found."""
    if not SCHEDULERS[scheduler].starts:
        try:
            return solve(problem, scheduler, known=[known.plan], work=work)
        except InfeasibleError:
            return None
    return adapted(problem, known, work)
