# SPDX-License-Identifier: Apache-2.0
"""Mixed-integer programs: a sparse builder, and their solution by cvxpy.

cvxpy gets one vector of variables and two sparse matrices, so its canonicalisation is cheap, and
passes them to any installed mixed-integer solver. HiGHS is the default, and the only one that takes
a starting solution and reports a bound when stopped early.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from poetfw.common.errors import ToolError
from poetfw.common.interrupts import run_interruptibly, uninterrupted
from poetfw.common.limits import Work
from poetfw.schedule.highs import (
    Highs,
    HighsAnswer,
    LinearModel,
    SolveOutcome,
    Vector,
    Watch,
    exceeds,
)

Term = tuple[int, float]
"""A column and its coefficient."""

DEFAULT_SOLVER = "HIGHS"
_LOADING = 1.5
"""Time to import cvxpy, as a multiple of the time to import poetfw; it cannot be interrupted."""

OBJECTIVE_SCALE = 100.0
"""Value to which the objective's constant part (if 0, its largest coefficient) is scaled."""


@dataclass
class IntegerProgram:
    """Minimise offset + costs · x subject to rows, 0 ≤ x ≤ upper, some x integral.

    Attributes:
        offset: constant part of the objective.
        tolerance: difference of objectives that does not matter.
        costs: objective coefficient per column.
        upper: upper bound per column.
        integer: per column, true if it is integral.
    """

    offset: float = 0.0
    tolerance: float = 0.0
    costs: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    _at_most: _Rows = field(default_factory=lambda: _Rows())
    _equal: _Rows = field(default_factory=lambda: _Rows())

    def binary(self, cost: float = 0.0) -> int:
        """Add a column in {0, 1}; return its index."""
        return self._column(cost, 1.0, True)

    def whole(self, cost: float = 0.0, upper: float = 1.0) -> int:
        """Add a column in {0, 1, ..., upper}; return its index."""
        return self._column(cost, upper, True)

    def continuous(self, cost: float = 0.0, upper: float = 1.0) -> int:
        """Add a column in [0, upper]; return its index."""
        return self._column(cost, upper, False)

    def _column(self, cost: float, upper: float, integer: bool) -> int:
        self.costs.append(cost)
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.costs) - 1

    def at_most(self, terms: Iterable[Term], bound: float) -> None:
        """Require Σ coefficient · column ≤ bound."""
        self._at_most.add(terms, bound)

    def equal(self, terms: Iterable[Term], value: float) -> None:
        """Require Σ coefficient · column = value."""
        self._equal.add(terms, value)

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.costs)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self._at_most.bounds) + len(self._equal.bounds)

    @property
    def nonzeros(self) -> int:
        """Number of coefficients in all rows."""
        return len(self._at_most.columns) + len(self._equal.columns)

    @property
    def least_cost(self) -> float:
        """A lower bound of costs · x from the column bounds alone."""
        return sum(c * u for c, u in zip(self.costs, self.upper, strict=True) if c < 0)

    def matrix(self) -> tuple[Any, Vector, Vector]:
        """All rows in CSR form, with a lower and an upper bound per row."""
        from scipy.sparse import vstack

        rows = (self._at_most, self._equal)
        at_most, equal = (np.array(part.bounds, dtype=float) for part in rows)
        least = np.concatenate([np.full(len(at_most), -np.inf), equal])
        matrix = vstack([part.matrix(self.columns) for part in rows], format="csr")
        return matrix, least, np.concatenate([at_most, equal])


class _Rows:
    """Rows of a sparse matrix and their right-hand sides."""

    def __init__(self) -> None:
        # Arrays, because lists of Python numbers take several times the memory.
        self.starts = array("q", [0])
        self.columns = array("q")
        self.values = array("d")
        self.bounds = array("d")

    def add(self, terms: Iterable[Term], bound: float) -> None:
        for column, value in terms:
            self.columns.append(column)
            self.values.append(value)
        self.starts.append(len(self.columns))
        self.bounds.append(bound)

    def matrix(self, width: int) -> Any:
        """The rows in CSR form; repeated coefficients of a column in a row are summed."""
        from scipy.sparse import csr_array

        shape = (len(self.bounds), width)
        rows = (self.values, self.columns, self.starts)
        # A copy, because duplicates are summed in place and more rows may be added later.
        matrix = csr_array(rows, shape=shape, dtype=float, copy=True)
        matrix.sum_duplicates()
        return matrix


@dataclass(frozen=True)
class Solution:
    """A solver's answer.

    Attributes:
        outcome: OPTIMAL within the requested gap, FEASIBLE, INFEASIBLE (proven), or UNKNOWN if it
            stopped before it found a solution.
        values: the solution by column; None without one.
        objective: offset + costs · values; infinite without a solution.
        bound: lower bound of the objective.
    """

    outcome: SolveOutcome
    values: Vector | None
    objective: float
    bound: float


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """Options for solving a program.

    Attributes:
        solver: cvxpy's name of an installed mixed-integer solver.
        gap: stop when (objective - bound) / objective is proven to be at most this.
        max_nodes: branch-and-bound nodes after which to stop.
        presolve: true to let HiGHS presolve. Must be false if an integral column may exceed 1,
            because HiGHS may then prove wrong bounds (ADR 0015).
        heuristics: true to let HiGHS use primal heuristics; false to only prove bounds.
        stalled_share: stop before branching if HiGHS's own cuts raised the bound by less than this
            share of the objective's offset and the work left is too little to branch.
    """

    solver: str = DEFAULT_SOLVER
    gap: float = 1e-4
    max_nodes: int = 100_000
    presolve: bool = True
    heuristics: bool = True
    stalled_share: float = 0.0


