# SPDX-License-Identifier: Apache-2.0
"""HiGHS with deterministic work limits: it stops at the same point on every computer.

HiGHS calls back at fixed points of a search to ask whether to go on, however busy the computer is.
Its work between two callbacks is about proportional to the program's nonzeros, so each callback
counts as that much work. There are no callbacks while HiGHS solves the root relaxation of a
mixed-integer program. That takes time quadratic in the nonzeros; if the estimate exceeds the work
left, HiGHS is not started.

The time limit stops it too. Intervals between callbacks are about equally long, so it stops at the
callback that is expected to be the last before the limit, or at HiGHS's own time limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poetfw.common.errors import ToolError
from poetfw.common.interrupts import run_interruptibly
from poetfw.common.limits import Work

Vector = NDArray[np.float64]

Watch = Callable[[Vector], None]
"""Callback for a new solution, by column."""

_WORK_PER_QUESTION = 5e-6
"""Work units per nonzero and callback, in a mixed-integer program."""

_WORK_PER_ITERATION = 2e-9
"""Work units per nonzero and iteration, in a linear program."""

_FIRST_WORK = 1e-10
"""Work units per nonzero², for presolve and root relaxation of a mixed-integer program."""

_STALLED_QUESTIONS = 2
"""Callbacks over which `least_gain` is measured; HiGHS makes about one per round of its cuts."""

_BRANCHING_QUESTIONS = 100
"""Callbacks that branching needs at least to have an effect."""

_SETTINGS = {
    "output_flag": False,
    "threads": 1,  # for reproducible runs; HiGHS refuses to change the number within a process
    "random_seed": 0,
}


class SolveOutcome(Enum):
    """The outcome of a solve."""

    OPTIMAL = auto()
    FEASIBLE = auto()
    INFEASIBLE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True)
class LinearModel:
    """Minimise costs · x subject to row_lower ≤ matrix x ≤ row_upper, 0 ≤ x ≤ upper.

    Attributes:
        costs, upper, integer: per column.
        matrix: sparse, [rows, columns].
        row_lower, row_upper: per row.
    """

    costs: Vector
    upper: Vector
    integer: NDArray[np.bool_]
    matrix: Any
    row_lower: Vector
    row_upper: Vector


@dataclass(frozen=True)
class HighsAnswer:
    """The answer of HiGHS.

    Attributes:
        outcome: OPTIMAL within the requested gap, FEASIBLE, INFEASIBLE (proven), or UNKNOWN if it
            stopped before it found a solution.
        values: the solution by column; None without one.
        bound: lower bound of the objective.
    """

    outcome: SolveOutcome
    values: Vector | None
    bound: float


def exceeds(nonzeros: int, work: Work) -> bool:
    """True if the root relaxation of a mixed-integer program needs more than the work left."""
    return _FIRST_WORK * nonzeros**2 >= work.left


class Highs:
    """A program in HiGHS, which can be extended by rows and solved again from its last basis.

    Args:
        model: the program; without integral columns it is solved as a linear program.
        settings: HiGHS options by name.
    """

    def __init__(self, model: LinearModel, settings: Mapping[str, Any]) -> None:
        import highspy

        self._is_mixed = bool(model.integer.any())
        self._nonzeros = int(model.matrix.nnz)
        self._iterations = 0
        self._asked_s: float | None = None
        self._work: Work | None = None
        self._watch: Watch | None = None
        self._least_gain = 0.0
        self._bounds: list[float] = []
        self._highs = highspy.Highs()
        for name, value in {**_SETTINGS, **settings}.items():
            if self._highs.setOptionValue(name, value) == highspy.HighsStatus.kError:
                raise ValueError(f"HiGHS has no option {name} = {value}")
        columns = model.matrix.tocsc()
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = columns.shape
        lp.col_cost_ = model.costs
        lp.col_lower_, lp.col_upper_ = np.zeros(len(model.upper)), model.upper
        lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = columns.indptr
        lp.a_matrix_.index_ = columns.indices
        lp.a_matrix_.value_ = columns.data
        if self._is_mixed:
            kinds = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
            lp.integrality_ = [kinds[whole] for whole in model.integer.tolist()]
        self._highs.passModel(lp)

    def start_from(self, values: Vector) -> None:
        """Start the next run from a solution; only its integral columns need to be correct."""
        import highspy

        solution = highspy.HighsSolution()
        solution.col_value = values.tolist()
        self._highs.setSolution(solution)

    def add_rows(self, matrix: Any, lower: Vector, upper: Vector) -> None:
        """Add rows lower ≤ matrix x ≤ upper.

        Args:
            matrix: sparse, [new rows, columns].
            lower: per new row.
            upper: per new row.
        """
        rows = matrix.tocsr()
        self._nonzeros += int(rows.nnz)
        self._highs.addRows(
            len(lower), lower, upper, rows.nnz, rows.indptr[:-1], rows.indices, rows.data
        )

    def drop_rows(self, rows: Mapping[int, int]) -> frozenset[int]:
        """Delete rows that are basic (slack) in the last linear solution; its basis stays valid.

        Args:
            rows: number of nonzeros by row index, for the rows that may be deleted.

        Returns:
            Indices of the deleted rows; later rows move up.
        """
        import highspy

        basis, basic = self._highs.getBasis(), highspy.HighsBasisStatus.kBasic
        statuses = basis.row_status
        gone = frozenset(row for row in rows if statuses[row] == basic)
        if not gone:
            return gone
        self._nonzeros -= sum(rows[row] for row in gone)
        left = highspy.HighsBasis()
        left.col_status, left.valid = basis.col_status, basis.valid
        left.row_status = [x for row, x in enumerate(statuses) if row not in gone]
        self._highs.deleteRows(len(gone), np.array(sorted(gone), dtype=np.int32))
        self._highs.setBasis(left)
        return gone

    def multipliers(self, rows: int) -> Vector:
        """Dual multipliers of the rows in the last linear solution; zeros if it has none."""
        multipliers = self._highs.getSolution().row_dual
        return np.array(multipliers) if len(multipliers) == rows else np.zeros(rows)

    def run(self, work: Work, watch: Watch | None = None, least_gain: float = 0.0) -> HighsAnswer:
        """Solve until done or the work is spent.

        Args:
            work: limit; the work done is subtracted from it.
            watch: called with each better solution of a mixed-integer program, in another thread.
            least_gain: stop before branching if the bound rose by less than this in two callbacks
                and the work left is too little to branch.

        Raises:
            ToolError: HiGHS failed.
            MemoryError: HiGHS ran out of memory.
            KeyboardInterrupt: the user interrupted; HiGHS itself ends a moment later.
        """
        if not work.is_left() or (self._is_mixed and exceeds(self._nonzeros, work)):
            return HighsAnswer(SolveOutcome.UNKNOWN, None, -math.inf)
        if self._is_mixed:
            work.spend(_FIRST_WORK * self._nonzeros**2)
        self._work, self._watch = work, watch
        self._least_gain, self._bounds = least_gain, []
        try:
            run_interruptibly(self._run)
        finally:
            self._work = None  # tells an abandoned run to end
        return self._answer(work)

    def _run(self) -> None:
        import highspy

        work, highs = self._work, self._highs
        assert work is not None
        self._iterations, self._asked_s = 0, None
        highs.setOptionValue("time_limit", highs.getRunTime() + work.deadline.left_s)
        kinds = (
            (
                highspy.cb.HighsCallbackType.kCallbackMipInterrupt,
                highspy.cb.HighsCallbackType.kCallbackMipImprovingSolution,
            )
            if self._is_mixed
            else (
                highspy.cb.HighsCallbackType.kCallbackSimplexInterrupt,
                highspy.cb.HighsCallbackType.kCallbackIpmInterrupt,
            )
        )
        highs.setCallback(self._ask, None)
        for kind in kinds:
            highs.startCallback(kind)
        try:
            highs.run()
        finally:
            for kind in kinds:
                highs.stopCallback(kind)
            highs.setCallback(None, None)  # breaks the reference cycle with this object

    def _ask(self, kind: int, message: str, out: Any, answer: Any, data: object) -> None:
        """Callback of HiGHS: count the work, and interrupt the run if it must stop."""
        import highspy

        work = self._work
        if work is None:
            answer.user_interrupt = True
            return
        if kind == int(highspy.cb.HighsCallbackType.kCallbackMipImprovingSolution):
            if self._watch is not None:
                self._watch(np.array(out.mip_solution))
            return
        if self._is_mixed:
            work.spend(self._nonzeros * _WORK_PER_QUESTION)
            if not out.mip_node_count and self._has_stalled(out.mip_dual_bound, work):
                answer.user_interrupt = True
        else:
            iterations = max(out.simplex_iteration_count, out.ipm_iteration_count)
            work.spend(max(0, iterations - self._iterations) * self._nonzeros * _WORK_PER_ITERATION)
            self._iterations = iterations
        now_s = work.deadline.elapsed_s
        since_s = 0.0 if self._asked_s is None else now_s - self._asked_s
        self._asked_s = now_s
        if not work.is_left(since_s):
            answer.user_interrupt = True

    def _has_stalled(self, bound: float, work: Work) -> bool:
        """True if the bound rose too little in the last callbacks before branching; see `run`."""
        self._bounds.append(bound)
        if len(self._bounds) <= _STALLED_QUESTIONS:
            return False
        gain = bound - self._bounds[-1 - _STALLED_QUESTIONS]
        branching = _BRANCHING_QUESTIONS * self._nonzeros * _WORK_PER_QUESTION
        return gain < self._least_gain and work.left < branching

    def _answer(self, work: Work) -> HighsAnswer:
        import highspy

        status, info = self._highs.getModelStatus().name, self._highs.getInfo()
        if status == "kInfeasible":
            return HighsAnswer(SolveOutcome.INFEASIBLE, None, math.inf)
        if status == "kMemoryLimit":
            raise MemoryError
        if status == "kTimeLimit":
            work.deadline.decided = True
        elif status not in ("kOptimal", "kSolutionLimit", "kIterationLimit", "kInterrupt"):
            raise ToolError(f"HiGHS failed with status {status}")
        if self._is_mixed:
            bound = info.mip_dual_bound
        else:
            bound = info.objective_function_value if status == "kOptimal" else -math.inf
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return HighsAnswer(SolveOutcome.UNKNOWN, None, bound)
        outcome = SolveOutcome.OPTIMAL if status == "kOptimal" else SolveOutcome.FEASIBLE
        return HighsAnswer(outcome, np.array(self._highs.getSolution().col_value), bound)
