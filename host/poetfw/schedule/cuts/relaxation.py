# SPDX-License-Identifier: Apache-2.0
"""Linear relaxations to which cuts are added, and safe bounds from their dual multipliers.

Adding cuts is cheap if the solver restarts from the last basis. cvxpy can neither add rows to a
solved program nor restart from a basis, so this module calls HiGHS directly (ADR 0015).

The bound does not depend on the solver's accuracy: any row multipliers y with the right signs give
a valid bound, summed here. With l ≤ A x ≤ u and 0 ≤ x ≤ b,

    c · x  =  y · A x + (c - y A) · x  ≥  Σ_r min(y_r l_r, y_r u_r) + Σ_j min(0, d_j) b_j,

where d = c - y A are the reduced costs. (A. Neumaier, O. Shcherbina, "Safe bounds in linear and
mixed-integer linear programming", 2004.) It also holds if the solver stopped before the optimum.
Reduced-cost fixing: if the bound plus |d_j| exceeds the objective of the incumbent, every better
solution has x_j = 0 if d_j > 0, and x_j = b_j if d_j < 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poetfw.common.limits import Work
from poetfw.schedule.cuts.cut import Cut
from poetfw.schedule.highs import Highs, LinearModel, SolveOutcome, Vector
from poetfw.schedule.milp import OBJECTIVE_SCALE, IntegerProgram

_TIGHT = 1e-6  # slack up to which a cut counts as tight


@dataclass(frozen=True)
class Relaxed:
    """The result of a linear relaxation.

    Attributes:
        values: optimal solution by column; None if infeasible or stopped early.
        bound: lower bound of the program's objective, proven by the multipliers; infinite if the
            relaxation is infeasible.
        reduced_costs: per column, the increase of `bound` per unit by which the column leaves 0
            (if positive) or its upper bound (if negative).
        cuts: cuts that the solution meets with equality; without one, those in the bound.
        used: columns with a nonzero value in this solution or in one of an earlier round.
    """

    values: Vector | None
    bound: float
    reduced_costs: Vector
    cuts: tuple[Cut, ...]
    used: frozenset[int] = frozenset()


class Relaxation:
    """The linear relaxation of a program, with cuts.

    Args:
        program: source of rows and columns, copied: later changes have no effect.

    Attributes:
        cuts: cuts currently in the relaxation.
    """

    def __init__(self, program: IntegerProgram) -> None:
        self.cuts: list[Cut] = []
        self._offset = program.offset
        self._scale = OBJECTIVE_SCALE / (
            program.offset or max(map(abs, program.costs), default=0.0) or 1.0
        )
        self._costs = np.array(program.costs) * self._scale
        self._upper = np.array(program.upper)
        self._matrix, self._least, self._most = program.matrix()
        continuous = np.zeros(program.columns, dtype=bool)
        model = LinearModel(
            self._costs, self._upper, continuous, self._matrix, self._least, self._most
        )
        self._highs = Highs(model, {})

    def add(self, cuts: Sequence[Cut]) -> None:
        """Add cuts."""
        bounds = np.array([cut.bound for cut in cuts])
        self._highs.add_rows(self._rows(cuts), bounds, np.full(len(cuts), math.inf))
        self.cuts += cuts

    def drop_slack(self, values: Vector) -> None:
        """Remove the cuts that the last solution meets with slack; the bound does not change."""
        if not self.cuts:
            return
        rows, bounds = len(self._least), np.array([cut.bound for cut in self.cuts])
        slack = np.flatnonzero(self._rows(self.cuts) @ values > bounds + _TIGHT).tolist()
        gone = self._highs.drop_rows({rows + x: len(self.cuts[x].terms) for x in slack})
        self.cuts = [cut for row, cut in enumerate(self.cuts, rows) if row not in gone]

    def _rows(self, cuts: Sequence[Cut]) -> Any:
        from scipy.sparse import csr_array  # slow to import

        starts = np.cumsum([0, *(len(cut.terms) for cut in cuts)], dtype=np.int32)
        columns = np.array([x for cut in cuts for x, _ in cut.terms], dtype=np.int32)
        values = np.array([a for cut in cuts for _, a in cut.terms], dtype=float)
        return csr_array((values, columns, starts), shape=(len(cuts), len(self._costs)))

    def solve(self, work: Work) -> Relaxed:
        """Solve, starting from the last basis, until optimal or the work is spent.

        Raises:
            ToolError: the solver failed.
        """
        answer = self._highs.run(work)
        if answer.outcome is SolveOutcome.INFEASIBLE:
            return Relaxed(None, math.inf, np.zeros(len(self._costs)), tuple(self.cuts))
        return self._prove(answer.values if answer.outcome is SolveOutcome.OPTIMAL else None)

    def _prove(self, values: Vector | None) -> Relaxed:
        """Bound and reduced costs proven by the solver's multipliers."""
        rows = len(self._least)
        multipliers = self._highs.multipliers(rows + len(self.cuts))
        of_rows, of_cuts = multipliers[:rows], np.maximum(multipliers[rows:], 0.0)
        sides = np.where(of_rows > 0, self._least, self._most)
        of_rows = np.where(np.isinf(sides), 0.0, of_rows)
        sides = np.where(of_rows == 0, 0.0, sides)
        reduced = self._costs - self._matrix.T @ of_rows
        bound = float(of_rows @ sides)
        rested_on: tuple[Cut, ...] = ()
        if self.cuts:
            rows_of_cuts = self._rows(self.cuts)
            bounds = np.array([cut.bound for cut in self.cuts])
            reduced -= rows_of_cuts.T @ of_cuts
            bound += float(of_cuts @ bounds)
            tight = rows_of_cuts @ values < bounds + _TIGHT if values is not None else of_cuts > 0
            rested_on = tuple(self.cuts[number] for number in np.flatnonzero(tight))
        bound += float(np.minimum(reduced, 0.0) @ np.where(reduced < 0, self._upper, 0.0))
        bound = self._offset + bound / self._scale
        used = np.flatnonzero(values > _TIGHT).tolist() if values is not None else ()
        return Relaxed(values, bound, reduced / self._scale, rested_on, frozenset(used))
