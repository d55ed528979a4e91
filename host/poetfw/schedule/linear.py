"""Linear relaxations that grow row by row, and what their multipliers prove.

cvxpy has no way to add rows to a program that is solved already, nor to start from the basis of
the last solution, which is what makes adding cuts cheap; so this speaks to HiGHS itself (ADR 0013).

What a relaxation proves does not rest on the solver: any multipliers y of its rows, of the right
signs, give a bound, by a sum that is made here. With A x between l and u row by row and 0 ≤ x ≤ b,

    c · x  =  y · A x + (c - y A) · x  ≥  Σ_r min(y_r l_r, y_r u_r) + Σ_j min(0, d_j) b_j,

where d = c - y A are the reduced costs. (A. Neumaier, O. Shcherbina, "Safe bounds in linear and
mixed-integer linear programming", 2004.) It holds when a solver stopped before the optimum as well.
And where the bound plus |d_j| exceeds the objective of a known solution, a better one has column j
at the bound on which it rests: 0 if d_j > 0, b_j if d_j < 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from poetfw.errors import ToolError
from poetfw.schedule.cuts.cut import Cut
from poetfw.schedule.milp import OBJECTIVE_SCALE, Program, Vector, run_interruptibly


@dataclass(frozen=True)
class Relaxed:
    """A solution of a linear relaxation.

    Attributes:
        values: the columns.
        bound: what its multipliers prove: no solution of the program has a smaller objective.
        reduced_costs: per column, what its leaving the bound 0 (if positive) or its upper bound
            (if negative) adds to `bound`.
        finished: whether the solver says that these are optimal.
    """

    values: Vector
    bound: float
    reduced_costs: Vector
    finished: bool


class Relaxation:
    """The linear relaxation of a program, and cuts.

    Attributes:
        cuts: the cuts in it.
        iterations: simplex iterations so far.
    """

    def __init__(self, program: Program) -> None:
        import highspy

        self.program = program
        self.cuts: list[Cut] = []
        self.iterations = 0
        self._scale = OBJECTIVE_SCALE / (program.offset or max(map(abs, program.costs)) or 1.0)
        self._costs = np.array(program.costs) * self._scale
        self._upper = np.array(program.upper)
        self._matrix, self._least, self._most = program.matrix()
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = self._matrix.shape
        lp.col_cost_, lp.col_lower_ = self._costs, np.zeros(program.columns)
        lp.col_upper_, lp.row_lower_, lp.row_upper_ = self._upper, self._least, self._most
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = self._matrix.indptr
        lp.a_matrix_.index_ = self._matrix.indices
        lp.a_matrix_.value_ = self._matrix.data
        self._highs = highspy.Highs()
        for name, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
            self._highs.setOptionValue(name, value)
        self._highs.passModel(lp)

    def add(self, cuts: Sequence[Cut]) -> None:
        """Add cuts."""
        starts = np.cumsum([0, *(len(cut.terms) for cut in cuts)], dtype=np.int32)
        columns = np.array([x for cut in cuts for x, _ in cut.terms], dtype=np.int32)
        values = np.array([a for cut in cuts for _, a in cut.terms])
        least = np.array([cut.bound for cut in cuts])
        most = np.full(len(cuts), np.inf)
        self._highs.addRows(len(cuts), least, most, len(columns), starts[:-1], columns, values)
        self.cuts += cuts

    def drop_slack(self) -> None:
        """Leave out the cuts that the last solution does not rest on."""
        import highspy

        basic = highspy.HighsBasisStatus.kBasic
        rows = len(self._least)
        status = self._highs.getBasis().row_status[rows:]
        slack = [r for r, of_row in enumerate(status) if of_row == basic]
        if slack:
            self._highs.deleteRows(len(slack), np.array(slack, dtype=np.int32) + rows)
            dropped = set(slack)
            self.cuts = [cut for r, cut in enumerate(self.cuts) if r not in dropped]

    def solve(self, iterations: int) -> Relaxed:
        """Solve it, from the basis of the last solution.

        Args:
            iterations: simplex iterations after which to stop.

        Raises:
            ToolError: the solver failed.
        """
        import highspy

        self._highs.setOptionValue("simplex_iteration_limit", iterations)
        run_interruptibly(self._highs.run)
        self.iterations += max(0, self._highs.getInfo().simplex_iteration_count)
        status = self._highs.getModelStatus()
        solution = self._highs.getSolution()
        if status == highspy.HighsModelStatus.kInfeasible:
            return Relaxed(np.zeros(0), math.inf, np.zeros(0), True)
        if status not in (
            highspy.HighsModelStatus.kOptimal,
            highspy.HighsModelStatus.kIterationLimit,
        ):
            name = self._highs.modelStatusToString(status)
            raise ToolError(f"HiGHS failed at a linear program: {name}")
        values = np.array(solution.col_value)
        bound, reduced_costs = self._prove(np.array(solution.row_dual))
        finished = status == highspy.HighsModelStatus.kOptimal
        return Relaxed(values, bound, reduced_costs, finished)

    def _prove(self, multipliers: Vector) -> tuple[float, Vector]:
        """The bound by any multipliers of the rows and cuts, and the reduced costs."""
        rows = len(self._least)
        of_rows, of_cuts = multipliers[:rows].copy(), np.maximum(multipliers[rows:], 0.0)
        of_rows[np.isinf(np.where(of_rows > 0, self._least, self._most))] = 0.0
        sides = np.where(of_rows > 0, self._least, self._most)
        sides[of_rows == 0] = 0.0
        reduced = self._costs - self._matrix.T @ of_rows
        for cut, multiplier in zip(self.cuts, of_cuts, strict=True):
            if multiplier:
                for x, a in cut.terms:
                    reduced[x] -= multiplier * a
        bound = of_rows @ sides + sum(y * cut.bound for cut, y in zip(self.cuts, of_cuts))
        bound += np.minimum(reduced, 0.0) @ np.where(reduced < 0, self._upper, 0.0)
        return self.program.offset + float(bound) / self._scale, reduced / self._scale
