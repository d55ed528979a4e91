# SPDX-License-Identifier: Apache-2.0
"""What a search concludes from what programs prove."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from schedule_problems import chain, plan

from poetfw.common.limits import Work
from poetfw.schedule import (
    BoundCovers,
    Node,
    ScheduleProblem,
    SolveOptions,
    Status,
    search,
    simulate,
    solve,
)
from poetfw.schedule.found import Found, Incumbent, SearchProgress, best_known

IN_STAGES = plan("a b c /b d /a /c e /d")
OTHER_ORDER = plan("x y /x z w /z v /y /w /v")


def other_order() -> ScheduleProblem:
    """x and z are needed at once only where z comes before y, as the problem has it."""
    nodes = (
        Node("x", (), 1.0, 1.0, 300),
        Node("z", (), 1.0, 1.0, 300),
        Node("y", ("x",), 1.0, 1.0, 100, backward=True),
        Node("w", ("z",), 1.0, 1.0, 100, backward=True),
        Node("v", ("y", "w"), 1.0, 1.0, 10, backward=True),
    )
    return ScheduleProblem("other order", 550, None, None, nodes)


def test_a_bound_above_a_plan_in_stages_is_an_error() -> None:
    problem = chain(650)
    found = best_known(problem, [IN_STAGES])
    assert found.with_bound(problem, found.energy_j * (1 + 1e-7)).gap == 0
    with pytest.raises(RuntimeError, match=r"'chain' in stages takes 15 J, less than .*, 15\.1 J"):
        found.with_bound(problem, 15.1)
    with pytest.raises(RuntimeError, match="lower bound of such plans, inf J"):
        found.with_bound(problem, float("inf"))


def test_a_plan_in_stages_below_a_bound_is_an_error() -> None:
    problem = chain(650)
    found = Found(None, float("inf"), 15.1, 0.0).or_better(problem, IN_STAGES)
    with pytest.raises(RuntimeError, match=r"takes 15 J, less than .*, 15\.1 J"):
        found.require_truth(problem)
    assert replace(found, bound_j=15.0).require_truth(problem).gap == 0


def test_a_plan_in_another_order_may_lie_below_the_bound() -> None:
    problem = other_order()
    assert simulate(problem, OTHER_ORDER).energy_j == 5.0
    found = Found(None, float("inf"), 6.0, 0.0).or_better(problem, OTHER_ORDER)
    assert (found.energy_j, found.require_truth(problem).bound_j) == (5.0, 6.0)
    known = best_known(problem, [OTHER_ORDER])
    # Of plans that take more than the known one, the program was not asked.
    assert known.with_bound(problem, 6.0).bound_j == 5.0


def test_a_bound_in_another_order_ends_with_it_and_a_plan_does_not() -> None:
    problem = other_order()
    x, z, y, w, v = problem.nodes
    best = Incumbent(problem, best_known(problem, ()), lambda progress: None)
    best.prove(5.5)
    with suppress(KeyboardInterrupt), best.in_order(replace(problem, nodes=(x, y, z, w, v))):
        assert best.found.bound_j == 5.0
        best.offer(OTHER_ORDER)
        best.prove(5.0)
        raise KeyboardInterrupt
    assert best.problem is problem
    assert (best.found.plan, best.found.energy_j, best.found.bound_j) == (OTHER_ORDER, 5.0, 5.5)


def test_progress_has_a_phase_and_is_never_below_its_bound() -> None:
    problem = other_order()
    told: list[SearchProgress] = []
    best = Incumbent(problem, best_known(problem, ()), told.append)
    best.prove(5.5)
    x, z, y, w, v = problem.nodes
    with best.in_order(replace(problem, nodes=(x, y, z, w, v))):
        best.offer(OTHER_ORDER)
    with best.phase("the rest", Work()):
        assert (best.found.energy_j, best.found.bound_j) == (5.0, 5.5)
    assert len(told) == 3
    assert all(progress.phase for progress in told)
    assert all(progress.bound_j <= progress.energy_j for progress in told)


def test_optimal_is_said_of_the_plans_that_were_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """In stages x is computed again; in another order nothing is."""
    monkeypatch.setattr(search, "BASELINES", {})
    problem = other_order()
    in_order = solve(problem, options=SolveOptions(gap=0.0, other_orders=False))
    assert (in_order.status, in_order.bound_covers) == (Status.OPTIMAL, BoundCovers.STAGES)
    assert in_order.energy_j == 7.0
    better = solve(problem, options=SolveOptions(gap=0.0))
    assert (better.energy_j, better.status, better.bound_covers) == (
        5.0,
        Status.OPTIMAL,
        BoundCovers.ALL,
    )
