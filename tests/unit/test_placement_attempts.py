# SPDX-License-Identifier: Apache-2.0
"""Searches whose schedules do not fit once they are placed are repeated with less RAM."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from poetfw.boards import load_board
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.costs import analytic_costs
from poetfw.firmware import BLOCK_BYTES
from poetfw.memory import ONLY, resident_bytes
from poetfw.planning import (
    BuildSettings,
    Plan,
    budget,
    derive_program,
    load_model,
    plan_evaluation,
    schedule_problem,
)
from poetfw.planning.inference import PLACEMENT_ATTEMPTS, search_placeable, tightened
from poetfw.schedule import (
    ExecutionPlan,
    Node,
    Schedule,
    ScheduleProblem,
    largest_working_set,
    solve,
    working_sets,
)
from poetfw.training import Program


@pytest.mark.parametrize(
    ("gap_bytes", "searched", "fits"),
    [
        (0, [1000], True),
        (30, [1000, 970], True),
        (None, [1000 - tried for tried in range(PLACEMENT_ATTEMPTS)], False),
    ],
)
def test_the_next_search_has_less_ram_by_the_excess(
    gap_bytes: int | None, searched: list[int], fits: bool
) -> None:
    seen: list[int] = []

    def attempt(problem: ScheduleProblem, part: Work) -> tuple[int, ScheduleProblem | None]:
        """Use all RAM, and the gaps on top; None for gaps that exceed any RAM by a byte."""
        seen.append(problem.ram_bytes)
        excess = 1 if gap_bytes is None else problem.ram_bytes + gap_bytes - 1000
        return problem.ram_bytes, tightened(problem, excess)

    problem = ScheduleProblem("gaps", 1000, None, None, ())
    assert search_placeable(problem, attempt, Work()) == (searched[-1], fits)
    assert seen == searched


def test_a_node_that_needs_the_ram_has_nothing_beside_it() -> None:
    nodes = (
        Node("large", (), 1.0, 1.0, 400, workspace_bytes=580),
        Node("small", ("large",), 1.0, 1.0, 100),
    )
    problem = ScheduleProblem("gaps", 1000, None, None, nodes)
    tighter = tightened(problem, 50)
    assert tighter is not None
    assert tighter.ram_bytes == 980  # 30 bytes more than is left
    assert working_sets(tighter) == {"large": 980, "small": 530}
    again = tightened(tighter, 500)
    assert again is not None
    assert working_sets(again) == {"large": 980, "small": 980}


@dataclass(frozen=True)
class Little:
    """LeNet-5 in little RAM, with its best schedule and a dearer one."""

    program: Program
    problem: ScheduleProblem
    budget_bytes: int
    evaluation: Schedule
    best: Schedule
    other: Schedule

    def refuse(
        self,
        monkeypatch: pytest.MonkeyPatch,
        is_refused: Callable[[float], bool],
        gap_bytes: int = 8,
    ) -> None:
        """Place as always, but for plans whose joules are refused: they have gaps."""
        place = budget.place_plan

        def with_gaps(program: Program, training: Schedule, *how: Any) -> Plan:
            placed = place(program, training, *how)
            if not is_refused(training.energy_j):
                return placed
            memory = replace(placed.memory, arena_bytes=self.budget_bytes + gap_bytes)
            return replace(placed, memories={ONLY: memory})

        monkeypatch.setattr(budget, "place_plan", with_gaps)

    def found(self, *known: ExecutionPlan) -> Schedule:
        return budget.place_within(
            self.program,
            self.problem,
            self.budget_bytes,
            "poet",
            self.evaluation,
            Work(1.0),
            known=known,
        ).training


@pytest.fixture
def little() -> Little:
    board, settings = load_board("nrf52840"), BuildSettings("nrf52840", "lenet5", batch=4)
    program = derive_program(settings, load_model(settings))
    table = analytic_costs(program.training, board)
    resident = resident_bytes(program.resident, BLOCK_BYTES)
    needed = schedule_problem(program.training, board, table, None)
    budget_bytes = resident + 2 * largest_working_set(needed)
    problem = replace(needed, resident_bytes=resident)
    limited = replace(problem, ram_bytes=budget_bytes - resident)
    best, other = solve(limited), solve(limited, "swap-on-demand")
    assert best.energy_j < other.energy_j
    evaluation = plan_evaluation(program, board, analytic_costs)
    return Little(program, problem, budget_bytes, evaluation, best, other)


def test_a_known_plan_is_followed_where_better_ones_cannot_be_placed(
    little: Little, monkeypatch: pytest.MonkeyPatch
) -> None:
    little.refuse(monkeypatch, lambda energy_j: energy_j < little.other.energy_j)
    with pytest.raises(InfeasibleError, match="could be placed"):
        little.found()
    training = little.found(little.other.plan)
    assert training.energy_j == pytest.approx(little.other.energy_j)
    assert training.bound_j is not None
    assert training.bound_j <= little.best.energy_j
    assert training.gap == pytest.approx(1 - training.bound_j / training.energy_j)


def test_a_plan_for_less_ram_has_the_bound_of_all_ram(
    little: Little, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dearer plan is the best of the RAM that was searched, not of what there is."""
    most_j = little.best.energy_j * (1 + 1e-9)
    little.refuse(monkeypatch, lambda energy_j: energy_j <= most_j, 60_000)
    training = little.found()
    assert training.energy_j > most_j
    assert training.bound_j is not None
    assert training.bound_j <= most_j
