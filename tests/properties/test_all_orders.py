# SPDX-License-Identifier: Apache-2.0
"""Whole searches of small graphs against trying every plan, in all orders and within deadlines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from brute_force import Order, best_plan, least_energy
from overlap_brute_force import best_overlapped_plan
from random_graphs import CHECKED, GRAPHS, about, chunks, random_graph

from poetfw.common.errors import InfeasibleError
from poetfw.schedule import (
    BoundCovers,
    Schedule,
    ScheduleProblem,
    SolveOptions,
    Status,
    search,
    simulate,
    solve,
)

NODES, NODES_IN_TIME = 8, 6
"""Largest problems that are tried: with a deadline beside transfers that overlap, few nodes."""

ROUNDING = 1e-6

Record = Callable[[str, object], None]


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:6_000], 50))
def test_no_plan_is_better_than_one_called_optimal(numbers: range, record_property: Record) -> None:
    """Up to ten nodes every answer is optimal among all plans, and none is missed."""
    checked = []
    for number in numbers:
        problem = random_graph(number)
        if len(problem.nodes) <= (NODES_IN_TIME if is_in_time(problem) else NODES):
            checked.append(number)
            with about(problem):
                assert_best(problem)
    record_property(CHECKED, checked)


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:4_000], 50))
def test_with_a_deadline_and_overlap(numbers: range, record_property: Record) -> None:
    """The same of graphs that all have both."""
    checked = []
    for number in numbers:
        problem = random_graph(number)
        storage = problem.storage
        if storage is not None and len(problem.nodes) <= NODES_IN_TIME:
            once_s = sum(node.time_s for node in problem.nodes)
            problem = replace(
                problem,
                storage=replace(storage, overlap=True),
                deadline_s=once_s * (1 + number % 5 / 8),
            )
            checked.append(number)
            with about(problem):
                assert_best(problem)
    record_property(CHECKED, checked)


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:6_000], 50))
def test_programs_and_moves_alone_claim_nothing_false(
    numbers: range, record_property: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the search in all orders: what larger graphs get, on graphs that can be tried.

    No bound is above the least energy of the plans that it covers, nearly all answers take it, and
    none is missing where there is a plan in stages.
    """
    monkeypatch.setattr(search, "NODES", 0)
    checked, plans, best = [], 0, 0
    for number in numbers:
        problem = random_graph(number)
        if len(problem.nodes) > (NODES_IN_TIME if is_in_time(problem) else NODES):
            continue
        checked.append(number)
        with about(problem):
            known_j, answer = least_j(problem), attempt(problem)
            if known_j is None or answer is None:
                assert answer is None
                assert is_in_time(problem) or least_energy(problem, Order.STAGES) is None
                continue
            assert answer.bound_j is not None
            assert answer.energy_j >= known_j * (1 - ROUNDING)
            plans, best = plans + 1, best + (answer.energy_j <= known_j * (1 + ROUNDING))
            if answer.bound_covers is BoundCovers.ALL:
                assert answer.bound_j <= known_j * (1 + ROUNDING)
                if answer.status is Status.OPTIMAL:
                    assert answer.energy_j <= known_j * (1 + ROUNDING)
            elif not is_in_time(problem):
                stages_j = least_energy(problem, Order.STAGES)
                assert stages_j is None or answer.bound_j <= stages_j * (1 + ROUNDING)
    record_property(CHECKED, checked)
    assert best >= 0.9 * plans, f"{best} of {plans}"


def is_in_time(problem: ScheduleProblem) -> bool:
    """True if a deadline is to be met while transfers overlap with computing."""
    storage = problem.storage
    return problem.deadline_s is not None and storage is not None and storage.overlap


def assert_best(problem: ScheduleProblem) -> None:
    known_j = least_j(problem)
    answer = attempt(problem)
    assert (answer is None) == (known_j is None)
    if answer is not None:
        simulate(problem, answer.plan)
        assert answer.energy_j == pytest.approx(known_j, rel=1e-9)
        assert (answer.status, answer.bound_covers) == (Status.OPTIMAL, BoundCovers.ALL)


def least_j(problem: ScheduleProblem) -> float | None:
    """The least joules, by trying every plan; None if there is none."""
    if not is_in_time(problem):
        best = best_plan(problem, Order.ANY)
        return None if best is None else best.energy_j
    found = best_overlapped_plan(problem)
    if found is None:
        return None
    energy_j, plan = found
    simulate(problem, plan)
    return energy_j


def attempt(problem: ScheduleProblem) -> Schedule | None:
    try:
        return solve(problem, options=SolveOptions(gap=0.0))
    except InfeasibleError:
        return None
