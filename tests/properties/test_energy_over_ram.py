# SPDX-License-Identifier: Apache-2.0
"""Energy over RAM, against the best plans by trying them all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from brute_force import Order, best_plan

from made_problems import random_problem
from poetfw.common.limits import Work
from poetfw.planning import Curve, TrainingProblem, budgets_between, smallest_budget
from poetfw.schedule import BoundCovers, Status, handed, simulate, solve


@pytest.mark.parametrize("seed", range(3000, 3020))
def test_no_plan_beats_a_point_that_is_proven_and_none_goes_below_a_bound(seed: int) -> None:
    problem = random_problem(seed, 6, 1.0, plain=seed % 2 == 0)
    training = TrainingProblem(problem)
    low, high = smallest_budget(training, Work(5.0)), training.budget_bytes(1)
    found = Curve(training, budgets_between(low, max(low, high), 4))
    found.search(Work(4.0))
    known = float("inf")
    for point in found.points:
        schedule = point.schedule
        assert schedule is not None
        assert schedule.energy_j <= known
        known = schedule.energy_j
        within = replace(problem, ram_bytes=point.budget_bytes - problem.resident_bytes)
        assert simulate(within, schedule.plan).energy_j == schedule.energy_j
        best = best_plan(within, Order.ANY)
        assert best is not None
        if schedule.bound_covers is BoundCovers.ALL:
            assert schedule.bound_j is not None
            assert schedule.bound_j <= best.energy_j * (1 + 1e-6)
            if schedule.status is Status.OPTIMAL:
                assert schedule.energy_j <= best.energy_j * (1 + 2e-4)


@pytest.mark.parametrize("seed", range(3000, 3040))
def test_a_handed_plan_is_legal_and_no_dearer_in_more_ram(seed: int) -> None:
    problem = random_problem(seed, 12, 0.5, plain=seed % 2 == 0)
    known = solve(problem, work=Work(0.2))
    more = replace(problem, ram_bytes=problem.ram_bytes + problem.ram_bytes // 4)
    plan = handed(more, known.plan, Work(0.2))
    assert plan is not None
    assert simulate(more, plan).energy_j <= known.energy_j * (1 + 1e-9)
    less = replace(problem, ram_bytes=known.peak_bytes - 1)
    plan = handed(less, known.plan, Work(0.2))
    if plan is not None:
        assert simulate(less, plan).peak_bytes < known.peak_bytes
