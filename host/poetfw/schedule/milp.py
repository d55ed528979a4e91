"""Mixed-integer programs: a sparse builder, and their solution by cvxpy.

cvxpy sees one vector of variables and two sparse matrices, so it has nothing to canonicalise; it
hands them to any mixed-integer solver it finds installed. HiGHS is the default, and the only one
that is warm-started and that reports a bound when it is stopped early.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from poetfw.errors import ToolError

_T = TypeVar("_T")
Vector = NDArray[np.float64]
Term = tuple[int, float]
"""A column and its coefficient."""

DEFAULT_SOLVER = "HIGHS"
OBJECTIVE_SCALE = 100.0
"""The objective is scaled so that its constant part, or its largest coefficient, is this."""
_THREADS = 1  # HiGHS refuses a changed number in one process, and one makes runs repeatable


@dataclass
class Program:
    """Minimise offset + costs · x subject to rows, 0 ≤ x ≤ upper, some x integral.

    Attributes:
        offset: constant part of the objective.
        tolerance: objectives that differ by no more are as good as each other.
        costs: objective coefficient per column.
        upper: upper bound per column.
        integer: whether each column is integral.
    """

    offset: float = 0.0
    tolerance: float = 0.0
    costs: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    _at_most: _Rows = field(default_factory=lambda: _Rows())
    _equal: _Rows = field(default_factory=lambda: _Rows())

    def binary(self, cost: float = 0.0) -> int:
        """A new column in {0, 1}; returns its index."""
        return self._column(cost, 1.0, True)

    def whole(self, cost: float = 0.0, upper: float = 1.0) -> int:
        """A new column in {0, 1, ..., upper}; returns its index."""
        return self._column(cost, upper, True)

    def continuous(self, cost: float = 0.0, upper: float = 1.0) -> int:
        """A new column in [0, upper]; returns its index."""
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

    def matrix(self) -> tuple[Any, Vector, Vector]:
        """All rows in CSR form, with the least and the most that each may come to."""
        from scipy.sparse import vstack

        rows = (self._at_most, self._equal)
        at_most, equal = (np.array(part.bounds, dtype=float) for part in rows)
        least = np.concatenate([np.full(len(at_most), -np.inf), equal])
        matrix = vstack([part.matrix(self.columns) for part in rows], format="csr")
        return matrix, least, np.concatenate([at_most, equal])


class _Rows:
    """Rows of a sparse matrix and their right-hand sides."""

    def __init__(self) -> None:
        # Arrays: lists of Python's own numbers are several times as large.
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
        """The rows in CSR form; coefficients of one column in one row add up."""
        from scipy.sparse import csr_array

        shape = (len(self.bounds), width)
        matrix = csr_array((self.values, self.columns, self.starts), shape=shape, dtype=float)
        matrix.sum_duplicates()
        return matrix


class Outcome(Enum):
    """What the solver proved."""

    OPTIMAL = auto()
    FEASIBLE = auto()
    INFEASIBLE = auto()
    UNKNOWN = auto()


@dataclass(frozen=True)
class Solution:
    """A solver's answer.

    Attributes:
        outcome: OPTIMAL within the gap asked for, FEASIBLE, INFEASIBLE (proven), or UNKNOWN when
            it was stopped before it found any solution.
        values: the columns; None without a solution.
        objective: offset + costs · values; infinite without a solution.
        bound: no solution has a smaller objective.
    """

    outcome: Outcome
    values: Vector | None
    objective: float
    bound: float


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """How to solve a program.

    Attributes:
        solver: any mixed-integer solver that cvxpy finds installed, by cvxpy's name.
        gap: stop when (objective - bound) / objective is proven to be at most this.
        max_nodes: branch-and-bound nodes after which to stop: the limit that does not depend on
            how fast the machine is.
        time_limit_s: seconds after which to stop.
        presolve: whether HiGHS may rewrite the program first. It must not where columns are whole
            numbers beyond 1: what it then proves may be wrong (ADR 0012).
    """

    solver: str = DEFAULT_SOLVER
    gap: float = 1e-4
    max_nodes: int = 100_000
    time_limit_s: float = 60.0
    presolve: bool = True


def solve_program(
    program: Program, options: SolverOptions, start: Vector | None = None
) -> Solution:
    """Solve a program.

    Args:
        program: what to solve.
        options: solver and limits.
        start: a known solution to start from, right in its integral columns, or None.

    Raises:
        ToolError: cvxpy does not find the solver, or it failed.
    """
    if not program.costs:
        return Solution(Outcome.OPTIMAL, np.zeros(0), program.offset, program.offset)
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
        outcome, values, bound = _run_highs(problem, program, scale, options, start)
    else:
        outcome, values, bound = _run_other(problem, x, options)
    negative = sum(c * u for c, u in zip(program.costs, program.upper, strict=True) if c < 0)
    bound = program.offset + max(negative, bound / scale)
    if values is None:
        return Solution(outcome, None, math.inf, bound)
    values = np.clip(values, 0.0, program.upper)
    values[program.integer] = np.round(values[program.integer])
    objective = program.offset + float(np.dot(program.costs, values))
    return Solution(outcome, values, objective, min(objective, bound))


def _run_highs(
    problem: Any, program: Program, scale: float, options: SolverOptions, start: Vector | None
) -> tuple[Outcome, Vector | None, float]:
    """Solve through cvxpy's HiGHS interface, which reads a first solution from its cache."""
    import cvxpy as cp
    import highspy

    data, chain, _ = problem.get_problem_data(cp.HIGHS)
    cache: dict[str, Any] = {}
    if start is not None:
        first = highspy.HighsSolution()
        first.col_value = list(start)
        cache[cp.HIGHS] = (None, None, {"model_status": "kOptimal", "solution": first})
    settings = {
        "output_flag": False,
        "threads": _THREADS,
        "random_seed": 0,
        "mip_rel_gap": 0.0,
        # HiGHS does not see the constant part of the objective, to which the gap relates.
        "mip_abs_gap": max(options.gap * program.offset, program.tolerance) * scale,
        "presolve": "choose" if options.presolve else "off",
        "mip_max_nodes": options.max_nodes,
        "mip_pscost_minreliable": 0,  # strong branching takes longer than it saves here
        "time_limit": options.time_limit_s,
    }
    results = run_interruptibly(
        lambda: chain.solver.solve_via_data(
            data,
            warm_start=start is not None,
            verbose=False,
            solver_opts=settings,
            solver_cache=cache,
        )
    )
    status = results["model_status"]
    info = results["info"]
    if status == "kInfeasible":
        return Outcome.INFEASIBLE, None, math.inf
    if status not in ("kOptimal", "kTimeLimit", "kSolutionLimit", "kIterationLimit", "kInterrupt"):
        raise ToolError(f"HiGHS failed with status {status}")
    bound = info.mip_dual_bound if any(program.integer) else info.objective_function_value
    values = results["solution"].col_value
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Outcome.UNKNOWN, None, bound
    outcome = Outcome.OPTIMAL if status == "kOptimal" else Outcome.FEASIBLE
    return outcome, np.array(values), bound


