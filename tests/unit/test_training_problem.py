# SPDX-License-Identifier: Apache-2.0
"""A training step's schedule problem: its budgets in bytes and as fractions, and its deadline."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from poetfw.boards import load_board
from poetfw.cli.main import cli
from poetfw.common.errors import InfeasibleError
from poetfw.comparisons.comparison import Comparison, Task
from poetfw.planning import TrainingProblem
from poetfw.schedule import minimum_budget
from unit.schedule.schedule_problems import chain

RESIDENT, KEPT = 1000, 650  # bytes; KEPT is the chain's peak where everything is kept
PROBLEM = replace(chain(700), resident_bytes=RESIDENT)
TRAINING = TrainingProblem(PROBLEM, evaluation_bytes=1400)


def test_a_budget_includes_resident_bytes() -> None:
    assert TRAINING.within(1400) == replace(PROBLEM, ram_bytes=400)
    assert TRAINING.budget_bytes(0) == RESIDENT
    assert TRAINING.budget_bytes(1) == RESIDENT + KEPT
    assert TRAINING.fraction_of(RESIDENT + KEPT) == 1
    assert TRAINING.fraction_of(TRAINING.budget_bytes(Fraction(1, 2))) == Fraction(1, 2)


@pytest.mark.parametrize(
    ("budget", "why"),
    [(1399, "evaluation, which keeps all .* takes 1,400"), (999, "never leave RAM, take 1,400")],
)
def test_a_budget_that_is_too_small_is_refused(budget: int, why: str) -> None:
    least = max(1400, RESIDENT + minimum_budget(PROBLEM).bytes)
    with pytest.raises(InfeasibleError, match=f"{budget:,} bytes is too small: .*{why}") as refused:
        TRAINING.within(budget)
    assert refused.value.minimum_budget_bytes == least


def test_the_papers_model_has_neither_evaluation_nor_resident_bytes() -> None:
    assert TRAINING.modelled_as("device") == TRAINING
    assert TRAINING.modelled_as("poet").within(600).ram_bytes == 600


def test_a_deadline_is_a_multiple_of_the_time_of_keeping_everything() -> None:
    assert TRAINING.before(2.5).within(1400).deadline_s == 2.5
    comparison = Comparison.of(Task("nrf52840", "mlp"), 1.5)
    assert comparison.training.problem.deadline_s == 1.5 * comparison.everything.time_s


def test_without_a_budget_it_is_that_of_the_board() -> None:
    there = load_board("mkr1000").unreserved_bytes
    with pytest.raises(InfeasibleError, match=f"the budget of {there:,} bytes is too small"):
        cli.main(
            ["schedule", "--board", "mkr1000", "--model", "mobilenet", "--json"],
            standalone_mode=False,
        )
