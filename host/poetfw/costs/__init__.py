# SPDX-License-Identifier: Apache-2.0
"""What ops cost on a board: measured, from a model fitted to that, or calculated."""

from poetfw.costs.alone import alone
from poetfw.costs.analytic import analytic_costs, cost_of
from poetfw.costs.database import Database
from poetfw.costs.measurement import Case, Counter, Measurement, Setup, case_of
from poetfw.costs.table import CostProvider, CostTable, OpCost

__all__ = [
    "Case",
    "CostProvider",
    "CostTable",
    "Counter",
    "Database",
    "Measurement",
    "OpCost",
    "Setup",
    "alone",
    "analytic_costs",
    "case_of",
    "cost_of",
]
