# SPDX-License-Identifier: Apache-2.0
"""Graphs that are very large, or that leave nothing to choose, have an answer or a clear error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from made_problems import SD_CARD, random_problem
from poetfw.common.errors import InfeasibleError
from poetfw.common.limits import Work
from poetfw.schedule import Node, ScheduleProblem, Status, simulate, solve
from poetfw.schedule.bounds import largest_working_set


def mirrored(half: int, recompute: bool) -> ScheduleProblem:
    """A chain of nodes of 8 bytes, and their gradients, which read them in reverse."""
    names = [*(f"f{i}" for i in range(half)), *(f"b{i}" for i in reversed(range(half)))]
    nodes = []
    for t, name in enumerate(names):
        inputs = (() if t == 0 else (names[t - 1],)) + (() if t <= half else (f"f{name[1:]}",))
        nodes.append(Node(name, inputs, 1.0, 1.0, 8, recompute=recompute, backward=t >= half))
    return ScheduleProblem("chain", 8 * half + 16, None, None, tuple(nodes))


def test_a_chain_of_5000_in_which_nothing_may_be_recomputed() -> None:
    chain, work = mirrored(2_500, recompute=False), Work(5.0)
    assert solve(chain, work=work).status is Status.OPTIMAL
    with pytest.raises(InfeasibleError, match="the smallest feasible budget is 20,008 bytes"):
        solve(replace(chain, ram_bytes=19_000), work=work)
    assert work.left > 0


def test_50000_nodes_have_a_plan_in_little_work() -> None:
    chain = replace(mirrored(25_000, recompute=True), ram_bytes=100_000, storage=SD_CARD)
    answer = solve(chain, work=Work(1.0))
    assert simulate(chain, answer.plan).peak_bytes <= 100_000
    assert answer.gap is not None


def test_without_a_backward_pass_a_budget_that_is_known_to_be_feasible_is_named() -> None:
    problem = random_problem(3, 60)
    nodes = tuple(replace(node, backward=False) for node in problem.nodes)
    problem = replace(problem, nodes=nodes, storage=None)
    small = replace(problem, ram_bytes=largest_working_set(problem))
    work = Work(10.0)
    with pytest.raises(InfeasibleError, match="budget") as raised:
        solve(small, work=work)
    assert work.left > 0
    needed = raised.value.minimum_budget_bytes
    assert needed is not None
    assert needed > small.ram_bytes
    solve(replace(problem, ram_bytes=needed), work=Work(10.0))