def run_interruptibly(call: Callable[[], _T]) -> _T:
    """What the call returns; Ctrl-C ends the wait at once.

    Python handles a signal only between its own instructions, and a solver runs for a minute
    without one. The abandoned call ends with its time limit, or with the process.
    """
    answers: SimpleQueue[tuple[_T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except BaseException as error:  # handed to the caller's thread, whatever it is
            answers.put((None, error))

    Thread(target=run, daemon=True).start()
    result, error = answers.get()
    if error is not None:
        raise error
    return cast(_T, result)


def _run_other(
    problem: Any, x: Any, options: SolverOptions
) -> tuple[Outcome, Vector | None, float]:
    """Solve with any other solver, which proves its bound only by ending."""
    import cvxpy as cp

    extra: dict[str, Any] = {}
    if options.solver == cp.SCIPY:
        limits = {"mip_rel_gap": options.gap * 1e-2, "time_limit": options.time_limit_s}
        extra["scipy_options"] = limits
    try:
        value = run_interruptibly(lambda: problem.solve(solver=options.solver, **extra))
    except cp.error.SolverError as error:
        raise ToolError(f"solver {options.solver} failed: {error}") from error
    if problem.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        return Outcome.OPTIMAL, np.array(x.value), float(value)
    if problem.status in (cp.INFEASIBLE, cp.INFEASIBLE_INACCURATE):
        return Outcome.INFEASIBLE, None, math.inf
    if x.value is not None:
        return Outcome.FEASIBLE, np.array(x.value), -math.inf
    return Outcome.UNKNOWN, None, -math.inf
