# SPDX-License-Identifier: Apache-2.0
"""The source of a plan's costs: measurements where they exist, else the analytic model."""

from __future__ import annotations

from pathlib import Path

from poetfw.boards import load_board
from poetfw.common.option_values import ANALYTIC, MEASURED
from poetfw.costs import CostProvider, Database, MeasuredCosts, analytic_costs, usable
from poetfw.firmware.case_version import case_version


def costs_from(db: str | Path | None, *, required: bool = True) -> CostProvider:
    """Provider of costs from a database of measurements or, without one, the analytic model.

    Args:
        db: file of the database, or None.
        required: True to raise an error for a board without measurements.
    """
    if db is None:
        return analytic_costs
    return MeasuredCosts(Database(Path(db)), case_version, required)


def database_for(board: str, costs: str | None, db: Path | None) -> str | None:
    """Path of the database of measurements to plan with; None for the analytic model.

    Args:
        board: the board, as in `--board`.
        costs: one of `poetfw.common.option_values.COSTS`; None for measured costs if the database
            has any of this board.
        db: file of the database; None for the user's default.

    Raises:
        CostsError: The database cannot be read, or a given `db` does not exist.
    """
    if costs == ANALYTIC:
        return None
    database = Database(db or Database.default_path())
    if db is not None:
        database.require()
    if costs == MEASURED:
        return str(database.path)
    known = load_board(board)
    rows = database.of_board(known.label)
    return str(database.path) if rows and usable(rows, known, case_version).rows else None
