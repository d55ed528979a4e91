# SPDX-License-Identifier: Apache-2.0
"""Coefficients of programs and searches: costs per node, sizes in units of the budget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poetfw.schedule.indexed import Indexed


@dataclass(frozen=True)
class Costs:
    """Objective coefficients per node: computing it, paging its tensor in and out."""

    compute: tuple[float, ...]
    page_in: tuple[float, ...]
    page_out: tuple[float, ...]

    @staticmethod
    def energy(graph: Indexed) -> Costs:
        """Joules."""
        storage = graph.problem.storage
        return Costs(
            tuple(node.energy_j for node in graph.problem.nodes),
            tuple(storage.page_in_energy_j(m) if storage else math.inf for m in graph.size),
            tuple(storage.page_out_energy_j(m) if storage else math.inf for m in graph.size),
        )

    @staticmethod
    def time(graph: Indexed) -> Costs:
        """Seconds."""
        storage = graph.problem.storage
        return Costs(
            tuple(node.time_s for node in graph.problem.nodes),
            tuple(storage.page_in_time_s(m) if storage else math.inf for m in graph.size),
            tuple(storage.page_out_time_s(m) if storage else math.inf for m in graph.size),
        )

    @staticmethod
    def nothing(graph: Indexed) -> Costs:
        """Zero."""
        return Costs(*((0.0,) * graph.n,) * 3)


@dataclass(frozen=True)
class BudgetUnits:
    """The budget in units in which all sizes are whole numbers of moderate size.

    Sizes are multiples of their greatest common divisor, so the budget may be rounded down to
    one: that costs nothing and keeps every violation far above a solver's tolerance.

    Attributes:
        size: each tensor's.
        workspace: each node's.
        budget: the budget; 1 stands for `unit_bytes`.
        unit_bytes: bytes per unit.
        divisor_bytes: greatest common divisor of all sizes: no two peaks are closer.
    """

    size: tuple[float, ...]
    workspace: tuple[float, ...]
    budget: float
    unit_bytes: int
    divisor_bytes: int

    @staticmethod
    def of(graph: Indexed, budget_bytes: int) -> BudgetUnits:
        """The budget and sizes of a problem."""
        divisor = math.gcd(*graph.size, *graph.workspace) or 1
        unit = max(*graph.size, *graph.workspace, 1)
        return BudgetUnits(
            tuple(m / unit for m in graph.size),
            tuple(w / unit for w in graph.workspace),
            budget_bytes // divisor * divisor / unit,
            unit,
            divisor,
        )
