# SPDX-License-Identifier: Apache-2.0
"""Energy that a larger budget would save."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Deadline, Work
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import resident_bytes
from poetfw.planning.build import Build
from poetfw.planning.curve import adapted
from poetfw.planning.plans import place_plan
from poetfw.planning.problem import schedule_problem
from poetfw.report import MoreRam, RamPoint
from poetfw.schedule import SCHEDULERS, Schedule, ScheduleProblem, solve
from poetfw.settings import BuildSettings

WORTH_SAYING = 0.01
"""Overhead, relative to keeping everything, above which savings of a larger budget are reported."""
_PARTS = (1 / 16, 1 / 8, 3 / 16, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1)
"""Budgets to try: fractions of the bytes between the budget and keeping everything."""
_WORK = 0.1
"""Limit of work units per budget: enough for a better plan, though not for the best one."""


class MoreRamSaves(NamedTuple):
    """Energy of larger budgets.

    Attributes:
        more_ram: the first of them that saves half of a plan's overhead; None if none is found.
        ram_curve: the plan's own budget, then larger ones, up to that of keeping everything.
    """

    more_ram: MoreRam | None
    ram_curve: tuple[RamPoint, ...]


def saved_by_more_ram(build: Build, settings: BuildSettings, deadline: Deadline) -> MoreRamSaves:
    """Search at larger budgets, and find the first that saves half of a plan's overhead.

    If the overhead exceeds `WORTH_SAYING`, larger budgets are tried in ascending order with little
    work each; the plan of each budget is adapted to the next, from below and from above.

    Args:
        build: a build for one device.
        settings: settings with the deadline of a step, and the scheduler.
        deadline: end of the search.
    """
    plan, everything, program = build.plan, build.checkpoint_all, build.program
    image, known = build.image, build.plan.training
    excess_j = known.energy_j - everything.training.energy_j
    kept_bytes = everything.memory.arena_bytes
    points = [_point(image.budget_bytes, known)]
    more: MoreRam | None = None
    if excess_j <= WORTH_SAYING * everything.training.energy_j:
        if image.budget_bytes < kept_bytes:
            points.append(_point(kept_bytes, everything.training))
        return MoreRamSaves(None, tuple(points))
    problem = replace(
        schedule_problem(program.training, image.board, build.costs, None, settings.deadline_s),
        resident_bytes=resident_bytes(program.resident, BLOCK_BYTES),
    )
    missing = kept_bytes - image.budget_bytes
    budgets = [image.budget_bytes + int(part * missing) for part in _PARTS]
    for budget_bytes, found in zip(
        budgets, _in_more_ram(build, problem, budgets, settings.scheduler, deadline), strict=True
    ):
        points.append(_point(budget_bytes, found))
        if more is None and known.energy_j - found.energy_j >= excess_j / 2:
            memory = place_plan(program, found, plan.evaluation, deadline).memory
            more = MoreRam(
                memory.arena_bytes - image.budget_bytes,
                found.energy_j,
                1 - found.energy_j / known.energy_j,
            )
    return MoreRamSaves(more, tuple(points))


def _in_more_ram(
    build: Build,
    problem: ScheduleProblem,
    budgets: Sequence[int],
    scheduler: str,
    deadline: Deadline,
) -> list[Schedule]:
    """Schedules of budgets in ascending order, none with more energy than one before.

    Each is the best of the plans of the next smaller and the next larger budget, adapted.
    """
    limited = [replace(problem, ram_bytes=b - problem.resident_bytes) for b in budgets]
    starts = SCHEDULERS[scheduler].starts
    from_above: list[Schedule | None] = []
    above = build.checkpoint_all.training
    for one in reversed(limited) if starts else ():
        with Work(_WORK, deadline).phase("more RAM") as work:
            found = adapted(one, above, work)
        above = found or above
        from_above.insert(0, found)
    known = build.plan.training
    best: list[Schedule] = []
    for one, other in zip_longest(limited, from_above):
        with Work(_WORK, deadline).phase("more RAM") as work:
            own = adapted(one, known, work) if starts else _solved(one, known, scheduler, work)
        known = min((s for s in (known, own, other) if s), key=lambda s: s.energy_j)
        best.append(known)
    return best


def _point(budget_bytes: int, found: Schedule) -> RamPoint:
    return RamPoint(
        budget_bytes,
        found.energy_j,
        found.time_s,
        found.recomputes,
        found.page_ins,
        found.page_outs,
    )


def _solved(
    problem: ScheduleProblem, known: Schedule, scheduler: str, work: Work
) -> Schedule | None:
    """Schedule by a scheduler that starts from no plan; None if none was found."""
    try:
        return solve(problem, scheduler, known=[known.plan], work=work)
    except InfeasibleError:
        return None
