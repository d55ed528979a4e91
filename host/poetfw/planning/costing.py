# SPDX-License-Identifier: Apache-2.0
"""The source of a plan's costs: measurements where they exist, else the analytic model."""

from __future__ import annotations

from pathlib import Path

from poetfw.boards import load_board
from poetfw.common.option_values import ANALYTIC, MEASURED
from poetfw.costs import CostProvider, Database, MeasuredCosts, analytic_costs, usable
from poetfw.firmware.case_version import case_version


def costs_from(db: str | Path | None, *, required: bool = True) -> CostProvider:
    """Costs measured in the database at a path; without one, those of the analytic model.

    Args:
        db: the database's file, or None.
        required: whether a board of which nothing was measured is an error.
    """
    if db is None:
        return analytic_costs
    return MeasuredCosts(Database(Path(db)), case_version, required)


def database_for(board: str, costs: str | None, db: Path | None) -> str | None:
    """The path of the database whose measurements a board is planned with; None for none.

    Args:
        board: as `--board` takes it.
        costs: one of `poetfw.common.option_values.COSTS`; None for measured costs if there are any
            of this board.
        db: the database's file; None for the user's.

    Raises:
        CostsError: the database cannot be read, or was named and is not there.
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
