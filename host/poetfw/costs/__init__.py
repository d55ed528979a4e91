# SPDX-License-Identifier: Apache-2.0
"""Costs of ops on a board: measured, predicted by a model fitted to measurements, or analytic."""

from poetfw.costs.alone import alone, reads_storage
from poetfw.costs.analytic import analytic_costs, cost_of
from poetfw.costs.comparing import ComparedOp, compare_costs, fits_of
from poetfw.costs.database import Database
from poetfw.costs.exchange import read_measurements, to_csv, to_json
from poetfw.costs.features import case_tiles
from poetfw.costs.fitted import Fit
from poetfw.costs.instructions import planned_instructions
from poetfw.costs.measured import Measured, MeasuredCosts, usable
from poetfw.costs.measurement import (
    BESIDE,
    MOVES,
    NO_METER,
    TAKEN,
    TRANSFERS,
    Case,
    Counter,
    Measurement,
    Setup,
    case_of,
    direction_of,
    own_case_of,
)
from poetfw.costs.table import CostProvider, CostTable, OpCost, Source

__all__ = [
    "BESIDE",
    "MOVES",
    "NO_METER",
    "TAKEN",
    "TRANSFERS",
    "Case",
    "ComparedOp",
    "CostProvider",
    "CostTable",
    "Counter",
    "Database",
    "Fit",
    "Measured",
    "MeasuredCosts",
    "Measurement",
    "OpCost",
    "Setup",
    "Source",
    "alone",
    "analytic_costs",
    "case_of",
    "case_tiles",
    "compare_costs",
    "cost_of",
    "direction_of",
    "fits_of",
    "own_case_of",
    "planned_instructions",
    "read_measurements",
    "reads_storage",
    "to_csv",
    "to_json",
    "usable",
]
