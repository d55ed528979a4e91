# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import random
import signal
import threading
from dataclasses import replace

import highspy
import pytest

from made_problems import training_chain, with_ram_fraction
from poetfw.common.errors import ToolError
from poetfw.common.interrupts import run_interruptibly
from poetfw.common.limits import Work
from poetfw.schedule.compact import formulate
from poetfw.schedule.highs import SolveOutcome
from poetfw.schedule.indexed import Indexed
from poetfw.schedule.milp import IntegerProgram, SolverOptions, solve_program


def knapsack() -> IntegerProgram:
    """Take what is worth 10, 13 and 7 and weighs 5, 6 and 4 into a bag of 10: the value left."""
    program = IntegerProgram(offset=30.0)
    values = [program.binary(-value) for value in (10.0, 13.0, 7.0)]
    program.at_most(zip(values, (5.0, 6.0, 4.0), strict=True), 10.0)
    return program


@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY"])
def test_finds_the_optimum(solver: str) -> None:
    solution = solve_program(knapsack(), SolverOptions(solver=solver, gap=0.0), Work())
    assert solution.outcome is SolveOutcome.OPTIMAL
    assert solution.values is not None
    assert solution.values.tolist() == [0.0, 1.0, 1.0]
    assert solution.objective == pytest.approx(10.0)
    assert solution.bound == pytest.approx(10.0)


@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY"])
def test_whole_columns_go_beyond_one(solver: str) -> None:
    program = IntegerProgram(offset=50.0)
    columns = [program.whole(-10.0, 9.0), program.whole(-13.0, 9.0), program.binary(-1.0)]
    program.at_most(zip(columns, (5.0, 6.0, 1.0), strict=True), 24.0)
    solution = solve_program(program, SolverOptions(solver=solver, gap=0.0), Work())
    assert solution.values is not None
    assert solution.values.tolist() == [0.0, 4.0, 0.0]
    program.at_most([(columns[1], 1.0)], 3.5)
    solution = solve_program(program, SolverOptions(solver=solver, gap=0.0), Work())
    assert solution.values is not None
    assert solution.values.tolist() == [1.0, 3.0, 1.0]


def test_a_solver_that_runs_out_of_memory_is_a_shortage_of_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short = highspy.HighsModelStatus.kMemoryLimit
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda _: short)
    with pytest.raises(MemoryError):
        solve_program(knapsack(), SolverOptions(), Work())


@pytest.mark.parametrize("solver", ["HIGHS", "SCIPY"])
def test_proves_that_there_is_none(solver: str) -> None:
    program = knapsack()
    program.equal([(0, 1.0), (1, 1.0)], 2.0)
    solution = solve_program(program, SolverOptions(solver=solver), Work())
    assert solution.outcome is SolveOutcome.INFEASIBLE
    assert solution.values is None
    assert solution.bound == float("inf")


def test_a_program_without_columns_is_solved() -> None:
    solution = solve_program(IntegerProgram(offset=3.0), SolverOptions(), Work())
    assert (solution.outcome, solution.objective) == (SolveOutcome.OPTIMAL, 3.0)


def test_a_missing_solver_is_named() -> None:
    with pytest.raises(ToolError, match=r"^solver 'ABACUS' is not installed: cvxpy finds .*HIGHS"):
        solve_program(knapsack(), SolverOptions(solver="ABACUS"), Work())


def test_stopped_early_it_returns_its_start_and_a_bound() -> None:
    problem = with_ram_fraction(training_chain(4), 0.5)
    graph = Indexed.of(problem)
    compact = formulate(graph)
    full = solve_program(compact.program, SolverOptions(gap=0.02), Work())
    assert full.values is not None
    start = full.values.copy()
    start[[not integer for integer in compact.program.integer]] = 0.0
    stopped = solve_program(compact.program, SolverOptions(gap=0.0, max_nodes=1), Work(), start)
    assert stopped.outcome is SolveOutcome.FEASIBLE
    assert stopped.objective <= full.objective + 1e-12
    assert compact.program.offset < stopped.bound < stopped.objective


def test_stopped_at_once_it_still_knows_a_bound() -> None:
    program = formulate(Indexed.of(with_ram_fraction(training_chain(5), 0.5))).program
    stopped = solve_program(program, SolverOptions(max_nodes=0), Work())
    assert stopped.outcome is SolveOutcome.UNKNOWN
    assert stopped.bound == program.offset
    assert solve_program(knapsack(), SolverOptions(max_nodes=0), Work()).bound >= 0.0


def knapsacks() -> IntegerProgram:
    """Sixty things in twelve bags: nothing is proven without branching."""
    draw = random.Random(1)
    program = IntegerProgram(offset=1000.0)
    columns = [program.binary(-draw.randint(10, 60)) for _ in range(60)]
    for _ in range(12):
        program.at_most([(x, draw.randint(5, 50)) for x in columns], 500.0)
    return program


def test_cuts_that_gain_too_little_end_what_would_not_get_to_branch() -> None:
    """Only there: with work for more questions, or a smaller share, nothing changes."""
    program = knapsacks()
    proving = SolverOptions(gap=0.0, heuristics=False)
    impatient = replace(proving, stalled_share=1.0)
    few, many = 0.2, 3.0
    going_on, ended = Work(few), Work(few)
    best = solve_program(program, proving, going_on)
    early = solve_program(program, impatient, ended)
    assert going_on.left <= 0 < ended.left
    exact = solve_program(program, proving, Work(many))
    assert exact.outcome is SolveOutcome.OPTIMAL
    assert early.bound <= best.bound <= exact.objective <= early.objective
    assert solve_program(program, impatient, Work(many)).outcome is SolveOutcome.OPTIMAL


def test_solving_is_repeatable() -> None:
    program = formulate(Indexed.of(with_ram_fraction(training_chain(3), 0.5))).program
    first, second = (solve_program(program, SolverOptions(), Work()) for _ in range(2))
    assert first.values is not None
    assert second.values is not None
    assert (first.values == second.values).all()


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_ends_the_wait_at_once() -> None:
    over = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        over.wait()

    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(work)
    over.set()


def market_split() -> IntegerProgram:
    """Five sums that forty columns have to hit: too many branches for any solver (Cornuéjols)."""
    draw = random.Random(2)
    program = IntegerProgram(offset=100.0)
    columns = [program.binary(-1.0) for _ in range(40)]
    for _ in range(5):
        weights = [draw.randint(0, 99) for _ in columns]
        program.equal(zip(columns, map(float, weights), strict=True), float(sum(weights) // 2))
    return program


@pytest.mark.usefixtures("interruptible")
def test_a_solver_that_was_interrupted_ends_by_itself() -> None:
    solve_program(knapsack(), SolverOptions(), Work())  # loads what a solver needs
    known = set(threading.enumerate())
    sender = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        solve_program(market_split(), SolverOptions(gap=0.0), Work(10_000.0))
    (solver,) = set(threading.enumerate()) - known - {sender}
    solver.join(5)
    assert not solver.is_alive()


def test_errors_reach_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(lambda: 1 // 0)
