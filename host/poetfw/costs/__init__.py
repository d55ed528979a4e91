# SPDX-License-Identifier: Apache-2.0
"""What ops cost on a board: the table, and the analytic model that fills it."""

from poetfw.costs.analytic import analytic_costs, cost_of
from poetfw.costs.table import CostProvider, CostTable, OpCost

__all__ = ["CostProvider", "CostTable", "OpCost", "analytic_costs", "cost_of"]
