# SPDX-License-Identifier: Apache-2.0
"""Schedules for two devices against trying every plan, and one device against `poet`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from devices_brute_force import least_cost, random_devices
from random_graphs import chunks, random_graph

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.schedule import BoundCovers, SolveOptions, Status, solve
from poetfw.schedule.several import (
    Device,
    DevicesProblem,
    Minimise,
    simulate_devices,
    solve_devices,
)
from poetfw.schedule.several.baselines import single_plan

EXACT = SolveOptions(gap=0.0)
AS_GIVEN = SolveOptions(gap=0.0, other_orders=False)
"""Brute force tries the plans that compute nodes first in the order given."""


@pytest.mark.parametrize("numbers", chunks(range(39, 439), 5))
def test_two_devices_equal_brute_force(numbers: range) -> None:
    for number in numbers:
        problem = random_devices(number)
        minimise = (Minimise.TIME, Minimise.ENERGY)[number % 2]
        try:
            best = least_cost(problem, minimise)
            try:
                answer = solve_devices(problem, minimise, AS_GIVEN, Work(120.0))
            except InfeasibleError:
                assert best is None
                continue
            assert answer.cost == pytest.approx(best)
            assert answer.gap <= 1e-6
            assert answer.ceiling <= answer.cost * (1 + 1e-9)
            assert simulate_devices(problem, answer.plan).time_s == answer.time_s
        except Exception as error:
            error.add_note(f"problem {number}")
            raise


def test_a_tensor_goes_while_nobody_looks_at_it() -> None:
    problem = random_devices(519)  # n1 has to make room in a stage that neither makes nor reads it
    best = least_cost(problem, Minimise.ENERGY)
    answer = solve_devices(problem, Minimise.ENERGY, AS_GIVEN, Work(120.0))
    assert answer.cost == pytest.approx(best)
    assert answer.status is Status.OPTIMAL


def test_where_no_placement_fits_the_whole_program_finds_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("poetfw.schedule.several.solve.WHOLE_NODES", 0)
    problem = random_devices(551)
    assert solve_devices(problem, Minimise.ENERGY, AS_GIVEN, Work(3.0)).scheduler == "program"


def test_a_device_alone_may_be_better_in_another_order() -> None:
    problem = random_devices(553)
    best = least_cost(problem, Minimise.ENERGY)
    as_given = solve_devices(problem, Minimise.ENERGY, AS_GIVEN, Work(5.0))
    assert as_given.cost == pytest.approx(best)
    assert (as_given.status, as_given.bound_covers) == (Status.OPTIMAL, BoundCovers.STAGES)
    answer = solve_devices(problem, Minimise.ENERGY, EXACT, Work(5.0))
    assert answer.scheduler == "d1 alone"
    assert answer.cost == pytest.approx(min(costs_alone(problem, Minimise.ENERGY)))
    assert answer.cost < 0.9 * as_given.cost
    # Nothing is known of other plans in other orders.
    assert (answer.status, answer.bound_covers) == (Status.FEASIBLE, BoundCovers.STAGES)
    assert (answer.bound, answer.gap) == (pytest.approx(best), None)


@pytest.mark.parametrize("numbers", chunks(range(485, 685), 2))
def test_no_device_alone_is_better(numbers: range, monkeypatch: pytest.MonkeyPatch) -> None:
    # As problems are solved that are too large for one program.
    monkeypatch.setattr("poetfw.schedule.several.solve.WHOLE_NODES", 0)
    for number in numbers:
        problem = random_devices(number)
        minimise = (Minimise.TIME, Minimise.ENERGY)[number % 2]
        alone = list(costs_alone(problem, minimise))
        try:
            answer = solve_devices(problem, minimise, EXACT, Work(5.0))
        except InfeasibleError:
            assert not alone, number
            continue
        assert answer.cost <= min(alone, default=answer.cost) * (1 + 1e-9), number


def costs_alone(problem: DevicesProblem, minimise: Minimise) -> Iterator[float]:
    """What each device takes that can train without the others."""
    for device in problem.devices:
        if device.lacks:
            continue
        try:
            plan = single_plan(problem, device, minimise, "poet", work=Work(5.0))
        except InfeasibleError:
            continue
        figures = simulate_devices(problem, plan)
        yield figures.time_s if minimise is Minimise.TIME else figures.energy_j


@pytest.mark.parametrize("numbers", chunks(range(60), 3))
def test_one_device_is_poet(numbers: range) -> None:
    for number in numbers:
        problem = random_graph(number)
        one = DevicesProblem(
            problem.name,
            (Device("only", replace(problem, deadline_s=None)),),
            deadline_s=problem.deadline_s,
        )
        try:
            alone = solve(problem, work=Work(20.0))
        except InfeasibleError:
            with pytest.raises(InfeasibleError):
                solve_devices(one, Minimise.ENERGY, work=Work(20.0))
            continue
        answer = solve_devices(one, Minimise.ENERGY, work=Work(20.0))
        assert answer.plan == tuple(step._replace(device="only") for step in alone.plan)
        assert (answer.energy_j, answer.time_s) == (alone.energy_j, alone.time_s)
        assert answer.bound_covers in BoundCovers
