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
        name: its name.
        kind: its operator.
        measured_s: seconds; None where its case was not measured, or by an emulator that has not
            the board's storage.
        fitted_s: what the fitted model says, which may have seen the case; None where it says
            nothing.
        analytic_s: what the analytic model says.
    """

    name: str
    kind: str
    measured_s: float | None
    fitted_s: float | None
    analytic_s: float


def compare_costs(graph: Graph, board: Board, measured: Measured) -> tuple[ComparedOp, ...]:
    """Every op of a graph, in its order."""
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
    """The fits that predict the costs of ops like the measured ones, sorted by name."""
    found: dict[str, Fit] = {}
    for case in measured.of_any_numbers:
        if not case.size_bytes:
            known = featured(case)
            fit = measured.time.fit_of(known)
            if fit is not None:
                found[fit.name] = fit
    return tuple(found[name] for name in sorted(found))
