# SPDX-License-Identifier: Apache-2.0
"""`poetfw schedule`: solves or replays a schedule without building firmware."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from poetfw.cli import output
from poetfw.cli.command import command, command_deadline
from poetfw.cli.curve import CurveSearch, sources_and_kernels
from poetfw.cli.devices import read_file, schedule_devices
from poetfw.common.limits import Deadline, Work
from poetfw.settings import CostSettings, Limits, SchedulerSettings, Solver
from poetfw.settings.schedule import Answer, Several, TaskBudget, TaskSettings

if TYPE_CHECKING:
    from poetfw.planning import KernelChoices, Variants
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
    from poetfw.common.output_file import replace_file
    from poetfw.planning import modelled_as
    from poetfw.report import json_bytes
    from poetfw.schedule import problem_to_json

    end = command_deadline(limits.time_limit_s)
    if task.devices is not None:
        work = Work(limits.work_limit, end)
        return schedule_devices(task, budget, several, solver, work, answer)
    choices, variants = _load(task, costs, end)
    variants = modelled_as(variants, solver.model_as)
    if answer.pareto is not None:
        variants = _in_time(variants, budget)
        work = Work(limits.work_limit, end)
        search = CurveSearch(variants, choices, by.scheduler, solver.solver, answer.pareto, work)
        return search.show(budget.ram_fraction, several.plot, answer.as_json)
    variants = _limited(variants, budget)
    if answer.export is not None:
        replace_file(answer.export, json_bytes(problem_to_json(variants.lean)))
        output.messages.print(f"wrote {output.escaped(str(answer.export))}")
        return 0
    if answer.replay is not None:
        _replay(answer.replay, variants, choices, answer.as_json)
        return 0
    if choices is not None and budget.ram_bytes is None and budget.ram_fraction is None:
        variants = variants.within(choices.board.unreserved_bytes)
    return _solve(
        variants, choices, by.scheduler, solver.solver, Work(limits.work_limit, end), answer
    )


def _load(
    task: TaskSettings, costs: CostSettings, end: Deadline
) -> tuple[KernelChoices | None, Variants]:
    """Problem of a file, or of a model on a board with its `Room`."""
    from poetfw.planning import (
        BuildSettings,
        Variants,
        costs_from,
        database_for,
        load_kernel_choices,
    )
    from poetfw.schedule import problem_from_json

    if task.problem is not None:
        problem = problem_from_json(read_file(task.problem), str(task.problem))
        return None, Variants(problem, problem)
    assert task.board is not None
    assert task.model is not None
    return load_kernel_choices(
        BuildSettings(board=task.board, model=task.model, batch=task.batch),
        output.warn,
        costs_from(database_for(task.board, costs.costs, costs.db)),
        end,
    )


def _replay(path: Path, variants: Variants, choices: KernelChoices | None, as_json: bool) -> None:
    """Simulate the plan of an answer and print its figures."""
    from poetfw.schedule import functions_from_json, plan_from_json, simulate

    text, problem = read_file(path), variants.lean
    plan = plan_from_json(text, str(path))
    if choices is not None:
        problem = variants.by(choices.with_functions(functions_from_json(text, str(path))))
    _print_simulation(problem, simulate(problem, plan).beside(problem.resident_bytes), as_json)


def _solve(
    variants: Variants,
    choices: KernelChoices | None,
    scheduler: str,
    solver: str,
    work: Work,
    shown: Answer,
) -> int:
    """Find a schedule and print it; returns the exit code."""
    from poetfw.planning import solve_variants
    from poetfw.schedule import Interrupted, SolveOptions, schedule_to_json

    problem, end, code = variants.lean, work.deadline, 0
    with output.spinner() as progress:
        progress(f"{scheduler}: {problem.name}, {len(problem.nodes)} nodes")
        tell = output.search_log(progress, end)
        try:
            answer = solve_variants(
                variants, scheduler, SolveOptions(solver=solver), work=work, tell=tell
            )
        except Interrupted as interrupted:
            answer, code = interrupted.schedule, 130
    answer = answer.beside(problem.resident_bytes)
    if shown.as_json:
        limits = {"ram_bytes": problem.budget_bytes, "deadline_s": problem.deadline_s}
        of_model = {} if choices is None else sources_and_kernels(choices, answer)
        output.print_json(schedule_to_json(answer) | limits | of_model | output.spent_json(end))
    else:
        _print(problem, answer, end, choices, shown.verbose)
    return code


def _limited(variants: Variants, budget: TaskBudget) -> Variants:
    """Problem with the requested budget and deadline.

    Raises:
        UsageError: Several fractions are given without --devices.
    """
    ram_bytes = budget.ram_bytes
    if budget.ram_fraction is not None:
        if len(budget.ram_fraction) != 1:
            raise click.UsageError(
                "--ram-fraction takes several values with --devices or --pareto only"
            )
        ram_bytes = variants.budget_bytes(*budget.ram_fraction)
    if ram_bytes is not None:
        variants = variants.within(ram_bytes)
    return _in_time(variants, budget)


def _in_time(variants: Variants, budget: TaskBudget) -> Variants:
    if budget.deadline_s is None:
        return variants
    return variants.mapped(lambda problem: replace(problem, deadline_s=budget.deadline_s))


def _print(
    problem: ScheduleProblem,
    answer: Schedule,
    end: Deadline,
    choices: KernelChoices | None,
    verbose: bool,
) -> None:
    of_model: list[output.Detail] = []
    if choices is not None:
        counts = Counter(by.value for by in choices.chosen_by(answer.faster).values())
        costs = ("costs", choices.table_with(answer.faster).summary)
        of_model = output.details([costs, *output.kernels_rows(counts)])
    rows = [
        ("budget", output.size(problem.budget_bytes)),
        ("peak", output.size(answer.peak_bytes)),
        *output.proven_rows(answer),
        *of_model,
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
