# SPDX-License-Identifier: Apache-2.0
"""The programs against each other, and against trying every plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from brute_force import Order, least_energy
from random_graphs import CHECKED, GRAPHS, about, chunks, random_graph, with_in_place

from made_problems import random_problem
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.schedule import ScheduleProblem, SolveOptions, minimum_budget, solve
from poetfw.schedule.algorithm_1 import formulate_algorithm_1
from poetfw.schedule.compact import formulate
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram, SolveOutcome, SolverOptions, solve_program

EXACT = SolverOptions(gap=0.0)
Record = Callable[[str, object], None]


def optimum(problem: ScheduleProblem) -> float | None:
    """The least energy by the compact formulation; None if there is no solution."""
    return least(formulate(Indexed.of(problem)).program)


def least(program: IntegerProgram) -> float | None:
    """The least objective; None if there is no solution."""
    solution = solve_program(program, EXACT, Work(120.0))
    assert solution.outcome in (SolveOutcome.OPTIMAL, SolveOutcome.INFEASIBLE)
    return None if solution.values is None else solution.objective


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:1_000], 5))
def test_compact_formulation_equals_algorithm_1(numbers: range, record_property: Record) -> None:
    for number in numbers:
        problem = as_algorithm_1_knows_it(random_graph(number))
        with about(problem):
            assert_equals_algorithm_1(problem)
    record_property(CHECKED, list(numbers))


def as_algorithm_1_knows_it(problem: ScheduleProblem) -> ScheduleProblem:
    """The problem without ops that write in place, and without transfers beside computing."""
    nodes = tuple(replace(node, in_place=None) for node in problem.nodes)
    storage = None if problem.storage is None else replace(problem.storage, overlap=False)
    return replace(problem, nodes=nodes, storage=storage)


def assert_equals_algorithm_1(problem: ScheduleProblem) -> None:
    """Compare the compact formulation with Algorithm 1.

    Algorithm 1 pages between stages: what it pages out is in RAM during the next stage, and what
    it pages in is there from the beginning of a stage. A device need not wait, so it does no worse;
    without storage the two are equal.
    """
    published = least(formulate_algorithm_1(Indexed.of(problem)).program)
    if problem.storage is None:
        assert optimum(problem) == pytest.approx(published)
    elif published is not None:
        on_device = optimum(problem)
        assert on_device is not None
        assert on_device <= published + 1e-6


@pytest.mark.parametrize("numbers", chunks(GRAPHS[:2_500], 25))
def test_compact_formulation_equals_brute_force(numbers: range, record_property: Record) -> None:
    checked = []
    for number in numbers:
        problem = replace(random_graph(number), deadline_s=None)
        if len(problem.nodes) <= 8:
            with about(problem):
                assert_equals_brute_force(problem)
            checked.append(number)
    record_property(CHECKED, checked)


def assert_equals_brute_force(problem: ScheduleProblem) -> None:
    """Within stages the program is exact; a plan outside them may only be better."""
    found = optimum(problem)
    assert found == pytest.approx(least_energy(problem, Order.STAGES))
    if found is not None and len(problem.nodes) <= 6:
        anyhow = least_energy(problem, Order.GIVEN)
        assert anyhow is not None
        assert anyhow <= found + 1e-6


@pytest.mark.parametrize("seed", range(2030, 2060))
def test_plans_that_take_over_inputs_are_accepted(seed: int) -> None:
    for slack in (0.0, 0.3, 0.6):
        problem = random_problem(seed, (6, 8, 10)[seed % 3], slack, plain=seed % 3 == 0)
        problem = with_in_place(problem, seed)
        needed = minimum_budget(problem)
        solved = solve(replace(problem, ram_bytes=max(problem.ram_bytes, needed.bytes)))
        # A plan in another order may be as good.
        assert solved.gap is None or solved.gap <= SolveOptions().gap
        if needed.exact:
            with pytest.raises(InfeasibleError):
                solve(replace(problem, ram_bytes=needed.bytes - 1))
