# SPDX-License-Identifier: Apache-2.0
"""What is true of contracted problems, whatever they were contracted from."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from random_graphs import CHECKED, GRAPHS, about, chunks, random_graph

from poetfw.common.limits import Work
from poetfw.schedule import Node, ScheduleProblem, SolveOptions, solve
from poetfw.schedule.compact import Compact, formulate
from poetfw.schedule.contract import Means, contract
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import Solution, SolverOptions, solve_program
from poetfw.schedule.plan import lower
from poetfw.schedule.simulator import simulate

EXACT = SolverOptions(gap=0.0)
Record = Callable[[str, object], None]


def with_activations(problem: ScheduleProblem, seed: int) -> ScheduleProblem:
    """The problem with a node behind every third or so, which alone reads it."""
    renamed: dict[str, str] = {}
    nodes: list[Node] = []
    for i, node in enumerate(problem.nodes):
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        taken = None if node.in_place is None else renamed.get(node.in_place, node.in_place)
        nodes.append(replace(node, inputs=inputs, in_place=taken))
        if node.output_bytes and (i + seed) % 3 == 0:
            name = renamed[node.name] = f"{node.name}.activation"
            in_place = node.name if (i + seed) % 2 else None
            before = None if i % 4 else node.recompute_before
            nodes.append(
                replace(
                    node,
                    name=name,
                    inputs=(node.name,),
                    time_s=0.3 * node.time_s,
                    energy_j=0.3 * node.energy_j,
                    workspace_bytes=node.workspace_bytes * (seed % 3),
                    recompute_before=before,
                    in_place=in_place,
                )
            )
    return replace(problem, nodes=tuple(nodes), ram_bytes=problem.ram_bytes * 5 // 4)


def program_of(problem: ScheduleProblem, close_stages: bool = False) -> Compact:
    return formulate(Indexed.of(problem), close_stages=close_stages)


def least(compact: Compact) -> Solution:
    return solve_program(compact.program, EXACT, Work(120.0))


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("numbers", chunks(GRAPHS[:1_000], 10))
def test_the_whole_is_between_its_relaxation_and_its_restriction(
    numbers: range, share: float, record_property: Record
) -> None:
    joined = 0
    for number in numbers:
        problem = with_activations(replace(random_graph(number), deadline_s=None), number)
        with about(problem):
            relaxed = contract(problem, Means.RELAXATION, share)
            restricted = contract(problem, Means.RESTRICTION, share)
            joined += len(relaxed.contracted.nodes) < len(problem.nodes)
            whole = least(program_of(problem)).objective
            assert least(program_of(relaxed.contracted)).objective <= whole + 1e-6
            for close_stages in (False, True):
                compact = program_of(restricted.contracted, close_stages)
                solution = least(compact)
                if solution.values is None:
                    continue
                plan = lower(Indexed.of(restricted.contracted), compact.stages(solution.values))
                simulation = simulate(problem, restricted.expand(plan))
                assert simulation.energy_j <= solution.objective + 1e-6
                assert simulation.energy_j >= whole - 1e-6
    assert joined
    record_property(CHECKED, list(numbers))


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("number", [5406, 5813, 6374, 7371])
def test_more_ram_is_never_worse(number: int, share: float) -> None:
    """HiGHS 1.12 to 1.15 say that some of these are infeasible; see ADR 0015."""
    problem = with_activations(replace(random_graph(number), deadline_s=None), number)
    relaxed = contract(problem, Means.RELAXATION, share).contracted
    budgets = [int(times * problem.ram_bytes) for times in (1.0, 1.05, 1.2, 1.5, 2.2)]
    energies = [
        least(program_of(replace(relaxed, ram_bytes=budget))).objective for budget in budgets
    ]
    assert energies == sorted(energies, reverse=True)
    assert math.isfinite(energies[0])


@pytest.mark.parametrize("numbers", chunks(GRAPHS[1_000:1_200], 10))
def test_contracting_first_changes_no_optimum(numbers: range, record_property: Record) -> None:
    for number in numbers:
        problem = with_activations(replace(random_graph(number), deadline_s=None), number)
        with about(problem):
            found = least(program_of(problem)).objective
            if math.isfinite(found):
                options = SolveOptions(gap=0.0, small_share=0.3, other_orders=False)
                assert solve(problem, "poet", options).energy_j == pytest.approx(found)
    record_property(CHECKED, list(numbers))
