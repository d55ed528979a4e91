# SPDX-License-Identifier: Apache-2.0
"""Variables fixed by a known plan: values that no better plan has."""

from __future__ import annotations

import math
from dataclasses import replace

from poetfw.schedule.cuts.relaxation import Relaxed
from poetfw.schedule.milp import IntegerProgram
from poetfw.schedule.problem import Node, ScheduleProblem


def without_what_costs_more(problem: ScheduleProblem, energy_j: float) -> ScheduleProblem:
    """The problem without recomputations and pagings that alone cost more than a known plan.

    Every plan computes each node once. One that takes less energy than the known plan has less than
    what that one spends beyond this, so it cannot compute a node again that costs more, nor page a
    tensor out and in that does.

    Args:
        problem: the problem.
        energy_j: energy of the known plan. Plans that take less are plans of what is returned.
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


_TOLERANCE = 1e-9  # energies are sums of the same numbers in different orders


def fix_by_reduced_costs(program: IntegerProgram, relaxed: Relaxed, objective: float) -> int:
    """Fix at 0 the columns that no solution better than a known one has at 1.

    Args:
        program: what to change.
        relaxed: a solution of its linear relaxation, maybe with cuts.
        objective: the known solution's. Better ones stay solutions.

    Returns:
        How many columns were fixed.
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
    """Leave only solutions that are no worse than a known one.

    Args:
        program: what to change. Its objective is its offset and more.
        objective: the known solution's.
    """
    scale = 1.0 / (program.offset or 1.0)
    terms = [(x, cost * scale) for x, cost in enumerate(program.costs) if cost]
    program.at_most(terms, (objective - program.offset) * scale + _TOLERANCE)
