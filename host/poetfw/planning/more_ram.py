# SPDX-License-Identifier: Apache-2.0
"""The energy that more RAM would save."""

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
"""Overhead, of the energy of keeping everything, above which it is said what more RAM saves."""
_PARTS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)
"""Larger budgets that are tried, as parts of the way to keeping everything."""
_WORK = 0.1
"""Work units for each of them: a plan that more RAM allows, not the best one."""


def saved_by_more_ram(build: Build, settings: BuildSettings, deadline: Deadline) -> MoreRam | None:
    """The first larger budget that saves half of a plan's overhead; None where none is known.

    Tried are budgets for plans with an overhead above `WORTH_SAYING`, with little work each: the
    plan of the smaller budget is handed to the next larger one.

    Args:
        build: a build for one device.
        settings: the deadline of a step, and the scheduler.
        deadline: when to end the search.
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
    """A schedule with what a larger budget lets a smaller one's keep; None without."""
    if not SCHEDULERS[scheduler].starts:
        try:
            return solve(problem, scheduler, known=[known.plan], work=work)
        except InfeasibleError:
            return None
    return adapted(problem, known, work)
