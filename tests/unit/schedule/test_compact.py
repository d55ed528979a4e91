# SPDX-License-Identifier: Apache-2.0
"""The compact formulation at the edges of what is feasible, on problems small enough to see why."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from schedule_problems import STORAGE, chain, plan

from poetfw.common.limits import Work
from poetfw.schedule import Node, ScheduleProblem, StepKind, simulate
from poetfw.schedule.compact import formulate
from poetfw.schedule.contract import Means, contract
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import SolveOutcome, SolverOptions, solve_program
from poetfw.schedule.plan import lower


def optimum(problem: ScheduleProblem) -> float | None:
    """The least energy, of a plan that the simulator accepts; None if there is no schedule."""
    graph = Indexed.of(problem)
    compact = formulate(graph)
    solution = solve_program(compact.program, SolverOptions(gap=0.0), Work())
    if solution.outcome is SolveOutcome.INFEASIBLE:
        return None
    assert solution.values is not None
    simulation = simulate(problem, lower(graph, compact.stages(solution.values)))
    assert simulation.energy_j == pytest.approx(solution.objective)
    return simulation.energy_j


def test_an_input_that_stays_is_not_written_over() -> None:
    """While b is computed, a, which c reads too, and 50 bytes of workspace are live beside it."""
    nodes = (
        Node("a", (), 1.0, 1.0, 100, recompute=False),
        Node("b", ("a",), 1.0, 1.0, 100, workspace_bytes=50, in_place="a", recompute=False),
        Node("c", ("a", "b"), 1.0, 1.0, 10, backward=True),
    )
    problem = ScheduleProblem("stays", 250, None, None, nodes)
    assert optimum(problem) == 3.0
    assert optimum(replace(problem, ram_bytes=249)) is None
    alone = (*nodes[:2], replace(nodes[2], inputs=("b",)))
    assert optimum(replace(problem, nodes=alone, ram_bytes=150)) == 3.0
    assert optimum(replace(problem, nodes=alone, ram_bytes=149)) is None


@pytest.mark.parametrize("paging", [True, False])
def test_a_deadline_counts_what_is_moved_and_what_is_computed_again(paging: bool) -> None:
    problem = chain(550, STORAGE if paging else None)
    steps = "a -a b /a c /b +a d /a /c e /d" if paging else "a b /a c /b a d /a /c e /d"
    needed = simulate(problem, plan(steps))
    if paging:
        nodes = tuple(replace(node, recompute=False) for node in problem.nodes)
        problem = replace(problem, nodes=nodes)
    assert optimum(replace(problem, deadline_s=needed.time_s)) == pytest.approx(needed.energy_j)
    assert optimum(replace(problem, deadline_s=needed.time_s - 0.01)) is None


def test_the_budget_holds_after_every_recompute() -> None:
    """Random chains with skips, without workspace: the least budget of a schedule is the plan's."""
    rng = random.Random(4)
    recomputes = 0
    for _ in range(30):
        count = rng.randint(5, 7)
        nodes = []
        for i in range(count):
            inputs = {f"n{i - 1}"} if i else set()
            inputs |= {f"n{rng.randrange(i)}"} if i > 1 else set()
            size = rng.choice([20, 50, 100])
            nodes.append(Node(f"n{i}", tuple(sorted(inputs)), 1.0, 1.0, size))
        problem = ScheduleProblem("random", 0, None, None, tuple(nodes))
        for ram_bytes in range(120, 400, 40):
            found = optimum(replace(problem, ram_bytes=ram_bytes))  # which simulates the plan
            recomputes += found is not None and found > count
    assert recomputes > 5


@pytest.mark.parametrize("means", Means)
@pytest.mark.parametrize(("share", "small"), [(0.0, ""), (0.1, "a"), (0.3, "ab"), (0.6, "abc")])
def test_the_smallest_tensors_are_those_within_their_share(
    means: Means, share: float, small: str
) -> None:
    """Of a budget of 1,000 bytes; sizes 100, 200, 300 and 400 add up to 100, 300, 600 and 1,000."""
    nodes = tuple(
        Node(name, (), 1.0, 1.0, 100 * number) for number, name in enumerate("abcd", start=1)
    )
    contracted = contract(ScheduleProblem("sizes", 1000, None, STORAGE, nodes), means, share)
    changed = [
        node.name
        for node in contracted.contracted.nodes
        if not node.output_bytes or not node.recompute
    ]
    assert "".join(changed) == small


