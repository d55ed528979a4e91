# SPDX-License-Identifier: Apache-2.0
"""Bounds by blocks for two devices against the least that any plan in stages takes."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from devices_brute_force import least_cost, random_devices
from random_graphs import chunks

from poetfw.common.limits import Work
from poetfw.schedule import Node, ScheduleProblem
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import SolveOutcome, SolverOptions, solve_program
from poetfw.schedule.several import Minimise, bounds, ceiling
from poetfw.schedule.several.blocks import formulate_devices_blocks
from poetfw.schedule.several.bounds import bound_by_blocks

EXACT = SolverOptions(gap=0.0)


def blocks_of(n: int, rng: random.Random) -> tuple[range, ...]:
    """All stages in blocks of any sizes."""
    starts = [0, *sorted(rng.sample(range(1, n), rng.randrange(n))), n]
    return tuple(range(*ends) for ends in pairwise(starts))


@pytest.mark.parametrize("numbers", chunks(range(517, 917), 10))
def test_no_plan_takes_less_than_blocks_do(numbers: range) -> None:
    for number in numbers:
        problem, rng = random_devices(number), random.Random(number)
        minimise = (Minimise.TIME, Minimise.ENERGY)[number % 2]
        best = least_cost(problem, minimise)
        if best is None:
            continue
        try:
            blocks = blocks_of(len(problem.devices[0].problem.nodes), rng)
            made = formulate_devices_blocks(problem, minimise, blocks)
            solution = solve_program(made.program, EXACT, Work(60.0))
            assert solution.outcome is SolveOutcome.OPTIMAL
            assert solution.objective <= best * (1 + 1e-7)
            known = best * rng.choice((1.0, 1.05, 2.0, float("inf")))
            found = bound_by_blocks(problem, minimise, known, EXACT, Work(60.0))
            assert found.bound <= best * (1 + 1e-7)
        except Exception as error:
            error.add_note(f"problem {number}")
            raise


def test_what_takes_over_room_is_not_there_twice() -> None:
    problem = random_devices(553)  # n1 takes over n0, and is read later in the same block
    best = least_cost(problem, Minimise.ENERGY)
    assert best is not None
    blocks = (range(len(problem.devices[0].problem.nodes)),)
    made = formulate_devices_blocks(problem, Minimise.ENERGY, blocks)
    assert solve_program(made.program, EXACT, Work(60.0)).objective == pytest.approx(best)


def test_bounds_know_memory() -> None:
    problem = random_devices(524)  # without memory limits it takes a fifth less
    found = bound_by_blocks(problem, Minimise.TIME, float("inf"), EXACT, Work(60.0))
    assert found.bound > 1.2 * ceiling(problem, Minimise.TIME, Work(60.0)).cost


@pytest.mark.parametrize("strong", ["_turn_blocks", "cost_blocks"])
def test_the_bound_is_that_of_few_or_many_blocks(
    monkeypatch: pytest.MonkeyPatch, strong: str
) -> None:
    """One block of all stages proves 15.5 of this problem, a block per stage 15.75."""
    weak = {"_turn_blocks": "cost_blocks", "cost_blocks": "_turn_blocks"}[strong]
    monkeypatch.setattr(bounds, weak, lambda graph: (range(graph.n),))
    monkeypatch.setattr(
        bounds, strong, lambda graph: tuple(range(t, t + 1) for t in range(graph.n))
    )
    found = bound_by_blocks(random_devices(517), Minimise.TIME, float("inf"), EXACT, Work(60.0))
    assert found.bound == pytest.approx(15.75)


def test_few_blocks_are_thirds_of_both_passes() -> None:
    nodes = [Node(f"f{i}", (), 1.0, 1.0, 4) for i in range(6)]
    nodes += [Node(f"b{i}", (f"f{i}",), 1.0, 1.0, 4, backward=True) for i in range(4)]
    both = ScheduleProblem("both passes", 100, None, None, tuple(nodes))
    forward = ScheduleProblem("one pass", 100, None, None, tuple(nodes[:1]))
    thirds = (range(2), range(2, 4), range(4, 6), range(6, 7), range(7, 8), range(8, 10))
    assert bounds._turn_blocks(Indexed.of(both)) == thirds
    assert bounds._turn_blocks(Indexed.of(forward)) == (range(1),)