def solve_program(
    program: IntegerProgram,
    options: SolverOptions,
    work: Work,
    start: Vector | None = None,
    watch: Watch | None = None,
) -> Solution:
    """Solve a program.

    Args:
        program: the program to solve.
        options: solver and stopping rules.
        work: limit; the work done is subtracted from it. Only HiGHS's work is counted; other
            solvers spend one unit per second.
        start: a known solution, with correct integral columns, or None.
        watch: called with each better solution of HiGHS, possibly in another thread; the last one
            is the result.

    Raises:
        ToolError: cvxpy does not find the solver, or it failed.
    """
    if not program.costs:
        return Solution(SolveOutcome.OPTIMAL, np.zeros(0), program.offset, program.offset)
    nothing = Solution(SolveOutcome.UNKNOWN, None, math.inf, program.offset + program.least_cost)
    if not work.is_left() or (any(program.integer) and exceeds(program.nonzeros, work)):
        return nothing
    if "cvxpy" not in sys.modules and work.deadline.has_passed(_LOADING * work.deadline.start_s):
        return nothing
    with uninterrupted():  # cvxpy takes an interrupted import for a solver that is missing
        import cvxpy as cp

    if options.solver not in cp.installed_solvers():
        raise ToolError(
            f"solver {options.solver!r} is not installed: cvxpy finds "
            f"{', '.join(cp.installed_solvers())}",
            "pip install highspy",
        )
    scale = OBJECTIVE_SCALE / (program.offset or max(map(abs, program.costs)) or 1.0)
    costs = np.array(program.costs) * scale
    integer, upper = np.array(program.integer), np.array(program.upper)
    kinds = {"boolean": integer & (upper <= 1.0), "integer": integer & (upper > 1.0)}
    x = cp.Variable(
        program.columns,
        bounds=[np.zeros(program.columns), upper],
        **{kind: (np.flatnonzero(of_kind),) for kind, of_kind in kinds.items() if of_kind.any()},
    )
    constraints = []
    if program._at_most.bounds:
        matrix = program._at_most.matrix(program.columns)
        constraints.append(matrix @ x <= np.array(program._at_most.bounds))
    if program._equal.bounds:
        matrix = program._equal.matrix(program.columns)
        constraints.append(matrix @ x == np.array(program._equal.bounds))
    problem = cp.Problem(cp.Minimize(costs @ x), constraints)
    if options.solver == DEFAULT_SOLVER:
        answer = _run_highs(problem, program, scale, options, work, start, watch)
    else:
        answer = _run_other(problem, x, options, work)
    bound = program.offset + max(program.least_cost, answer.bound / scale)
    if answer.values is None:
        return Solution(answer.outcome, None, math.inf, bound)
    values = np.clip(answer.values, 0.0, program.upper)
    values[program.integer] = np.round(values[program.integer])
    objective = program.offset + float(np.dot(program.costs, values))
    return Solution(answer.outcome, values, objective, min(objective, bound))


def _run_highs(
    problem: Any,
    program: IntegerProgram,
    scale: float,
    options: SolverOptions,
    work: Work,
    start: Vector | None,
    watch: Watch | None,
) -> HighsAnswer:
    """Solve with HiGHS, from the data that cvxpy prepares for it."""
    import cvxpy as cp

    data, _, _ = problem.get_problem_data(cp.HIGHS)
    if "c" in data:
        costs, matrix, bounds = data["c"], data["A"], data["b"]
    else:  # without integral columns cvxpy uses the layout of a quadratic program
        from scipy.sparse import vstack

        costs, matrix = data["q"], vstack((data["A"], data["F"]))
        bounds = np.concatenate((data["b"], data["G"]))
    lower = np.where(np.arange(len(bounds)) < len(program._equal.bounds), bounds, -math.inf)
    model = LinearModel(
        costs, np.array(program.upper), np.array(program.integer), matrix, lower, bounds
    )
    highs = Highs(
        model,
        {
            "mip_rel_gap": 0.0,
            # The gap is relative to the objective's constant part, which HiGHS does not see.
            "mip_abs_gap": max(options.gap * program.offset, program.tolerance) * scale,
            "presolve": "choose" if options.presolve else "off",
            "mip_max_nodes": options.max_nodes,
            **({} if options.heuristics else {"mip_heuristic_effort": 0.0}),
            "mip_pscost_minreliable": 0,  # strong branching costs more time here than it saves
        },
    )
    if start is not None:
        highs.start_from(start)
    return highs.run(work, watch, options.stalled_share * program.offset * scale)


def _run_other(problem: Any, x: Any, options: SolverOptions, work: Work) -> HighsAnswer:
    """Solve with any other solver, which proves a bound only if it finishes."""
    import cvxpy as cp

    extra: dict[str, Any] = {}
    limit_s = min(work.left, work.deadline.left_s)
    if options.solver == cp.SCIPY:
        limits = {"mip_rel_gap": options.gap * 1e-2, "time_limit": limit_s}
        extra["scipy_options"] = limits
    began_s = work.deadline.elapsed_s
    try:
        value = run_interruptibly(lambda: problem.solve(solver=options.solver, **extra))
    except cp.error.SolverError as error:
        raise ToolError(f"solver {options.solver} failed: {error}") from error
    finally:
        work.spend(work.deadline.elapsed_s - began_s)
    if problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        return HighsAnswer(SolveOutcome.OPTIMAL, np.array(x.value), float(value))
    if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
        return HighsAnswer(SolveOutcome.INFEASIBLE, None, math.inf)
    work.deadline.decided = True  # only the time limit can have stopped the solver
    if x.value is not None:
        return HighsAnswer(SolveOutcome.FEASIBLE, np.array(x.value), -math.inf)
    return HighsAnswer(SolveOutcome.UNKNOWN, None, -math.inf)
