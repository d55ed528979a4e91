# SPDX-License-Identifier: Apache-2.0
"""`poetfw schedule`: solves or replays a schedule without building firmware."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.api.answers import read_file
from poetfw.cli import output
from poetfw.cli.command import command, command_deadline
from poetfw.cli.curve import CurveSearch, sources_json
from poetfw.cli.devices import schedule_devices
from poetfw.common.errors import ConfigError
from poetfw.common.limits import Deadline, Work
from poetfw.settings import CostSettings, Limits, SchedulerSettings, Solver
from poetfw.settings.schedule import Answer, Several, TaskBudget, TaskSettings

if TYPE_CHECKING:
    from poetfw.costs import CostTable
    from poetfw.planning import TrainingProblem
    from poetfw.schedule import Schedule, ScheduleProblem, Simulation


@command("Example:  poetfw schedule --problem examples/chain.json --ram-fraction 0.5 --json")
def schedule(
    task: TaskSettings,
    by: SchedulerSettings,
    budget: TaskBudget,
    several: Several,
    costs: CostSettings,
    limits: Limits,
    solver: Solver,
    answer: Answer,
) -> int:
    """Find a schedule for a problem, or for a model on a board.

    The answer has all figures and the execution plan. With --replay, a plan from any source is only
    simulated.
    """
    from poetfw.api.searches import limited_problem
    from poetfw.common.output_file import replace_file
    from poetfw.report import json_bytes
    from poetfw.schedule import problem_to_json

    end = command_deadline(limits.time_limit_s)
    if task.devices is not None:
        work = Work(limits.work_limit, end)
        return schedule_devices(task, budget, several, solver, work, answer)
    training = _load(task, costs, budget.ram_bytes, end).modelled_as(solver.model_as)
    if budget.deadline_s is not None:
        training = training.before(budget.deadline_s)
    if answer.pareto is not None:
        work = Work(limits.work_limit, end)
        search = CurveSearch(training, by.scheduler, solver.solver, answer.pareto, work)
        return search.show(budget.ram_fraction, several.plot, answer.as_json)
    try:
        problem = limited_problem(training, budget.ram_bytes, budget.ram_fraction, None)
    except ConfigError as error:
        raise click.UsageError(error.message) from error
    if answer.export is not None:
        replace_file(answer.export, json_bytes(problem_to_json(problem)))
        output.messages.print(f"wrote {output.escaped(str(answer.export))}")
        return 0
    if answer.replay is not None:
        _replay(answer.replay, problem, answer.as_json)
        return 0
    board = training.board
    if board is not None and budget.ram_bytes is None and budget.ram_fraction is None:
        problem = training.within(board.unreserved_bytes)
    work = Work(limits.work_limit, end)
    return _solve(problem, training.costs, by.scheduler, solver.solver, work, answer)


def _load(
    task: TaskSettings, costs: CostSettings, ram_bytes: int | None, end: Deadline
) -> TrainingProblem:
    """Problem of a file, or of a model on a board within a budget."""
    from poetfw.planning import (
        BuildSettings,
        TrainingProblem,
        costs_from,
        database_for,
        load_training_problem,
    )
    from poetfw.schedule import problem_from_json
    from poetfw.training import AS_FILED

    if task.problem is not None:
        problem = problem_from_json(read_file(task.problem), str(task.problem))
        return TrainingProblem(problem)
    assert task.board is not None
    assert task.model is not None
    return load_training_problem(
        BuildSettings(
            board=task.board,
            model=task.model,
            batch=task.batch,
            ram_bytes=ram_bytes,
            train=AS_FILED,
        ),
        output.warn,
        costs_from(database_for(task.board, costs.costs, costs.db)),
        end,
    )


def _replay(path: Path, problem: ScheduleProblem, as_json: bool) -> None:
    """Simulate the plan of an answer and print its figures."""
    from poetfw.schedule import plan_from_json, simulate

    plan = plan_from_json(read_file(path), str(path))
    _print_simulation(problem, simulate(problem, plan).beside(problem.resident_bytes), as_json)


def _solve(
    problem: ScheduleProblem,
    costs: CostTable | None,
    scheduler: str,
    solver: str,
    work: Work,
    shown: Answer,
) -> int:
    """Find a schedule and print it; returns the exit code."""
    from poetfw.schedule import Interrupted, SolveOptions, schedule_to_json, solve

    end, code = work.deadline, 0
    with output.spinner() as progress:
        progress(f"{scheduler}: {problem.name}, {len(problem.nodes)} nodes")
        tell = output.search_log(progress, end)
        try:
            answer = solve(problem, scheduler, SolveOptions(solver=solver), work=work, tell=tell)
        except Interrupted as interrupted:
            answer, code = interrupted.schedule, 130
    answer = answer.beside(problem.resident_bytes)
    if shown.as_json:
        limits = {"ram_bytes": problem.budget_bytes, "deadline_s": problem.deadline_s}
        sources = sources_json(costs)
        output.print_json(schedule_to_json(answer) | limits | sources | output.spent_json(end))
    else:
        _print(problem, answer, end, costs, shown.verbose)
    return code


def _print(
    problem: ScheduleProblem,
    answer: Schedule,
    end: Deadline,
    costs: CostTable | None,
    verbose: bool,
) -> None:
    rows = [
        ("budget", output.size(problem.budget_bytes)),
        ("peak", output.size(answer.peak_bytes)),
        *output.proven_rows(answer),
        *([] if costs is None else [output.Detail("costs", costs.summary)]),
        ("energy", f"{answer.energy_j:.6g} J"),
        output.Detail("… of it paging", f"{answer.paging_energy_j:.6g} J"),
        ("time", f"{answer.time_s:.6g} s"),
        ("recomputes", f"{answer.recomputes}"),
        ("page-outs, page-ins", f"{answer.page_outs}, {answer.page_ins}"),
        *output.spent_rows(end),
    ]
    output.results.print(output.facts(f"{answer.scheduler}: {problem.name}", rows, verbose=verbose))


def _print_simulation(problem: ScheduleProblem, simulation: Simulation, as_json: bool) -> None:
    from poetfw.schedule import PlanFigures

    if as_json:
        figures = asdict(PlanFigures.of(simulation))
        output.print_json({"schema_version": 1, "legal": True, **figures})
        return
    rows = [
        ("budget", output.size(problem.budget_bytes)),
        ("peak", output.size(simulation.peak_bytes)),
        ("energy", f"{simulation.energy_j:.6g} J"),
        ("… of it paging", f"{simulation.paging_energy_j:.6g} J"),
        ("time", f"{simulation.time_s:.6g} s"),
        ("recomputes", f"{simulation.recomputes}"),
        ("page-outs, page-ins", f"{simulation.page_outs}, {simulation.page_ins}"),
    ]
    output.results.print(output.facts(f"legal plan of {problem.name}", rows))