@pytest.mark.parametrize("again", [True, False])
@pytest.mark.parametrize(("in_place", "workspace"), [(None, 210), ("i", 30)])
def test_what_is_joined_costs_and_may_do_what_both_did(
    again: bool, in_place: str | None, workspace: int
) -> None:
    """j alone reads i, so that j's tensor may be held in place of i's."""
    limit = "u" if again else None
    nodes = (
        Node("x", (), 1.0, 1.0, 100),
        Node("i", ("x",), 2.0, 3.0, 200, 30, recompute=again, recompute_before=limit),
        Node("j", ("i",), 4.0, 5.0, 200, 10, in_place=in_place),
        Node("k", ("j", "x"), 1.0, 1.0, 300),
        Node("u", ("k",), 1.0, 1.0, 0, recompute=False),
    )
    problem = ScheduleProblem("joined", 1000, None, STORAGE, nodes)
    contraction = contract(problem, Means.RESTRICTION, 0.0)
    joined = {node.name: node for node in contraction.contracted.nodes}
    assert list(joined) == ["x", "j", "k", "u"]
    assert contraction.chains["j"] == ("i", "j")
    assert joined["j"] == replace(
        nodes[2],
        inputs=("x",),
        time_s=6.0,
        energy_j=8.0,
        workspace_bytes=workspace,
        recompute=again,
        recompute_before=limit,
        in_place=None,
    )
    steps = contraction.expand(plan("x j k /j /x u /k"))
    assert [step.node for step in steps if step.kind is StepKind.COMPUTE] == list("xijku")
    simulate(problem, steps)


@pytest.mark.parametrize("means", Means)
@pytest.mark.parametrize(
    "changes",
    [
        {"output_bytes": 201},
        {"page": False},
        {"recompute": False},
        {"backward": True},
        {"recompute_before": "u"},
        {"inputs": ("x", "i")},
    ],
    ids=str,
)
def test_what_could_not_be_held_instead_is_not_joined(
    means: Means, changes: dict[str, object]
) -> None:
    nodes = (
        Node("x", (), 1.0, 1.0, 100),
        Node("i", ("x",), 1.0, 1.0, 200),
        replace(Node("j", ("i",), 1.0, 1.0, 200), **changes),  # type: ignore[arg-type]
        Node("k", ("j", "x"), 1.0, 1.0, 300),
        Node("u", ("k", "x"), 1.0, 1.0, 0, recompute=False),
    )
    contraction = contract(ScheduleProblem("apart", 1000, None, STORAGE, nodes), means, 0.0)
    assert [node.name for node in contraction.contracted.nodes] == ["x", "i", "j", "k", "u"]


@pytest.mark.parametrize(
    ("over_i", "means", "taken"),
    [
        (True, Means.RESTRICTION, "x"),
        (True, Means.RELAXATION, "x"),
        (False, Means.RESTRICTION, None),
        (False, Means.RELAXATION, "x"),
    ],
)
def test_what_is_joined_takes_over_what_the_first_may(
    over_i: bool, means: Means, taken: str | None
) -> None:
    nodes = (
        Node("x", (), 1.0, 1.0, 200),
        Node("i", ("x",), 1.0, 1.0, 200, in_place="x"),
        Node("j", ("i",), 1.0, 1.0, 200, in_place="i" if over_i else None),
        Node("k", ("j", "x"), 1.0, 1.0, 300),
    )
    contraction = contract(ScheduleProblem("over", 1000, None, STORAGE, nodes), means, 0.0)
    joined = {node.name: node for node in contraction.contracted.nodes}
    assert contraction.chains["j"] == ("i", "j")
    assert joined["j"].in_place == taken
