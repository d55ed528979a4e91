# SPDX-License-Identifier: Apache-2.0
"""What ops cost on a board: the table, and the analytic model that fills it."""

from poetfw.costs.analytic import analytic_costs, cost_of
from poetfw.costs.measurement import Case, Counter, Measurement, Setup, case_of
from poetfw.costs.table import CostProvider, CostTable, OpCost

__all__ = [
    "Case",
    "CostProvider",
    "CostTable",
    "Counter",
    "Measurement",
    "OpCost",
    "Setup",
    "analytic_costs",
    "case_of",
    "cost_of",
]
