# SPDX-License-Identifier: Apache-2.0
"""Coefficients of programs and searches: costs per node, and scaled sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from poetfw.schedule.indexed import Indexed


@dataclass(frozen=True)
class Costs:
    """Objective coefficients per node: compute it, page its tensor in, page it out."""

    compute: tuple[float, ...]
    page_in: tuple[float, ...]
    page_out: tuple[float, ...]

    @staticmethod
    def energy(graph: Indexed) -> Costs:
        """Costs in joules; paging is infinite without storage."""
        storage = graph.problem.storage
        return Costs(
            tuple(node.energy_j for node in graph.problem.nodes),
            tuple(storage.page_in_energy_j(m) if storage else math.inf for m in graph.size),
            tuple(storage.page_out_energy_j(m) if storage else math.inf for m in graph.size),
        )

    @staticmethod
    def time(graph: Indexed) -> Costs:
        """Costs in seconds; paging is infinite without storage."""
        storage = graph.problem.storage
        return Costs(
            tuple(node.time_s for node in graph.problem.nodes),
            tuple(storage.page_in_time_s(m) if storage else math.inf for m in graph.size),
            tuple(storage.page_out_time_s(m) if storage else math.inf for m in graph.size),
        )

    @staticmethod
    def nothing(graph: Indexed) -> Costs:
        """Costs of 0 for all nodes."""
        return Costs(*((0.0,) * graph.n,) * 3)


@dataclass(frozen=True)
class BudgetUnits:
    """Budget and sizes in units of the largest size, for well-scaled rows.

    The budget is rounded down to a multiple of the sizes' greatest common divisor. This excludes no
    plan and keeps every violation far above a solver's tolerance.

    Attributes:
        size: per node, the size of its tensor in units.
        workspace: per node, the size of its workspace in units.
        budget: the rounded budget in units.
        unit_bytes: bytes per unit: the largest size.
        divisor_bytes: greatest common divisor of all sizes; different peaks differ by at least
            this.
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
