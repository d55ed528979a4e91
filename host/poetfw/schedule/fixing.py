# SPDX-License-Identifier: Apache-2.0
"""Variables fixed by the energy of a known plan, without loss of better plans."""

from __future__ import annotations

import math
from dataclasses import replace

from poetfw.schedule.cuts.relaxation import Relaxed
from poetfw.schedule.milp import IntegerProgram
from poetfw.schedule.problem import Node, ScheduleProblem


def without_what_costs_more(problem: ScheduleProblem, energy_j: float) -> ScheduleProblem:
    """Forbid each recompute and each paging that alone costs more than a known plan's overhead.

    The overhead is the energy beyond computing each node once. A better plan has a smaller
    overhead, so it contains no recompute, and no page-out with a page-in, that costs more.

    Args:
        problem: the problem.
        energy_j: joules of the known plan; infinite to forbid nothing.

    Returns:
        A problem with the same better plans.
    """
    overhead_j = energy_j - math.fsum(node.energy_j for node in problem.nodes)
    overhead_j += _TOLERANCE * energy_j
    storage = problem.storage

    def paging_j(node: Node) -> float:
        if storage is None:
            return 0.0
        size = node.output_bytes
        return storage.page_in_energy_j(size) + storage.page_out_energy_j(size)

    nodes = tuple(
        replace(
            node,
            recompute=node.recompute and node.energy_j <= overhead_j,
            page=node.page and paging_j(node) <= overhead_j,
        )
        for node in problem.nodes
    )
    return replace(problem, nodes=nodes)


_TOLERANCE = 1e-9  # relative: energies are sums of the same numbers in different orders


def fix_by_reduced_costs(program: IntegerProgram, relaxed: Relaxed, objective: float) -> int:
    """Fix at 0 the integral columns that are 0 in every solution better than the incumbent.

    Args:
        program: the program, changed in place; better solutions remain feasible.
        relaxed: result of its linear relaxation, with or without cuts.
        objective: objective of the incumbent.

    Returns:
        Number of columns fixed.
    """
    least = objective - relaxed.bound + _TOLERANCE * abs(objective)
    fixed = [
        x
        for x, cost in enumerate(relaxed.reduced_costs)
        if cost > least and program.integer[x] and program.upper[x]
    ]
    for x in fixed:
        program.upper[x] = 0.0
    return len(fixed)


def cut_off(program: IntegerProgram, objective: float) -> None:
    """Add the row objective ≤ incumbent's objective.

    Args:
        program: the program, changed in place.
        objective: objective of the incumbent, at least the program's offset.
    """
    scale = 1.0 / (program.offset or 1.0)
    terms = [(x, cost * scale) for x, cost in enumerate(program.costs) if cost]
    program.at_most(terms, (objective - program.offset) * scale + _TOLERANCE)
