# SPDX-License-Identifier: Apache-2.0
"""The energy of a step over its RAM: plans are handed from budget to budget."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.comparisons.comparison import Comparison, Task
from poetfw.planning import Curve, Point, TrainingProblem, budgets_between, smallest_budget
from poetfw.planning import curve as module
from poetfw.schedule import (
    BoundCovers,
    Interrupted,
    ScheduleProblem,
    Status,
    handed,
    plan_from_json,
    simulate,
    solve,
)
from poetfw.schedule.problem_json import problem_from_json
from system.commands import poetfw

UNITS = 0.3  # of work at a budget
NETWORKS = [
    ("mlp", 8),
    ("digits-cnn", 8),
    pytest.param("ds-cnn", 1, marks=pytest.mark.slow),
]
COUNT = 4


@cache
def training_of(model: str, batch: int) -> TrainingProblem:
    return Comparison.of(Task("nrf52840", model, batch)).training


@cache
def searched(model: str, batch: int, scheduler: str = "poet") -> tuple[Point, ...]:
    training = training_of(model, batch)
    low, high = smallest_budget(training, Work()), training.budget_bytes(1)
    found = Curve(training, budgets_between(low, high, COUNT), scheduler)
    found.search(Work(UNITS * COUNT))
    return found.points


def energies(points: Iterable[Point]) -> list[float]:
    return [point.schedule.energy_j for point in points if point.schedule is not None]


@pytest.mark.parametrize(("model", "batch"), NETWORKS)
def test_more_ram_takes_no_more_energy_and_is_bounded_no_higher(model: str, batch: int) -> None:
    points = searched(model, batch)
    assert len(energies(points)) == len(points) == COUNT
    assert energies(points) == sorted(energies(points), reverse=True)
    assert [point.budget_bytes for point in points] == sorted(p.budget_bytes for p in points)
    for covers in BoundCovers:  # a bound of plans for one order may be above one of all plans
        bounds = [
            point.schedule.bound_j
            for point in points
            if point.schedule and point.schedule.bound_j and point.schedule.bound_covers is covers
        ]
        assert bounds == sorted(bounds, reverse=True)
    first, last = points[0].schedule, points[-1].schedule
    assert first is not None
    assert last is not None
    assert first.energy_j > last.energy_j
    assert (last.overhead, last.status) == (0, Status.OPTIMAL)


@pytest.mark.parametrize(("model", "batch"), NETWORKS)
def test_each_point_is_a_legal_plan_at_least_as_good_as_a_search_of_its_own(
    model: str, batch: int
) -> None:
    training = training_of(model, batch)
    for point in searched(model, batch):
        found, problem = point.schedule, training.within(point.budget_bytes)
        assert found is not None
        figures = simulate(problem, found.plan).beside(problem.resident_bytes)
        assert figures.energy_j == found.energy_j
        assert figures.peak_bytes == found.peak_bytes <= point.budget_bytes
        alone = solve(problem, work=Work(UNITS))
        assert found.energy_j <= alone.energy_j


def test_handing_betters_what_searches_find_alone() -> None:
    """Once by a plan of more RAM that is made to fit, once by one of less RAM."""
    for known, better in ((1.0, 0.7), (0.5, 0.9)):
        training = training_of("digits-cnn", 8)
        start = solve(training.within(training.budget_bytes(known)), work=Work(UNITS))
        within = training.within(training.budget_bytes(better))
        plan = handed(within, start.plan, Work(UNITS))
        assert plan is not None
        simulation = simulate(within, plan)
        assert simulation.energy_j < start.energy_j or known > better
        assert simulation.peak_bytes <= within.ram_bytes


def test_the_order_of_budgets_does_not_matter_and_one_curve_joins_both_directions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plans are handed downwards and upwards: neither direction alone is better anywhere."""
    training = training_of("mlp", 8)
    budgets = [point.budget_bytes for point in searched("mlp", 8)]
    again = Curve(training, [*reversed(budgets), budgets[1]])
    again.search(Work(UNITS * COUNT))
    assert energies(again.points) == energies(searched("mlp", 8))
    hand = Curve._hand
    for skipped in ("from more RAM", "from less RAM"):

        def one_way(self: Curve, schedule: Any, budget: int, work: Work, phase: str) -> None:
            if phase != skipped:  # noqa: B023
                hand(self, schedule, budget, work, phase)

        monkeypatch.setattr(Curve, "_hand", one_way)
        alone = Curve(training, budgets)
        alone.search(Work(UNITS * COUNT))
        pairs = zip(energies(again.points), energies(alone.points), strict=True)
        assert all(both <= one for both, one in pairs)


