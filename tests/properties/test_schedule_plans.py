# SPDX-License-Identifier: Apache-2.0
"""What more RAM, less time or a damaged plan does, whatever the problem."""

from __future__ import annotations

from dataclasses import replace

import pytest
from brute_force import Order, best_plan

from made_problems import random_problem
from poetfw.common.errors import InfeasibleError, PlanError
from poetfw.common.limits import Work
from poetfw.schedule import (
    BoundCovers,
    Schedule,
    ScheduleProblem,
    SolveOptions,
    Status,
    Step,
    StepKind,
    minimum_budget,
    simulate,
    solve,
)
from poetfw.schedule.simulator import TIME_TOLERANCE
from poetfw.schedule.solve import without_paging
from poetfw.schedule.transfers import plan_transfers

EXACT = SolveOptions(gap=0.0)
QUICK = range(2000, 2008)
SEEDS = [*QUICK, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2008, 2020))]
FEW = [*QUICK[:3], *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2003, 2020))]
"""Of those that search fifteen and ten times."""
LITTLE = 0.2  # units of work: most searches end before they are through


def attempt(problem: ScheduleProblem, scheduler: str) -> Schedule | None:
    try:
        return solve(problem, scheduler, EXACT)
    except InfeasibleError:
        return None


def random_problems(seed: int) -> list[ScheduleProblem]:
    """One graph under rising budgets."""
    slacks = (0.0, 0.25, 0.5, 0.75, 1.0)
    return [random_problem(seed, 7 + seed % 6, slack, plain=seed % 2 == 0) for slack in slacks]


@pytest.mark.parametrize("seed", FEW)
def test_more_ram_is_never_worse(seed: int) -> None:
    for scheduler in ("poet", "poet-paging-off", "poet-remat-off"):
        known: float | None = None
        for problem in random_problems(seed):
            schedule = attempt(problem, scheduler)
            if known is not None:
                assert schedule is not None
                assert schedule.energy_j <= known * (1 + 1e-6)
            known = None if schedule is None else schedule.energy_j
        assert known is not None


@pytest.mark.parametrize("seed", SEEDS)
def test_minimum_budget_is_feasible_and_least(seed: int) -> None:
    problem = random_problem(seed, 7 + seed % 5)
    if seed % 3 == 0:
        problem = without_paging(problem)
    if seed % 4 == 0:
        deadline_s = 1.2 * sum(node.time_s for node in problem.nodes)
        problem = replace(problem, deadline_s=deadline_s)
    minimum = minimum_budget(problem)
    schedule = solve(replace(problem, ram_bytes=minimum.bytes), "poet", EXACT)
    assert schedule.peak_bytes <= minimum.bytes
    less = replace(problem, ram_bytes=minimum.bytes - 1)
    if minimum.exact:
        claim = f"has no schedule .*: the smallest feasible budget is {minimum.bytes:,} bytes"
        with pytest.raises(InfeasibleError, match=claim) as caught:
            solve(less, "poet", EXACT)
        assert caught.value.minimum_budget_bytes == minimum.bytes
    if len(problem.nodes) <= 8:
        assert (best_plan(less, Order.ANY) is None) or not minimum.exact


@pytest.mark.parametrize("seed", range(2000, 2008))
def test_minimum_budget_keeps_a_deadline_where_transfers_overlap(seed: int) -> None:
    """Its program only knows that core and channel are each busy for no longer than that."""
    problem = random_problem(seed, 7 + seed % 5)
    assert problem.storage is not None
    deadline_s = 1.1 * sum(node.time_s for node in problem.nodes)
    storage = replace(problem.storage, overlap=True)
    problem = replace(problem, storage=storage, deadline_s=deadline_s)
    minimum = minimum_budget(problem)
    schedule = solve(replace(problem, ram_bytes=minimum.bytes), "poet", EXACT)
    assert schedule.time_s <= deadline_s * (1 + TIME_TOLERANCE)
    if minimum.exact:
        with pytest.raises(InfeasibleError):
            solve(replace(problem, ram_bytes=minimum.bytes - 1), "poet", EXACT)


@pytest.mark.parametrize("seed", FEW)
def test_overlap_takes_neither_energy_nor_ram_nor_time(seed: int) -> None:
    for waiting in random_problems(seed):
        assert waiting.storage is not None
        overlapping = replace(waiting, storage=replace(waiting.storage, overlap=True))
        without, with_overlap = solve(waiting, "poet", EXACT), solve(overlapping, "poet", EXACT)
        assert with_overlap.energy_j <= without.energy_j * (1 + 1e-9)
        for schedule in (with_overlap, without):
            if schedule.status is Status.OPTIMAL:
                assert schedule.gap == pytest.approx(0, abs=1e-9)
            else:  # better than the plans in stages, or as good
                assert schedule.bound_covers is BoundCovers.ALL
        assert with_overlap.peak_bytes <= waiting.ram_bytes
        again = plan_transfers(overlapping, with_overlap.plan)
        assert simulate(overlapping, again).time_s == pytest.approx(with_overlap.time_s)
        if with_overlap.energy_j == without.energy_j:
            assert with_overlap.time_s <= without.time_s * (1 + TIME_TOLERANCE)


@pytest.mark.parametrize("seed", QUICK)
def test_a_deadline_that_the_best_plan_meets_changes_nothing(seed: int) -> None:
    waiting = random_problem(seed, 18, 0.3)
    assert waiting.storage is not None
    best = solve(waiting, work=Work(LITTLE))
    deadline_s = best.time_s * (1 + 1e-6)
    for overlap in (False, True):
        storage = replace(waiting.storage, overlap=overlap)
        hurried = replace(waiting, storage=storage, deadline_s=deadline_s)
        schedule = solve(hurried, work=Work(LITTLE))
        assert (schedule.energy_j, schedule.bound_j) == (best.energy_j, best.bound_j)


@pytest.mark.parametrize("seed", SEEDS)
def test_simulator_refuses_damaged_plans(seed: int) -> None:
    problem = random_problem(seed, 9, 0.2, plain=True)
    plan = solve(problem, "poet", EXACT).plan
    energy_j = simulate(problem, plan).energy_j
    for i, step in enumerate(plan):
        with pytest.raises(PlanError):
            simulate(problem, plan[:i] + plan[i + 1 :])
        twice = plan[: i + 1] + plan[i:]
        if step.kind is StepKind.PAGE_OUT:
            # Legal, but a waste.
            assert simulate(problem, twice).energy_j > energy_j
        else:
            with pytest.raises(PlanError):
                simulate(problem, twice)
        swapped = (*plan[:i], *reversed(plan[i : i + 2]), *plan[i + 2 :])
        try:
            simulation = simulate(problem, swapped)
        except PlanError:
            continue  # the order mattered
        assert simulation.energy_j == pytest.approx(energy_j)
    with pytest.raises(PlanError, match="there is no such node"):
        simulate(problem, (*plan, Step(StepKind.FREE, "nobody")))
    with pytest.raises(PlanError, match="of a budget of"):
        simulate(replace(problem, ram_bytes=simulate(problem, plan).peak_bytes - 1), plan)
