# SPDX-License-Identifier: Apache-2.0
"""The energy that more RAM would save, where a schedule has a large overhead."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Deadline, Work
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import resident_bytes
from poetfw.planning.build import Build
from poetfw.planning.plans import place_plan
from poetfw.planning.problem import schedule_problem
from poetfw.schedule import solve
from poetfw.settings import BuildSettings

BAD_OVERHEAD = 0.1
"""Overhead, relative to keeping everything, above which larger budgets are tried."""
_PARTS = (1 / 8, 1 / 4, 1 / 2)
"""Larger budgets to try: fractions of the way from the budget to keeping everything."""
_WORK = 0.3
"""Work units for each of these searches, whose result is a hint."""


@dataclass(frozen=True, slots=True)
class MoreRam:
    """A larger budget, and a step's energy in it.

    Attributes:
        size_bytes: bytes beyond the budget.
        energy_j: joules of a training step.
    """

    size_bytes: int
    energy_j: float


def saved_by_more_ram(build: Build, settings: BuildSettings, deadline: Deadline) -> MoreRam | None:
    """The first larger budget that halves a plan's overhead; None if no such budget is known.

    Larger budgets are searched with little work, and only if the overhead exceeds `BAD_OVERHEAD`.

    Args:
        build: a build for one device.
        settings: the deadline of a step, and the scheduler.
        deadline: when to end the search.
    """
    plan, everything, program = build.plan, build.checkpoint_all, build.program
    image = build.image
    excess_j = plan.training.energy_j - everything.training.energy_j
    if excess_j <= BAD_OVERHEAD * everything.training.energy_j:
        return None
    problem = replace(
        schedule_problem(program.training, image.board, build.costs, None, settings.deadline_s),
        resident_bytes=resident_bytes(program.persistent, BLOCK_BYTES),
    )
    missing = everything.memory.arena_bytes - image.budget_bytes
    for part in _PARTS:
        available = image.budget_bytes + int(part * missing) - problem.resident_bytes
        limited = replace(problem, ram_bytes=available)
        with Work(_WORK, deadline).phase("more RAM") as work:
            try:
                found = solve(limited, settings.scheduler, known=[plan.training.plan], work=work)
            except InfeasibleError:
                continue
        if plan.training.energy_j - found.energy_j >= excess_j / 2:
            memory = place_plan(program, found, plan.evaluation, deadline).memory
            return MoreRam(memory.arena_bytes - image.budget_bytes, found.energy_j)
    return None