def test_a_published_method_keeps_its_own_plans() -> None:
    for point in searched("mlp", 8, "swap-on-demand"):
        assert point.schedule is not None
        assert point.schedule.recomputes == 0
        assert point.schedule.scheduler == "swap-on-demand"


def test_budgets_below_the_smallest_have_a_reason() -> None:
    training = training_of("mlp", 8)
    least = smallest_budget(training, Work())
    found = Curve(training, [least - 3, least - 2, least])
    found.search(Work(UNITS * 3))
    reasons = [point.reason for point in found.points]
    assert all(f"{least:,}" in reason for reason in reasons[:2])
    assert reasons[2] == ""
    with pytest.raises(InfeasibleError) as refused:
        Curve(training, [least - 3, least - 2]).search(Work(UNITS))
    assert refused.value.minimum_budget_bytes == least


def test_interrupted_it_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    training = training_of("mlp", 8)
    budgets = [point.budget_bytes for point in searched("mlp", 8)]
    calls: list[int] = []

    def interrupt(problem: ScheduleProblem, *arguments: Any) -> Any:
        calls.append(problem.ram_bytes)
        found = solve(problem, *arguments)
        if len(calls) == 2:
            raise Interrupted(replace(found, status=Status.INTERRUPTED))
        return found

    monkeypatch.setattr(module, "solve", interrupt)
    found = Curve(training, budgets)
    with pytest.raises(KeyboardInterrupt):
        found.search(Work(UNITS * COUNT))
    assert [point.budget_bytes for point in found.points] == budgets[-2:]
    statuses = [point.schedule.status for point in found.points if point.schedule]
    assert statuses == [Status.INTERRUPTED, Status.OPTIMAL]


def test_the_command_prints_every_point_draws_them_and_its_plans_are_legal(tmp_path: Path) -> None:
    options = ("--board", "nrf52840", "--model", "mlp", "--batch", "8", "--work-limit", "1")
    command = ("schedule", *options, "--pareto", "3", "--ram-fraction", "0.6,1")
    shown = poetfw(*command, "--plot", "curve.svg", cwd=tmp_path)
    rows = re.findall(r"│ +([\d,]+) B │ +([\d,]+) B │ +([\d.]+) mJ │ +([\d.]+)%", shown.stdout)
    answer = poetfw(*command, "--json", cwd=tmp_path).json
    assert [int(row[0].replace(",", "")) for row in rows] == [
        point["ram_bytes"] for point in answer["points"]
    ]
    assert [point["ram_fraction"] for point in answer["points"]][::2] == pytest.approx(
        [0.6, 1], abs=1e-3
    )
    for row, point in zip(rows, answer["points"], strict=True):
        assert float(row[2]) == pytest.approx(1e3 * point["energy_j"], rel=1e-5)
    has_no_gap = any(point["gap"] is None for point in answer["points"])
    assert ("-  as gap: " in shown.stdout) == has_no_gap
    assert "<svg" in (tmp_path / "curve.svg").read_text()
    (tmp_path / "answer.json").write_text(json.dumps(answer["points"][0]))
    first = answer["points"][0]
    assert plan_from_json(json.dumps(first))
    replay = ("--ram", str(first["ram_bytes"]), "--replay", "answer.json", "--json")
    again = poetfw("schedule", *options, *replay, cwd=tmp_path)
    assert again.json["energy_j"] == first["energy_j"]


def test_a_problem_without_nodes_to_save_has_one_point() -> None:
    problem: ScheduleProblem = problem_from_json(Path("examples/chain.json").read_text())
    one = replace(problem, nodes=(replace(problem.nodes[0], inputs=()),))
    training = TrainingProblem(one)
    budgets = budgets_between(smallest_budget(training, Work()), training.budget_bytes(1), 5)
    assert len(budgets) == 1
    found = Curve(training, budgets)
    found.search(Work(1.0))
    assert energies(found.points) == [problem.nodes[0].energy_j]
