# SPDX-License-Identifier: Apache-2.0
"""Comparison of measured, fitted and analytic costs of the same ops."""

from __future__ import annotations

from dataclasses import dataclass

from poetfw.boards import Board
from poetfw.costs.analytic import analytic_costs
from poetfw.costs.features import featured
from poetfw.costs.fitted import Fit
from poetfw.costs.measured import Measured, is_of_board
from poetfw.costs.measurement import own_case_of
from poetfw.ir import Graph


@dataclass(frozen=True, slots=True)
class ComparedOp:
    """One op of a graph.

    Attributes:
        name: name of the op.
        kind: operator.
        measured_s: measured seconds; None if the case was not measured, or only by an emulator
            without the board's storage.
        fitted_s: prediction of the fitted model, which may have been fitted to this case, too; None
            without one.
        analytic_s: prediction of the analytic model.
    """

    name: str
    kind: str
    measured_s: float | None
    fitted_s: float | None
    analytic_s: float


def compare_costs(graph: Graph, board: Board, measured: Measured) -> tuple[ComparedOp, ...]:
    """Compare the costs of all ops of a graph, in order."""
    analytic = analytic_costs(graph, board)
    compared = []
    for op in graph.ops:
        case = own_case_of(op, graph)
        row = measured.row_of(case)
        compared.append(
            ComparedOp(
                op.name,
                op.kind,
                None if row is None or not is_of_board(row) else row.time_s,
                measured.time.predict(case),
                analytic.ops[op.name].time_s,
            )
        )
    return tuple(compared)


def fits_of(measured: Measured) -> tuple[Fit, ...]:
    """Fits for the kernels of the measured ops, sorted by name."""
    found: dict[str, Fit] = {}
    for case in measured.of_any_numbers:
        if not case.size_bytes:
            known = featured(case, measured.tiles)
            fit = measured.time.fit_of(known)
            if fit is not None:
                found[fit.name] = fit
    return tuple(found[name] for name in sorted(found))
